//! Checks that accepted bytes act as an object.

use super::super::errors::{
    DEGRADED, FULL, LOADING, LONG_TTL, NO_COUNTERS, NO_WINDOW, OVER, RATES,
};
use super::super::{Command, command};
use super::{Totals, count, key, shown};
use crate::harness::{Client, Reply, error, ok};

/// Queries of an object, and an add.
const QUESTIONS: [&str; 13] = [
    "MEMORY USAGE KEY",
    "BF.INFO KEY",
    "BF.EXISTS KEY item",
    "BF.ADD KEY item",
    "BF.EXISTS KEY item",
    "BF.CARD KEY",
    "BF.DEBUG KEY",
    "BF.SCANDUMP KEY 0",
    "BF.SCANDUMP KEY 1",
    "TYPE KEY",
    // A digest depends on the time to live, too.
    "PERSIST KEY",
    "DEBUG DIGEST-VALUE KEY",
    "DUMP KEY",
];

/// Operations on a copy of an object. Objects of another kind refuse some of them.
const USES: [&str; 12] = [
    "BF.MISSING KEY x x",
    "BF.MEXISTS KEY x y",
    "BF.COUNT KEY x",
    "BF.INSERT KEY ID 7 ITEMS y z",
    "BF.DEL KEY z ID 7",
    "BF.DEL KEY z",
    "BF.MDEL KEY y x y",
    "BF.INSERT KEY TTL 1 ITEMS ttl",
    "BF.MADD KEY y z",
    "BF.MERGE KEY KEY",
    "COPY KEY copied REPLACE",
    "BF.MERGE merged KEY copied",
];

const REFUSALS: [&str; 8] = [
    LOADING,
    NO_COUNTERS,
    NO_WINDOW,
    LONG_TTL,
    FULL,
    OVER,
    DEGRADED,
    RATES,
];

/// Returns a command whose word `KEY` stands for a key.
fn on(key: &[u8], line: &str) -> Command {
    let words = line.split(' ').map(|word| match word {
        "KEY" => key.to_vec(),
        word => word.as_bytes().to_vec(),
    });
    words.collect()
}

/// Checks that what was accepted acts as an object, and that its dump is the same object.
#[track_caller]
pub fn act_as_objects(client: &mut Client, totals: &mut Totals, loads: &[&Command]) {
    let mut commands: Vec<Command> = Vec::new();
    for load in loads {
        commands.extend(QUESTIONS.map(|line| on(&load[1], line)));
    }
    let replies = totals.call_all(client, &commands);
    let answers: Vec<&[Reply]> = replies.chunks(QUESTIONS.len()).collect();
    let mut commands: Vec<Command> = Vec::new();
    for (number, (load, answers)) in loads.iter().zip(&answers).enumerate() {
        answer_as_object(load, answers);
        let dump = answers[12].as_bytes();
        let copy = key("copy", number);
        commands.push(command(&[b"RESTORE", &copy, b"0", dump]));
        commands.push(command(&[b"DEBUG", b"DIGEST-VALUE", &copy]));
        commands.push(command(&[b"BF.EXISTS", &copy, b"item"]));
        commands.extend(USES.map(|line| on(&copy, line)));
        commands.push(command(&[b"DEL", b"copied", b"merged"]));
    }
    let replies = totals.call_all(client, &commands);
    let replies = replies.chunks(4 + USES.len());
    for ((load, answers), replies) in loads.iter().zip(&answers).zip(replies) {
        let refused = replies[3..].iter().filter(|reply| reply.is_error());
        for reply in refused.map(Reply::text) {
            assert!(REFUSALS.contains(&&*reply), "{reply}: {}", shown(load));
        }
        assert_eq!(replies[0], ok(), "{}", shown(load));
        assert_eq!(replies[1], answers[11], "{}", shown(load));
        if answers[1].is_error() || is_steady(&answers[1]) {
            assert_eq!(replies[2], answers[4], "{}", shown(load));
        }
    }
    let mut remove: Command = vec![b"DEL".to_vec()];
    for (number, load) in loads.iter().enumerate() {
        remove.extend([load[1].clone(), key("copy", number)]);
    }
    if !loads.is_empty() {
        let removed = totals.call_all(client, &[remove]);
        assert_eq!(removed[0].as_int(), count(2 * loads.len()));
    }
}

/// Checks that these are an object's answers, and do not contradict each other.
#[track_caller]
fn answer_as_object(load: &Command, answers: &[Reply]) {
    let [
        usage,
        info,
        before,
        added,
        after,
        card,
        debug,
        header,
        chunk,
        kind,
        ..,
    ] = answers
    else {
        panic!("answers are missing");
    };
    let shown = || format!("{answers:?} after {}", shown(load));
    let sent = load.iter().map(Vec::len).sum::<usize>();
    let most = count(4 * sent + 4096);
    assert!(usage.as_int() < most, "{}", shown());
    let extended = kind.text() == "bloomfltx";
    assert!(extended || kind.text() == "bloomfltr", "{}", shown());
    let loading = error(LOADING);
    if *info == loading {
        for reply in [before, added, after, card, debug, header, chunk] {
            assert_eq!(*reply, loading, "{}", shown());
        }
        return;
    }
    let fields = info.as_array();
    let (capacity, size) = (fields[1].as_int(), fields[3].as_int());
    let (filters, items) = (fields[5].as_int(), fields[7].as_int());
    assert!(size < most, "{}", shown());
    if extended {
        return answer_as_extended(answers, load);
    }
    assert!(capacity > 0 && filters > 0 && items >= 0, "{}", shown());

    let known = match added {
        Reply::Error(text) => {
            assert!(
                [FULL, OVER, DEGRADED].contains(&text.as_str()),
                "{}",
                shown()
            );
            assert_eq!(before.as_int(), 0, "{}", shown());
            0
        }
        added => {
            // It is new just if it was not there.
            assert_eq!(before.as_int() + added.as_int(), 1, "{}", shown());
            1
        }
    };
    assert_eq!(after.as_int(), known, "{}", shown());
    let new = added == &Reply::Int(1);
    let sum = |numbers: &[i64]| numbers.iter().fold(0, |sum: i64, n| sum.saturating_add(*n));
    let items = sum(&[items, i64::from(new)]);
    assert_eq!(card.as_int(), items, "{}", shown());

    let lines = debug.as_array();
    let total = format!("size:{}", card.as_int());
    assert_eq!(lines[0].text(), total, "{}", shown());
    let of_filters = |name: &str| {
        let values = lines[1..].iter().map(|line| {
            let line = line.text();
            let value = line.split(' ').find_map(|word| word.strip_prefix(name));
            value.and_then(|text| text.parse::<i64>().ok())
        });
        values.collect::<Option<Vec<_>>>().expect("in every line")
    };
    let sizes = of_filters("size:");
    assert_eq!(sum(&sizes), card.as_int(), "{}", shown());
    let mut capacities = of_filters("capacity:");
    // A new item may have taken another filter.
    if new && count(sizes.len()) == filters + 1 {
        capacities.pop();
    }
    assert_eq!(count(capacities.len()), filters, "{}", shown());
    assert_eq!(sum(&capacities), capacity, "{}", shown());

    let cursor = header.as_array()[0].as_int();
    assert_eq!(cursor, 1, "{}", shown());
    let [next, bits] = chunk.as_array() else {
        panic!("not a pair: {}", shown());
    };
    let bits = count(bits.as_bytes().len());
    assert_eq!(next.as_int(), 1 + bits, "{}", shown());
    assert_eq!(of_filters("bytes:")[0], bits, "{}", shown());
}

/// The shortest period that counts as lasting.
const LONG_MS: i64 = 100_000_000_000;

/// Returns whether time does not change what an object with periods or counters answers.
fn is_steady(info: &Reply) -> bool {
    let rows = info.as_array().chunks_exact(2);
    let mut window = rows.filter(|row| row[0].text() == "Window");
    window.all(|row| row[1].as_int() >= LONG_MS)
}

/// Checks the answers of an object with periods, expired ones among them, or with counters of any value.
#[track_caller]
fn answer_as_extended(answers: &[Reply], load: &Command) {
    let [
        _,
        info,
        before,
        added,
        after,
        card,
        debug,
        header,
        chunk,
        ..,
    ] = answers
    else {
        panic!("answers are missing");
    };
    let shown = || format!("{answers:?} after {}", shown(load));
    assert_eq!(header.as_array()[0].as_int(), 1, "{}", shown());
    let [next, cells] = chunk.as_array() else {
        panic!("not a pair: {}", shown());
    };
    let cells = count(cells.as_bytes().len());
    // A window without live periods has no cells.
    let end = if cells == 0 { 0 } else { 1 + cells };
    assert_eq!(next.as_int(), end, "{}", shown());
    if let Reply::Error(text) = added {
        let known = [FULL, OVER, DEGRADED].contains(&text.as_str());
        assert!(known, "{}", shown());
    }
    if !is_steady(info) {
        return;
    }
    let fields = info.as_array();
    let (filters, items) = (fields[5].as_int(), fields[7].as_int());
    let new = added == &Reply::Int(1);
    match added {
        Reply::Error(_) => assert_eq!(after, before, "{}", shown()),
        added => {
            assert_eq!(before.as_int() + added.as_int(), 1, "{}", shown());
            assert_eq!(after.as_int(), 1, "{}", shown());
        }
    }
    let lines = debug.as_array();
    // Counters hold the number of items against what is there.
    let counts = lines[1..]
        .iter()
        .any(|line| line.text().ends_with(" cell:4"));
    let more = card.as_int() - items;
    assert!(
        counts || card.as_int() == i64::MAX || (i64::from(new)..=1).contains(&more),
        "{}",
        shown()
    );
    let total = format!("size:{}", card.as_int());
    assert_eq!(lines[0].text(), total, "{}", shown());
    // Only files claim numbers whose sum is capped.
    let mut sizes: i64 = 0;
    for line in &lines[1..] {
        let line = line.text();
        let size = line.split(' ').find_map(|word| word.strip_prefix("size:"));
        let size = size.and_then(|text| text.parse::<i64>().ok());
        sizes = sizes.saturating_add(size.expect("in every line"));
    }
    assert_eq!(sizes, card.as_int(), "{}", shown());
    let opened = count(lines.len() - 1) - filters;
    assert!((0..=1).contains(&opened), "{}", shown());
}
