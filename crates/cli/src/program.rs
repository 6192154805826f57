//! The program that a server runs, and the values that it can't take.

use valkeybloom_protocol::names::{BF_MDEL, BF_SCANDUMP, TYPES};
use valkeybloom_sketches::bloom::Dialect;

use super::failure::{Fault, Result};
use super::family::{Family, dialect_of, is_filter};
use super::held::row::info_command;
use super::server::Server;

/// A program that has filters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    ThisModule,
    RedisBloom,
    ValkeyBloom,
}

/// The values that a server takes.
pub struct Capabilities {
    pub program: Program,
    /// The types that this module was loaded without.
    lacking: Vec<&'static str>,
}

impl Capabilities {
    /// Asks a server, which must have filters or sketches. The user needs no permission.
    pub fn of(server: &Server) -> Result<Self> {
        let failed = |fault| server.failure("could not find filters at", &fault);
        let lacking = lacking(server).map_err(failed)?;
        let has = |command| match server.missing_command(command) {
            Ok(missing) => Ok(missing.is_none()),
            Err(fault) => Err(server.failure("could not talk to", &fault)),
        };
        // Only this module can be loaded without Bloom filters.
        let has_other_families_only = lacking.iter().any(|kind| is_filter(kind));
        let program = if has_other_families_only || has(BF_MDEL)? {
            Program::ThisModule
        } else if has(BF_SCANDUMP)? {
            Program::RedisBloom
        } else {
            Program::ValkeyBloom
        };
        Ok(Self { program, lacking })
    }

    /// Returns the reason why the server can't hold values of a type; `None` if it can.
    pub fn obstacle_of_type(&self, kind: &str) -> Option<String> {
        let dialect = dialect_of(kind);
        let (name, has_type) = match self.program {
            Program::ThisModule if self.lacking.contains(&kind) => {
                let family = Family::of(kind).unwrap_or(Family::Bloom).word();
                return Some(format!(
                    "the target has no {kind}: add {family} to its bf.families"
                ));
            }
            Program::ThisModule => return None,
            Program::RedisBloom => (
                "RedisBloom",
                dialect.is_none_or(|it| it == Dialect::RedisBloom),
            ),
            Program::ValkeyBloom => ("valkey-bloom", dialect == Some(Dialect::Bloomfltr)),
        };
        (!has_type).then(|| format!("{name} has no {kind}"))
    }
}

/// Returns the types that a server lacks. The user needs no permission.
///
/// # Errors
/// It lacks all.
pub fn lacking(server: &Server) -> Result<Vec<&'static str>, Fault> {
    let mut lacking = Vec::new();
    let mut first = None;
    for kind in TYPES {
        if let Some(fault) = server.missing_command(info_command(kind))? {
            lacking.push(kind);
            first.get_or_insert(fault);
        }
    }
    match first {
        Some(fault) if lacking.len() == TYPES.len() => Err(fault),
        _ => Ok(lacking),
    }
}
