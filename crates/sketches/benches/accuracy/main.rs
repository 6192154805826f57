//! Measures how far estimates are from the truth. Prints tables in Markdown, which the pages in docs/ contain.
//!
//! All numbers are the same on every machine and in every run. Arguments choose the sketches: `cms`, `cuckoo`,
//! `topk`, `tdigest`.

mod cms;
mod cuckoo;
mod streams;
mod tdigest;
mod topk;

use std::env;

fn main() {
    let tables: [(&str, fn()); 4] = [
        ("cms", cms::print),
        ("cuckoo", cuckoo::print),
        ("topk", topk::print),
        ("tdigest", tdigest::print),
    ];
    let wanted: Vec<String> = env::args().skip(1).collect();
    // cargo passes an option.
    let all = wanted.iter().all(|argument| argument.starts_with('-'));
    for (name, print) in tables {
        if all || wanted.iter().any(|argument| argument == name) {
            print();
            println!();
        }
    }
}

/// Returns a share as a percentage with two significant digits.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    // Rust's exponents are those of the rounded number.
    let rounded = format!("{percent:.1e}");
    let (_, exponent) = rounded.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let digits = usize::try_from(1 - exponent).unwrap_or(0);
    format!("{percent:.digits$} %")
}

/// Returns a number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
