//! The columns of a table, and the order of its rows.

use std::cmp::Ordering;

use clap::ValueEnum;

use super::row::{Row, Ttl};
use crate::failure::shown;
use crate::report::{grouped, two_digits};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    Key,
    Type,
    Items,
    /// The change of the items per second, which `watch` alone knows.
    #[value(skip)]
    Change,
    Capacity,
    Full,
    Rate,
    RateNow,
    Filters,
    Bytes,
    Ttl,
}

/// What stands for a value that is unknown.
const UNKNOWN: &str = "-";

impl Column {
    /// The columns of `list`.
    pub const LISTED: [Self; 10] = [
        Self::Key,
        Self::Type,
        Self::Items,
        Self::Capacity,
        Self::Full,
        Self::Rate,
        Self::RateNow,
        Self::Filters,
        Self::Bytes,
        Self::Ttl,
    ];

    /// The columns of `watch`.
    pub const WATCHED: [Self; 11] = [
        Self::Key,
        Self::Type,
        Self::Items,
        Self::Change,
        Self::Capacity,
        Self::Full,
        Self::Rate,
        Self::RateNow,
        Self::Filters,
        Self::Bytes,
        Self::Ttl,
    ];

    pub const fn title(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Type => "type",
            Self::Items => "items",
            Self::Change => "items/s",
            Self::Capacity => "capacity",
            Self::Full => "full %",
            Self::Rate => "rate",
            Self::RateNow => "rate now",
            Self::Filters => "filters",
            Self::Bytes => "bytes",
            Self::Ttl => "ttl",
        }
    }

    /// Returns whether its values are texts, which are aligned on the left and sorted in ascending order.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Key | Self::Type)
    }

    /// Returns the text of a cell.
    pub fn text(self, row: &Row, change: Option<f64>) -> String {
        let text = match self {
            Self::Key => Some(shown(&row.key).into_owned()),
            Self::Type => Some(row.kind.clone()),
            Self::Items => row.items.map(grouped),
            Self::Change => change.map(|change| format!("{change:+.1}")),
            Self::Capacity => row.capacity.map(grouped),
            Self::Full => row.full().map(|full| format!("{:.1}", full * 100.0)),
            Self::Rate => row.rate.map(|rate| rate.to_string()),
            Self::RateNow => row.rate_now.map(estimate),
            Self::Filters => row.filters.map(grouped),
            Self::Bytes => row.bytes.map(grouped),
            Self::Ttl => row.ttl.map(time_left),
        };
        text.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// Compares two rows in ascending order; `None` if this column of either is unknown.
    fn compare(self, one: &Row, other: &Row, change: &impl Fn(&Row) -> Option<f64>) -> Order {
        let doubles = |one: Option<f64>, other: Option<f64>| Order::of(one, other, f64::total_cmp);
        let numbers = |one: Option<u64>, other: Option<u64>| Order::of(one, other, u64::cmp);
        match self {
            Self::Key => Order::Known(one.key.cmp(&other.key)),
            Self::Type => Order::Known(one.kind.cmp(&other.kind)),
            Self::Items => numbers(one.items, other.items),
            Self::Change => doubles(change(one), change(other)),
            Self::Capacity => numbers(one.capacity, other.capacity),
            Self::Full => doubles(one.full(), other.full()),
            Self::Rate => doubles(one.rate, other.rate),
            Self::RateNow => doubles(one.rate_now, other.rate_now),
            Self::Filters => numbers(one.filters, other.filters),
            Self::Bytes => numbers(one.bytes, other.bytes),
            Self::Ttl => Order::of(one.ttl, other.ttl, Ttl::cmp),
        }
    }
}

/// The order of two values.
enum Order {
    Known(Ordering),
    /// One of them or both are unknown, which puts them last in every direction.
    Unknown(Ordering),
}

impl Order {
    fn of<T: Copy>(one: Option<T>, other: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Self {
        match (one, other) {
            (Some(one), Some(other)) => Self::Known(compare(&one, &other)),
            _ => Self::Unknown(one.is_none().cmp(&other.is_none())),
        }
    }
}

/// Sorts rows by a column: texts ascend and numbers descend, unless `reverse`. Rows without a value come last, and
/// equal rows are in the order of their keys.
pub fn sort(rows: &mut [Row], by: Column, reverse: bool, change: &impl Fn(&Row) -> Option<f64>) {
    let descends = by.is_text() == reverse;
    rows.sort_by(|one, other| {
        let order = match by.compare(one, other, change) {
            Order::Known(order) if descends => order.reverse(),
            Order::Known(order) | Order::Unknown(order) => order,
        };
        order.then_with(|| one.key.cmp(&other.key))
    });
}

/// Returns an estimated rate with two digits.
fn estimate(rate: f64) -> String {
    if rate > 0.0 && rate < 1e-6 {
        format!("{rate:.1e}")
    } else {
        two_digits(rate)
    }
}

/// Returns a time to live with its two largest units.
fn time_left(ttl: Ttl) -> String {
    let Ttl::Ms(ms) = ttl else {
        return "never".to_owned();
    };
    let seconds = ms / 1000;
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = units.iter().position(|(count, _)| *count > 0);
    let Some(first) = first else {
        return "0s".to_owned();
    };
    let shown = units[first..]
        .iter()
        .take(2)
        .filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::row::Details;

    fn row(key: &str, items: Option<u64>, ttl: Option<Ttl>) -> Row {
        let mut row = Row::partly_loaded(key.into(), "bloomfltr");
        row.details = Details::TDigest { compression: None };
        (row.items, row.ttl) = (items, ttl);
        row
    }

    fn sorted(by: Column, reverse: bool) -> String {
        let mut rows = [
            row("c", Some(2), Some(Ttl::Never)),
            row("a", None, None),
            row("d", Some(9), Some(Ttl::Ms(5))),
            row("b", Some(2), Some(Ttl::Ms(70))),
        ];
        let change = |row: &Row| (row.key != b"c").then(|| f64::from(row.key[0]));
        sort(&mut rows, by, reverse, &change);
        rows.iter().map(|row| char::from(row.key[0])).collect()
    }

    #[test]
    fn numbers_descend_and_unknown_values_come_last_both_ways() {
        for (by, down, up) in [
            (Column::Key, "abcd", "dcba"),
            // Equal numbers are in the order of keys.
            (Column::Items, "dbca", "bcda"),
            // A key that never expires has the longest time to live.
            (Column::Ttl, "cbda", "dbca"),
            (Column::Change, "dbac", "abdc"),
            (Column::Bytes, "abcd", "abcd"),
        ] {
            assert_eq!(sorted(by, false), down, "{by:?}");
            assert_eq!(sorted(by, true), up, "{by:?} reversed");
        }
    }

    #[test]
    fn cells_are_short_and_unknown_ones_a_stroke() {
        let mut row = row("a key\n", Some(1_234_567), Some(Ttl::Ms(90_061_000)));
        row.capacity = Some(2_000_000);
        row.rate_now = Some(0.001_234);
        for (column, text) in [
            (Column::Key, "\"a key\\n\""),
            (Column::Items, "1,234,567"),
            (Column::Full, "61.7"),
            (Column::Rate, "-"),
            (Column::RateNow, "0.0012"),
            (Column::Ttl, "1d 1h"),
        ] {
            assert_eq!(column.text(&row, None), text, "{column:?}");
        }
        assert_eq!(Column::Change.text(&row, Some(-2.0)), "-2.0");
        for (rate, text) in [
            (0.0, "0"),
            (3.21e-14, "3.2e-14"),
            (0.000_001, "0.000001"),
            (0.5, "0.5"),
        ] {
            assert_eq!(estimate(rate), text);
        }
        for (ms, text) in [
            (999, "0s"),
            (59_999, "59s"),
            (3_600_000, "1h"),
            (3_660_000, "1h 1m"),
        ] {
            assert_eq!(time_left(Ttl::Ms(ms)), text);
        }
        assert_eq!(time_left(Ttl::Never), "never");
    }
}
