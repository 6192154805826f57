//! The two servers of `move` and `compare`.

use std::cell::OnceCell;
use std::collections::HashMap;

use clap::Args;

use super::dump;
use super::failure::{Fault, Result};
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
    pub fn obstacle(&self, key: &[u8], kind: &str) -> Result<Option<String>, Fault> {
        let obstacle = self.capabilities.obstacle_of_type(kind);
        if obstacle.is_some() || is_filter(kind) {
            return Ok(obstacle);
        }
        let payload = dump::payload(&self.source, key)?;
        let obstacle = self.obstacle_of_length("its DUMP", payload.len());
        Ok(obstacle.or_else(|| sketches::obstacle(&payload, self.capabilities.program)))
    }

    /// Returns the reason why the target can't take a part of a value, which has this many bytes; `None` if it can. A server
    /// closes the connection at an argument above its limit, so the part must not be sent.
    pub fn obstacle_of_length(&self, part: &str, bytes: usize) -> Option<String> {
        let bytes = bytes as u64;
        if bytes <= LEAST_LIMIT {
            return None;
        }
        let limit = *self.limit.get_or_init(|| limit(&self.target));
        (bytes > limit).then(|| {
            let (bytes, limit) = (grouped(bytes), grouped(limit));
            format!(
                "{part} has {bytes} bytes, and the target takes at most {limit}: raise its {LIMIT}"
            )
        })
    }
}

/// Returns the most bytes of an argument that a server takes: the default, if the user may not read the setting. All nodes
/// of a cluster count as set alike.
fn limit(server: &Server) -> u64 {
    let setting = words(&format!("CONFIG GET {LIMIT}"));
    let setting: Option<HashMap<String, u64>> = server.query(b"", &setting).ok();
    let limit = setting.and_then(|setting| setting.get(LIMIT).copied());
    limit.unwrap_or(DEFAULT_LIMIT)
}
