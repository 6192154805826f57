//! Changed bytes: if they decode as an object, it bears every operation.

use valkeybloom_sketches::bloom::chunks::Value;
use valkeybloom_sketches::bloom::{Limits, Object, Time, dump};

use crate::support::{begin, dump_of, has_at, through_every_form};

use super::draft::Draft;

/// Does with an object what can be done, at any time, within limits that keep this small.
pub fn survives_use(mut object: Object) {
    through_every_form(&object);
    let limits = Limits {
        filter_bytes: 1 << 12,
        object_bytes: 1 << 14,
        saturate: true,
    };
    for now_ms in [0, 7_500, 10_001, 50_000, 3, i64::MAX as u64] {
        let time = Time {
            now_ms,
            ttl_ms: (now_ms % 2 == 1).then_some(i64::MAX as u64),
        };
        object.tidy(now_ms);
        for item in 0..8_u8 {
            let item = [item];
            let id = (item[0] % 3 == 0).then_some(u64::from(item[0]) * 30);
            if object.add(&item, time, id, || limits).is_ok() {
                assert!(has_at(&object, &item, now_ms));
            }
            let removed = object.remove(&item, id);
            let claimed = has_at(&object, &item, now_ms);
            if object.shape().is_counting() {
                assert_eq!(object.count(&item) > 0, claimed);
            } else {
                assert!(!removed);
                assert_eq!(object.count(&item), 0);
            }
        }
        assert!((0.0..=1.0).contains(&object.estimated_rate(|| now_ms)));
        assert!(
            object
                .filters(|| now_ms)
                .all(|(.., rate)| (0.0..=1.0).contains(&rate))
        );
        let _ = object.reach(|| now_ms, limits);
        if let Ok(merged) = Object::merged(&[&object, &object], limits) {
            through_every_form(&merged);
        }
    }
}

/// The place of the tightening ratio in a dump.
const RATIO: std::ops::Range<usize> = 33..41;

#[test]
fn every_flipped_bit_is_refused_or_another_object() {
    let (mut valid, mut tried) = (0, 0);
    for draft in Draft::all() {
        // Objects of earlier builds are written in the current form.
        let is_own = dump_of(&dump::decode(&draft.dump()).unwrap()) == draft.dump();
        let (whole, header) = (draft.dump(), draft.header());
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            tried += 1;
            let decoded = dump::decode(&bytes).ok();
            if let Some(object) = decoded.filter(|object| !object.is_plain()) {
                // A ratio is marked as ours, if it was not.
                let ratio = object.shape().params.tightening.to_stored();
                bytes[RATIO].copy_from_slice(&ratio.to_le_bytes());
                assert!(dump_of(&object) == bytes || !is_own, "bit {bit}");
                survives_use(object);
                valid += 1;
            }
        }
        for bit in 0..header.len() * 8 {
            let mut header = header.clone();
            header[bit / 8] ^= 1 << (bit % 8);
            if let Ok(Value::Partial(partial)) = begin(&header) {
                assert!(partial.memory_bytes() < 1_000 + 10 * header.len() as u64);
            }
        }
    }
    assert!(
        valid > 300 && valid < tried / 2,
        "{valid} of {tried} were valid"
    );
}
