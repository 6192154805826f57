//! The two servers of `move` and `compare`.

use clap::Args;

use super::dump;
use super::failure::{Fault, Result};
use super::family::is_filter;
use super::keys::Selection;
use super::program::Capabilities;
use super::server::{Server, Tls};
use super::sketches;

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
        })
    }
}

impl Pair<'_> {
    /// Returns the reason why the target can't take the value of a key; `None` if none is known.
    pub fn obstacle(&self, key: &[u8], kind: &str) -> Result<Option<String>, Fault> {
        let obstacle = self.capabilities.obstacle_of_type(kind);
        if obstacle.is_some() || is_filter(kind) {
            return Ok(obstacle);
        }
        let payload = dump::payload(&self.source, key)?;
        Ok(sketches::obstacle(&payload, self.capabilities.program))
    }
}
