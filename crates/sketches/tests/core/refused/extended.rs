//! Rules that objects of tables can break.

use valkeybloom_sketches::bloom::{Dialect, Shape, TableStep, dump, rdb};
use valkeybloom_sketches::{DecodeError, Seed};
use valkeybloom_testing::fuzz::decode;
use valkeybloom_testing::tables::{Bits, Draft, END, Model, Piece, Table, fingerprint_at};

use super::{ALL, Draft as _, Form, WHOLE, refused};
use crate::support::{NO_FRACTIONS, Rng, begin, counting, params, scaled_to, windowed};

impl super::Draft for Draft {
    fn error(&self, form: Form) -> Option<DecodeError> {
        match form {
            Form::Dump => dump::decode(&self.dump()).err(),
            Form::Header => begin(&self.header()).err(),
            Form::Fields => rdb::read(Dialect::Bloomfltx, 1, &mut self.stream()).err(),
        }
    }
}

/// Returns an object of two tables in three pieces. The middle piece has a quarter of the range.
fn draft(shape: &Shape) -> Draft {
    let mut rng = Rng::new(3);
    let more = shape.window().map_or(0, |window| 2 * window.periods() + 4);
    let mut model = Model::new(shape, &Seed::FIXED);
    model.tables = [(0, 12), (3, 21)]
        .map(|(number, bits)| {
            let step = TableStep {
                number,
                most: 90,
                bits,
            };
            let held = (0..40).map(|_| (rng.next() >> (64 - bits), more + 1 + rng.next() % 4));
            Table {
                step,
                entries: held.collect(),
            }
        })
        .into();
    let of = |range: [u64; 2]| {
        let mut model = model.clone();
        for table in &mut model.tables {
            let begin = fingerprint_at(range[0], table.step.bits);
            table.entries.insert(begin, more + 5);
        }
        Piece::of(&model, range)
    };
    let ranges = [[0, END / 2], [END / 2, END / 4 * 3], [END / 4 * 3, END]];
    Draft {
        pieces: ranges.map(of).into(),
        ..model.draft()
    }
}

fn drafts() -> [Draft; 3] {
    let params = params(50, 0.01, 2);
    [
        counting(params),
        windowed(params, 1000, 4),
        scaled_to(params),
    ]
    .map(|shape| draft(&shape))
}

#[test]
fn every_form_of_every_kind_is_accepted() {
    for draft in drafts() {
        for form in ALL {
            assert_eq!(draft.error(*form), None, "{form:?}");
        }
        decode::run(&[&[0], &draft.dump()[..]].concat());
    }
}

#[test]
fn wrong_fields_are_refused() {
    for draft in drafts() {
        let wrong = |error: &'static str, change: &dyn Fn(&mut Draft)| {
            refused(&draft, ALL, error, change);
        };
        for kind in [0, 4, 1 << 32, u64::MAX] {
            refused(&draft, ALL, "unknown kind", |d| d.kind = kind);
        }
        for expansion in [1 << 32, u64::MAX] {
            wrong("expansion out of range", &|d| d.expansion = expansion);
        }
        for number in NO_FRACTIONS {
            wrong("error rate out of range", &|d| d.error_rate = number);
        }
        for capacity in [0, 1 << 63, u64::MAX] {
            wrong("capacity out of range", &|d| d.capacity = capacity);
        }
        // No fingerprint is long enough.
        wrong("capacity out of range", &|d| d.error_rate = 1e-30);
        for length in [0, 31, 33] {
            wrong("seed of another length", &|d| d.seed.resize(length, 0));
        }
        if draft.window.is_some() {
            for window in [(0, 4), (1000, 0), (1, 60_001), (1, u64::MAX)] {
                wrong("window out of range", &|d| d.window = Some(window));
            }
            // The product overflows.
            for window in [(1 << 62, 2), (u64::MAX, 1)] {
                wrong("window out of range", &|d| d.window = Some(window));
            }
        }
        for form in [2, u64::MAX] {
            let error = DecodeError::UnsupportedVersion;
            refused(&draft, ALL, error, |d| d.form = form);
        }
        refused(&draft, super::CUT, "bytes after the object", |d| {
            d.behind = vec![0];
        });
        for version in [0, 1, 3, 0x81, 0x82, 0xff] {
            let mut bytes = draft.dump();
            bytes[0] = version;
            assert!(dump::decode(&bytes).is_err(), "version {version}");
        }
        assert!(rdb::read(Dialect::Bloomfltr, 1, &mut draft.stream()).is_err());
    }
}

/// Requires that a draft is refused after a change of its pieces.
#[track_caller]
fn refuse_pieces(draft: &Draft, error: &'static str, change: &dyn Fn(&mut Vec<Piece>)) {
    refused(draft, WHOLE, error, |d| change(&mut d.pieces));
}

#[test]
fn wrong_pieces_are_refused() {
    for draft in drafts() {
        let refused =
            |error, change: &dyn Fn(&mut Vec<Piece>)| refuse_pieces(&draft, error, change);
        for (begin, end) in [(0, 0), (5, 4), (0, END + 1), (u64::MAX, 1)] {
            refused("piece out of range", &|p| {
                (p[0].begin, p[0].end) = (begin, end);
            });
        }
        refused("piece out of order", &|p| p[1].begin += 1);
        refused("piece out of order", &|p| p[1].begin -= 1);
        refused("piece out of order", &|p| p.swap(0, 1));
        refused("piece out of order", &|p| drop(p.remove(0)));
        refused("piece out of order", &|p| drop(p.remove(1)));
        refused("piece out of order", &|p| p.push(p[2].clone()));
        refused("missing pieces", &|p| drop(p.pop()));
        refused("missing pieces", &Vec::clear);
        for count in [0, 129, u64::MAX] {
            refused("piece of too many tables", &|p| p[1].count = count);
        }
        let more = draft.window.map_or(0, |(_, periods)| 2 * periods + 4);
        for period in [(1 << 50) + 2 + more, u64::MAX] {
            refused("period out of range", &|p| p[1].newest = period);
            refused("period out of range", &|p| p[1].dropped = period);
        }
        refused("bytes after the object", &|p| p[1].behind = vec![0]);
        refused("bytes after the object", &|p| p[1].count = 1);
    }
}

#[test]
fn wrong_tables_in_pieces_are_refused() {
    for draft in drafts() {
        let refused =
            |error, change: &dyn Fn(&mut Vec<Piece>)| refuse_pieces(&draft, error, change);
        let error = "tables of one number that differ";
        refused(error, &|p| p[1].sections[0].most = 91);
        refused(error, &|p| p[1].sections[1].bits = 22);
        let error = "tables out of order";
        for number in [3, 64, u64::MAX] {
            refused(error, &|p| p[0].sections[0].number = number);
        }
        refused(error, &|p| p[0].sections[1].number = 0);
        let error = "table out of range";
        // The table of 12 bits would claim everything.
        for most in [0, 1 << 12, 1 << 63] {
            refused(error, &|p| p[0].sections[0].most = most);
        }
        for bits in [0, 11, 61, 1 << 32, u64::MAX] {
            refused(error, &|p| p[0].sections[0].bits = bits);
        }
        for k in [13, 64, 1 << 32, u64::MAX] {
            refused(error, &|p| p[0].sections[0].k = k);
        }
        for count in [1 << 20, 1 << 40, u64::MAX] {
            refused(error, &|p| p[0].sections[0].count = count);
        }
    }
}

#[test]
fn wrong_entries_in_pieces_are_refused() {
    for draft in drafts() {
        let refused =
            |error, change: &dyn Fn(&mut Vec<Piece>)| refuse_pieces(&draft, error, change);
        let error = "bytes behind the entries";
        refused(error, &|p| p[0].sections[1].count = 1);
        refused(error, &|p| p[0].sections[1].entries.put(0, 9));
        refused("entries end too early", &|p| {
            let bits = p[0].sections[1].entries.0.len() - 16;
            p[0].sections[1].entries.0.truncate(bits);
        });
        let entry = |error, k: Option<u64>, put: &dyn Fn(&mut Bits)| {
            refused(error, &|p| {
                let section = &mut p[0].sections[0];
                (section.count, section.entries) = (1, Bits::default());
                section.k = k.unwrap_or(section.k);
                put(&mut section.entries);
            });
        };
        // More ones than the range has fingerprints.
        for ones in [1 << 12, 100_000] {
            entry("fingerprint out of range", None, &|bits| {
                bits.ones(ones);
                bits.put(0, 64);
            });
        }
        for log in [64, 65, 1_000].into_iter().filter(|_| draft.kind == 2) {
            entry("count out of range", Some(0), &|bits| {
                bits.put(0, 1);
                bits.ones(log);
                bits.put(0, 64);
            });
        }
        if draft.kind == 1 {
            entry("period out of range", Some(0), &|bits| {
                bits.put(0, 1);
                bits.put(5, 3);
            });
        }
    }
}

/// A length that is wrong takes from what follows, or leaves something behind.
#[test]
fn wrong_lengths_are_refused() {
    for draft in drafts() {
        for length in [0, 1, 5, 60, 1 << 16, 1 << 40, u64::MAX] {
            let mut broken = draft.clone();
            broken.pieces[0].sections[0].length = Some(length);
            for form in WHOLE {
                assert!(broken.error(*form).is_some(), "{length}");
            }
        }
    }
}

/// Fingerprints that are all alike in their first bits are loaded, too, and stored as they were.
#[test]
fn fingerprints_that_are_not_random_are_loaded() {
    for draft in drafts() {
        // Neighbours: no distance, a count of one, the newest period.
        let bits = [4, 2, 1][usize::try_from(draft.kind).unwrap() - 1];
        for entries in [200, 300, 1 << 20] {
            let mut draft = draft.clone();
            draft.pieces.truncate(1);
            let piece = &mut draft.pieces[0];
            (piece.end, piece.count, piece.newest) = (END, 1, 12);
            piece.sections.remove(0);
            let section = &mut piece.sections[0];
            (section.bits, section.k, section.count) = (44, 0, entries);
            section.entries = Bits(vec![false; usize::try_from(entries).unwrap() * bits]);
            let loaded = dump::decode(&draft.dump()).unwrap();
            assert_eq!(loaded.items(|| 0), entries);
            let again = dump::decode(&dump::encode(&loaded).unwrap()).unwrap();
            assert_eq!(dump::encode(&again), dump::encode(&loaded));
        }
    }
}
