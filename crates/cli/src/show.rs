//! `valkeybloom show`: the contents of a filter or a sketch.

use std::io::{self, IsTerminal};

use clap::Args;
use redis::{FromRedisValue, ToRedisArgs, cmd};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::existing::existing;
use super::failure::{Failure, Result, shown, text_of};
use super::family::Family;
use super::held::columns::{self, listed};
use super::held::row::Row;
use super::list::table::shortened;
use super::list::terminal_width;
use super::report::{double, grouped, print_json, print_line, print_rows, ratio, rounded};
use super::server::{Server, Tls};

/// The quantiles of a t-digest that are shown.
const QUANTILES: [f64; 11] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// The widest bar.
const WIDEST_BAR: usize = 50;

/// The parts of a character that a bar may end with, in eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Show what a filter or a sketch holds: the items of a Top-K, the quantiles of a t-digest, the figures of all
#[derive(Args)]
pub struct Show {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    pub url: String,
    /// The key
    key: String,
}

/// What a value holds besides its figures.
#[derive(Default)]
struct Contents {
    /// The field of JSON, if there is one.
    json: Option<(&'static str, Value)>,
    lines: Vec<Line>,
}

/// A line of the contents.
struct Line {
    /// What comes before the bar.
    numbers: String,
    /// The length of the bar, of 1.
    share: f64,
    /// What comes after the bar.
    item: String,
}

impl Show {
    pub fn run(&self, tls: &Tls, json: bool) -> Result<()> {
        let server = Server::connect(&self.url, tls)?;
        let Some((family, row)) = existing(&server, &self.key)? else {
            return Err(Failure::new(server.missing_key(self.key.as_bytes())));
        };
        let Contents { json: field, lines } = match family {
            Family::Topk => self.top(&server)?,
            Family::Tdigest => self.quantiles(&server, row.items == Some(0))?,
            Family::Bloom | Family::Cuckoo | Family::Cms => Contents::default(),
        };
        if json {
            let mut object = columns::json(&row);
            if let Some((name, value)) = field {
                object[name] = value;
            }
            return print_json(object, Ok(()));
        }
        print_figures(&row);
        let width = io::stdout().is_terminal().then(terminal_width).flatten();
        print_lines(&lines, width);
        Ok(())
    }

    /// Reads the list of a Top-K, the most frequent item first.
    fn top(&self, server: &Server) -> Result<Contents> {
        let list: Vec<(Option<Vec<u8>>, u64)> = self.read(server, "TOPK.LIST", "WITHCOUNT")?;
        // RedisBloom fills the list with nulls.
        let listed = list.into_iter();
        let listed = listed.filter_map(|(item, count)| Some((item?, count)));
        let items: Vec<(Vec<u8>, u64)> = listed.collect();
        let objects = items.iter();
        let objects = objects.map(|(item, count)| json!({ "item": text_of(item), "count": count }));
        let json = Some(("top", objects.collect()));
        let most = items.iter().map(|(_, count)| *count).max().unwrap_or(1);
        let numbers = aligned(items.iter().map(|(_, count)| grouped(*count)));
        let lines = items.iter().zip(numbers);
        let lines = lines.map(|((item, count), numbers)| Line {
            numbers,
            share: ratio(*count, most),
            item: shown(item).into_owned(),
        });
        Ok(Contents {
            json,
            lines: lines.collect(),
        })
    }

    /// Reads the quantiles of a t-digest; an empty one has none. A bar shows how far a value is above the least, or above 0.
    fn quantiles(&self, server: &Server, is_empty: bool) -> Result<Contents> {
        let values: Vec<f64> = if is_empty {
            Vec::new()
        } else {
            self.read(server, "TDIGEST.QUANTILE", &QUANTILES)?
        };
        let pairs = QUANTILES.iter().zip(&values);
        let objects = pairs.map(|(share, value)| json!({ "quantile": share, "value": value }));
        let json = Some(("quantiles", objects.collect()));
        let start = values.first().map_or(0.0, |least| least.min(0.0));
        let range = values.last().map_or(0.0, |most| most - start);
        let percentages = aligned(QUANTILES.map(|quantile| format!("{} %", quantile * 100.0)));
        let numbers = aligned(values.iter().map(|value| six_digits(*value)));
        let lines = values.iter().zip(percentages.iter().zip(numbers));
        let lines = lines.map(|(value, (percentage, number))| Line {
            numbers: format!("{percentage}  {number}"),
            share: (value - start) / range,
            item: String::new(),
        });
        Ok(Contents {
            json,
            lines: lines.collect(),
        })
    }

    fn read<T: FromRedisValue>(
        &self,
        server: &Server,
        command: &str,
        arguments: impl ToRedisArgs,
    ) -> Result<T> {
        let key = self.key.as_bytes();
        let read = server.query(key, cmd(command).arg(key).arg(arguments));
        read.map_err(|fault| server.failure_of("read", key, &fault))
    }
}

/// Prints the figures that `list` has, and those of the family alone.
fn print_figures(row: &Row) {
    let known = listed().filter(|column| column.is_shown(&[row]) && !column.json(row).is_null());
    let figures = known.map(|column| (column.title.to_owned(), column.text(row)));
    let mut figures: Vec<(String, String)> = figures.collect();
    if let Value::Object(details) = row.details.json() {
        let details = details.into_iter().filter(|(_, value)| !value.is_null());
        figures.extend(details.map(|(name, value)| (name.replace('_', " "), figure(&value))));
    }
    print_rows(figures);
}

/// Returns the text of a value of JSON.
fn figure(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.as_u64().map_or_else(|| value.to_string(), grouped),
    }
}

/// Prints the contents, with bars on a terminal of this width.
fn print_lines(lines: &[Line], terminal: Option<usize>) {
    if lines.is_empty() {
        return;
    }
    let widest = lines.iter().map(|line| line.item.width()).max();
    let widest = widest.unwrap_or(0);
    print_line("");
    for line in lines {
        let text = match terminal {
            None => format!("{}  {}", line.numbers, line.item),
            Some(terminal) => {
                let room = terminal.saturating_sub(line.numbers.width() + 4);
                let item_width = widest.min(room / 2);
                let bar = bar(line.share, (room - item_width).min(WIDEST_BAR));
                let item = shortened(&line.item, item_width);
                format!("{}  {bar}  {item}", line.numbers)
            }
        };
        print_line(text.trim_end());
    }
}

/// Returns the bar of a share of the whole, padded to `width` columns. A share above 0 is seen.
pub fn bar(share: f64, width: usize) -> String {
    let all = double(width as u64 * 8);
    let eighths = (share.clamp(0.0, 1.0) * all).round();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the width of a terminal"
    )]
    let eighths = eighths as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let columns = eighths.div_ceil(8);
    bar + &" ".repeat(width.saturating_sub(columns))
}

/// Aligns texts on the right.
fn aligned(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let texts: Vec<String> = texts.into_iter().collect();
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    let texts = texts.iter().map(|text| format!("{text:>width$}"));
    texts.collect()
}

/// Rounds a value to six digits.
fn six_digits(value: f64) -> String {
    let rounded = rounded(value, 6);
    match rounded.abs() {
        0.0 | 1e-5..1e16 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_no_quotes() {
        for (value, text) in [
            (json!("counting"), "counting"),
            (json!(27_524_910), "27,524,910"),
            (json!(0.9), "0.9"),
            (json!(true), "true"),
        ] {
            assert_eq!(figure(&value), text);
        }
    }

    #[test]
    fn values_have_six_digits() {
        for (value, text) in [
            (0.0, "0"),
            (650.136_363, "650.136"),
            (1e-5, "0.00001"),
            (1.234_567_8e-6, "1.23457e-6"),
            (-1e16, "-1e16"),
        ] {
            assert_eq!(six_digits(value), text);
        }
    }

    #[test]
    fn a_bar_has_an_eighth_of_a_column_for_each_part() {
        for (share, drawn) in [
            (0.0, "    "),
            (1e-9, "▏   "),
            (0.25, "█   "),
            (0.5 + 1.0 / 32.0, "██▏ "),
            (31.0 / 32.0, "███▉"),
            (1.0, "████"),
            (2.0, "████"),
            (f64::NAN, "    "),
        ] {
            assert_eq!(bar(share, 4), drawn, "{share}");
        }
    }
}
