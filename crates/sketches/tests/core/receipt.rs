//! Receipts: against a plain list of answers, and against bytes that are not theirs.

use valkeybloom_sketches::{Answers, Forgotten, Receipt};

use crate::support::Rng;

/// All answers ever given, from the first position of the receipt on.
#[derive(Default)]
struct Oracle {
    first: u64,
    answers: Vec<bool>,
}

impl Oracle {
    fn end(&self) -> u64 {
        self.first + self.answers.len() as u64
    }

    /// Checks that a receipt has the latest answers, and no wrong ones.
    #[track_caller]
    fn is_kept_in(&self, bytes: &[u8]) {
        let receipt = Receipt::read(bytes).expect("a receipt");
        assert_eq!(receipt.end(), self.end());
        let kept = usize::try_from(receipt.end() - receipt.first()).unwrap();
        let least = self.answers.len().min(Receipt::MOST_ANSWERS);
        assert!((least..least + 512).contains(&kept), "{kept}");
        let forgotten = self.answers.len() - kept;
        assert_eq!(receipt.first(), self.first + forgotten as u64);
        let held = (receipt.first()..receipt.end()).map(|position| receipt.answer(position));
        assert!(held.eq(self.answers[forgotten..].iter().map(|answer| Some(*answer))));
        for outside in [receipt.end(), receipt.end() + 1, u64::MAX] {
            assert_eq!(receipt.answer(outside), None);
        }
        let before = receipt.first().checked_sub(1);
        assert_eq!(before.and_then(|position| receipt.answer(position)), None);
    }
}

fn append(to: &mut Vec<u8>, first: u64, answers: &[bool]) {
    let mut new = Answers::with_room(first, answers.len()).unwrap();
    assert!(new.is_empty());
    for answer in answers {
        new.push(*answer);
    }
    assert_eq!(new.is_empty(), answers.is_empty());
    new.receipt().append_to(to);
    // What is sent says the same.
    let receipt = Receipt::read(new.bytes()).expect("a receipt");
    let sent = (first..receipt.end()).map(|position| receipt.answer(position).unwrap());
    assert!(sent.eq(answers.iter().copied()));
}

#[test]
fn a_receipt_has_the_latest_answers_of_a_list() {
    for (seed, lengths) in [(1, 1..2), (2, 1..30), (3, 900..1100), (4, 1..60_000)] {
        let mut rng = Rng::new(seed);
        let mut oracle = Oracle {
            first: rng.next() >> 24,
            ..Oracle::default()
        };
        let mut bytes = Vec::new();
        let calls = if lengths.end == 2 { 600 } else { 200 };
        for call in 0..calls {
            let length = lengths.start + rng.below(lengths.end - lengths.start);
            let answers: Vec<bool> = (0..length).map(|_| rng.one_in(3)).collect();
            append(&mut bytes, oracle.end(), &answers);
            oracle.answers.extend(answers);
            if call % 10 == 0 || call < 20 {
                oracle.is_kept_in(&bytes);
            }
        }
        oracle.is_kept_in(&bytes);
    }
}

/// Equal answers have equal bytes, however they came, as long as none were forgotten.
#[test]
fn bytes_do_not_depend_on_the_lengths_of_batches() {
    let mut rng = Rng::new(5);
    let answers: Vec<bool> = (0..1000).map(|_| rng.one_in(2)).collect();
    let mut whole = Vec::new();
    append(&mut whole, 7, &answers);
    for length in 1..20 {
        let (mut bytes, mut first) = (Vec::new(), 7);
        for batch in answers.chunks(length) {
            append(&mut bytes, first, batch);
            first += batch.len() as u64;
        }
        assert_eq!(bytes, whole, "{length}");
    }
}

#[test]
fn answers_that_do_not_follow_replace_the_receipt() {
    let mut long = Vec::new();
    append(&mut long, 0, &[true; 5000]);
    for first in [0, 1, 4999, 5001, 9_000_000_000_000_000_000] {
        for old in [&long[..], b"", b"receipt1 ", b"other"] {
            let mut bytes = old.to_vec();
            append(&mut bytes, first, &[false, true]);
            let mut expected = format!("receipt1 {first:019} 000002\n").into_bytes();
            expected.push(0b0100_0000);
            assert_eq!(bytes, expected);
        }
    }
}

#[test]
fn the_longest_batch_leaves_nothing_else() {
    let (mut bytes, mut oracle) = (Vec::new(), Oracle::default());
    for answers in [vec![false; 99_999], vec![true; Receipt::MOST_ANSWERS]] {
        append(&mut bytes, oracle.end(), &answers);
        oracle.answers.extend(answers);
    }
    oracle.is_kept_in(&bytes);
    assert_eq!(Receipt::read(&bytes).unwrap().first(), 99_840);
}

#[test]
fn positions_are_resumed_or_forgotten() {
    let mut bytes = Vec::new();
    append(&mut bytes, 100, &[true; 50]);
    let held = Receipt::read(&bytes);
    let forgotten = |from, to| Err(Forgotten { from, to });
    for (held, position, begins, expected) in [
        (None, 0, false, Ok(0)),
        (None, 0, true, Ok(0)),
        (None, 7, true, Ok(7)),
        (None, 7, false, forgotten(0, 0)),
        (held, 0, false, forgotten(100, 150)),
        (held, 99, false, forgotten(100, 150)),
        (held, 99, true, forgotten(100, 150)),
        (held, 100, false, Ok(150)),
        (held, 120, true, Ok(150)),
        (held, 149, false, Ok(150)),
        (held, 150, false, Ok(150)),
        (held, 150, true, Ok(150)),
        (held, 151, false, forgotten(100, 150)),
        (held, 151, true, Ok(151)),
        (held, u64::MAX, false, forgotten(100, 150)),
    ] {
        let resumed = Receipt::resume(held.as_ref(), position, begins);
        assert_eq!(resumed, expected, "{position} {begins}");
    }
}

#[test]
fn other_bytes_are_no_receipt() {
    let mut good = Vec::new();
    append(&mut good, 12, &[true; 13]);
    assert!(Receipt::read(&good).is_some());
    let edited = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        bytes
    };
    let head = Receipt::HEAD_BYTES;
    let longest = |count: usize| {
        let bits = vec![0; count.div_ceil(8)];
        [format!("receipt1 {:019} {count:06}\n", 0).as_bytes(), &bits].concat()
    };
    assert!(Receipt::read(&longest(100_511)).is_some());
    assert!(Receipt::read(&longest(0)).is_some());
    for bytes in [
        Vec::new(),
        good[..head - 1].to_vec(),
        good[..=head].to_vec(),
        [&good[..], b"\0"].concat(),
        edited(0, b'R'),
        // Another format.
        edited(7, b'2'),
        edited(8, b'0'),
        edited(9, b'-'),
        edited(9, b' '),
        edited(20, b'a'),
        edited(28, b'0'),
        edited(30, b'+'),
        // Another number of answers than bits.
        edited(33, b'2'),
        edited(34, b'7'),
        edited(35, b'\r'),
        // A bit after the last answer.
        edited(head + 1, 0b1111_1100),
        longest(100_512),
        longest(999_999),
        b"receipt1 0000000000000000000 000009\n\0".to_vec(),
    ] {
        assert_eq!(Receipt::read(&bytes), None, "{}", bytes.escape_ascii());
    }
}

/// Whatever a client stores under the key, a receipt is read in one way alone, and answers can be appended.
#[test]
fn forged_bytes_do_no_harm() {
    let mut rng = Rng::new(6);
    let mut seen = 0;
    for round in 0..20_000 {
        let mut bytes = Vec::new();
        let count = rng.below(40);
        let answers: Vec<bool> = (0..count).map(|_| rng.one_in(2)).collect();
        append(&mut bytes, rng.next() >> 2, &answers);
        for _ in 0..rng.below(4) {
            let place = rng.below(bytes.len());
            let any = rng.bytes(1);
            let bytes_to_pick: &[u8] = if round % 2 == 0 { b"0123456789" } else { &any };
            bytes[place] = *rng.pick(bytes_to_pick);
        }
        bytes.truncate(bytes.len() - usize::from(rng.one_in(8)));
        if let Some(receipt) = Receipt::read(&bytes) {
            seen += 1;
            let mut same = Vec::new();
            receipt.append_to(&mut same);
            assert_eq!(same, bytes);
            let mut answers = (receipt.first()..receipt.end()).map(|it| receipt.answer(it));
            assert!(answers.all(|answer| answer.is_some()));
            let (first, end) = (receipt.first(), receipt.end());
            append(&mut bytes, end, &[true]);
            let appended = Receipt::read(&bytes).expect("a receipt");
            assert_eq!((appended.first(), appended.end()), (first, end + 1));
            assert_eq!(appended.answer(end), Some(true));
        } else {
            append(&mut bytes, 3, &[true]);
            assert_eq!(bytes, b"receipt1 0000000000000000003 000001\n\x80");
        }
    }
    assert!((1000..19_000).contains(&seen), "{seen}");
}
