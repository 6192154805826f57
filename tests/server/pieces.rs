//! The pieces that BF.SCANDUMP hands out, and the dump that they make, put together here and not by the module's code.

use crate::harness::{Client, Reply, bulk};

/// The pairs that BF.SCANDUMP hands out, all but the last, empty one.
pub fn pieces(client: &mut Client, key: &str) -> Vec<(i64, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut cursor = 0;
    loop {
        let reply = client.cmd(&format!("BF.SCANDUMP {key} {cursor}"));
        let [next, bytes] = reply.as_array() else {
            panic!("not a pair: {reply:?}");
        };
        cursor = next.as_int();
        if cursor == 0 {
            assert_eq!(*bytes, bulk(""));
            return pieces;
        }
        pieces.push((cursor, bytes.as_bytes().to_vec()));
    }
}

pub fn load_piece(client: &mut Client, key: &str, piece: &(i64, Vec<u8>)) -> Reply {
    let cursor = piece.0.to_string();
    client.call(&[b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), &piece.1])
}

/// The dump that BF.LOAD takes, made of the pieces: every bitmap goes back behind its header.
pub fn dump(pieces: &[(i64, Vec<u8>)]) -> Vec<u8> {
    const PREFIX: usize = 1 + 4 + 8 + 8 + 1 + 8;
    const HEADER: usize = 45;
    let (header, filters) = pieces[0].1.split_at(PREFIX);
    let mut bitmaps = pieces[1..].iter().flat_map(|(_, bytes)| bytes).copied();
    let mut dump = header.to_vec();
    dump[0] = 1;
    // Of each filter the length, the blob's header, and the numbers of items and capacity.
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
