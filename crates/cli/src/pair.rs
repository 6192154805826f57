//! The two servers of `move` and `compare`.

use std::cell::OnceCell;
use std::collections::HashMap;

use clap::Args;

use super::dump;
use super::failure::{Fault, Result, unless_refused};
use super::family::is_filter;
use super::keys::Selection;
use super::program::Capabilities;
use super::report::grouped;
use super::server::{Server, Tls, words};
use super::sketches;

/// The setting of a server that limits an argument of a command, its default, and its least value.
const LIMIT: &str = "proto-max-bulk-len";
const DEFAULT_LIMIT: u64 = 512 << 20;
const LEAST_LIMIT: u64 = 1 << 20;

/// The servers and the keys of a command line.
#[derive(Args)]
pub struct Between {
    /// The source: redis://user:password@host:port/database, rediss:// for TLS
    source: String,
    /// The target
    target: String,
    #[command(flatten)]
    pub keys: Selection,
}

/// Two servers, and the types of the keys that a run works on.
pub struct Pair<'p> {
    pub source: Server,
    pub target: Server,
    /// What the target takes.
    pub capabilities: Capabilities,
    pub kinds: Vec<&'p str>,
    /// The most bytes of an argument that the target takes, once it was asked.
    limit: OnceCell<u64>,
}

/// A fault, and the server that it comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum SideFault {
    Source(Fault),
    Target(Fault),
}

/// Describes that a key has another type at the target.
pub fn kinds_differ(source: &str, target: &str) -> String {
    format!("its type is {target} at the target, not {source}")
}

impl Between {
    pub fn addresses(&self) -> Vec<&str> {
        vec![&self.source, &self.target]
    }

    pub fn connect(&self, tls: &Tls) -> Result<Pair<'_>> {
        let source = Server::connect(&self.source, tls)?;
        let target = Server::connect(&self.target, tls)?;
        Ok(Pair {
            capabilities: Capabilities::of(&target)?,
            source,
            target,
            kinds: self.keys.kinds(),
            limit: OnceCell::new(),
        })
    }
}

impl Pair<'_> {
    /// Returns the reason why the target can't take the value of a key; `None` if none is known. Reads all of a cuckoo filter
    /// or a sketch, and nothing of a Bloom filter. If the value changes later, so may the reason.
    pub fn obstacle(&self, key: &[u8], kind: &str) -> Result<Option<String>, SideFault> {
        let obstacle = self.capabilities.obstacle_of_type(kind);
        if obstacle.is_some() || is_filter(kind) {
            return Ok(obstacle);
        }
        let payload = dump::payload(&self.source, key).map_err(SideFault::Source)?;
        let obstacle = self.obstacle_of_length("its DUMP", payload.len())?;
        Ok(obstacle.or_else(|| sketches::obstacle(&payload, self.capabilities.program)))
    }

    /// Returns the reason why the target can't take a part of a value, which has this many bytes; `None` if it can. A server
    /// closes the connection at an argument above its limit, so the part must not be sent.
    pub fn obstacle_of_length(
        &self,
        part: &str,
        bytes: usize,
    ) -> Result<Option<String>, SideFault> {
        let read = || match self.limit.get() {
            Some(limit) => Ok(*limit),
            None => limit(&self.target).map(|limit| *self.limit.get_or_init(|| limit)),
        };
        obstacle_of_length(part, bytes as u64, read).map_err(SideFault::Target)
    }
}

/// Returns why a part of a value is too long for a limit, which is read only if it may be.
fn obstacle_of_length(
    part: &str,
    bytes: u64,
    limit: impl FnOnce() -> Result<u64, Fault>,
) -> Result<Option<String>, Fault> {
    if bytes <= LEAST_LIMIT {
        return Ok(None);
    }
    let limit = limit()?;
    Ok((bytes > limit).then(|| {
        let (bytes, limit) = (grouped(bytes), grouped(limit));
        format!("{part} has {bytes} bytes, and the target takes at most {limit}: raise its {LIMIT}")
    }))
}

/// Returns the most bytes of an argument that a server takes: the default, if the user may not read the setting. All nodes
/// of a cluster count as set alike.
fn limit(server: &Server) -> Result<u64, Fault> {
    let setting = server.query(b"", &words(&format!("CONFIG GET {LIMIT}")));
    let setting: Option<HashMap<String, String>> = unless_refused(setting)?;
    let limit = setting.and_then(|setting| setting.get(LIMIT)?.parse().ok());
    Ok(limit.unwrap_or(DEFAULT_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_for_a_part_that_may_exceed_it() {
        let fault = || Fault::Lost("lost".to_owned());
        for (bytes, limit, expected) in [
            (LEAST_LIMIT, None, Ok(None)),
            (LEAST_LIMIT + 1, None, Err(fault())),
            (LEAST_LIMIT + 1, Some(LEAST_LIMIT + 1), Ok(None)),
            (
                LEAST_LIMIT + 2,
                Some(LEAST_LIMIT + 1),
                Ok(Some(
                    "it has 1,048,578 bytes, and the target takes at most 1,048,577: raise its proto-max-bulk-len",
                )),
            ),
        ] {
            let found = obstacle_of_length("it", bytes, || limit.ok_or_else(fault));
            let expected = expected.map(|reason| reason.map(str::to_owned));
            assert_eq!(found, expected, "{bytes}");
        }
    }
}
