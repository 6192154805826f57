//! The task that keeps a copy fresh.

use std::sync::Weak;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisResult, Value};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use valkeybloom_near::{Reply, Request, Step, clock};

use crate::batches::TIMEOUT;
use crate::connection::Connection;
use crate::error::{Error, text_of};
use crate::once::random;

use super::shared::Inner;

/// The shortest timeout of a poll, for copies with a small `max_age`.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

const UNEXPECTED: &str = "the server sent an unexpected reply";

/// What became of a command.
enum Outcome {
    Replied(Value),
    Refused(String),
    Lost(String),
}

/// Carries out the follower's steps, until the last handle of the copy is dropped.
pub async fn drive(near: Weak<Inner>, connection: impl Connection) {
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
        let outcome = outcome_of(timeout(limit, connection.send(&key, command)).await);
        let Some(inner) = near.upgrade() else { return };
        let reply = reply_of(&request, &outcome);
        let mut follower = inner.follower_mut();
        follower.take(reply, clock::now(), random_fraction());
        drop(follower);
        inner.changed.notify_waiters();
    }
}

/// Returns a random number from 0 to 1.
fn random_fraction() -> f64 {
    let high = u32::try_from(random() >> 96).expect("it has 32 bits");
    f64::from(high) / f64::from(u32::MAX)
}

fn outcome_of(result: Result<RedisResult<Value>, Elapsed>) -> Outcome {
    match result {
        Ok(Ok(Value::ServerError(error))) => refused(error.code(), error.details()),
        Ok(Ok(value)) => Outcome::Replied(value),
        Ok(Err(error)) => match error.code() {
            Some(code) => refused(code, error.detail()),
            // The client library does not pass on the server's text.
            None if error.kind() == ErrorKind::AuthenticationFailed => {
                refused("WRONGPASS", Some(&error.to_string()))
            }
            None => Outcome::Lost(error.to_string()),
        },
        Err(_) => Outcome::Lost(Error::Timeout.to_string()),
    }
}

fn refused(code: &str, detail: Option<&str>) -> Outcome {
    let text = text_of(code, detail);
    let advice = if code == "MOVED" {
        "; use a cluster client"
    } else if text.contains("unknown command") && text.contains("BF.READ") {
        "; set Options::refresh to follow a server without BF.READ"
    } else {
        ""
    };
    Outcome::Refused(text + advice)
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
        (Request::Chunk { .. }, [Int(cursor), BulkString(bytes)]) => Reply::Chunk {
            cursor: cursor.cast_unsigned(),
            bytes,
            id: &[],
        },
        (Request::Chunk { .. }, [Int(cursor), BulkString(bytes), BulkString(id)]) => Reply::Chunk {
            cursor: cursor.cast_unsigned(),
            bytes,
            id,
        },
        _ => Reply::Lost(UNEXPECTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_what_was_asked_for_or_lost() {
        let chunk = Request::Chunk {
            cursor: 0,
            with_id: true,
        };
        let read = Request::Read(b"$".to_vec().into());
        for (request, reply, expected) in [
            (&read, "*3\r\n+c\r\n:1\r\n+h\r\n", "Lost"),
            (&read, "*3\r\n$1\r\nc\r\n:1\r\n$0\r\n\r\n", "News"),
            (&read, "*2\r\n:1\r\n$1\r\nb\r\n", "Lost"),
            (&chunk, "*2\r\n:1\r\n$1\r\nb\r\n", "Chunk"),
            (&chunk, "*3\r\n:1\r\n$1\r\nb\r\n$1\r\ni\r\n", "Chunk"),
            (&chunk, "*3\r\n:1\r\n$1\r\nb\r\n:7\r\n", "Lost"),
            (&chunk, "-ERR not found\r\n", "Refused(\"ERR not found\")"),
        ] {
            let reply = redis::parse_redis_value(reply.as_bytes()).expect("it is whole");
            let outcome = outcome_of(Ok(Ok(reply)));
            let taken = format!("{:?}", reply_of(request, &outcome));
            assert!(taken.starts_with(expected), "{taken}");
        }
    }
}
