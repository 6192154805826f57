//! The border to C.

mod batch;
mod memory;
mod options;
mod returned;
mod status;

pub use batch::{Batch, items};
pub use memory::{
    borrow, borrow_mut, optional, optional_answers, places, put, put_made, require,
    require_if_given, require_info, slice,
};
pub use options::{moment, no_options, time, words_after};
pub use returned::{Buffer, Items, valkeybloom_buffer_free};
pub use status::{Failure, Outcome, Status, call, require_stack};
