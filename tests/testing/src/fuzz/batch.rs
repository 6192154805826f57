//! Compares batches with single items: both give the same answers and set the same bits.

use valkeybloom_sketches::bloom::{Growth, Limits, Object, Params, Tightening, Time, dump};
use valkeybloom_sketches::{Fraction, Seed};

use super::source::Source;
use crate::support::{add_each, has, has_each, same};

/// Tries an input with vectors of the current width. The input holds limits, an object, and operations on it.
pub fn run(bytes: &[u8]) {
    let mut source = Source(bytes);
    let limits = Limits {
        filter_bytes: source.u16().into(),
        object_bytes: u64::from(source.u16()) * 4,
        saturate: source.byte() % 2 == 1,
    };
    let Some(mut single) = object(&mut source) else {
        return;
    };
    let mut batch = single.try_clone().expect("there is memory");
    // Six rounds reach several batches and filters; more would only take time.
    for _ in 0..6 {
        let adds = source.byte() % 2 == 0;
        let (first, count) = (source.u16(), source.byte() % 140);
        let length = source.byte();
        let items: Vec<_> = (0..count)
            .map(|index| item(first.wrapping_add(index.into()), length))
            .collect();
        if adds {
            same_additions(&mut batch, &mut single, &items, limits);
        } else {
            same_answers(&batch, &items);
        }
        if source.0.is_empty() {
            return;
        }
    }
}

/// Adds items to an object together, and to an equal one one by one: the same outcomes and bits.
#[track_caller]
pub fn same_additions(
    batch: &mut Object,
    single: &mut Object,
    items: &[impl AsRef<[u8]>],
    limits: Limits,
) {
    let outcomes = add_each(batch, items, limits);
    let mut left = outcomes.iter();
    for item in items {
        let outcome = single.add(item.as_ref(), Time::default(), || limits);
        assert_eq!(left.next(), Some(&outcome), "in {outcomes:?}");
        if outcome.is_err() {
            break;
        }
    }
    assert_eq!(left.next(), None, "after the end of {outcomes:?}");
    same(batch, single);
}

/// Looks items up together and one by one, with the same answers.
#[track_caller]
pub fn same_answers(object: &Object, items: &[impl AsRef<[u8]>]) {
    let claims: Vec<bool> = items.iter().map(|it| has(object, it.as_ref())).collect();
    assert_eq!(has_each(object, items), claims);
}

/// Makes a new object, or one with parameters that this program would never choose.
fn object(source: &mut Source) -> Option<Object> {
    if source.byte() % 2 == 1 {
        return dump::decode(&Source(source.string()).plain().dump()).ok();
    }
    let params = Params {
        capacity: u64::from(source.byte()) + 1,
        error_rate: Fraction::new(0.5_f64.powi(source.byte().into()))?,
        tightening: Tightening::ours(Fraction::new(f64::from(source.byte()) / 256.0)?),
        growth: Growth::from_expansion(source.byte().into()),
    };
    let seed = Seed::new([source.byte(); 32]);
    // The smallest rates need more memory than a machine has.
    let limits = Limits {
        filter_bytes: 1 << 20,
        ..Limits::NONE
    };
    Object::plain(&params, seed, limits).ok()
}

/// Returns one of 65,536 items, of up to 66 bytes. With a `spread` of 0 all items are equally long.
fn item(number: u16, spread: u8) -> Vec<u8> {
    let mut item = number.to_le_bytes().to_vec();
    item.resize(2 + usize::from(number) * usize::from(spread) % 65, 0xa5);
    item
}
