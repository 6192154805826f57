//! Decodes bytes that may be a count-min sketch.

use valkeybloom_sketches::cms::{CountMin, NotCounted, Overflow, Term, wire};

use super::forms::{self, read};
use super::source::Source;

/// Reads RDB fields, after their version, and then operations on the sketch.
pub fn fields(mut source: Source) {
    let read = read(&mut source, 1000, |version, from| {
        wire::read_rdb(version, from)
    });
    let Some((object, version, used)) = read else {
        return;
    };
    assert_eq!(written_as(&object, version), used);
    operate(object, source);
}

/// Counts, and sometimes replaces the sketch by a copy or by a sum.
fn operate(mut object: CountMin, mut source: Source) {
    for _ in 0..50 {
        let (choice, item) = (source.byte(), [source.byte(), 0]);
        let item = &item[..usize::from(choice >> 6).min(2)];
        let overflow = match choice / 5 % 2 {
            0 => Overflow::Saturate,
            _ => Overflow::Refuse,
        };
        match choice % 5 {
            0 => count(&mut object, item, source.byte().into(), overflow),
            1 => count(&mut object, item, -i64::from(source.byte()), overflow),
            2 => {
                let by = i64::from_le_bytes(source.array());
                count(&mut object, item, by.max(-i64::MAX), overflow);
            }
            3 => {
                let weight = i8::from_le_bytes(source.array());
                merge(&mut object, weight.into(), overflow);
            }
            _ => object = reread(&object),
        }
        let mut estimates = Vec::new();
        object.estimate_each([item, b"other"].into_iter(), |it| estimates.push(it));
        let each = [item, b"other"].map(|item| object.estimate(item));
        assert_eq!(estimates, each);
        let most = object.shape().cell_size().max();
        assert!(each.iter().all(|estimate| *estimate <= most));
    }
}

/// Counts an item, in a batch, too.
fn count(object: &mut CountMin, item: &[u8], by: i64, overflow: Overflow) {
    let mut batch = reread(object);
    let (before, stored) = (object.estimate(item), written(object));
    let counted = object.increment(item, by, overflow);
    let mut outcomes = Vec::new();
    batch.increment_each([(item, by)].into_iter(), overflow, |it| outcomes.push(it));
    assert_eq!(outcomes, [counted]);
    assert_eq!(written(&batch), written(object));
    match counted {
        Ok(estimate) => {
            assert_eq!(estimate, object.estimate(item));
            assert_eq!(Some(estimate), before.checked_add_signed(by));
        }
        Err(NotCounted::Saturated) => {
            assert_eq!(overflow, Overflow::Saturate);
            assert_eq!(object.estimate(item), u64::from(u32::MAX));
        }
        Err(_) => assert_eq!(written(object), stored),
    }
}

/// Replaces a sketch by its multiple. Naming it repeatedly has the same outcome.
fn merge(object: &mut CountMin, weight: i64, overflow: Overflow) {
    let sum = |weights: &[i64]| {
        let term = |weight: &i64| Term {
            source: &*object,
            weight: *weight,
        };
        let terms: Vec<_> = weights.iter().map(term).collect();
        CountMin::merged(&terms, overflow)
    };
    let (whole, parts) = (sum(&[weight]), sum(&[weight / 2, weight - weight / 2]));
    assert_eq!(
        whole.as_ref().map(written).ok(),
        parts.as_ref().map(written).ok()
    );
    if let Ok(merged) = whole {
        let changed = written(&merged) != written(object);
        assert_eq!(object.replace(merged), Ok(changed));
    }
}

/// Writes and reads a sketch.
fn reread(object: &CountMin) -> CountMin {
    let stored = written(object);
    let read = wire::read_rdb(wire::RDB_VERSION, &mut Source(&stored));
    let read = read.expect("it reads what it wrote");
    assert_eq!(written(&read), stored);
    read
}

/// Returns the RDB fields of encoding version 0 in the format of a [`Source`].
fn written(object: &CountMin) -> Vec<u8> {
    written_as(object, wire::RDB_VERSION)
}

fn written_as(object: &CountMin, version: i32) -> Vec<u8> {
    forms::written(|to| wire::write_rdb(object, version, to))
}
