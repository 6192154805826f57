//! Fetches a filter, looks items up in it, adds them, and sends it back: docs/in-process.md.
//!
//! ```text
//! ./build.sh serve                                  # in one terminal
//! redis-cli BF.ADD seen a                           # in another
//! cargo run --release --example library -- redis://127.0.0.1:6379/ a b
//! ```

use std::error::Error;

use redis::{Connection, RedisResult};
use valkeybloom_sketches::bloom::{Limits, Object, Time};
use valkeybloom_sketches::{Seed, Sketch};

/// Copies the server's filter into this program's memory.
fn fetch(server: &mut Connection, key: &str) -> Result<Object, Box<dyn Error>> {
    let payload: Vec<u8> = redis::cmd("DUMP").arg(key).query(server)?;
    match Sketch::from_dump(&payload, Seed::random())? {
        Sketch::Bloom(filter) => Ok(filter),
        _ => Err("not a Bloom filter".into()),
    }
}

/// Replaces the server's filter.
fn send(server: &mut Connection, key: &str, filter: Object) -> RedisResult<()> {
    let payload = Sketch::Bloom(filter).to_dump();
    let mut restore = redis::cmd("RESTORE");
    restore.arg(key).arg(0).arg(payload).arg("REPLACE");
    restore.exec(server)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (address, items) = words.split_first().ok_or("name a server, and items")?;
    let mut server = redis::Client::open(address.as_str())?.get_connection()?;

    let mut filter = fetch(&mut server, "seen")?;
    let items = items.iter().map(String::as_bytes);
    filter.contains_each(items.clone(), || 0, |found| println!("found: {found}"));
    let added = |added: Result<_, _>| println!("added: {added:?}");
    filter.add_each(items, Time::default(), || Limits::NONE, added);
    send(&mut server, "seen", filter)?;
    Ok(())
}
