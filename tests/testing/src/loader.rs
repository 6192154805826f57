//! What `RedisBloom` 8.12 loads of its types, written down once more: the rules of its loaders for a payload of DUMP.

use std::ffi::CStr;

use crate::plain::Field;
use crate::support::Stream;

/// The reason that a payload is refused.
pub type Refused = Result<(), &'static str>;

/// A payload of DUMP with a value of a module.
#[derive(Debug)]
pub struct Dump {
    pub type_name: String,
    pub version: u64,
    pub fields: Vec<Field>,
}

impl Dump {
    /// Decodes a payload, or returns `None` if the value is not a module's.
    ///
    /// # Panics
    /// If the payload is cut or has an unknown encoding.
    pub fn of(payload: &[u8]) -> Option<Self> {
        const FOOTER_BYTES: usize = 10;
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let (mark, rest) = payload.split_first()?;
        let mut rest = &rest[..rest.len().checked_sub(FOOTER_BYTES)?];
        if *mark != 7 {
            return None;
        }
        let id = length(&mut rest);
        let letter =
            |index| char::from(LETTERS[usize::try_from(id >> (58 - 6 * index)).unwrap() % 64]);
        let mut fields = Vec::new();
        loop {
            fields.push(match length(&mut rest) {
                0 => break,
                2 => Field::Uint(length(&mut rest)),
                4 => Field::Double(f64::from_le_bytes(take(&mut rest, 8).try_into().unwrap())),
                5 => Field::Bytes(string(&mut rest)),
                kind => panic!("a field of kind {kind}"),
            });
        }
        assert!(rest.is_empty(), "bytes after the value");
        Some(Self {
            type_name: (0..9).map(letter).collect(),
            version: id % 1024,
            fields,
        })
    }

    /// Requires that `RedisBloom` 8.12 loads the value, if it has the type. Count-min sketches in encoding version 0 whose
    /// counters have another size than four bytes are excepted: they are this module's alone.
    ///
    /// # Errors
    /// The rule that the value breaks.
    pub fn check(&self) -> Refused {
        let mut fields = Fields(&self.fields);
        let checked = match (&*self.type_name, self.version) {
            ("MBbloom--", 4) => bloom(&mut fields),
            ("MBbloomCF", 4) => cuckoo(&mut fields),
            ("CMSk-TYPE", 0) if self.fields.len() == 5 => return Ok(()),
            ("CMSk-TYPE", version) => CountMin::read(version, &mut fields).map(|_| ()),
            ("TopK-TYPE", 0) => topk(&mut fields),
            ("TDIS-TYPE", 0) => tdigest(&mut fields),
            ("MBbloom--" | "MBbloomCF" | "TopK-TYPE" | "TDIS-TYPE", _) => Err("encoding version"),
            _ => return Ok(()),
        };
        checked?;
        require(fields.0.is_empty(), "fields after the value")
    }

    /// Returns the count-min sketch that `RedisBloom` 8.12 loads.
    ///
    /// # Errors
    /// The rule that the value breaks.
    pub fn count_min(&self) -> Result<CountMin, &'static str> {
        require(self.type_name == "CMSk-TYPE", "another type")?;
        let mut fields = Fields(&self.fields);
        let sketch = CountMin::read(self.version, &mut fields)?;
        require(fields.0.is_empty(), "fields after the value")?;
        Ok(sketch)
    }
}

/// Requires that `RedisBloom` 8.12 loads these fields of a value. Returns them.
#[track_caller]
pub fn loaded(type_name: &CStr, version: i32, fields: Stream) -> Stream {
    let dump = Dump {
        type_name: type_name.to_string_lossy().into_owned(),
        version: version.unsigned_abs().into(),
        fields: fields.0.into(),
    };
    assert_eq!(dump.check(), Ok(()), "{dump:?}");
    Stream(dump.fields.into())
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Reads a number, or how a string is encoded.
fn number(bytes: &mut &[u8]) -> Result<u64, u8> {
    let first = take(bytes, 1)[0];
    match (first >> 6, first) {
        (0, _) => Ok(first.into()),
        (1, _) => Ok(u64::from(first & 63) << 8 | big_endian(take(bytes, 1))),
        (_, 0x80) => Ok(big_endian(take(bytes, 4))),
        (_, 0x81) => Ok(big_endian(take(bytes, 8))),
        _ => Err(first & 63),
    }
}

fn length(bytes: &mut &[u8]) -> u64 {
    number(bytes).expect("a number")
}

fn size(bytes: &mut &[u8]) -> usize {
    usize::try_from(length(bytes)).expect("a size")
}

/// Reads a string: as it is, as an integer, or compressed.
fn string(bytes: &mut &[u8]) -> Vec<u8> {
    match number(bytes) {
        Ok(length) => take(bytes, usize::try_from(length).expect("a size")).to_vec(),
        Err(width @ 0..=2) => {
            let digits = take(bytes, 1 << width);
            let sign = if digits.last() >= Some(&0x80) {
                0xff
            } else {
                0
            };
            let mut number = [sign; 8];
            number[..digits.len()].copy_from_slice(digits);
            i64::from_le_bytes(number).to_string().into_bytes()
        }
        Err(3) => {
            let (packed, length) = (size(bytes), size(bytes));
            let plain = unpacked(take(bytes, packed));
            assert_eq!(plain.len(), length);
            plain
        }
        Err(encoding) => panic!("a string of encoding {encoding}"),
    }
}

/// Decompresses LZF.
fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !packed.is_empty() {
        let control = usize::from(take(&mut packed, 1)[0]);
        if control < 32 {
            plain.extend(take(&mut packed, control + 1));
            continue;
        }
        let mut run = control >> 5;
        if run == 7 {
            run += usize::from(take(&mut packed, 1)[0]);
        }
        let back = (control & 31) << 8 | usize::from(take(&mut packed, 1)[0]);
        let from = plain.len() - back - 1;
        for index in from..from + run + 2 {
            plain.push(plain[index]);
        }
    }
    plain
}

/// The fields that are not read yet.
struct Fields<'f>(&'f [Field]);

impl<'f> Fields<'f> {
    fn next(&mut self) -> Option<&'f Field> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn uint(&mut self) -> Result<u64, &'static str> {
        match self.next() {
            Some(Field::Uint(number)) => Ok(*number),
            _ => Err("not a number"),
        }
    }

    fn double(&mut self) -> Result<f64, &'static str> {
        match self.next() {
            Some(Field::Double(number)) => Ok(*number),
            _ => Err("not a double"),
        }
    }

    fn bytes(&mut self) -> Result<&'f [u8], &'static str> {
        match self.next() {
            Some(Field::Bytes(bytes)) => Ok(bytes),
            _ => Err("not a string"),
        }
    }

    /// Reads a string of this length.
    fn bytes_of(&mut self, length: Option<u64>) -> Result<&'f [u8], &'static str> {
        let bytes = self.bytes()?;
        require(
            length == Some(bytes.len() as u64),
            "string of another length",
        )?;
        Ok(bytes)
    }
}

fn require(holds: bool, rule: &'static str) -> Refused {
    if holds { Ok(()) } else { Err(rule) }
}

fn bloom(from: &mut Fields) -> Refused {
    let (total, links) = (from.uint()?, from.uint()?);
    let (options, growth) = (from.uint()?, from.uint()?);
    require(links > 0, "no links")?;
    require(options < 16, "options")?;
    let (mut sum, mut last) = (0_u64, 0_u64);
    for _ in 0..links {
        let (entries, rate, hashes) = (from.uint()?, from.double()?, from.uint()?);
        let per_entry = from.double()?;
        require(entries > 0, "no entries")?;
        require(0.0 < rate && rate < 1.0, "rate")?;
        #[allow(clippy::approx_constant, reason = "the digits of RedisBloom")]
        let needed = (0.693_147_180_559_945 * per_entry).ceil();
        #[allow(clippy::cast_precision_loss, reason = "there are few")]
        let is_needed = needed.to_bits() == (hashes as f64).to_bits();
        require(per_entry.is_finite() && is_needed, "hash functions")?;
        let (bits, exponent) = (from.uint()?, from.uint()?);
        require(
            exponent < 64 && bits > 0 && bits >> exponent > 0,
            "exponent",
        )?;
        let bytes = from.bytes()?.len() as u64;
        require(bits == 8 * bytes, "bits that are not those of the bytes")?;
        let items = from.uint()?;
        require(items <= entries, "more items than entries")?;
        sum = sum.checked_add(items).ok_or("sum of items")?;
        last = entries;
    }
    require(sum == total, "sum of items")?;
    require(last.checked_mul(growth).is_some(), "next link's entries")
}

fn cuckoo(from: &mut Fields) -> Refused {
    let (filters, first, items, _deletes) =
        (from.uint()?, from.uint()?, from.uint()?, from.uint()?);
    let (slots, iterations, expansion) = (from.uint()?, from.uint()?, from.uint()?);
    require((1..=65_535).contains(&filters), "filters")?;
    require((1..=255).contains(&slots), "bucket size")?;
    require((1..=65_535).contains(&iterations), "iterations")?;
    let grows = expansion.is_power_of_two() && expansion <= 32_768;
    require(grows || expansion == 0 && filters == 1, "expansion")?;
    let (mut expected, mut room) = (Some(first), 0_u64);
    for _ in 0..filters {
        let buckets = from.uint()?;
        require(buckets.is_power_of_two() && buckets <= 1 << 55, "buckets")?;
        require(expected == Some(buckets), "growth")?;
        room += from.bytes_of(buckets.checked_mul(slots))?.len() as u64;
        expected = buckets.checked_mul(expansion);
    }
    require(items <= room, "items")
}

/// A count-min sketch.
#[derive(Debug, PartialEq, Eq)]
pub struct CountMin {
    pub width: u64,
    pub depth: u64,
    pub count: u64,
    pub cell_bytes: u64,
    pub counters: Vec<u64>,
}

impl CountMin {
    fn read(version: u64, from: &mut Fields) -> Result<Self, &'static str> {
        require(version < 2, "encoding version")?;
        let (width, depth, count) = (from.uint()?, from.uint()?, from.uint()?);
        let cell_bytes = if version == 1 { from.uint()? } else { 4 };
        require([1, 2, 4, 8].contains(&cell_bytes), "cell size")?;
        let counters = width.checked_mul(depth).filter(|counters| *counters > 0);
        let most = i64::MAX as u64;
        require(counters.is_some(), "shape")?;
        require(count <= most, "count")?;
        let table =
            from.bytes_of(counters.and_then(|counters| counters.checked_mul(cell_bytes)))?;
        let cells = table.chunks(usize::try_from(cell_bytes).unwrap());
        let counters = cells.map(|cell| {
            cell.iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        });
        let counters: Vec<u64> = counters.collect();
        require(counters.iter().all(|counter| *counter <= most), "counter")?;
        Ok(Self {
            width,
            depth,
            count,
            cell_bytes,
            counters,
        })
    }
}

fn topk(from: &mut Fields) -> Refused {
    let (k, width, depth) = (from.uint()?, from.uint()?, from.uint()?);
    let is_size = |number: &u64| (1..=u64::from(u32::MAX)).contains(number);
    require([k, width, depth].iter().all(is_size), "size")?;
    let decay = from.double()?;
    require(0.0 < decay && decay <= 1.0, "decay")?;
    from.bytes_of(
        width
            .checked_mul(depth)
            .and_then(|cells| cells.checked_mul(8)),
    )?;
    for entry in from.bytes_of(k.checked_mul(24))?.as_chunks::<24>().0 {
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        let item = from.bytes()?;
        require(item.last() == Some(&0), "item without its end")?;
        // A zero byte alone is a free entry, or the empty item.
        require(word(4) as usize == item.len() - 1, "length of an item")?;
    }
    Ok(())
}

/// The largest sum of doubles that is not rounded.
const EXACT: u64 = 1 << 53;

/// Returns the integer that a double stands for, if it is one.
fn whole(number: f64) -> Option<u128> {
    let is_whole = (0.0..=1e30).contains(&number) && number % 1.0 == 0.0;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in range"
    )]
    is_whole.then_some(number as u128)
}

fn tdigest(from: &mut Fields) -> Refused {
    let (compression, min, max) = (from.double()?, from.double()?, from.double()?);
    let [capacity, merged, unmerged, compressions] =
        [from.uint()?, from.uint()?, from.uint()?, from.uint()?];
    let (weight, unmerged_weight) = (from.double()?, from.double()?);
    let compression = whole(compression).filter(|compression| *compression > 0);
    let compression = compression.ok_or("compression")?;
    require(min.is_finite() && max.is_finite(), "ends")?;
    require(u128::from(capacity) == 6 * compression + 10, "capacity")?;
    let nodes = merged.checked_add(unmerged);
    require(nodes.is_some_and(|nodes| nodes <= capacity), "nodes")?;
    require(i64::try_from(compressions).is_ok(), "compressions")?;
    for _ in 0..merged {
        require(from.double()?.is_finite(), "mean")?;
    }
    let mut sum = 0;
    for _ in 0..merged {
        sum += whole(from.double()?).ok_or("weight that is not whole")?;
    }
    let is_merged = unmerged == 0 && whole(unmerged_weight) == Some(0);
    require(is_merged, "unmerged nodes")?;
    let weight = whole(weight).ok_or("weight that is not whole")?;
    require(sum == weight || weight >= EXACT.into(), "sum of weights")
}
