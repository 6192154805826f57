//! The pieces of BF.SCANDUMP: loading them, and making a dump of them, without the module's code, and an object of
//! the core.

use std::fmt::Display;

use valkeybloom_sketches::bloom::chunks::{self, Value};
use valkeybloom_sketches::bloom::{Limits, Object};

use crate::harness::{Client, Reply, bulk, ok};

/// The replies of BF.SCANDUMP, as BF.LOADCHUNK takes them: cursors and bytes.
pub type Pieces = Vec<(u64, Vec<u8>)>;

/// Returns the pairs of BF.SCANDUMP, except for the last, empty one.
pub fn pieces(client: &mut Client, key: impl AsRef<[u8]>) -> Pieces {
    pieces_by(|words| client.call(words), key.as_ref())
}

/// Returns the pairs of BF.SCANDUMP, except for the last, empty one, by calls of any client.
pub fn pieces_by(mut call: impl FnMut(&[&[u8]]) -> Reply, key: &[u8]) -> Pieces {
    let mut pieces = Vec::new();
    let mut cursor: u64 = 0;
    loop {
        let from = cursor.to_string();
        let reply = call(&[b"BF.SCANDUMP", key, from.as_bytes()]);
        let [next, bytes] = reply.as_array() else {
            panic!("not a pair: {reply:?}");
        };
        cursor = next.as_int().cast_unsigned();
        if cursor == 0 {
            assert_eq!(*bytes, bulk(""));
            return pieces;
        }
        pieces.push((cursor, bytes.as_bytes().to_vec()));
    }
}

pub fn load_piece(
    client: &mut Client,
    key: impl AsRef<[u8]>,
    piece: &(impl Display, Vec<u8>),
) -> Reply {
    let cursor = piece.0.to_string();
    client.call(&[b"BF.LOADCHUNK", key.as_ref(), cursor.as_bytes(), &piece.1])
}

#[track_caller]
pub fn load_chunks(client: &mut Client, key: impl AsRef<[u8]>, pieces: &[(u64, Vec<u8>)]) {
    let key = key.as_ref();
    for piece in pieces {
        let reply = load_piece(client, key, piece);
        assert_eq!(reply, ok(), "{} at {}", key.escape_ascii(), piece.0);
    }
}

/// Splits chunks into pieces of at most `bytes` bytes. The header stays whole, as do the pieces of tables, whose cursors are
/// not offsets.
pub fn split(pieces: &[(u64, Vec<u8>)], bytes: usize) -> Pieces {
    if pieces
        .get(1)
        .is_some_and(|(cursor, first)| *cursor != first.len() as u64 + 1)
    {
        return pieces.to_vec();
    }
    let mut cursor = 1;
    let mut finer = vec![pieces[0].clone()];
    for chunk in pieces[1..]
        .iter()
        .flat_map(|(_, chunk)| chunk.chunks(bytes))
    {
        cursor += chunk.len() as u64;
        finer.push((cursor, chunk.to_vec()));
    }
    finer
}

/// Returns the dump that BF.LOAD takes, made of the pieces: every bitmap follows its header again.
pub fn dump(pieces: &[(u64, Vec<u8>)]) -> Vec<u8> {
    const PREFIX: usize = 1 + 4 + 8 + 8 + 1 + 8;
    const HEADER: usize = 45;
    let (header, filters) = pieces[0].1.split_at(PREFIX);
    let mut bitmaps = pieces[1..].iter().flat_map(|(_, bytes)| bytes).copied();
    let mut dump = header.to_vec();
    dump[0] = 1;
    // Each filter has a length, the blob's header, and the numbers of items and capacity.
    for filter in filters.chunks(8 + HEADER + 16) {
        let (blob, numbers) = filter[8..].split_at(HEADER);
        let bitmap_bytes = usize::from_le_bytes(blob[1..9].try_into().unwrap());
        dump.extend((HEADER + bitmap_bytes).to_le_bytes());
        dump.extend(blob);
        dump.extend(bitmaps.by_ref().take(bitmap_bytes));
        dump.extend(numbers);
    }
    assert_eq!(bitmaps.next(), None);
    dump
}

/// Returns the object that these pieces are of.
#[track_caller]
pub fn object(pieces: &[(u64, Vec<u8>)]) -> Object {
    let (header, chunks) = pieces.split_first().expect("a header");
    let mut partial = match chunks::begin(&header.1, Limits::NONE).expect("a header") {
        Value::Partial(partial) => partial,
        Value::Complete(object) => return object,
    };
    for (cursor, chunk) in chunks {
        if let Some(object) = partial.load(*cursor, chunk).expect("a chunk") {
            return object;
        }
    }
    panic!("chunks are missing");
}
