//! Commands whose answers were lost, and the calls that send them again.

use valkeybloom_near::once::{Adding, Once, Receipts, Refusal};

use super::{CREATING, Pair, Reply, begin, next, own, refuse, sent};

#[test]
fn a_call_without_receipts_ends_the_debts() {
    let adding = Adding {
        may_skip_receipts: true,
        ..CREATING
    };
    for next_items in ["a", "b"] {
        let mut pair = Pair::new(Once::new(b"seen", Receipts::Own(7), adding));
        pair.lose("a");
        assert!(pair.once.has_debts());
        pair.server.refusal = Some("NOPERM No permissions to access a key");
        pair.call(next_items, 0).unwrap();
        assert!(!pair.once.has_debts(), "{next_items}");
        pair.lose("c");
        assert!(!pair.once.has_debts());
    }
}

/// All commands were refused, so it was not the receipt's key that the user may not write.
#[test]
fn a_call_that_fails_without_receipts_leaves_the_debts() {
    let adding = Adding {
        may_skip_receipts: true,
        ..CREATING
    };
    let mut once = Once::new(b"seen", Receipts::Own(7), adding);
    let lost = sent(begin(&mut once, &[b"a"], 0));
    once.end(lost, false);
    let mut refused = sent(begin(&mut once, &[b"b"], 0));
    assert_eq!(refuse(&mut refused, "NOPERM no"), Refusal::Without);
    let mut refused = sent(refused);
    assert_eq!(refuse(&mut refused, "NOPERM no"), Refusal::Other);
    once.end(refused, false);
    let (words, items) = next(&mut begin(&mut once, &[b"a"], 0)).unwrap();
    assert!(words.contains(&b"ONCE".to_vec()));
    assert_eq!(items, [b"a"]);
    assert!(begin(&mut once, &[b"b"], 0).has_receipts());
}

/// The limit cuts off the oldest, and not all.
#[test]
fn the_newest_answers_of_a_long_call_are_remembered() {
    let items: Vec<[u8; 4]> = (0..160_000).map(u32::to_le_bytes).collect();
    let items: Vec<&[u8]> = items.iter().map(|item| &item[..]).collect();
    let mut once = own();
    let mut addition = begin(&mut once, &items, 0);
    for _ in 0..15 {
        let (_, sent) = next(&mut addition).unwrap();
        addition.take(vec![true; sent.len()]);
    }
    once.end(sent(addition), false);
    let mut again = begin(&mut once, &items, 0);
    let known = again
        .answers()
        .iter()
        .filter(|answer| answer.is_some())
        .count();
    assert_eq!(known, 90_000);
    let (_, repeated) = next(&mut again).unwrap();
    assert_eq!(repeated, items[150_000..]);
}

/// Otherwise each of the calls would remember it, and its receipt would be free twice.
#[test]
fn a_command_that_calls_send_again_is_not_forgotten() {
    let mut once = own();
    let lost = sent(begin(&mut once, &[b"x", b"y"], 0));
    once.end(lost, false);
    let calls = [b"x", b"y"].map(|item| sent(begin(&mut once, &[item], 0)));
    for batch in 0..11_u32 {
        let items: Vec<_> = (0..10_000).map(|item: u32| (batch, item)).collect();
        let items: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
        let items: Vec<_> = items.iter().map(String::as_bytes).collect();
        let failed = sent(begin(&mut once, &items, 0));
        once.end(failed, false);
    }
    for call in calls {
        once.end(call, false);
    }
    let mut again = begin(&mut once, &[b"x"], 0);
    assert_eq!(next(&mut again).unwrap().1, [b"x", b"y"]);
    again.take([true, true]);
    assert!(next(&mut again).is_none());
    assert_eq!(again.answers(), [Some(true)]);
}

/// Otherwise a third call would add its items where the receipt is to have the answers of the second.
#[test]
fn a_receipt_whose_command_is_still_being_sent_is_not_free() {
    let mut pair = Pair::new(own());
    let lost = sent(begin(&mut pair.once, &[b"a", b"b", b"c"], 0));
    pair.once.end(lost, false);
    let mut calls = [b"a", b"c"].map(|item| begin(&mut pair.once, &[item], 0));
    let [(words, items), later] = calls.each_mut().map(|call| next(call).unwrap());
    pair.server.room = Some(1);
    let Reply(answers, error) = pair.server.reply(&words, &items);
    let [mut first, mut second] = calls;
    first.take(answers);
    assert_eq!(refuse(&mut first, &error.unwrap()), Refusal::Other);
    pair.once.end(first, true);
    pair.server.room = None;
    // This call has the receipt of the first call's own items.
    let open = pair.once.begin(0);
    assert_eq!(pair.call("xyz", 0), Ok("111".into()));
    pair.once.end(open, true);
    let Reply(answers, None) = pair.server.reply(&later.0, &later.1) else {
        panic!("it has room");
    };
    second.take(answers);
    assert_eq!(second.answers(), [Some(true)]);
    pair.once.end(second, true);
    // The item of neither call was new, too.
    assert_eq!(pair.call("bc", 0), Ok("10".into()));
    assert!(!pair.once.has_debts());
}

/// Otherwise each of them would be remembered with the same receipt, which would be free twice.
#[test]
fn a_command_that_one_call_abandons_is_not_remembered_by_the_others() {
    let mut once = own();
    let lost = sent(begin(&mut once, &[b"x", b"y", b"z"], 0));
    once.end(lost, false);
    let [mut first, second, third] =
        [b"x", b"y", b"z"].map(|item| sent(begin(&mut once, &[item], 0)));
    assert_eq!(refuse(&mut first, "ERR not found"), Refusal::Other);
    for call in [first, second, third] {
        once.end(call, false);
    }
    assert!(!once.has_debts());
}

/// One of the calls that sent the command again comes too late for its receipt, but another had the answers.
#[test]
fn answers_that_one_call_got_outlast_the_receipt() {
    let mut once = own();
    let lost = sent(begin(&mut once, &[b"x", b"y", b"z"], 0));
    once.end(lost, false);
    let [mut first, mut late] = [b"x", b"y"].map(|item| sent(begin(&mut once, &[item], 0)));
    first.take([true; 3]);
    once.end(first, true);
    let forgotten = "FORGOTTEN answers are known from 0 to 0";
    let forgotten = refuse(&mut late, forgotten);
    assert!(matches!(forgotten, Refusal::Forgotten(_)));
    once.end(late, false);
    let again = begin(&mut once, &[b"x", b"y", b"z"], 0);
    assert_eq!(again.answers(), [None, Some(true), Some(true)]);
}
