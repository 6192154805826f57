//! Measures how far estimates are from the truth. Prints tables in Markdown, which the pages in docs/ contain.
//!
//! All numbers are the same on every machine and in every run.

mod cms;
mod stream;
mod streams;
mod topk;

fn main() {
    cms::print();
    topk::run();
}
