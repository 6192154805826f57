//! What an object answers when it is asked about itself.

use super::object::{NEAR_ZERO, Object, Reach};
use super::parse::{self, rate_of};
use crate::harness::{Reply, bulk, int, simple};

/// The fields of BF.INFO: how they are asked for, and how they are told.
pub const FIELDS: [(&str, &str); 8] = [
    ("CAPACITY", "Capacity"),
    ("SIZE", "Size"),
    ("FILTERS", "Number of filters"),
    ("ITEMS", "Number of items inserted"),
    ("EXPANSION", "Expansion rate"),
    ("ERROR", "Error rate"),
    ("TIGHTENING", "Tightening ratio"),
    ("MAXSCALEDCAPACITY", "Max scaled capacity"),
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
        let due: Vec<&(&str, &str)> = match field {
            Some(field) => FIELDS
                .iter()
                .filter(|(name, _)| field.eq_ignore_ascii_case(name.as_bytes()))
                .collect(),
            None => FIELDS[..if scaling { 8 } else { 6 }].iter().collect(),
        };
        if pairs.len() != due.len() {
            return Err(format!("{} fields are due", due.len()));
        }
        for ((field, told), (name, value)) in due.into_iter().zip(pairs) {
            if name.is_some_and(|name| *name != simple(told)) {
                return Err(format!("{told} is due"));
            }
            self.is_field(field, value, resp3)?;
        }
        Ok(())
    }

    pub fn is_debug(&self, reply: &Reply) -> Result<(), String> {
        let Reply::Array(lines) = reply else {
            return Err("an array is due".to_owned());
        };
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
            let expected = (-rate.log2()).max(1.0);
            let hashes: f64 = hashes.parse().map_err(|_| "hashes are no number")?;
            // A bitmap of few bits is rounded up to whole bytes, which more hashes go with.
            let most = 8.0 * expected + 8.0;
            if !(expected - 1.0..=most.max(64.0)).contains(&hashes) {
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
        let due = match field {
            "CAPACITY" => int(self.capacity()),
            "FILTERS" => int(i64::try_from(count).expect("not that many")),
            "ITEMS" => int(self.items),
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

fn is_rate(value: &Reply, due: f64, resp3: bool) -> Result<(), String> {
    let told = match value {
        Reply::Double(told) if resp3 => Some(*told),
        Reply::Bulk(text) if !resp3 => rate_of(text),
        _ => None,
    };
    if told.is_some_and(|told| told.to_bits() == due.to_bits()) {
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
