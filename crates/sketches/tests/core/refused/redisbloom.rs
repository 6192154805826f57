//! Rules that objects of `RedisBloom` can break.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, LoadError};
use valkeybloom_sketches::bloom::{Dialect, Limits};

use super::{Draft as _, FIELDS, Form, refused};
use crate::draft::{Draft, drafts};
use crate::support::{NO_FRACTIONS, ROOMY, begin, begin_partial, fields_of, fields_of_partial};

const BOTH: &[Form] = &[Form::Header, Form::Fields];

/// Requires that RDB fields report what is wrong with a single link. A header of such links is not one of `RedisBloom`'s,
/// and may be one of ours, so it is refused in any words.
#[track_caller]
fn refused_link(draft: &Draft, error: &'static str, change: impl Fn(&mut Draft)) {
    refused(draft, FIELDS, error, &change);
    let mut broken = draft.clone();
    change(&mut broken);
    assert!(begin(&broken.header()).is_err());
}

/// Returns a valid object of each set of options, of two links.
fn valid() -> Vec<Draft> {
    let mut drafts = drafts();
    drafts.retain(|draft| draft.version == 4 && draft.links.len() == 2);
    assert!(drafts.len() > 1);
    drafts
}

#[test]
fn wrong_sums_and_options_are_refused() {
    for draft in valid() {
        for form in BOTH {
            assert_eq!(draft.error(*form), None, "{form:?}");
        }
        for link in [0, 1] {
            refused(&draft, BOTH, "capacity of zero", |d| {
                d.links[link].entries = 0;
            });
        }
        let error = "sum out of range";
        refused(&draft, BOTH, error, |d| d.links[0].entries = 1 << 63);
        refused(&draft, BOTH, error, |d| {
            (d.links[0].entries, d.links[1].entries) = (1 << 62, 1 << 62);
        });
        // More items than entries are cut, because RedisBloom 8.12 loads no such filter.
        for claimed in [draft.links[0].entries + 1, 1 << 63] {
            let (mut claims, mut cut) = (draft.clone(), draft.clone());
            claims.links[0].items = claimed;
            claims.items = claimed + draft.links[1].items;
            cut.links[0].items = draft.links[0].entries;
            cut.items = cut.links[0].items + draft.links[1].items;
            let read = |draft: &Draft| fields_of(&draft.read().unwrap());
            assert_eq!(read(&claims), read(&cut));
            let begun = |draft: &Draft| fields_of_partial(&begin_partial(&draft.header()).unwrap());
            assert_eq!(begun(&claims), begun(&cut));
        }
        let error = "items of the filters are not the object's";
        refused_link(&draft, error, |d| d.items += 1);
        refused_link(&draft, error, |d| d.items -= 1);
        for items in [draft.links[0].items + 1, u64::MAX] {
            refused_link(&draft, error, |d| d.links[0].items = items);
        }
        refused_link(&draft, error, |d| d.links.truncate(1));
        refused(&draft, FIELDS, DecodeError::Truncated, |d| d.links.clear());
        refused_link(&draft, "unknown options", |d| d.options = 16);
        // These do not fit the 32 bits that a header has for them.
        refused(&draft, FIELDS, "unknown options", |d| d.options = u64::MAX);
        let error = "growth factor out of range";
        refused(&draft, FIELDS, error, |d| d.growth = 1 << 32);
        let error = DecodeError::UnsupportedVersion;
        refused(&draft, FIELDS, error, |d| d.version = 5);
        let mut none = draft.clone();
        none.links.clear();
        let mut longer = draft.header();
        longer.push(0);
        for header in [none.header(), longer] {
            assert!(begin(&header).is_err());
        }
    }
}

#[test]
fn wrong_links_are_refused() {
    for (draft, link) in valid().iter().flat_map(|draft| [(draft, 0), (draft, 1)]) {
        for error in NO_FRACTIONS {
            refused_link(draft, "error rate out of range", |d| {
                d.links[link].error = error;
            });
        }
        for bpe in [0.0, f64::NAN, f64::INFINITY] {
            refused_link(draft, "bits per entry out of range", |d| {
                d.links[link].bpe = bpe;
            });
        }
        let error = "number of hash functions out of range";
        for hashes in [0, 1101, 1 << 31] {
            refused_link(draft, error, |d| d.links[link].hashes = hashes);
        }
        // A header has 32 bits for it.
        refused(draft, FIELDS, error, |d| {
            d.links[link].hashes = (1 << 32) + 8;
        });
        refused_link(draft, "filter of zero bits", |d| d.links[link].bits = 0);
        let error = "bitmap shorter than its bits";
        let bits = draft.links[link].bitmap.len() as u64 * 8;
        for bits in [bits + 1, 1 << 63] {
            refused_link(draft, error, |d| d.links[link].bits = bits);
        }
        refused_link(draft, error, |d| d.links[link].bitmap.clear());
        refused_link(draft, "more bytes than bits", |d| {
            d.links[link].bitmap = vec![0; 10_000];
        });
        for exponent in [11, 64] {
            refused_link(draft, "exponent out of range", |d| {
                d.links[link].n2 = exponent;
            });
        }
    }
}

/// A header claims sizes; memory is taken for what comes.
#[test]
fn a_claim_takes_its_memory_within_limits() {
    let draft = drafts().into_iter().rfind(|d| d.options == 5).unwrap();
    let mut header = draft.header();
    let claim = |header: &mut Vec<u8>, bytes: u64| {
        header[20..28].copy_from_slice(&bytes.to_le_bytes());
        header[28..36].copy_from_slice(&(8 * bytes).to_le_bytes());
    };
    claim(&mut header, 1 << 20);
    let mut partial = begin_partial(&header).unwrap();
    assert_eq!(partial.dialect(), Dialect::RedisBloom);
    let taken = partial.memory_bytes();
    assert!(taken > 1 << 20);
    assert!(matches!(partial.load(6, b"bytes"), Ok(None)));
    assert_eq!(partial.memory_bytes(), taken);
    assert_eq!(partial.try_clone().unwrap().memory_bytes(), taken);
    // A client's limits hold before anything is taken, and no machine has all that can be claimed.
    claim(&mut header, 1 << 50);
    let small = Limits {
        filter_bytes: 1 << 20,
        ..ROOMY
    };
    let refused = |limits| chunks::begin(&header, limits).err().unwrap();
    assert_eq!(refused(small), LoadError::TooLarge);
    assert_eq!(refused(ROOMY), DecodeError::NoMemory.into());
}
