//! Objects of RedisBloom: its encodings, old ones too, against its rules written down once more.
//!
//! What RedisBloom itself wrote, and how its objects grow, is tested on servers.

mod made;

use valkeybloom_sketches::Hasher;
use valkeybloom_sketches::bloom::{Added, Dialect, Limits, Object, Refusal, Time};

use crate::draft::{Draft, Link, drafts, positions};
use crate::support::{
    Field, ROOMY, Rng, add_each, at_each_width, fields_of, filters, has, has_each, header_of,
    items, within,
};

#[test]
fn the_published_hashes_hold() {
    for (item, a, b) in [
        ("foo", 0x822b_4f99_b121_f10d, 0x9d63_d52a_557f_61c2),
        ("", 0x1ab1_1ea5_a7b2_c56e, 0xbbdd_cb5a_b56d_d547),
        ("a", 0x4292_cee2_27b9_150a, 0x7e9b_5270_31f5_0c11),
        ("item", 0x369c_43a9_71e0_ac3f, 0x013d_6bb1_8d1a_6a54),
        ("12345678", 0x700b_ea34_3394_41c4, 0x94cc_ce09_94c5_c064),
        ("123456789", 0xb791_da69_f9d3_95e3, 0xabf3_563d_45e8_173b),
    ] {
        let probe = Hasher::Murmur64.probe(item.as_bytes());
        assert_eq!(probe.hashes(), (a, b), "{item}");
    }
    let probe = Hasher::Murmur32.probe(b"foo");
    assert_eq!(probe.hashes(), (0x23a2_56d0, 0x9fbc_0655));
}

#[test]
fn the_published_vectors_hold() {
    for (item, expected) in [
        ("foo", [269, 847, 145, 723, 21, 599, 25, 475]),
        ("item", [1087, 659, 231, 955, 527, 99, 823, 395]),
        ("", [366, 1077, 764, 451, 138, 849, 536, 223]),
        ("a", [1034, 539, 172, 829, 462, 1119, 752, 257]),
        ("12345678", [68, 680, 12, 624, 1108, 568, 1052, 512]),
        ("123456789", [611, 414, 217, 1044, 847, 650, 325, 128]),
    ] {
        let own = positions(item.as_bytes(), true, 8, 1152);
        assert_eq!(own, expected, "{item}");
        // An object with these bits alone has this item.
        let mut link = Link::new(100, 0.005, 1152, 0);
        link.hashes = 8;
        for position in expected {
            link.bitmap[usize::try_from(position / 8).unwrap()] |= 1 << (position % 8);
        }
        link.items = 1;
        let draft = Draft {
            version: 4,
            items: 1,
            options: 5,
            growth: 2,
            links: vec![link],
        };
        let object = draft.read().unwrap();
        assert!(has(&object, item.as_bytes()));
        assert!(!has(&object, b"another"));
    }
}

#[test]
fn every_encoding_answers_by_its_rules() {
    let mut rng = Rng::new(22);
    for draft in drafts() {
        let object = draft.read().unwrap();
        let name = format!("version {}, options {}", draft.version, draft.options);
        let wide = draft.options & 4 != 0;
        assert_eq!(Dialect::of(&object), Dialect::RedisBloom);
        assert_eq!(object.hasher().bits(), if wide { 64 } else { 32 }, "{name}");
        assert_eq!(items(&object), draft.items, "{name}");
        assert_eq!(filters(&object).len(), draft.links.len(), "{name}");
        let asked: Vec<Vec<u8>> = (0..3000).map(|_| rng.item(30)).collect();
        let claimed = |item: &Vec<u8>| draft.links.iter().any(|link| link.has(item, wide));
        let expected: Vec<bool> = asked.iter().map(claimed).collect();
        assert!(expected.contains(&true), "{name}: nothing is claimed");
        assert!(expected.contains(&false), "{name}: all is claimed");
        for (item, expected) in asked.iter().zip(&expected) {
            assert_eq!(has(&object, item), *expected, "{name}");
        }
        at_each_width(|width| {
            let answers = has_each(&object, &asked);
            assert_eq!(answers, expected, "{name}, {width:?}");
        });

        // It is written in the newest encoding, with nothing else changed.
        let mut newest = draft.clone();
        newest.version = 4;
        assert_eq!(fields_of(&object), newest.fields(), "{name}");
        assert_eq!(header_of(&object), draft.header(), "{name}");
        assert!(object.try_clone().unwrap().memory_bytes() <= object.memory_bytes());
    }
}

/// Growth of what has its bits rounded up to a power of two, and of what has not. What does not grow refuses items.
#[test]
fn every_encoding_grows_by_its_rules() {
    let mut rng = Rng::new(23);
    for draft in drafts() {
        let is_fixed = draft.options & 8 != 0;
        at_each_width(|_| {
            let mut object = draft.read().unwrap();
            let (mut model, mut is_full) = (draft.clone(), false);
            while !is_full && model.links.len() < draft.links.len() + 4 {
                let items: Vec<Vec<u8>> = (0..33).map(|_| rng.bytes(9)).collect();
                let mut expected = Vec::new();
                for item in &items {
                    expected.push(match model.add(item) {
                        Some(true) => Ok(Added::New),
                        Some(false) => Ok(Added::Present),
                        None => Err(Refusal::Full),
                    });
                    if expected.ends_with(&[Err(Refusal::Full)]) {
                        is_full = true;
                        break;
                    }
                }
                assert_eq!(add_each(&mut object, &items, ROOMY), expected);
            }
            assert_eq!(is_full, is_fixed, "options {}", draft.options);
            assert!(!is_full || object.reach(ROOMY) == items(&object));
            model.version = 4;
            take_last_digits(&mut model, &object);
            let options = draft.options;
            assert_eq!(fields_of(&object), model.fields(), "options {options}");
        });
    }
}

/// Copies the bits per entry, which come from a logarithm: its last digit depends on the C library of the machine.
/// They are copied if they are off by no more than that.
fn take_last_digits(model: &mut Draft, object: &Object) {
    let fields = fields_of(object).0.into_iter();
    let doubles = fields.filter_map(|field| match field {
        Field::Double(double) => Some(double),
        Field::Uint(_) | Field::Bytes(_) => None,
    });
    // Each link has its rate, then its bits per entry.
    for (model, bits_per_entry) in model.links.iter_mut().zip(doubles.skip(1).step_by(2)) {
        if model.bpe.to_bits().abs_diff(bits_per_entry.to_bits()) <= 1 {
            model.bpe = bits_per_entry;
        }
    }
}

#[test]
fn limits_hold_its_growth() {
    let draft = drafts().into_iter().rfind(|d| d.options == 5).unwrap();
    let object = draft.read().unwrap();
    // Twice the entries each time: 100 and 200 so far, then 400 in at most 600 bytes, then 800.
    assert_eq!(object.reach(within(100, u64::MAX)), 300);
    assert_eq!(object.reach(within(1000, u64::MAX)), 700);
    assert_eq!(object.reach(within(u64::MAX, 0)), 300);
    assert!(object.reach(Limits::NONE) > 1 << 40);
    let mut small = draft.read().unwrap();
    let mut rng = Rng::new(25);
    let limits = || within(1000, u64::MAX);
    let added = (0..).map(|_| small.add(&rng.bytes(12), Time::default(), limits));
    let refused = added.map(Result::err).find(Option::is_some);
    assert_eq!(refused, Some(Some(Refusal::MemoryLimit)));
    assert_eq!((items(&small), small.capacity()), (700, 700));
}
