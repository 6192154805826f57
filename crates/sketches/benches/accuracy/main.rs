//! Measures how far estimates are from the truth. Prints tables in Markdown, which the pages in docs/ contain.
//!
//! All numbers are the same on every machine and in every run.

mod cms;
mod streams;

fn main() {
    cms::print();
//! Measures how accurate sketches are, on streams of known counts: the tables of docs/.
//!
//! `cargo bench -p valkeybloom-sketches --bench accuracy`

mod stream;
mod topk;

fn main() {
    topk::run();
}
