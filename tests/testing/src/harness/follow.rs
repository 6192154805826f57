//! The commands of a follower over a connection, for tests and benches that have the clock.

use std::io;

use valkeybloom_near::{Reply, Request};

use super::client::{self, Client};

/// What became of a follower's command.
#[derive(Debug)]
pub struct Answer(Result<client::Reply, String>);

impl Answer {
    /// Sends a follower's command, and awaits the reply.
    pub fn to(request: &Request, client: &mut Client, key: &str) -> Self {
        let words = request.words(key.as_bytes());
        let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
        let answer = client.try_call(&words);
        Self(answer.map_err(|error: io::Error| error.to_string()))
    }

    /// Returns the reply that the follower takes.
    ///
    /// # Panics
    /// The reply has a shape that none of its commands has.
    #[track_caller]
    pub fn reply(&self) -> Reply<'_> {
        use client::Reply::{Array, Bulk, Error, Int};
        match &self.0 {
            Err(why) => Reply::Lost(why),
            Ok(Error(text)) => Reply::Refused(text),
            Ok(Array(parts)) => match &parts[..] {
                [Bulk(cursor), Int(items), Bulk(hashes)] => Reply::News {
                    cursor,
                    items: items.cast_unsigned(),
                    hashes,
                },
                [Int(cursor), Bulk(bytes), id @ ..] => Reply::Chunk {
                    cursor: cursor.cast_unsigned(),
                    bytes,
                    id: match id {
                        [Bulk(id)] => id,
                        _ => &[],
                    },
                },
                other => panic!("not a reply to a follower: {other:?}"),
            },
            Ok(other) => panic!("not a reply to a follower: {other:?}"),
        }
    }
}
