//! The line of Python for a plan.

use serde_json::{Map, Value};

use crate::report::grouped;

/// Returns the line that makes what a plan's command makes, with the Python package `valkeybloom`. It has no line for
/// peers' filters.
pub fn line(plan: &Map<String, Value>) -> Option<String> {
    if plan.contains_key("setting") {
        return None;
    }
    let mut words = plan["command"].as_str()?.split(' ');
    let name = words.next()?;
    let words: Vec<&str> = words.skip(1).collect();
    let (class, mut arguments, options) = match (name, &words[..]) {
        ("BF.RESERVE", &[rate, capacity, ref options @ ..]) => {
            let class = options.iter().find_map(|option| match *option {
                "WINDOW" => Some("Bloom.window"),
                "COUNTING" => Some("Bloom.counting"),
                "SCALETO" => Some("Bloom.scaled_to"),
                _ => None,
            });
            let arguments = vec![number(capacity), rate.to_owned()];
            (class.unwrap_or("Bloom"), arguments, options)
        }
        ("CF.RESERVE", &[capacity, ref options @ ..]) => {
            ("CuckooFilter", vec![number(capacity)], options)
        }
        ("CMS.INITBYPROB", &[error, probability, ref options @ ..]) => {
            let rates = vec![error.to_owned(), probability.to_owned()];
            ("CountMin.from_rates", rates, options)
        }
        ("TOPK.RESERVE", all) => {
            let arguments = all.iter().map(|word| number(word));
            ("TopK", arguments.collect(), &[][..])
        }
        ("TDIGEST.CREATE", &[_, compression]) => ("TDigest", vec![number(compression)], &[][..]),
        _ => return None,
    };
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let argument = match option {
            "COUNTING" => continue,
            "SCALETO" => {
                options.next();
                continue;
            }
            "NONSCALING" => "expansion=None".to_owned(),
            // The default of `Bloom`, which no setting changes.
            "EXPANSION" if name == "BF.RESERVE" && options.as_slice().first() == Some(&"2") => {
                options.next();
                continue;
            }
            option => format!("{}={}", keyword(option), number(options.next()?)),
        };
        arguments.push(argument);
    }
    Some(format!("{class}({})", arguments.join(", ")))
}

/// Returns the name that an option has in Python.
fn keyword(option: &str) -> String {
    match option {
        "WINDOW" => "window_ms".to_owned(),
        "BUCKETSIZE" => "bucket_size".to_owned(),
        "MAXITERATIONS" => "max_iterations".to_owned(),
        same => same.to_lowercase(),
    }
}

/// Returns a number as Python's programmers write it: `1_000_000`.
fn number(word: &str) -> String {
    match word.parse() {
        Ok(whole) => grouped(whole).replace(',', "_"),
        Err(_) => word.to_owned(),
    }
}
