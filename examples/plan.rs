//! Answers a mailing service's question without writing: how many addresses of a customer's list are new, and would the
//! list exceed the limit of the customer's plan?
//!
//! ```text
//! ./build.sh serve                                                        # in one terminal
//! cargo run --release --example plan -- list.txt --limit 100000           # in another: only counts
//! cargo run --release --example plan -- list.txt --limit 100000 --insert  # adds what fits the plan
//! ```
//!
//! The filter is fetched with BF.SCANDUMP, or read from a file that `--save` wrote, then queried and filled in this
//! program's own memory. Items that others add while it is fetched may be missing from the copy.
//!
//! A list has one address per line. The program trims spaces and lower-cases the domain; the part before the `@` stays
//! as it is, because case may matter to the server of the domain. Empty lines don't count. The exit status is 0 if the
//! list fits, 1 if it does not, and 2 for an error.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use redis::{Connection, RedisResult};
use valkeybloom_sketches::bloom::chunks::{self, Value};
use valkeybloom_sketches::bloom::{Limits, Object, Time, dump};

/// Counts the addresses of a list that are not in a filter.
#[derive(Parser)]
struct Options {
    /// The list, one address per line
    list: PathBuf,
    /// The largest number of addresses in the plan
    #[arg(long)]
    limit: Option<u64>,
    /// Adds the list to the filter on the server, unless it exceeds the limit
    #[arg(long)]
    insert: bool,
    /// Writes the fetched filter to a file, in the format of BF.LOAD
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Reads the filter from such a file instead of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insert", "save"])]
    load: Option<PathBuf>,
    /// The server with the module
    #[arg(long, default_value = "redis://127.0.0.1:6379/")]
    server: String,
    /// The filter's key on the server
    #[arg(long, default_value = "addresses")]
    key: String,
}

/// The server's behaviour: a filter that may not grow refuses items when it is full.
const LIMITS: Limits = Limits {
    filter_bytes: u64::MAX,
    object_bytes: u64::MAX,
    saturate: false,
};

/// The number of addresses that one command adds.
const BATCH: usize = 1000;

fn normalised(line: &str) -> String {
    match line.trim().rsplit_once('@') {
        Some((local, domain)) => format!("{local}@{}", domain.to_lowercase()),
        None => line.trim().to_owned(),
    }
}

/// Returns the distinct addresses of a list, in its order, and the number of all addresses.
fn addresses(list: &str) -> (Vec<String>, usize) {
    let all = list.lines().map(normalised).filter(|a| !a.is_empty());
    let (mut distinct, mut seen, mut count) = (Vec::new(), HashSet::new(), 0);
    for address in all {
        count += 1;
        if seen.insert(address.clone()) {
            distinct.push(address);
        }
    }
    (distinct, count)
}

/// Copies the server's filter into this program's memory.
fn fetch(connection: &mut Connection, key: &str) -> Result<Object, Box<dyn Error>> {
    let mut scan = |cursor: u64| -> RedisResult<(u64, Vec<u8>)> {
        let mut command = redis::cmd("BF.SCANDUMP");
        command.arg(key).arg(cursor).query(connection)
    };
    let (mut cursor, header) = scan(0)?;
    let begun = chunks::begin(&header, LIMITS);
    let mut partial = match begun.map_err(|e| e.map_or("too large".into(), |e| e.to_string()))? {
        Value::Partial(partial) => partial,
        Value::Complete(filter) => return Ok(filter),
    };
    // The loop ends, because an empty chunk, or a chunk of another filter under this key, is refused.
    loop {
        let (next, chunk) = scan(cursor)?;
        if let Some(filter) = partial.load(next, &chunk)? {
            return Ok(filter);
        }
        cursor = next;
    }
}

/// A clock for plain filters, which never read the time.
const fn any_time() -> u64 {
    0
}

/// Counts the distinct items that are not in the filter, like BF.MISSING, in this program's memory.
fn missing(filter: &Object, items: &[String]) -> u64 {
    let mut missing = 0;
    let items = items.iter().map(String::as_bytes);
    filter.contains_each(items, any_time, |found| missing += u64::from(!found));
    missing
}

/// Adds items to the copy, and sets the same bits as the server would.
fn add(filter: &mut Object, items: &[String]) -> Result<(), String> {
    let mut refusal = None;
    let items = items.iter().map(String::as_bytes);
    let outcome = |added: Result<_, _>| refusal = added.err();
    filter.add_each(items, Time::default(), || LIMITS, outcome);
    refusal.map_or(Ok(()), |refusal| Err(format!("{refusal:?}")))
}

/// Adds items to the server's filter, and returns its new number of items.
fn insert(connection: &mut Connection, key: &str, items: &[String]) -> RedisResult<u64> {
    for batch in items.chunks(BATCH) {
        let mut command = redis::cmd("BF.MADD");
        let _: Vec<bool> = command.arg(key).arg(batch).query(connection)?;
    }
    redis::cmd("BF.CARD").arg(key).query(connection)
}

/// Runs the program, and returns whether the list fits.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let (items, count) = addresses(&fs::read_to_string(&options.list)?);
    let connect = || redis::Client::open(options.server.as_str())?.get_connection();
    let mut filter = match &options.load {
        Some(file) => dump::decode(&fs::read(file)?)?,
        None => fetch(&mut connect()?, &options.key)?,
    };
    if !filter.is_plain() {
        // Answers of a window depend on the time, and a counting filter counts repeated items.
        return Err("the filter has periods or counters".into());
    }
    if let Some(file) = &options.save {
        let dump = dump::encode(&filter);
        let dump = dump.ok_or("BF.LOAD does not take filters of RedisBloom")?;
        fs::write(file, dump)?;
    }

    let (card, new) = (filter.items(any_time), missing(&filter, &items));
    let wanted = card.saturating_add(new);
    let fits = options.limit.is_none_or(|limit| wanted <= limit);
    println!("addresses in the list    {count:>10}");
    println!("distinct                 {:>10}", items.len());
    println!("in the filter            {card:>10}");
    println!("new                      {new:>10}");
    // The result is less than the sum of both if the bits of other addresses in the list claim an address.
    add(&mut filter, &items)?;
    let predicted = filter.items(any_time);
    println!("in the filter with them  {predicted:>10}");
    if let Some(limit) = options.limit {
        let verdict = if fits { "kept" } else { "passed" };
        println!("limit, {verdict:<6}            {limit:>10}");
    }
    if fits && options.insert {
        let card = insert(&mut connect()?, &options.key, &items)?;
        println!("on the server now        {card:>10}");
        if card != predicted {
            return Err("others have written to the filter at the same time".into());
        }
    }
    Ok(fits)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("plan: {error}");
            ExitCode::from(2)
        }
    }
}
