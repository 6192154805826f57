//! Bytes of objects as clients make them, in every form.

use super::super::mutate::Sample;
use crate::harness::Client;
use crate::soak::dump_of;
use crate::support::pieces;

/// The length of the type at the beginning of a value in a DUMP.
pub const TYPE_BYTES: usize = 10;
/// The length of the end of a DUMP: a version and a checksum.
pub const FOOTER_BYTES: usize = 10;

/// Objects of clients: one filter, many, fixed ones, another tightening, wide and narrow rates.
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

/// Additions that some of them accept: ids that begin filters, and other periods.
const ADDITIONS: [&str; 3] = [
    "BF.INSERT key NOCREATE ID 9 ITEMS f g h",
    "BF.INSERT key NOCREATE ID 12 ITEMS i j k",
    "BF.INSERT key NOCREATE TTL 1 ITEMS l m",
];

/// Samples of every form.
pub struct Samples {
    pub payloads: Vec<Sample>,
    pub dumps: Vec<Sample>,
    pub headers: Vec<Sample>,
}

impl Samples {
    pub fn of(client: &mut Client) -> Self {
        let mut samples = Self {
            payloads: Vec::new(),
            dumps: Vec::new(),
            headers: Vec::new(),
        };
        for line in CREATIONS {
            assert!(!client.cmd(line).is_error(), "{line}");
            for addition in ADDITIONS {
                // An object refuses additions of another kind.
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

    /// Adds the payload, with compression and without.
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
