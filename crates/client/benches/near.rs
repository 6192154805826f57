//! Lookups in a copy that stays fresh, with its lock and its clock, beside those in the filter itself.

use std::hint::black_box;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use redis::{Cmd, RedisFuture, Value};
use tokio::runtime::Runtime;
use valkeybloom_client::Near;
use valkeybloom_client::near::{Connection, Options};
use valkeybloom_sketches::bloom::{Growth, Limits, Object, Params, Tightening, Time, chunks};
use valkeybloom_sketches::{Fraction, Seed};

fn main() {
    divan::main();
}

/// A server in memory.
#[derive(Clone)]
struct Server(Arc<Object>);

impl Connection for Server {
    fn send<'c>(&'c self, _key: &'c [u8], command: Cmd) -> RedisFuture<'c, Value> {
        let words: Vec<Vec<u8>> = command
            .args_iter()
            .map(|word| match word {
                redis::Arg::Simple(word) => word.to_vec(),
                _ => Vec::new(),
            })
            .collect();
        let items = Value::Int(self.0.items(|| 0).cast_signed());
        let reply = match &words[..] {
            [name, _, cursor] if name == b"BF.SCANDUMP" => {
                let cursor = str::from_utf8(cursor).expect("a number");
                let piece = chunks::piece(&self.0, cursor.parse().expect("a number"));
                let (next, bytes) = piece.expect("there is memory");
                let next = Value::Int(next.cast_signed());
                vec![next, Value::BulkString(bytes.into_owned())]
            }
            _ => {
                let cursor = Value::BulkString(b"0000000000000001-0".to_vec());
                vec![cursor, items, Value::BulkString(Vec::new())]
            }
        };
        Box::pin(async { Ok(Value::Array(reply)) })
    }
}

fn item(number: u64) -> String {
    format!("https://example.org/{number}")
}

fn full(capacity: u64) -> Object {
    let params = Params {
        capacity,
        error_rate: Fraction::new(0.01).expect("a rate"),
        tightening: Tightening::HALF,
        growth: Growth::Fixed,
    };
    let mut object = Object::plain(&params, Seed::FIXED, Limits::NONE).expect("there is memory");
    for batch in 0..capacity.div_ceil(1000) {
        let items: Vec<_> = (batch * 1000..(batch + 1) * 1000).map(item).collect();
        let items = items.iter().map(String::as_bytes);
        object.add_each(items, Time::default(), || Limits::NONE, |_| ());
    }
    object
}

/// Items in and out of a filter, in a random order.
fn mixed(capacity: u64) -> Vec<String> {
    let numbers = (0..10_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    numbers
        .map(|number| item(number % (2 * capacity)))
        .collect()
}

/// Returns a copy of a full filter.
fn copy_of(capacity: u64, runtime: &Runtime) -> Near {
    runtime.block_on(async {
        let server = Server(Arc::new(full(capacity)));
        let near = Near::follow(server, "seen", Options::default());
        near.ready().await.expect("it is followed");
        near
    })
}

const CAPACITIES: [u64; 2] = [10_000, 100_000_000];

#[divan::bench(args = CAPACITIES)]
fn filter(bencher: Bencher, capacity: u64) {
    let (object, items) = (full(capacity), mixed(capacity));
    bencher
        .counter(ItemsCount::new(items.len()))
        .bench_local(|| {
            let found = items
                .iter()
                .filter(|item| object.contains(item.as_bytes(), || 0));
            black_box(found.count())
        });
}

#[divan::bench(args = CAPACITIES)]
fn copy(bencher: Bencher, capacity: u64) {
    let (runtime, items) = (Runtime::new().expect("a runtime"), mixed(capacity));
    let near = copy_of(capacity, &runtime);
    bencher
        .counter(ItemsCount::new(items.len()))
        .bench_local(|| {
            let found = items.iter().filter(|item| near.local(item) == Some(true));
            black_box(found.count())
        });
}

#[divan::bench(args = CAPACITIES)]
fn copy_in_batches(bencher: Bencher, capacity: u64) {
    let (runtime, items) = (Runtime::new().expect("a runtime"), mixed(capacity));
    let near = copy_of(capacity, &runtime);
    bencher
        .counter(ItemsCount::new(items.len()))
        .bench_local(|| black_box(runtime.block_on(near.contains_each(&items))));
}
