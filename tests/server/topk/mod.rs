//! Top-k lists in a server.

mod limits;
mod replies;
