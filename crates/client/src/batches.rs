//! Batches of items as commands, and what their replies say.

use std::time::Duration;

use redis::{Cmd, Value};
use valkeybloom_protocol::batch::next_command;

use crate::error::Error;

/// The default timeout of a command.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The command that looks up several items.
pub const BF_MEXISTS: &str = "BF.MEXISTS";

/// Returns the commands for the items at these positions, each with its number of items. A command consists of words and
/// as many items as fit.
fn commands<'c>(
    words: &'c [&'c [u8]],
    items: &'c [impl AsRef<[u8]>],
    mut positions: &'c [usize],
) -> impl Iterator<Item = (Cmd, usize)> {
    std::iter::from_fn(move || {
        let lengths = positions.iter().map(|&at| items[at].as_ref().len());
        let (count, bytes) = next_command(lengths);
        if count == 0 {
            return None;
        }
        let (now, later) = positions.split_at(count);
        positions = later;
        let word_bytes: usize = words.iter().map(|word| word.len()).sum();
        let mut command = Cmd::with_capacity(words.len() + count, word_bytes + bytes);
        for word in words {
            command.arg(*word);
        }
        for &at in now {
            command.arg(items[at].as_ref());
        }
        Some((command, count))
    })
}

/// Returns the answers to the items at these positions, up to the first command that `send` fails with. The commands are
/// sequential, so that a lost node costs one timeout.
pub async fn answers_to<S: Future<Output = Result<Value, Error>>>(
    words: &[&[u8]],
    items: &[impl AsRef<[u8]>],
    positions: &[usize],
    send: impl Fn(Cmd) -> S,
) -> Vec<Result<bool, Error>> {
    let mut answers = Vec::with_capacity(positions.len());
    for (command, count) in commands(words, items, positions) {
        match send(command).await {
            Ok(reply) => answers.extend(answers_of(reply, count)),
            Err(error) => {
                answers.extend(vec![Err(error); count]);
                break;
            }
        }
    }
    answers
}

/// Returns the answer that a boolean of RESP3 or an integer of RESP2 stands for.
pub fn is_yes(answer: &Value) -> Option<bool> {
    match answer {
        Value::Int(0) => Some(false),
        Value::Int(1) => Some(true),
        Value::Boolean(yes) => Some(*yes),
        _ => None,
    }
}

/// Returns the answers for `count` items. An error ends a reply: the items after it were not tried.
fn answers_of(reply: Value, count: usize) -> Vec<Result<bool, Error>> {
    let elements = match reply {
        Value::Array(elements) if elements.len() <= count => elements,
        _ => Vec::new(),
    };
    let mut answers = Vec::with_capacity(count);
    for element in elements {
        if let Value::ServerError(error) = element {
            answers.push(Err(error.into()));
            answers.resize_with(count, || Err(Error::NotTried));
            return answers;
        }
        answers.push(is_yes(&element).ok_or(Error::Unexpected));
    }
    answers.resize_with(count, || Err(Error::Unexpected));
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_answer_each_item_or_say_why_not() {
        for (reply, expected) in [
            ("*2\r\n:0\r\n:1\r\n", "Ok(false) Ok(true)"),
            ("*2\r\n#f\r\n#t\r\n", "Ok(false) Ok(true)"),
            ("*2\r\n:2\r\n:1\r\n", "Err(Unexpected) Ok(true)"),
            ("*1\r\n:1\r\n", "Ok(true) Err(Unexpected)"),
            (
                "*3\r\n:1\r\n:1\r\n:1\r\n",
                "Err(Unexpected) Err(Unexpected)",
            ),
            ("+OK\r\n", "Err(Unexpected) Err(Unexpected)"),
        ] {
            let reply = redis::parse_redis_value(reply.as_bytes()).expect("it is whole");
            let answers = answers_of(reply, 2);
            let answers: Vec<_> = answers.iter().map(|answer| format!("{answer:?}")).collect();
            assert_eq!(answers.join(" "), expected);
        }
        let refused = redis::parse_redis_value(b"*1\r\n-ERR it is full\r\n");
        let answers = answers_of(refused.expect("it is whole"), 2);
        assert!(matches!(
            answers[..],
            [Err(Error::Node(_)), Err(Error::NotTried)]
        ));
    }
}
