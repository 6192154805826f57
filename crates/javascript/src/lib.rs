//! The WebAssembly of the npm package, which `package/` calls: the functions of the C library, whose files this crate
//! compiles, and those of a copy that follows a server's filter. `tools/js.sh` builds it.

#![allow(unsafe_code, reason = "JavaScript calls it, and writes to its memory")]
#![allow(
    clippy::doc_markdown,
    reason = "C programmers read these comments, in the header"
)]

#[path = "../../c/src/bloom.rs"]
mod bloom;
#[path = "../../c/src/border.rs"]
mod border;
mod conversation;
#[path = "../../c/src/count_min.rs"]
mod count_min;
#[path = "../../c/src/cuckoo.rs"]
mod cuckoo;
mod memory;
mod near;
#[path = "../../c/src/object.rs"]
mod object;
mod once;
mod stack;
#[path = "../../c/src/tdigest.rs"]
mod tdigest;
#[path = "../../c/src/top_k.rs"]
mod top_k;
