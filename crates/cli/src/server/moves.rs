//! Calls of commands while slots move from node to node.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::Value;

use crate::failure::{Fault, Result};

/// The most time that a slot may take to move to another node.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The pause between two calls while a slot moves.
const PAUSE: Duration = Duration::from_millis(50);

/// Has `call` make all calls, and again those whose slots are moving, as long as `pause` permits it. A node that says that a
/// slot moves has not executed the command. Returns the last reply to each call.
pub fn until_moved<C: Copy>(
    calls: &[C],
    mut call: impl FnMut(&[C]) -> Vec<Result<Value, Fault>>,
    mut pause: impl FnMut() -> bool,
) -> Vec<Result<Value, Fault>> {
    let mut replies = call(calls);
    loop {
        let is_early = |index: &usize| replies[*index].as_ref().is_err_and(Fault::is_slot_moving);
        let early: Vec<_> = (0..calls.len()).filter(is_early).collect();
        if early.is_empty() || !pause() {
            return replies;
        }
        let again: Vec<_> = early.iter().map(|index| calls[*index]).collect();
        for (index, reply) in early.into_iter().zip(call(&again)) {
            replies[index] = reply;
        }
    }
}

/// Returns a function that pauses, and then permits another call, until a slot must have moved.
pub fn pauses() -> impl FnMut() -> bool {
    let mut start = None;
    move || {
        // The replies before the first pause may have taken longer than a slot does.
        let is_within = start.get_or_insert_with(Instant::now).elapsed() < TIMEOUT;
        if is_within {
            sleep(PAUSE);
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Reply = Result<Value, Fault>;

    fn refused(text: &str) -> Reply {
        Err(Fault::Refused(text.to_owned()))
    }

    /// Returns a call that requires the calls of each row in turn, and returns the row's replies.
    fn scripted(mut script: Vec<(&'static [u8], Vec<Reply>)>) -> impl FnMut(&[u8]) -> Vec<Reply> {
        script.reverse();
        move |calls| {
            let (expected, replies) = script.pop().expect("no more calls are due");
            assert_eq!(calls, expected);
            replies
        }
    }

    #[test]
    fn only_calls_to_moving_slots_are_made_again() {
        let call = scripted(vec![
            (
                b"abcd",
                vec![
                    refused("ASK 1 127.0.0.1:1"),
                    Ok(Value::Int(1)),
                    refused("ERR other"),
                    refused("CLUSTERDOWN Hash slot not served"),
                ],
            ),
            (
                b"ad",
                vec![Ok(Value::Int(2)), refused("TRYAGAIN Multiple keys")],
            ),
            (b"d", vec![Ok(Value::Int(3))]),
        ]);
        let mut pauses = 0;
        let replies = until_moved(b"abcd", call, || {
            pauses += 1;
            true
        });
        assert_eq!(
            replies,
            [
                Ok(Value::Int(2)),
                Ok(Value::Int(1)),
                refused("ERR other"),
                Ok(Value::Int(3)),
            ]
        );
        assert_eq!(pauses, 2);
    }

    #[test]
    fn a_slot_that_moves_for_too_long_is_a_fault() {
        let moving = || refused("MOVED 1 127.0.0.1:1");
        let call = scripted(vec![(b"a", vec![moving()]), (b"a", vec![moving()])]);
        let mut permits = [true, false].into_iter();
        let replies = until_moved(b"a", call, || permits.next().expect("it has ended"));
        assert_eq!(replies, [moving()]);
    }

    #[test]
    fn without_calls_there_is_no_pause() {
        let call = scripted(vec![(b"", Vec::new())]);
        assert_eq!(until_moved(b"", call, || panic!("a pause")), []);
    }
}
