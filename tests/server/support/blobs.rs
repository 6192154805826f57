//! Commands in one line, with placeholders for bytes.

use std::collections::HashMap;

use crate::harness::{Client, Reply};
use crate::support::cuckoo;
use crate::support::pieces::{dump, pieces};
use crate::support::protocols::truths;

/// The bytes for words in angle brackets.
pub type Blobs = HashMap<&'static str, Vec<u8>>;

pub fn blobs(client: &mut Client) -> Blobs {
    client.expect(
        "BF.INSERT src CAPACITY 100 ITEMS a b",
        truths(false, &[true, true]),
    );
    let pieces = pieces(client, "src");
    let dump = dump(&pieces);
    let header = pieces[0].1.clone();
    let mut newer = dump.clone();
    newer[0] = 2;
    let longer = |bytes: &[u8]| [bytes, b"\0"].concat();
    let shorter = |bytes: &[u8]| bytes[..bytes.len() - 1].to_vec();
    client.expect(
        "BF.INSERT table SCALETO 100 ITEMS a b",
        truths(false, &[true, true]),
    );
    let [header_of_table, table] = &crate::support::pieces::pieces(client, "table")[..] else {
        panic!("not one piece");
    };
    HashMap::from([
        ("<tableheader>", header_of_table.1.clone()),
        ("<piece>", table.1.clone()),
        ("<pieceend>", table.0.to_string().into_bytes()),
        ("<empty>", Vec::new()),
        ("<newer>", newer),
        ("<cut>", shorter(&dump)),
        ("<long>", longer(&dump)),
        ("<cutheader>", shorter(&header)),
        ("<longheader>", longer(&header)),
        ("<header>", header),
        ("<cfheader>", cuckoo::header([1, 32, 0, 1], [2, 20, 1])),
        // All of the bits, and the cursor after them.
        ("<bits>", pieces[1].1.clone()),
        ("<end>", pieces[1].0.to_string().into_bytes()),
        ("<dump>", dump),
        ("<seed>", vec![0xff; 32]),
        ("<seed31>", vec![0xff; 31]),
        ("<seed33>", vec![0xff; 33]),
    ])
}

/// Calls a command, with bytes in place of words in angle brackets.
pub fn send(client: &mut Client, line: &str, blobs: &Blobs) -> Reply {
    send_words(client, line.split(' '), blobs)
}

pub fn send_words<'w>(
    client: &mut Client,
    words: impl Iterator<Item = &'w str>,
    blobs: &Blobs,
) -> Reply {
    let args = words.map(|word| blobs.get(word).map_or(word.as_bytes(), Vec::as_slice));
    client.call(&args.collect::<Vec<_>>())
}
