//! The program that a target runs, and what it can't take.

use valkeybloom_protocol::names::{BF_MDEL, BF_SCANDUMP};
use valkeybloom_sketches::bloom::Dialect;

use super::failure::Result;
use super::server::{Server, dialect_of};

/// A program that has Bloom filters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    ThisModule,
    RedisBloom,
    ValkeyBloom,
}

impl Program {
    /// Asks a server, which must have Bloom filters. The user needs no permission.
    pub fn of(server: &Server) -> Result<Self> {
        server.require_module()?;
        Ok(if server.lacks(BF_MDEL)?.is_none() {
            Self::ThisModule
        } else if server.lacks(BF_SCANDUMP)?.is_none() {
            Self::RedisBloom
        } else {
            Self::ValkeyBloom
        })
    }

    /// Returns the reason why the program can't hold values of a type; `None` if it can.
    pub fn obstacle_of_type(self, kind: &str) -> Option<String> {
        let (name, has_type) = match (self, dialect_of(kind)) {
            (Self::ThisModule, _) => return None,
            (Self::RedisBloom, dialect) => (
                "RedisBloom",
                dialect.is_none_or(|it| it == Dialect::RedisBloom),
            ),
            (Self::ValkeyBloom, dialect) => ("valkey-bloom", dialect == Some(Dialect::Bloomfltr)),
        };
        (!has_type).then(|| format!("{name} has no {kind}"))
    }
}
