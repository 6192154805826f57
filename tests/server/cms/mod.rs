//! Count-min sketches in a server.

mod encoding;
mod overflow;
mod refusals;
mod replies;
