//! Bytes that are nearly an object, by RESTORE, BF.LOAD and BF.LOADCHUNK.

use super::super::{Budget, Random, dump_of};
use super::model::{BAD_CURSOR, BAD_DATA, BAD_DUMP, BUSY, DEGRADED, FULL, LOADING, NEWER, OVER};
use super::mutate::{RATES, Sample, cells_of, edge};
use super::{Command, FILTER_LIMIT, Target, command};
use crate::forged::{Forged, ForgedFilter, Rdb, rdb_version, seal};
use crate::harness::{Client, Reply, error, ok};
use crate::pieces;

/// So many commands go out at once.
const BATCH: usize = 128;

/// What a value of the type starts with in a DUMP.
const TYPE_BYTES: usize = 10;
/// What ends a DUMP: a version and a checksum.
const FOOTER_BYTES: usize = 10;

/// Objects as clients make them: one filter, many, none that can grow, another tightening, wide and
/// narrow rates.
const CREATIONS: [&str; 15] = [
    "BF.INSERT key CAPACITY 20 ERROR 0.01 ITEMS a b c",
    "BF.INSERT key CAPACITY 2 EXPANSION 1 ITEMS a b c d e f g h i",
    "BF.INSERT key CAPACITY 1 EXPANSION 2 ERROR 0.1 ITEMS a b c d e f g h i j k",
    "BF.INSERT key CAPACITY 10 NONSCALING ITEMS a b c",
    "BF.INSERT key CAPACITY 2 NONSCALING ERROR 0.000001 ITEMS a b",
    "BF.INSERT key CAPACITY 5 TIGHTENING 0.9 EXPANSION 3 ITEMS a b c d e f g h",
    "BF.INSERT key CAPACITY 300 ERROR 0.5 SEED a-seed-of-thirty-two-plain-bytes ITEMS a b",
    "BF.INSERT key CAPACITY 100",
    "BF.INSERT key CAPACITY 3 COUNTING ITEMS a b c d e a b a",
    "BF.INSERT key CAPACITY 2 COUNTING ERROR 0.1 ID 4 ITEMS a b",
    "BF.INSERT key CAPACITY 4 WINDOW 1000000000000 PERIODS 2 TTL 2000000000000 ITEMS a b c d e f",
    "BF.INSERT key CAPACITY 4 NONSCALING WINDOW 10000000000000 PERIODS 3 ITEMS a b",
    "BF.INSERT key CAPACITY 3 WINDOW 1000000000000 PERIODS 2 ITEMS a b c",
    "BF.INSERT key CAPACITY 3 COUNTING ID 7 ITEMS a b c",
    "BF.INSERT key CAPACITY 200 COUNTING ERROR 0.5 SEED a-seed-of-thirty-two-plain-bytes",
];

/// What makes more of some of them: ids that begin filters, and other periods.
const ADDITIONS: [&str; 3] = [
    "BF.INSERT key NOCREATE ID 9 ITEMS f g h",
    "BF.INSERT key NOCREATE ID 12 ITEMS i j k",
    "BF.INSERT key NOCREATE TTL 1 ITEMS l m",
];

/// Samples of every form.
struct Samples {
    payloads: Vec<Sample>,
    dumps: Vec<Sample>,
    headers: Vec<Sample>,
}

impl Samples {
    fn of(client: &mut Client) -> Self {
        let mut samples = Self {
            payloads: Vec::new(),
            dumps: Vec::new(),
            headers: Vec::new(),
        };
        for line in CREATIONS {
            assert!(!client.cmd(line).is_error(), "{line}");
            for addition in ADDITIONS {
                // What an object can't take it refuses.
                client.cmd(addition);
            }
            let pieces = pieces::pieces(client, "key");
            samples.take_payload(client);
            samples.dumps.push(Sample::flat(dump_of(&pieces)));
            samples.headers.push(Sample::flat(pieces[0].1.clone()));
            // Half loaded: nothing but the header, and some of the bits.
            let pieces = pieces::split(&pieces, 3);
            client.cmd("DEL key");
            for stage in [1, pieces.len() / 2, pieces.len() - 1] {
                pieces::load_chunks(client, "key", &pieces[..stage]);
                samples.take_payload(client);
                client.cmd("DEL key");
            }
        }
        samples
    }

    /// As it is written with compression and without.
    fn take_payload(&mut self, client: &mut Client) {
        for compression in ["yes", "no"] {
            client.cmd(&format!("CONFIG SET rdbcompression {compression}"));
            let dump = client.cmd("DUMP key");
            let value = dump.as_bytes();
            let value = value[..value.len() - FOOTER_BYTES].to_vec();
            self.payloads.push(Sample::rdb(value, TYPE_BYTES));
        }
    }
}

/// An object whose lengths are right and whose numbers may be anything.
fn forged(random: &mut Random) -> Forged {
    let mut object = Forged::new();
    let rate = |random: &mut Random| match random.below(3) {
        0 => *random.pick(&RATES),
        _ => *random.pick(&[0.5, 0.01, 0.001]),
    };
    object.expansion = edge(random) & u64::from(u32::MAX);
    object.error_rate = rate(random);
    object.tightening = rate(random);
    object.filters = (0..=random.below(4))
        .map(|_| {
            let length = random.below(40) + usize::from(!random.one_in(20));
            let capacity = if random.one_in(3) { edge(random) } else { 5 };
            let items = match random.below(6) {
                0 => edge(random),
                1 => capacity.wrapping_sub(1),
                _ => capacity,
            };
            let mut filter = ForgedFilter::new(capacity, items, random.bytes(length));
            filter.hashes = *random.pick(&[1, 2, 3, 3, 7, 64, 4096, 4097, 0]);
            filter
        })
        .collect();
    object
}

/// A field of an object with periods or counters.
enum Field {
    Uint(u64),
    Double(f64),
    Bytes(Vec<u8>),
    /// The header of a filter, and its cells.
    Blob(Vec<u8>, Vec<u8>),
}

/// The fields of such an object: their order and lengths are right, and its numbers may be anything.
struct ForgedExtended(Vec<Field>);

impl ForgedExtended {
    fn new(random: &mut Random) -> Self {
        use Field::{Blob, Bytes, Double, Uint};
        let odd = |random: &mut Random, right: u64| match random.below(12) {
            0 => Uint(edge(random)),
            _ => Uint(right),
        };
        let seed = vec![7; 32];
        let options = 1 + random.below(3) as u64;
        // Form 2 is that of counters with ids.
        let with_ids = options == 2 && random.one_in(2);
        let form = 1 + u64::from(with_ids);
        let mut fields = vec![Uint(form), odd(random, options)];
        let expansion = random.below(3) as u64;
        fields.push(odd(random, expansion));
        for _ in 0..2 {
            let rate = if random.one_in(12) {
                &RATES[..]
            } else {
                &[0.5, 0.01]
            };
            fields.push(Double(*random.pick(rate)));
        }
        fields.extend([odd(random, 5), Bytes(seed.clone())]);
        if options & 1 != 0 {
            let length = *random.pick(&[1_000_000_000_000, 10_000_000_000_000, 60_000]);
            fields.extend([odd(random, length), odd(random, 2)]);
        }
        let stacks = random.below(4) as u64;
        fields.push(Uint(stacks));
        for _ in 0..stacks {
            let period = random.below(3) as u64;
            let period = if options & 1 == 0 { 0 } else { period };
            fields.push(odd(random, period));
            let filters = 1 + random.below(3) as u64;
            if options & 2 != 0 && !with_ids {
                let ranges = random.below(3) as u64;
                fields.push(Uint(ranges));
                if ranges > 0 {
                    fields.extend([odd(random, 3), odd(random, 9)]);
                }
                for range in 0..ranges {
                    fields.extend([odd(random, 4 * range), odd(random, range)]);
                }
            }
            fields.push(Uint(filters));
            for _ in 0..filters {
                let cells = random.below(20) + usize::from(!random.one_in(20));
                let hashes: u32 = *random.pick(&[1, 2, 3, 3, 7, 4096, 4097, 0]);
                let (version, width) = if options & 2 != 0 { (2, 4) } else { (1, 1) };
                let length = cells * width;
                let head = [
                    &[version][..],
                    &(cells as u64).to_le_bytes(),
                    &hashes.to_le_bytes(),
                    &seed,
                ];
                fields.push(Blob(head.concat(), random.bytes(length)));
                let items = random.below(6) as u64;
                fields.extend([odd(random, 5), odd(random, items)]);
                if with_ids {
                    let took = random.below(2) as u64;
                    fields.push(Uint(took));
                    if took > 0 {
                        fields.extend([odd(random, 3), odd(random, 9)]);
                    }
                }
            }
        }
        Self(fields)
    }

    /// As RESTORE takes it; the first bytes name the type.
    fn payload(&self, name: &[u8], version: [u8; 2]) -> Vec<u8> {
        let rdb = self
            .0
            .iter()
            .fold(Rdb::default(), |rdb, field| match field {
                Field::Uint(value) => rdb.uint(*value),
                Field::Double(value) => rdb.double(*value),
                Field::Bytes(bytes) => rdb.string(bytes),
                Field::Blob(head, cells) => rdb.string(&[&head[..], cells].concat()),
            });
        let mut value = rdb.payload(version);
        value.truncate(value.len() - FOOTER_BYTES);
        value[..TYPE_BYTES].copy_from_slice(name);
        seal(value, version)
    }

    /// As BF.LOAD takes it, or BF.LOADCHUNK at cursor 1.
    fn flat(&self, whole: bool) -> Vec<u8> {
        let mut out = vec![if whole { 2 } else { 0x82 }];
        for field in &self.0 {
            let cells = if whole { usize::MAX } else { 0 };
            match field {
                Field::Uint(value) => out.extend(value.to_le_bytes()),
                Field::Double(value) => out.extend(value.to_le_bytes()),
                Field::Bytes(bytes) => {
                    out.extend((bytes.len() as u64).to_le_bytes());
                    out.extend(bytes);
                }
                Field::Blob(head, body) => {
                    let body = &body[..body.len().min(cells)];
                    out.extend(((head.len() + body.len()) as u64).to_le_bytes());
                    out.extend(head);
                    out.extend(body);
                }
            }
        }
        out
    }
}

/// What a fuzzer did.
#[derive(Default)]
struct Totals {
    accepted: u64,
    refused: u64,
    commands: u64,
}

impl Totals {
    fn tell(&self, test: &str, rounds: u64) {
        let Self {
            accepted,
            refused,
            commands,
        } = self;
        let payloads = accepted + refused;
        eprintln!(
            "{test}: {rounds} rounds, {payloads} payloads, {accepted} accepted, {refused} refused, {commands} commands"
        );
    }

    fn call_all(&mut self, client: &mut Client, commands: &[Command]) -> Vec<Reply> {
        self.commands += commands.len() as u64;
        client.call_all(commands)
    }
}

fn key(prefix: &str, number: usize) -> Vec<u8> {
    format!("{prefix}{number}").into_bytes()
}

/// Sends bytes, each to a key of its own, and has what is accepted act as an object. What is
/// refused may be answered by the texts that `refusal` accepts, and leaves no key. Gives the numbers of
/// those accepted.
fn load(
    client: &mut Client,
    totals: &mut Totals,
    loads: &[Command],
    refusal: fn(&str) -> bool,
) -> Vec<usize> {
    let replies = totals.call_all(client, loads);
    let mut accepted = Vec::new();
    let mut refused = vec![b"EXISTS".to_vec()];
    for (number, (reply, load)) in replies.iter().zip(loads).enumerate() {
        match reply {
            Reply::Error(text) if refusal(text) => refused.push(load[1].clone()),
            reply => {
                assert_eq!(*reply, ok(), "{}", shown(load));
                accepted.push(number);
            }
        }
    }
    totals.accepted += accepted.len() as u64;
    totals.refused += refused.len() as u64 - 1;
    if refused.len() > 1 {
        let left = totals.call_all(client, &[refused]);
        assert_eq!(left, [Reply::Int(0)], "what is refused leaves no key");
    }
    accepted
}

fn count(length: usize) -> i64 {
    i64::try_from(length).expect("a length")
}

fn shown(load: &Command) -> String {
    let words = load.iter().map(|word| word.escape_ascii().to_string());
    words.collect::<Vec<_>>().join(" ")
}

/// What an object is asked.
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
    // A digest tells a time to live, too.
    "PERSIST KEY",
    "DEBUG DIGEST-VALUE KEY",
    "DUMP KEY",
];

/// Whether what was accepted acts as an object, and its dump is the same object.
#[track_caller]
fn act_as_objects(client: &mut Client, totals: &mut Totals, loads: &[&Command]) {
    let mut commands: Vec<Command> = Vec::new();
    for load in loads {
        for line in QUESTIONS {
            let words = line.split(' ').map(|word| match word {
                "KEY" => load[1].clone(),
                word => word.as_bytes().to_vec(),
            });
            commands.push(words.collect());
        }
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
    }
    let replies = totals.call_all(client, &commands);
    for ((load, answers), replies) in loads.iter().zip(&answers).zip(replies.chunks(3)) {
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

/// Whether these are an object's answers, and do not contradict each other.
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
    // What was new may have taken another filter.
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

/// Of such an object whose periods last long enough, the length of one if there are any.
const LONG_MS: i64 = 100_000_000_000;

/// Whether time does not change what an object with periods or counters answers.
fn is_steady(info: &Reply) -> bool {
    let rows = info.as_array().chunks_exact(2);
    let mut window = rows.filter(|row| row[0].text() == "Window");
    window.all(|row| row[1].as_int() >= LONG_MS)
}

/// The same for an object with periods, of which any may have passed, or with counters, which may hold
/// anything.
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
    // Of a window in which nothing is left there are none.
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
    // Only files claim so many that a sum is cut.
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

#[test]
fn payloads_of_restore() {
    let target = Target::new();
    let mut client = target.server.client();
    let mut random = Random::new("payloads_of_restore");
    let version = rdb_version(&mut client);
    let samples = Samples::of(&mut client).payloads;
    // How the type is named of the last of the samples.
    let extended = samples[samples.len() - 1].bytes[..TYPE_BYTES].to_vec();
    let mut totals = Totals::default();
    let unchanged: Vec<Command> = (samples.iter().enumerate())
        .map(|(number, sample)| {
            let payload = seal(sample.bytes.clone(), version);
            command(&[b"RESTORE", &key("key", number), b"0", &payload])
        })
        .collect();
    let accepted = load(&mut client, &mut totals, &unchanged, |_| false);
    assert_eq!(accepted.len(), samples.len());

    let mut rounds = Budget::rounds(800);
    for _ in &mut rounds {
        let loads: Vec<Command> = (0..BATCH)
            .map(|number| {
                let payload = match random.below(5) {
                    0 => forged(&mut random).rdb().payload(version),
                    1 => ForgedExtended::new(&mut random).payload(&extended, version),
                    _ => {
                        let sample = random.pick(&samples);
                        let mut value = sample.mutated(&mut random, &samples);
                        if random.one_in(200) {
                            // Another encoding version of the type.
                            value[TYPE_BYTES - 1] = random.next().to_le_bytes()[0];
                        }
                        seal(value, version)
                    }
                };
                command(&[b"RESTORE", &key("new", number), b"0", &payload])
            })
            .collect();
        let accepted = load(&mut client, &mut totals, &loads, |text| {
            text == "ERR Bad data format"
        });
        let accepted: Vec<&Command> = accepted.iter().map(|number| &loads[*number]).collect();
        act_as_objects(&mut client, &mut totals, &accepted);
    }
    totals.tell("payloads_of_restore", rounds.done());
    assert!(totals.accepted > totals.refused / 10, "few are accepted");
    assert!(totals.refused > totals.accepted / 10, "few are refused");
    // The unchanged ones are as they were.
    let kept: Vec<&Command> = unchanged.iter().collect();
    crate::sums::is_balanced(&mut client);
    act_as_objects(&mut client, &mut totals, &kept);
    target.ends_unharmed(client);
}

#[test]
fn dumps_of_load() {
    let target = Target::new();
    let mut client = target.server.client();
    let mut random = Random::new("dumps_of_load");
    let samples = Samples::of(&mut client).dumps;
    let mut totals = Totals::default();
    let mut rounds = Budget::rounds(800);
    for _ in &mut rounds {
        let loads: Vec<Command> = (0..BATCH)
            .map(|number| {
                let dump = match random.below(5) {
                    0 => forged(&mut random).dump(),
                    1 => ForgedExtended::new(&mut random).flat(true),
                    _ => random.pick(&samples).mutated(&mut random, &samples),
                };
                let key = key("new", number);
                if random.one_in(4) {
                    command(&[b"BF.LOAD", &key, &dump, b"1000000"])
                } else {
                    command(&[b"BF.LOAD", &key, &dump])
                }
            })
            .collect();
        let accepted = load(&mut client, &mut totals, &loads, |text| {
            [BAD_DUMP, NEWER, OVER].contains(&text)
        });
        let accepted: Vec<&Command> = accepted.iter().map(|number| &loads[*number]).collect();
        act_as_objects(&mut client, &mut totals, &accepted);
    }
    totals.tell("dumps_of_load", rounds.done());
    assert!(totals.accepted > totals.refused / 10, "few are accepted");
    assert!(totals.refused > totals.accepted / 10, "few are refused");
    target.ends_unharmed(client);
}

/// Chunks that load all of such bitmaps, and between them some that do not fit; each with its reply.
fn chunks(random: &mut Random, key: &[u8], bitmaps: &[u64]) -> Vec<(Command, Reply)> {
    let mut chunks = Vec::new();
    let mut done = 0;
    let chunk = |cursor: u64, bytes: &[u8]| {
        let cursor = cursor.to_string();
        command(&[b"BF.LOADCHUNK", key, cursor.as_bytes(), bytes])
    };
    for length in bitmaps {
        let mut left = usize::try_from(*length).expect("small ones only");
        while left > 0 {
            let bytes = random.below(left) + 1;
            let bytes = if random.one_in(3) { left } else { bytes };
            let next = done + bytes as u64;
            if random.one_in(4) {
                let (cursor, bytes) = match random.below(6) {
                    0 => (next + 2, bytes),
                    1 => (next + 1, bytes - 1),
                    2 => (next, bytes),
                    3 => (next + 1, bytes + 1),
                    // Across the end of the filter.
                    4 => (done + left as u64 + 2, left + 1),
                    _ => (edge(random).max(1 << 20), bytes),
                };
                let refusal = match i64::try_from(cursor) {
                    Ok(1) => BUSY,
                    Ok(_) => BAD_DATA,
                    Err(_) => BAD_CURSOR,
                };
                chunks.push((chunk(cursor, &random.bytes(bytes)), error(refusal)));
            }
            chunks.push((chunk(next + 1, &random.bytes(bytes)), ok()));
            done = next;
            left -= bytes;
        }
    }
    chunks
}

#[test]
fn chunks_of_loadchunk() {
    let target = Target::new();
    let mut client = target.server.client();
    let mut random = Random::new("chunks_of_loadchunk");
    let samples = Samples::of(&mut client).headers;
    let mut totals = Totals::default();
    let (mut completed, mut misplaced) = (0_u64, 0_u64);
    let mut rounds = Budget::rounds(500);
    for _ in &mut rounds {
        let loads: Vec<Command> = (0..BATCH)
            .map(|number| {
                let header = match random.below(5) {
                    0 => forged(&mut random).header(),
                    1 => ForgedExtended::new(&mut random).flat(false),
                    _ => random.pick(&samples).mutated(&mut random, &samples),
                };
                command(&[b"BF.LOADCHUNK", &key("new", number), b"1", &header])
            })
            .collect();
        let accepted = load(&mut client, &mut totals, &loads, |text| {
            [BAD_DATA, OVER].contains(&text)
        });
        let mut sent = Vec::new();
        let mut partial = Vec::new();
        for number in &accepted {
            let load = &loads[*number];
            let bitmaps = cells_of(&load[3]);
            let few = bitmaps.iter().sum::<u64>() < 1024;
            if bitmaps.is_empty() || few && !random.one_in(4) {
                sent.extend(chunks(&mut random, &load[1], &bitmaps));
                completed += 1;
            } else {
                partial.push(load[1].clone());
                assert!(bitmaps.iter().all(|bytes| *bytes <= FILTER_LIMIT.into()));
            }
        }
        let commands: Vec<Command> = sent.iter().map(|(chunk, _)| chunk.clone()).collect();
        let replies = totals.call_all(&mut client, &commands);
        for (reply, (chunk, due)) in replies.iter().zip(&sent) {
            misplaced += u64::from(due.is_error());
            assert_eq!(reply, due, "{}", shown(chunk));
        }
        let asked: Vec<Command> = (accepted.iter())
            .map(|number| command(&[b"BF.CARD", &loads[*number][1]]))
            .collect();
        let replies = totals.call_all(&mut client, &asked);
        for (number, reply) in accepted.iter().zip(replies) {
            let half = partial.contains(&loads[*number][1]);
            assert_eq!(reply == error(LOADING), half, "{}", shown(&loads[*number]));
        }
        let accepted: Vec<&Command> = accepted.iter().map(|number| &loads[*number]).collect();
        act_as_objects(&mut client, &mut totals, &accepted);
    }
    totals.tell("chunks_of_loadchunk", rounds.done());
    eprintln!("chunks_of_loadchunk: {completed} completed, {misplaced} chunks that do not fit");
    assert!(totals.accepted > totals.refused / 10, "few are accepted");
    assert!(totals.refused > totals.accepted / 10, "few are refused");
    assert!(completed > 1000 && misplaced > 1000, "few are completed");
    target.ends_unharmed(client);
}
