//! The WebAssembly of the npm package, which `package/` calls: the functions of the C library, and those for what clients say
//! to servers. `tools/js.sh` builds it.

#![allow(unsafe_code, reason = "JavaScript calls it, and writes to its memory")]

mod allocator;
mod commands;
mod conversation;
mod memory;
mod near;
mod once;
mod time;
