//! The task that keeps a copy fresh.

use std::hash::{BuildHasher, RandomState};
use std::sync::Weak;
use std::time::Duration;

use redis::{Cmd, ErrorKind, Value};
use tokio::time::{sleep, timeout};
use valkeybloom_near::{Reply, Request, Step, clock};

use crate::batches::TIMEOUT;
use crate::error::Error;

use super::shared::Inner;
use crate::connection::Connection;

/// The shortest timeout of a poll, for copies that may hardly age.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

const UNEXPECTED: &str = "the server sent an unexpected reply";

/// What became of a command.
enum Outcome {
    Replied(Value),
    Refused(String),
    Lost(String),
}

/// Does what the follower says, until the last handle of the copy is dropped.
pub async fn drive(near: Weak<Inner>, connection: impl Connection) {
    // Its keys are random.
    let numbers = RandomState::new();
    let mut number = 0_u64;
    loop {
        let Some(inner) = near.upgrade() else { return };
        let now = clock::now();
        let step = inner.follower_mut().next(now);
        let request = match step {
            Step::Send(request) => request,
            Step::Wait(until) => {
                drop(inner);
                sleep(until.saturating_sub(now)).await;
                continue;
            }
        };
        let (key, max_age) = (inner.key.clone(), inner.max_age);
        drop(inner);
        let mut command = Cmd::new();
        command.arg(request.words(&key));
        let limit = match request {
            Request::Read(_) => max_age.clamp(SHORTEST_TIMEOUT, TIMEOUT),
            Request::Chunk { .. } => TIMEOUT,
        };
        let outcome = match timeout(limit, connection.send(&key, command)).await {
            Ok(Ok(Value::ServerError(error))) => refused(error.code(), error.details()),
            Ok(Ok(value)) => Outcome::Replied(value),
            Ok(Err(error)) => match error.code() {
                Some(code) => refused(code, error.detail()),
                None if error.kind() == ErrorKind::AuthenticationFailed => {
                    refused("WRONGPASS", Some(&error.to_string()))
                }
                None => Outcome::Lost(error.to_string()),
            },
            Err(_) => Outcome::Lost(Error::Timeout.to_string()),
        };
        let Some(inner) = near.upgrade() else { return };
        number += 1;
        let random = fraction(numbers.hash_one(number));
        let reply = reply_of(&request, &outcome);
        inner.follower_mut().take(reply, clock::now(), random);
        inner.changed.notify_waiters();
    }
}

/// Returns a number from 0 to 1 that is as random as a hash.
fn fraction(hash: u64) -> f64 {
    let high = u32::try_from(hash >> 32).unwrap_or_default();
    f64::from(high) / f64::from(u32::MAX)
}

fn refused(code: &str, detail: Option<&str>) -> Outcome {
    let text = [code, detail.unwrap_or_default()].join(" ");
    let advice = if code == "MOVED" {
        "; use a cluster client"
    } else if text.contains("unknown command") && text.contains("BF.READ") {
        "; set Options::refresh to follow a server without BF.READ"
    } else {
        ""
    };
    Outcome::Refused(text.trim_end().to_owned() + advice)
}

fn reply_of<'o>(request: &Request, outcome: &'o Outcome) -> Reply<'o> {
    use Value::{BulkString, Int};
    let value = match outcome {
        Outcome::Replied(value) => value,
        Outcome::Refused(text) => return Reply::Refused(text),
        Outcome::Lost(why) => return Reply::Lost(why),
    };
    let fields = match value {
        Value::Array(fields) => &fields[..],
        _ => &[],
    };
    match (request, fields) {
        (Request::Read(_), [BulkString(cursor), Int(items), BulkString(hashes)]) => Reply::News {
            cursor,
            items: items.cast_unsigned(),
            hashes,
        },
        (Request::Chunk { .. }, [Int(cursor), BulkString(bytes), id @ ..]) => Reply::Chunk {
            cursor: cursor.cast_unsigned(),
            bytes,
            id: match id {
                [BulkString(id)] => id,
                _ => &[],
            },
        },
        _ => Reply::Lost(UNEXPECTED),
    }
}
