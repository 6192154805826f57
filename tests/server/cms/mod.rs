//! Count-min sketches in a server.

mod encoding;
mod overflow;
mod replies;
