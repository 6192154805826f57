//! Bytes that are nearly an object, by RESTORE, BF.LOAD and BF.LOADCHUNK: the server accepts and refuses what the library
//! does, and what it accepts acts as the same object. `fuzz/` and the core's `accepted` look for bytes that harm.

use super::super::{Budget, Random};
use super::grammar::Library;
use super::words::Talk;
use super::{Command, Target, command};
use crate::harness::{Client, error, ok};
use crate::support::forged::{rdb_version, seal};
use crate::support::pieces::{object, pieces};

/// The objects of one round.
const BATCH: usize = 32;

/// The length of the end of a DUMP: a version and a checksum.
const FOOTER_BYTES: usize = 10;

const EDGES: [u64; 15] = [
    0,
    1,
    2,
    44,
    45,
    64,
    4096,
    4097,
    u32::MAX as u64,
    1 << 32,
    1 << 61,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

const RATES: [f64; 10] = [
    0.5,
    1.0 - f64::EPSILON / 2.0,
    5e-324,
    0.0,
    -0.0,
    1.0,
    -0.01,
    f64::NAN,
    f64::INFINITY,
    f64::MAX,
];

/// What an object is asked and told. Objects of another kind refuse some of it.
const USES: [&str; 21] = [
    "BF.INFO KEY",
    "BF.EXISTS KEY item",
    "BF.ADD KEY item",
    "BF.EXISTS KEY item",
    "BF.CARD KEY",
    "BF.DEBUG KEY",
    "BF.SCANDUMP KEY 0",
    "BF.SCANDUMP KEY 1",
    "COPY KEY copied",
    "BF.MISSING copied x x",
    "BF.COUNT copied x",
    "BF.INSERT copied ID 7 ITEMS y z",
    "BF.DEL copied z ID 7",
    "BF.MDEL copied y x y",
    "BF.INSERT copied TTL 1 ITEMS ttl",
    "BF.MADD copied y z",
    "BF.MERGE copied copied",
    "BF.MERGE merged KEY copied",
    "BF.MEXISTS merged x y",
    "DEL copied",
    "DEL merged",
];

/// Returns a command whose word `KEY` stands for a key.
fn on(key: &[u8], line: &str) -> Command {
    let words = line.split(' ').map(|word| match word {
        "KEY" => key.to_vec(),
        word => word.as_bytes().to_vec(),
    });
    words.collect()
}

/// Returns these bytes with up to three changes after the first `fixed` bytes.
fn mutated(random: &mut Random, bytes: &[u8], fixed: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.below(4) {
        let length = bytes.len() - fixed;
        if length < 2 {
            bytes.extend(random.bytes(3));
            continue;
        }
        // Most fields are near the start.
        let length = if random.one_in(2) {
            length.min(120)
        } else {
            length
        };
        let at = fixed + random.below(length);
        let mut overwrite = |value: [u8; 8], width: usize| {
            let width = bytes[at..].len().min(width);
            bytes[at..at + width].copy_from_slice(&value[..width]);
        };
        match random.below(8) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = *random.pick(&[0, 1, 2, 5, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xff]),
            3 => overwrite(
                random.pick(&EDGES).to_le_bytes(),
                *random.pick(&[1, 2, 4, 8]),
            ),
            4 => overwrite(random.pick(&RATES).to_le_bytes(), 8),
            5 => drop(bytes.remove(at)),
            6 => bytes.insert(at, random.next().to_le_bytes()[0]),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Loads bytes under a key.
fn load(talk: &mut Talk, random: &mut Random, library: &Library, key: &[u8]) {
    if random.one_in(2) {
        let dump = random.pick(&library.dumps).clone();
        let dump = mutated(random, &dump, 0);
        talk.say(&[command(&[b"BF.LOAD", key, &dump])], false);
        return;
    }
    let which = random.below(library.pieces.len());
    let (header, bits) = &library.pieces[which];
    let header = mutated(random, header, 0);
    let mut commands = vec![command(&[b"BF.LOADCHUNK", key, b"1", &header])];
    let mut end = 0;
    for length in &library.lengths[which] {
        end += length;
        let chunk = mutated(random, &bits[end - length..end], 0);
        let cursor = (end + 1).to_string();
        commands.push(command(&[b"BF.LOADCHUNK", key, cursor.as_bytes(), &chunk]));
    }
    // Some stay half loaded.
    commands.truncate(1 + random.below(2 * commands.len()));
    talk.say(&commands, false);
}

/// Restores bytes under a key, and has the model hold what the server made of them.
fn restore(talk: &mut Talk, client: &mut Client, key: &[u8], payload: &[u8]) {
    let reply = client.call(&[b"RESTORE", key, b"0", payload]);
    if reply.is_error() {
        assert_eq!(reply, error("ERR Bad data format"));
        return;
    }
    assert_eq!(reply, ok());
    let name = String::from_utf8(key.to_vec()).expect("a name");
    if client.call(&[b"BF.CARD", key]) == error("ERR bloom object is still being loaded") {
        client.call(&[b"DEL", key]);
        return;
    }
    talk.model.holds(key, object(&pieces(client, &name)));
    // The form that the server saves is the same object.
    let dump = client.call(&[b"DUMP", key]);
    let again = client.call(&[b"RESTORE", b"again", b"0", dump.as_bytes()]);
    assert_eq!(again, ok());
    let digest = |client: &mut Client, key: &[u8]| client.call(&[b"DEBUG", b"DIGEST-VALUE", key]);
    assert_eq!(digest(client, b"again"), digest(client, key));
    client.call(&[b"DEL", b"again"]);
}

#[test]
fn random_bytes_act_as_the_library_has_it() {
    let target = Target::new();
    let mut random = Random::new("random_bytes_act_as_the_library_has_it");
    let mut talk = Talk::with(&target.server);
    let mut client = target.server.client();
    let version = rdb_version(&mut client);
    let library = talk.library();
    // A client's commands make these, the last one excepted.
    let payloads: Vec<Vec<u8>> = (library.dumps[..library.pieces.len()].iter())
        .map(|dump| {
            client.call(&[b"BF.LOAD", b"sample", dump]);
            let payload = client.cmd("DUMP sample").as_bytes().to_vec();
            client.cmd("DEL sample");
            payload[..payload.len() - FOOTER_BYTES].to_vec()
        })
        .collect();
    let (mut accepted, mut sent) = (0, 0);
    let mut rounds = Budget::rounds(400);
    for _ in &mut rounds {
        for number in 0..BATCH {
            let key = format!("new{number}").into_bytes();
            if random.one_in(3) {
                let payload = random.pick(&payloads);
                // The first bytes are the number of the type.
                let payload = seal(mutated(&mut random, payload, 10), version);
                restore(&mut talk, &mut client, &key, &payload);
            } else {
                load(&mut talk, &mut random, &library, &key);
            }
            sent += 1;
            accepted += u64::from(talk.model.has(&key));
            let uses = USES.map(|line| on(&key, line));
            if talk.model.is_steady(&key) {
                talk.say(&uses, random.one_in(2));
            } else {
                // Time changes what it answers.
                client.call_all(&uses);
            }
            client.call(&[b"DEL", &key]);
            talk.model.forgets(&key);
        }
    }
    let rounds = rounds.done();
    eprintln!(
        "random_bytes_act_as_the_library_has_it: {rounds} rounds, {accepted} of {sent} accepted"
    );
    assert!(
        sent / 10 < accepted && accepted < sent * 9 / 10,
        "{accepted} of {sent} are accepted"
    );
    target.ends_unharmed(client);
}
