//! Chunks and fields of cuckoo filters.

use crate::harness::{Client, Reply, ok, spaced};
pub use crate::plain::cuckoo_header as header;

/// The name of the type.
pub const TYPE: &str = "MBbloomCF";

/// Returns the items `prefix-0` and so on, as words.
pub fn items(prefix: &str, count: usize) -> String {
    spaced((0..count).map(|number| format!("{prefix}-{number}")))
}

/// Returns the value of a field of CF.INFO.
#[track_caller]
pub fn field(client: &mut Client, key: &str, name: &str) -> i64 {
    let info = client.cmd(&format!("CF.INFO {key}"));
    let pairs: Vec<(Reply, Reply)> = match info {
        Reply::Map(pairs) => pairs,
        flat => {
            let pairs = flat.as_array().chunks(2);
            pairs
                .map(|pair| (pair[0].clone(), pair[1].clone()))
                .collect()
        }
    };
    let value = pairs.iter().find(|(own, _)| own.text() == name);
    value.expect("a field").1.as_int()
}

/// Returns all chunks that CF.SCANDUMP returns for a key.
pub fn chunks(client: &mut Client, key: &str) -> Vec<(i64, Vec<u8>)> {
    let (mut cursor, mut chunks) = (0, Vec::new());
    loop {
        let reply = client.cmd(&format!("CF.SCANDUMP {key} {cursor}"));
        let pair = reply.as_array();
        cursor = pair[0].as_int();
        if cursor == 0 {
            assert_eq!(pair[1], Reply::Nil);
            return chunks;
        }
        chunks.push((cursor, pair[1].as_bytes().to_vec()));
    }
}

/// Loads chunks under a key.
#[track_caller]
pub fn load(client: &mut Client, key: &str, chunks: &[(i64, Vec<u8>)]) {
    for (cursor, chunk) in chunks {
        let load = format!("CF.LOADCHUNK {key} {cursor}");
        assert_eq!(client.call_with(&load, &[chunk]), ok(), "{load}");
    }
}
