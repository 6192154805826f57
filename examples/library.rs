//! Fetches a filter, looks items up in it, adds them, and sends it back: docs/in-process.md.
//!
//! ```text
//! ./build.sh serve                                  # in one terminal
//! redis-cli BF.ADD seen a                           # in another
//! cargo run --release --example library -- redis://127.0.0.1:6379/ a b
//! ```

use std::error::Error;

use redis::{Connection, RedisResult};
use valkeybloom_sketches::bloom::chunks::{self, Value};
use valkeybloom_sketches::bloom::{Limits, Object, Time};

/// Copies the server's filter into this program's memory.
fn fetch(server: &mut Connection, key: &str) -> Result<Object, Box<dyn Error>> {
    let mut scan = |cursor: u64| -> RedisResult<(u64, Vec<u8>)> {
        let mut command = redis::cmd("BF.SCANDUMP");
        command.arg(key).arg(cursor).query(server)
    };
    let (mut cursor, header) = scan(0)?;
    let mut partial = match chunks::begin(&header, Limits::NONE) {
        Ok(Value::Partial(partial)) => partial,
        Ok(Value::Complete(filter)) => return Ok(filter),
        Err(error) => return Err(error.map_or("too large".into(), |e| e.to_string().into())),
    };
    loop {
        let (next, chunk) = scan(cursor)?;
        if let Some(filter) = partial.load(next, &chunk)? {
            return Ok(filter);
        }
        cursor = next;
    }
}

/// Replaces the server's filter.
fn send(server: &mut Connection, key: &str, filter: &Object) -> RedisResult<()> {
    let unfinished = format!("{{{key}}}:unfinished");
    for (cursor, chunk) in chunks::pieces(filter) {
        let mut load = redis::cmd("BF.LOADCHUNK");
        let load = load.arg(&unfinished).arg(cursor).arg(chunk.bytes());
        load.exec(server)?;
    }
    redis::cmd("RENAME").arg(&unfinished).arg(key).exec(server)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (address, items) = words.split_first().ok_or("name a server, and items")?;
    let mut server = redis::Client::open(address.as_str())?.get_connection()?;

    let mut filter = fetch(&mut server, "seen")?;
    let items = items.iter().map(String::as_bytes);
    filter.contains_each(items.clone(), || 0, |found| println!("found: {found}"));
    let added = |added: Result<_, _>| println!("added: {added:?}");
    filter.add_each(items, Time::default(), None, || Limits::NONE, added);
    send(&mut server, "seen", &filter)?;
    Ok(())
}
