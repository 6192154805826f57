//! Count-min sketches in a server.

mod refusals;
mod replies;
