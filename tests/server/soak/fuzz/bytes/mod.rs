//! Bytes that are nearly an object, by RESTORE, BF.LOAD and BF.LOADCHUNK.

mod accepted;
mod forged;
mod samples;

use super::super::{Budget, Random};
use super::errors::{BAD_CURSOR, BAD_DATA, BAD_DUMP, BUSY, LOADING, NEWER, OVER};
use super::mutate::{cells_of, edge};
use super::{Command, FILTER_LIMIT, Target, command};
use crate::harness::{Client, Reply, error, ok};
use crate::support::forged::{Rdb, rdb_version, seal};
use crate::support::sums;

use accepted::act_as_objects;
use forged::{ForgedExtended, forged};
use samples::{Samples, TYPE_BYTES};

/// So many commands go out at once.
const BATCH: usize = 128;

/// The counts of a fuzzer.
#[derive(Default)]
struct Totals {
    accepted: u64,
    refused: u64,
    commands: u64,
}

impl Totals {
    fn print(&self, test: &str, rounds: u64) {
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

/// Sends payloads, each to a key of its own. A refused payload gets a text that `refusal` accepts, and leaves no key.
/// Returns the numbers of the accepted ones.
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

#[test]
fn restore_survives_random_payloads() {
    let target = Target::new();
    let mut client = target.server.client();
    let mut random = Random::new("restore_survives_random_payloads");
    let version = rdb_version(&mut client);
    let samples = Samples::of(&mut client).payloads;
    // The type of the last sample.
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
                    0 => Rdb::of(&forged(&mut random)).payload(version),
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
    totals.print("restore_survives_random_payloads", rounds.done());
    assert!(totals.accepted > totals.refused / 10, "few are accepted");
    assert!(totals.refused > totals.accepted / 10, "few are refused");
    // The unchanged objects are intact.
    let kept: Vec<&Command> = unchanged.iter().collect();
    sums::is_balanced(&mut client);
    act_as_objects(&mut client, &mut totals, &kept);
    target.ends_unharmed(client);
}

#[test]
fn load_survives_random_dumps() {
    let target = Target::new();
    let mut client = target.server.client();
    let mut random = Random::new("load_survives_random_dumps");
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
    totals.print("load_survives_random_dumps", rounds.done());
    assert!(totals.accepted > totals.refused / 10, "few are accepted");
    assert!(totals.refused > totals.accepted / 10, "few are refused");
    target.ends_unharmed(client);
}

/// Returns chunks that load all of such bitmaps, and between them some that do not fit; each with its reply.
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
fn loadchunk_survives_random_headers_and_chunks() {
    let target = Target::new();
    let mut client = target.server.client();
    let mut random = Random::new("loadchunk_survives_random_headers_and_chunks");
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
    totals.print(
        "loadchunk_survives_random_headers_and_chunks",
        rounds.done(),
    );
    eprintln!(
        "loadchunk_survives_random_headers_and_chunks: {completed} completed, {misplaced} chunks that do not fit"
    );
    assert!(totals.accepted > totals.refused / 10, "few are accepted");
    assert!(totals.refused > totals.accepted / 10, "few are refused");
    assert!(completed > 1000 && misplaced > 1000, "few are completed");
    target.ends_unharmed(client);
}
