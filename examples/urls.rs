//! Answers a crawler's question, "have I seen this address before?", with a running server.
//!
//! ```text
//! cargo run --release --example urls                # adds a million addresses, then looks them up
//! cargo run --release --example urls -- ask         # only looks up, for example after a restart
//! cargo run --release --example urls -- ask 7000    # uses a server on another port
//! ```
//!
//! The addresses are synthetic, but as long and as similar as real ones. The program adds each once, in batches of a
//! thousand, then looks up all of them and a million others.

use std::time::Instant;

use redis::{Commands, Connection, RedisResult};

const KEY: &str = "crawler:seen";
const ADDRESSES: u64 = 1_000_000;
const BATCH: u64 = 1000;
const ERROR_RATE: f64 = 0.01;

/// Returns address number `n`: a site, a path and a query.
fn address(n: u64) -> String {
    let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let (site, page) = (mixed % 50_000, mixed >> 20);
    format!("https://www.site{site}.example/articles/{page:x}?ref=feed&id={n}")
}

/// Sends a command for a million addresses, in batches, and counts the positive answers.
fn batched(connection: &mut Connection, command: &str, from: u64) -> RedisResult<u64> {
    let mut yes = 0;
    for start in (0..ADDRESSES / BATCH).map(|batch| from + batch * BATCH) {
        let mut batch = redis::cmd(command);
        batch.arg(KEY);
        for n in start..start + BATCH {
            batch.arg(address(n));
        }
        let answers: Vec<bool> = batch.query(connection)?;
        yes += answers.into_iter().filter(|answer| *answer).count() as u64;
    }
    Ok(yes)
}

fn main() -> RedisResult<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let only_ask = words.iter().any(|word| word == "ask");
    let port = words.iter().find(|word| word.parse::<u16>().is_ok());
    let port = port.map_or("6379", String::as_str);
    let mut connection =
        redis::Client::open(format!("redis://127.0.0.1:{port}/"))?.get_connection()?;

    let mut timed = |what: &str, command: &str, from: u64| -> RedisResult<u64> {
        let begin = Instant::now();
        let yes = batched(&mut connection, command, from)?;
        let seconds = begin.elapsed().as_secs_f64();
        println!("{what:<38} {yes:>9} yes   {seconds:5.1} s");
        Ok(yes)
    };
    if !only_ask {
        timed("a million addresses, added", "BF.MADD", 0)?;
    }
    let found = timed("the same million, looked up", "BF.MEXISTS", 0)?;
    let others = timed("a million others, looked up", "BF.MEXISTS", ADDRESSES)?;

    #[allow(clippy::cast_precision_loss, reason = "a million is exact")]
    let rate = others as f64 / ADDRESSES as f64;
    println!(
        "false negatives                        {:>9}",
        ADDRESSES - found
    );
    println!(
        "false positives, 1 % requested         {:>8.3} %",
        rate * 100.0
    );
    let bytes: Vec<u64> = redis::cmd("BF.INFO")
        .arg(KEY)
        .arg("SIZE")
        .query(&mut connection)?;
    println!("bytes                                  {:>9}", bytes[0]);
    let exists: bool = connection.exists(KEY)?;
    assert!(exists && found == ADDRESSES && rate <= ERROR_RATE);
    Ok(())
}
