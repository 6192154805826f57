//! Stored forms with fields changed by what they are, and never by what they mean.

use crate::support::{Field, Rng};

/// Numbers at which sums and ranges end.
pub const EDGES: [u64; 12] = [
    0,
    1,
    u32::MAX as u64,
    1 << 32,
    (1 << 62) - 2,
    (1 << 62) - 1,
    1 << 62,
    (1 << 63) - 2,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Returns another number in place of `value`: near it, near one of `among`, or random.
pub fn other_number(rng: &mut Rng, value: u64, among: &[u64]) -> u64 {
    match rng.below(9) {
        0 => *rng.pick(&EDGES),
        1 => value.wrapping_add(1),
        2 => value.wrapping_sub(1),
        3 | 4 => *rng.pick(among),
        // A sum with a neighbour then ends at the edge.
        5 => rng.pick(&EDGES).wrapping_sub(*rng.pick(among)),
        6 => rng.pick(among).wrapping_add(rng.next() % 3).wrapping_sub(1),
        7 => rng.next() % 20,
        _ => rng.next() >> rng.below(64),
    }
}

fn other_double(rng: &mut Rng, value: f64) -> f64 {
    match rng.below(4) {
        0 => value.next_up(),
        1 => value.next_down(),
        2 => *rng.pick(&[5e-324, 1e-300, 0.01, 0.5, 0.99, 1.0 - f64::EPSILON]),
        _ => f64::from_bits(rng.next()),
    }
}

/// Returns the different numbers of a form.
pub fn numbers(fields: &[Field]) -> Vec<u64> {
    let number = |field: &Field| match field {
        Field::Uint(value) => Some(*value),
        Field::Double(_) | Field::Bytes(_) => None,
    };
    let mut numbers: Vec<u64> = fields.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns the indices of a kind of field.
fn places(fields: &[Field], is: fn(&Field) -> bool) -> Vec<usize> {
    (0..fields.len()).filter(|at| is(&fields[*at])).collect()
}

fn uint(fields: &mut [Field], at: usize) -> &mut u64 {
    match &mut fields[at] {
        Field::Uint(value) => value,
        other => panic!("{other:?} is no number"),
    }
}

/// Changes fields here and there.
pub fn change_fields(rng: &mut Rng, fields: &mut Vec<Field>) {
    for _ in 0..=rng.below(3) {
        let uints = places(fields, |field| matches!(field, Field::Uint(_)));
        let doubles = places(fields, |field| matches!(field, Field::Double(_)));
        let strings = places(fields, |field| matches!(field, Field::Bytes(_)));
        if uints.is_empty() || doubles.is_empty() || strings.is_empty() {
            return;
        }
        let among = numbers(fields);
        let (index, other) = (rng.below(uints.len()), *rng.pick(&uints));
        let at = uints[index];
        let value = *uint(fields, at);
        match rng.below(12) {
            0..=3 => *uint(fields, at) = other_number(rng, value, &among),
            4 => {
                // A capacity and its items, or what else has to be equal.
                let both = other_number(rng, value, &among);
                let next = uints.get(index + 1).copied().unwrap_or(other);
                *uint(fields, at) = both;
                *uint(fields, next) = both;
            }
            5 if index > 0 => {
                // A number, and a sum before it that it is part of.
                let changed = other_number(rng, value, &among);
                *uint(fields, at) = changed;
                let sum = uint(fields, uints[rng.below(index)]);
                *sum = sum.wrapping_add(changed.wrapping_sub(value));
            }
            6 => {
                let at = *rng.pick(&doubles);
                if let Field::Double(value) = fields[at] {
                    fields[at] = Field::Double(other_double(rng, value));
                }
            }
            7 => {
                let at = *rng.pick(&strings);
                if let Field::Bytes(bytes) = &mut fields[at] {
                    change_string(rng, bytes);
                }
            }
            8 => fields.swap(at, other),
            9 => fields.swap(*rng.pick(&strings), *rng.pick(&strings)),
            10 => swap_runs(rng, fields),
            _ => change_count(rng, fields, &uints),
        }
    }
}

/// Returns the length of a run of fields: a few, or from one string to another, as a filter is or a period.
fn run_length(rng: &mut Rng, fields: &[Field]) -> usize {
    let strings = places(fields, |field| matches!(field, Field::Bytes(_)));
    match rng.below(3) {
        0 => 1 + rng.below(3),
        1 => 1 + rng.below(12),
        _ => rng.pick(&strings).abs_diff(*rng.pick(&strings)).max(1),
    }
}

/// Swaps a run of fields with the one after it.
fn swap_runs(rng: &mut Rng, fields: &mut [Field]) {
    let (length, start) = (run_length(rng, fields), rng.below(fields.len()));
    if let Some(both) = fields.get_mut(start..start + 2 * length) {
        both.rotate_left(length);
    }
}

/// Repeats or drops a run of fields, and changes the number before it that counts them, and perhaps another number
/// that is a sum.
fn change_count(rng: &mut Rng, fields: &mut Vec<Field>, uints: &[usize]) {
    let (length, start) = (run_length(rng, fields), rng.below(fields.len()));
    let before: Vec<usize> = uints.iter().copied().filter(|at| *at < start).collect();
    let Some(run) = fields.get(start..start + length).map(<[Field]>::to_vec) else {
        return;
    };
    if before.is_empty() {
        return;
    }
    let (count, sum) = (*rng.pick(&before), *rng.pick(&before));
    let parts = numbers(&run);
    let part = if parts.is_empty() || rng.below(2) == 0 {
        0
    } else {
        *rng.pick(&parts)
    };
    if rng.below(2) == 0 {
        fields.splice(start..start, run);
        *uint(fields, count) = uint(fields, count).wrapping_add(1);
        *uint(fields, sum) = uint(fields, sum).wrapping_add(part);
    } else {
        fields.drain(start..start + length);
        *uint(fields, count) = uint(fields, count).wrapping_sub(1);
        *uint(fields, sum) = uint(fields, sum).wrapping_sub(part);
    }
}

/// Changes a filter: its header's numbers, its length, or its cells.
fn change_string(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const HEADER: usize = 45;
    let from = if bytes.len() > HEADER { HEADER } else { 0 };
    match rng.below(6) {
        0 if from > 0 => bytes[9] = rng.next().to_le_bytes()[0],
        1 if from > 0 => {
            // The length that it says, and has.
            let each = if bytes[0] == 2 { 4 } else { 1 };
            let length = 1 + rng.below(12);
            bytes[1..9].copy_from_slice(&(length as u64).to_le_bytes());
            bytes.resize(HEADER + each * length, 0);
        }
        2 => bytes[from..].fill(0),
        3 => bytes[from..].fill(0xff),
        4 => {
            let length = bytes.len() - from;
            bytes.truncate(from);
            bytes.extend(rng.bytes(length));
        }
        _ => flip(rng, bytes),
    }
}

fn flip(rng: &mut Rng, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let at = rng.below(bytes.len());
        bytes[at] ^= 1 << rng.below(8);
    }
}

/// Changes bytes, mostly those that hold one of the numbers of the same object's fields.
pub fn change_bytes(rng: &mut Rng, bytes: &mut [u8], fields: &[Field]) {
    let among = numbers(fields);
    let word = |eight: &[u8]| u64::from_le_bytes(eight.try_into().unwrap());
    let places: Vec<usize> = (0..bytes.len().saturating_sub(7))
        .filter(|at| among.contains(&word(&bytes[*at..at + 8])))
        .collect();
    for _ in 0..=rng.below(3) {
        if places.is_empty() || rng.below(4) == 0 {
            flip(rng, bytes);
            continue;
        }
        let (index, other) = (rng.below(places.len()), *rng.pick(&places));
        let at = places[index];
        let value = word(&bytes[at..at + 8]);
        let changed = other_number(rng, value, &among);
        bytes[at..at + 8].copy_from_slice(&changed.to_le_bytes());
        match rng.below(6) {
            0 => {
                let next = places.get(index + 1).copied().unwrap_or(other);
                bytes[next..next + 8].copy_from_slice(&changed.to_le_bytes());
            }
            1 if index > 0 => {
                let sum_at = places[rng.below(index)];
                let sum = word(&bytes[sum_at..sum_at + 8]);
                let sum = sum.wrapping_add(changed.wrapping_sub(value));
                bytes[sum_at..sum_at + 8].copy_from_slice(&sum.to_le_bytes());
            }
            _ => {}
        }
    }
}
