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
        (count > 0).then_some((command, count))
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
        Value::Int(number) => Some(*number != 0),
        Value::Boolean(yes) => Some(*yes),
        _ => None,
    }
}

/// Returns the answers for `count` items. An error ends a reply: the items after it were not tried.
fn answers_of(reply: Value, count: usize) -> impl Iterator<Item = Result<bool, Error>> {
    let answers = match reply {
        Value::Array(answers) => answers,
        other => vec![other],
    };
    let answers = answers.into_iter().map(|answer| match answer {
        Value::ServerError(error) => Err(error.into()),
        answer => is_yes(&answer).ok_or(Error::Unexpected),
    });
    let not_tried = std::iter::repeat_with(|| Err(Error::NotTried));
    answers.chain(not_tried).take(count)
}
