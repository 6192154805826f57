//! Where JavaScript sends the commands that it makes itself, and how many items each of them has at most.

use valkeybloom_near::slot;
use valkeybloom_protocol::batch::{COMMAND_BYTES, COMMAND_ITEMS};

use valkeybloom_ffi::border::{call, slice};

/// Returns the most items in one command.
#[unsafe(no_mangle)]
pub const extern "C" fn valkeybloom_command_items() -> usize {
    COMMAND_ITEMS
}

/// Returns the most bytes of items in one command.
#[unsafe(no_mangle)]
pub const extern "C" fn valkeybloom_command_bytes() -> usize {
    COMMAND_BYTES
}

/// Returns the slot of a key in a cluster.
///
/// # Safety
/// The key has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_slot(key: *const u8, key_length: usize) -> u32 {
    let mut found = 0;
    // SAFETY: the caller keeps the contract above.
    call(|| unsafe {
        found = slot(slice(key, key_length)?).into();
        Ok(())
    });
    found
}
