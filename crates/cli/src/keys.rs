//! The keys of a server that hold filters or sketches.

use clap::Args;
use redis::cmd;

use valkeybloom_protocol::names::TYPES;

use super::failure::{Fault, Result};
use super::program::lacking;
use super::server::Server;

/// The most calls of SCAN for a type at a node, each of a thousand keys or more: a server that needs more does not end.
const PAGES: u32 = 1 << 22;

/// The most keys that are found, some gigabytes of them.
const KEYS: usize = 1 << 26;

/// The keys that a subcommand works on.
#[derive(Args)]
pub struct Selection {
    /// Only keys that match a pattern, like those of KEYS
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Only keys of a type, as TYPE returns it; may be repeated
    #[arg(long = "type", value_name = "TYPE", value_parser = TYPES)]
    kinds: Vec<String>,
}

/// A key that was found.
pub struct Found {
    pub key: Vec<u8>,
    /// The key's type, as TYPE returns it.
    pub kind: String,
}

impl Selection {
    /// Returns the types of the keys.
    pub fn kinds(&self) -> Vec<&str> {
        let kinds = TYPES.into_iter();
        let wanted = |kind: &&str| self.kinds.is_empty() || self.kinds.iter().any(|k| k == kind);
        kinds.filter(wanted).collect()
    }

    /// Finds the keys on all nodes of a server, sorted by name.
    ///
    /// # Errors
    /// The server does not have the module, so it holds no filters.
    pub fn find(&self, server: &Server) -> Result<Vec<Found>> {
        let found = self.scan(server, || {});
        found.map_err(|fault| server.failure("could not look for filters at", &fault))
    }

    /// Finds the keys on all nodes of a server, sorted by name, and calls `before_page` before each call of SCAN.
    pub fn scan(
        &self,
        server: &Server,
        mut before_page: impl FnMut(),
    ) -> Result<Vec<Found>, Fault> {
        let mut all = Vec::new();
        for node in server.primaries()? {
            for kind in self.kinds() {
                let mut cursor = 0_u64;
                // A cursor before, to find out whether cursors repeat: a later one each time that the pages have doubled.
                let (mut pages, mut before) = (0_u32, 0);
                loop {
                    pages += 1;
                    if pages > PAGES || all.len() > KEYS || cursor != 0 && cursor == before {
                        return Err(Fault::Lost("SCAN does not end there".to_owned()));
                    }
                    if pages.is_power_of_two() {
                        before = cursor;
                    }
                    let mut scan = cmd("SCAN");
                    scan.arg(cursor).arg(&["COUNT", "1000", "TYPE", kind]);
                    if let Some(pattern) = &self.pattern {
                        scan.arg("MATCH").arg(pattern);
                    }
                    before_page();
                    let page = server.call_on::<(u64, Vec<Vec<u8>>)>(&node, &scan);
                    let (next, keys) = match page {
                        // Some servers refuse to search for a type that they do not have.
                        Err(Fault::Refused(text)) if text.contains("unknown type") => (0, vec![]),
                        page => page?,
                    };
                    all.extend(keys.into_iter().map(|key| {
                        let kind = kind.to_owned();
                        Found { key, kind }
                    }));
                    cursor = next;
                    if cursor == 0 {
                        break;
                    }
                }
            }
        }
        if all.is_empty() {
            lacking(server)?;
        }
        // SCAN may return a key twice.
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all.dedup_by(|a, b| a.key == b.key);
        Ok(all)
    }
}
