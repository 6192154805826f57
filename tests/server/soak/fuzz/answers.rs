//! The replies of an object about itself.

use super::object::{NEAR_ZERO, Object, Reach};
use super::parse::{self, rate_of};
use crate::harness::{Reply, bulk, int, simple};

/// The fields of BF.INFO: the words of requests, and the names in replies.
pub const FIELDS: [(&str, &str); 13] = [
    ("CAPACITY", "Capacity"),
    ("SIZE", "Size"),
    ("FILTERS", "Number of filters"),
    ("ITEMS", "Number of items inserted"),
    ("EXPANSION", "Expansion rate"),
    ("ERROR", "Error rate"),
    ("TIGHTENING", "Tightening ratio"),
    ("MAXSCALEDCAPACITY", "Max scaled capacity"),
    ("ESTIMATEDERROR", "Estimated error rate"),
    ("WINDOW", "Window"),
    ("PERIODS", "Periods"),
    ("LIVEPERIODS", "Live periods"),
    ("PERIODITEMS", "Items in current period"),
];

impl Object {
    pub fn is_info(
        &self,
        field: Option<&Vec<u8>>,
        reply: &Reply,
        resp3: bool,
    ) -> Result<(), String> {
        let scaling = self.shape.expansion > 0;
        let pairs: Vec<(Option<&Reply>, &Reply)> = match reply {
            Reply::Map(pairs) if resp3 => {
                let pairs = pairs.iter();
                pairs.map(|(name, value)| (Some(name), value)).collect()
            }
            Reply::Array(values) if !resp3 && field.is_some() => {
                values.iter().map(|value| (None, value)).collect()
            }
            Reply::Array(values) if !resp3 => values
                .chunks(2)
                .map(|pair| (pair.first(), &pair[pair.len() - 1]))
                .collect(),
            _ => return Err("of another shape".to_owned()),
        };
        let due: Vec<&(&str, &str)> = {
            let due = FIELDS.iter().filter(|(name, _)| match (field, *name) {
                (Some(field), name) => field.eq_ignore_ascii_case(name.as_bytes()),
                (None, "TIGHTENING" | "MAXSCALEDCAPACITY") => scaling,
                (None, "WINDOW" | "PERIODS" | "LIVEPERIODS" | "PERIODITEMS") => {
                    self.shape.window.is_some()
                }
                (None, _) => true,
            });
            due.collect()
        };
        if pairs.len() != due.len() {
            return Err(format!("{} fields are due", due.len()));
        }
        for ((field, reported), (name, value)) in due.into_iter().zip(pairs) {
            if name.is_some_and(|name| *name != simple(reported)) {
                return Err(format!("{reported} is due"));
            }
            self.is_field(field, value, resp3)?;
        }
        Ok(())
    }

    /// Returns whether this is how many items it counts.
    pub fn are_items(&self, reply: &Reply) -> Result<(), String> {
        let (least, most) = (self.items, self.most);
        match reply {
            Reply::Int(reported) if (least..=most).contains(reported) => Ok(()),
            _ => Err(format!("{least} to {most} items are due")),
        }
    }

    /// Checks the lines of an object whose filters cannot be predicted, as far as they must agree.
    fn is_loose_debug(&self, lines: &[Reply]) -> Result<(), String> {
        let first = lines.first().ok_or("a line is due")?.text();
        let items = first.strip_prefix("size:").and_then(|n| n.parse().ok());
        let items = items.ok_or("a number of items is due")?;
        self.are_items(&int(items))?;
        let (mut sum, mut periods) = (0, std::collections::BTreeSet::new());
        for line in &lines[1..] {
            let line = line.text();
            let value = |name: &str| {
                let mut words = line.split(' ');
                words.find_map(|word| word.strip_prefix(name)?.parse::<i64>().ok())
            };
            sum += value("size:").ok_or("no size")?;
            let bits = value("bytes:").ok_or("no bytes")? * if self.shape.counting { 2 } else { 8 };
            if value("bits:") != Some(bits) {
                return Err(format!("{bits} bits are due"));
            }
            periods.extend(value("period:"));
            let cell = self.shape.counting.then_some(4);
            if value("cell:") != cell || value("period:").is_some() != self.shape.window.is_some() {
                return Err(format!("{line:?} is of another kind"));
            }
        }
        let (least, most) = self.live_periods();
        // With ids, several filters may count an item that is counted once in all.
        if sum != items && !(self.shape.counting && sum > items) {
            return Err(format!("{sum} items are in the filters"));
        }
        if self.shape.window.is_some() && !(least..=most).contains(&periods.len()) {
            return Err(format!("{least} to {most} periods are due"));
        }
        Ok(())
    }

    pub fn is_debug(&self, reply: &Reply) -> Result<(), String> {
        let Reply::Array(lines) = reply else {
            return Err("an array is due".to_owned());
        };
        if self.loose {
            return self.is_loose_debug(lines);
        }
        let count = self.capacities.len();
        if lines.len() != count + 1 {
            return Err(format!("{count} filters are due"));
        }
        is(&lines[0], &bulk(format!("size:{}", self.items)))?;
        let mut items = self.items;
        for (index, (line, bytes)) in lines[1..].iter().zip(self.bitmaps()).enumerate() {
            let capacity = self.capacities[index];
            let size = if index + 1 < count { capacity } else { items };
            items -= size;
            let text = line.text();
            let start = format!("bytes:{bytes} bits:{} hashes:", 8 * bytes);
            let end = format!(" hashwidth:64 capacity:{capacity} size:{size}");
            let (numbers, ratio) = text.split_once(" ratio:").ok_or("no ratio")?;
            let hashes = numbers
                .strip_prefix(&start)
                .and_then(|rest| rest.strip_suffix(&end));
            let hashes = hashes.ok_or_else(|| format!("{start}…{end} is due"))?;
            let rate = self.shape.rate(index);
            // At most one for each halving that the rate is.
            let most = (-rate.log2()).ceil() + 1.0;
            let hashes: f64 = hashes.parse().map_err(|_| "hashes are no number")?;
            if !(1.0..=most).contains(&hashes) {
                return Err(format!("{hashes} hashes for {rate}"));
            }
            let ratio: f64 = ratio.parse().map_err(|_| "the ratio is no number")?;
            if rate > NEAR_ZERO && (ratio / rate - 1.0).abs() > 1e-9 {
                return Err(format!("a ratio of {rate} is due"));
            }
        }
        Ok(())
    }

    pub fn is_piece(&self, cursor: &[u8], reply: &Reply) -> Result<(), String> {
        let cursor = parse::integer(cursor).0.ok_or("no cursor")?;
        let Reply::Array(pair) = reply else {
            return Err("an array is due".to_owned());
        };
        let [Reply::Int(next), Reply::Bulk(bytes)] = pair.as_slice() else {
            return Err("a pair is due".to_owned());
        };
        if self.loose {
            let length = bytes.len() as i128;
            let version = if self.shape.is_extended() { 0x82 } else { 0x81 };
            let right = match cursor {
                0 => *next == 1 && bytes.first() == Some(&version),
                _ => {
                    (*next, length) == (0, 0) || length > 0 && i128::from(*next) == cursor + length
                }
            };
            return right.then_some(()).ok_or("another piece is due".to_owned());
        }
        let (due_next, due_bytes) = match cursor {
            0 => (1, 30 + 69 * self.capacities.len() as i128),
            1.. => {
                let mut end = 0;
                let end = self.bitmaps().find_map(|length| {
                    end += i128::from(length);
                    (end >= cursor).then_some(end)
                });
                end.map_or((0, 0), |end| (end + 1, end + 1 - cursor))
            }
            _ => (0, 0),
        };
        if (i128::from(*next), bytes.len() as i128) == (due_next, due_bytes) {
            Ok(())
        } else {
            Err(format!("{due_bytes} bytes and then {due_next} are due"))
        }
    }

    fn is_field(&self, field: &str, value: &Reply, resp3: bool) -> Result<(), String> {
        let count = self.capacities.len();
        let number = || match value {
            Reply::Int(reported) => Ok(*reported),
            _ => Err(format!("a number is due for {field}")),
        };
        let at_least = |least: i64| match number()? {
            reported if reported >= least => Ok(()),
            reported => Err(format!("{field}: at least {least} are due, not {reported}")),
        };
        let window = self.shape.window;
        let due = match field {
            "ITEMS" => return self.are_items(value),
            "ESTIMATEDERROR" => {
                let reported = rate_in(value, resp3).ok_or("a rate is due")?;
                // The estimate for a small filter depends on its bits, which vary.
                let most = if self.loose || self.strange {
                    1.0
                } else if self.capacities[0] < 1000 {
                    (10.0 * self.shape.error_rate).min(1.0)
                } else {
                    (1.5 * self.shape.error_rate).min(1.0)
                };
                let nothing = self.most == 0 && !self.strange;
                let right = (0.0..=most).contains(&reported) && (!nothing || reported <= 0.0);
                return if right {
                    Ok(())
                } else {
                    Err(format!("no more than {most} is due"))
                };
            }
            "WINDOW" => int(window.ok_or("it has no window")?.period_ms),
            "PERIODS" => int(window.ok_or("it has no window")?.periods),
            "LIVEPERIODS" => {
                let (least, most) = self.live_periods();
                let reported = usize::try_from(number()?).map_err(|_| "fewer than none")?;
                return if (least..=most).contains(&reported) {
                    Ok(())
                } else {
                    Err(format!("{least} to {most} periods are due"))
                };
            }
            "PERIODITEMS" => {
                window.ok_or("it has no window")?;
                return at_least(0);
            }
            "FILTERS" | "CAPACITY" | "SIZE" if self.loose => return at_least(1),
            "MAXSCALEDCAPACITY" if self.loose => return at_least(0),
            "ERROR" if self.merged => {
                let reported = rate_in(value, resp3).ok_or("a rate is due")?;
                let right = (self.shape.error_rate..1.0).contains(&reported);
                return right.then_some(()).ok_or("a higher rate is due".to_owned());
            }
            "CAPACITY" => int(self.capacity()),
            "FILTERS" => int(i64::try_from(count).expect("not that many")),
            "EXPANSION" if self.shape.expansion == 0 => Reply::Nil,
            "EXPANSION" => int(self.shape.expansion.into()),
            "ERROR" => return is_rate(value, self.shape.error_rate, resp3),
            "TIGHTENING" => return is_rate(value, self.shape.tightening, resp3),
            "SIZE" => {
                let Reply::Int(size) = value else {
                    return Err("a size is due".to_owned());
                };
                let bitmaps = self.bitmaps().sum::<u64>();
                let beside = 500 + 200 * count as u64;
                let right = (bitmaps..bitmaps + beside).contains(&size.cast_unsigned());
                return if right {
                    Ok(())
                } else {
                    Err(format!("a size of some more than {bitmaps} is due"))
                };
            }
            _ => match self.reach(i64::MAX) {
                Reach::Far => int(i64::MAX),
                Reach::Until(items, _) => int(items),
                Reach::Unsaid => {
                    let Reply::Int(items) = value else {
                        return Err("a number is due".to_owned());
                    };
                    return if *items >= self.capacity() {
                        Ok(())
                    } else {
                        Err("less than there is".to_owned())
                    };
                }
            },
        };
        is(value, &due).map_err(|text| format!("{field}: {text}"))
    }
}

fn rate_in(value: &Reply, resp3: bool) -> Option<f64> {
    match value {
        Reply::Double(reported) if resp3 => Some(*reported),
        Reply::Bulk(text) if !resp3 => rate_of(text),
        _ => None,
    }
}

fn is_rate(value: &Reply, due: f64, resp3: bool) -> Result<(), String> {
    let reported = rate_in(value, resp3);
    if reported.is_some_and(|reported| reported.to_bits() == due.to_bits()) {
        Ok(())
    } else {
        Err(format!("a rate of {due:?} is due, not {value:?}"))
    }
}

pub fn truth(reply: &Reply, resp3: bool) -> Result<bool, String> {
    match reply {
        Reply::Bool(value) if resp3 => Ok(*value),
        Reply::Int(0) if !resp3 => Ok(false),
        Reply::Int(1) if !resp3 => Ok(true),
        other => Err(format!("yes or no is due, not {other:?}")),
    }
}

pub fn is(reply: &Reply, due: &Reply) -> Result<(), String> {
    if reply == due {
        Ok(())
    } else {
        Err(format!("{due:?} is due"))
    }
}
