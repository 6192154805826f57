//! What keys hold, as `build`, `list`, `show`, `size` and `watch` read and show it.
//!
//! ```text
//!   server → read, at its pace → rows → columns
//!                                     → limits   of the server, and which of them ends growth
//! ```

pub mod columns;
pub mod limits;
mod pace;
pub mod read;
pub mod row;
