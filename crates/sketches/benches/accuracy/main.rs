//! Measures how accurate sketches are, on streams of known counts: the tables of docs/.
//!
//! `cargo bench -p valkeybloom-sketches --bench accuracy`

mod stream;
mod topk;

fn main() {
    topk::run();
}
