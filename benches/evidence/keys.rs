//! Numbered keys, and filters that take and look up many of them.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Range;
use std::thread;

use valkeybloom_sketches::bloom::{Object, Time};
use valkeybloom_testing::harness::encode;
use valkeybloom_testing::support::ROOMY;

/// Writes the key of a number.
pub(crate) type Key = fn(u64, &mut Vec<u8>);

/// The keys of a batch.
const BATCH: usize = 1000;

/// Keys, end to end.
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn new(numbers: Range<u64>, key: Key) -> Self {
        let mut batch = Self {
            bytes: Vec::new(),
            ends: vec![0],
        };
        for number in numbers {
            key(number, &mut batch.bytes);
            batch.ends.push(batch.bytes.len());
        }
        batch
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.ends
            .windows(2)
            .map(|ends| &self.bytes[ends[0]..ends[1]])
    }
}

fn batches(numbers: Range<u64>, key: Key) -> impl Iterator<Item = Batch> {
    let end = numbers.end;
    let starts = numbers.step_by(BATCH);
    starts.map(move |start| Batch::new(start..end.min(start + BATCH as u64), key))
}

/// Writes a number as decimal digits.
pub(crate) fn decimal(number: u64, key: &mut Vec<u8>) {
    key.extend(itoa::Buffer::new().format(number).bytes());
}

/// Returns the numbers of a sample: of all keys if there are no more than `most`, or else 32 runs, evenly spread.
pub(crate) fn sample(keys: u64, most: u64) -> impl Iterator<Item = Range<u64>> {
    let runs = if keys > most { 32 } else { 1 };
    let length = keys.min(most) / runs;
    (0..runs)
        .map(move |run| keys / runs * run)
        .map(move |start| start..start + length)
}

/// Adds keys to a filter in this process.
pub(crate) fn add(filter: &mut Object, numbers: Range<u64>, key: Key, now_ms: u64) {
    for batch in batches(numbers, key) {
        filter.tidy(now_ms);
        let check = |added: Result<_, _>| assert!(added.is_ok(), "the filter has room");
        filter.add_each(batch.iter(), Time::at(now_ms), || ROOMY, check);
    }
}

/// Returns how many of the keys a filter in this process claims. All processors look them up.
pub(crate) fn found(filter: &Object, numbers: Range<u64>, key: Key, now_ms: u64) -> u64 {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let share = (numbers.end - numbers.start).div_ceil(cores);
    let count = |numbers: Range<u64>| {
        let mut found = 0;
        for batch in batches(numbers, key) {
            filter.contains_each(
                batch.iter(),
                || now_ms,
                |claimed| found += u64::from(claimed),
            );
        }
        found
    };
    thread::scope(|scope| {
        let shares = (0..cores).map(|core| {
            let start = (numbers.start + core * share).min(numbers.end);
            start..numbers.end.min(start + share)
        });
        let threads: Vec<_> = shares
            .map(|numbers| scope.spawn(|| count(numbers)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it counts"))
            .sum()
    })
}

/// Sends this command with these keys to a server, without waiting for replies. Returns how many replies were 1.
pub(crate) fn sent(port: u16, command: &str, numbers: Range<u64>, key: Key) -> u64 {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server is up");
    let mut writer = stream.try_clone().expect("a handle can be copied");
    let requests = batches(numbers.clone(), key);
    thread::scope(|scope| {
        scope.spawn(move || {
            for batch in requests {
                let words = command.split(' ').map(str::as_bytes);
                let mut request = Vec::new();
                encode(&words.chain(batch.iter()).collect::<Vec<_>>(), &mut request);
                writer.write_all(&request).expect("the server reads");
            }
        });
        let mut ones = 0;
        for start in numbers.clone().step_by(BATCH) {
            let keys = usize::try_from(numbers.end - start).map_or(BATCH, |keys| keys.min(BATCH));
            // *1000, and then :0 or :1 for each key.
            let head = format!("*{keys}\r\n");
            let mut reply = vec![0; head.len() + 4 * keys];
            stream.read_exact(&mut reply).expect("the server replies");
            let answers = reply
                .strip_prefix(head.as_bytes())
                .expect("a reply for each key");
            for answer in answers.chunks(4) {
                assert!(
                    answer == b":0\r\n" || answer == b":1\r\n",
                    "{}",
                    answer.escape_ascii()
                );
                ones += u64::from(answer[1] == b'1');
            }
        }
        ones
    })
}
