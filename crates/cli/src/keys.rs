//! The keys of a server that hold filters or sketches.

use clap::Args;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::cmd;

use valkeybloom_protocol::names::TYPES;

use super::failure::{Fault, Result};
use super::program::lacking;
use super::server::Server;

/// The most calls of SCAN for a type at a node, each of a thousand keys or more: a server that needs more does not end.
const MOST_PAGES: u32 = 1 << 22;

/// The most keys that are found, some gigabytes of them.
const MOST_KEYS: usize = 1 << 26;

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
                let mut search = Search::default();
                while let Some(cursor) = search.cursor() {
                    before_page();
                    let (next, keys) = self.page(server, &node, kind, cursor)?;
                    let may_end = search.advance(next);
                    all.extend(keys.into_iter().map(|key| Found {
                        key,
                        kind: kind.to_owned(),
                    }));
                    if !may_end || all.len() > MOST_KEYS {
                        return Err(Fault::Unusable("SCAN does not end there".to_owned()));
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

    /// Calls SCAN for keys of a type. Returns the next cursor, and keys.
    fn page(
        &self,
        server: &Server,
        node: &SingleNodeRoutingInfo,
        kind: &str,
        cursor: u64,
    ) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg(&["COUNT", "1000", "TYPE", kind]);
        if let Some(pattern) = &self.pattern {
            scan.arg("MATCH").arg(pattern);
        }
        match server.call_on(node, &scan) {
            // Some servers refuse to search for a type that they do not have.
            Err(Fault::Refused(text)) if text.contains("unknown type") => Ok((0, vec![])),
            page => page,
        }
    }
}

/// The cursors of a search by SCAN.
#[derive(Default)]
struct Search {
    /// The last one; 0 before the first page, and after the last.
    cursor: u64,
    pages: u32,
    /// The cursor after the last number of pages that is a power of two. If cursors repeat, one of these is among them.
    earlier: u64,
}

impl Search {
    /// Returns the cursor of the next page, if there is one.
    fn cursor(&self) -> Option<u64> {
        (self.pages == 0 || self.cursor != 0).then_some(self.cursor)
    }

    /// Takes the cursor after a page. Returns false if cursors repeat, or there are too many.
    fn advance(&mut self, next: u64) -> bool {
        let repeats = next != 0 && next == self.earlier;
        self.pages += 1;
        self.cursor = next;
        if self.pages.is_power_of_two() {
            self.earlier = next;
        }
        !repeats && self.pages <= MOST_PAGES
    }
}
