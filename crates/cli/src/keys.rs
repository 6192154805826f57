//! The keys of a server that hold filters or sketches.

use clap::Args;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::cmd;

use valkeybloom_protocol::names::TYPES;

use super::failure::{Fault, Result};
use super::program::lacking;
use super::report::grouped;
use super::server::Server;

/// The most calls of SCAN for a type at a node, each with COUNT 1000: a server that needs more does not end.
const MOST_PAGES: u32 = 1 << 22;

/// The most keys that are found, which take some gigabytes of memory.
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
    /// Those of [`scan`](Self::scan). The text has the server's address.
    pub fn find(&self, server: &Server) -> Result<Vec<Found>> {
        let found = self.scan(server, || {});
        found.map_err(|fault| server.failure("could not look for filters at", &fault))
    }

    /// Finds the keys on all nodes of a server, sorted by name, and calls `before_page` before each call of SCAN.
    ///
    /// # Errors
    /// - A command failed, or its reply is not that of SCAN.
    /// - SCAN does not end at a node.
    /// - More than [`MOST_KEYS`] keys match.
    /// - No key matches, and the server lacks the module.
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
                    search.advance(next)?;
                    all.extend(keys.into_iter().map(|key| Found {
                        key,
                        kind: kind.to_owned(),
                    }));
                    require_few(all.len())?;
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
        match server.query_on(node, &scan) {
            // Some servers refuse to search for a type that they do not have.
            Err(Fault::Refused(text)) if text.contains("unknown type") => Ok((0, vec![])),
            page => page,
        }
    }
}

/// Requires that the number of keys is at most [`MOST_KEYS`].
fn require_few(keys: usize) -> Result<(), Fault> {
    if keys <= MOST_KEYS {
        return Ok(());
    }
    let most = grouped(MOST_KEYS as u64);
    Err(Fault::Unusable(format!(
        "more than {most} keys match: narrow with --match or --type"
    )))
}

/// The cursors of a search by SCAN, checked for repeats by Brent's cycle detection: it compares each cursor with a single
/// earlier one, so it needs no memory for the others.
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

    /// Takes the cursor after a page.
    ///
    /// # Errors
    /// Cursors repeat, or there are more than [`MOST_PAGES`] pages.
    fn advance(&mut self, next: u64) -> Result<(), Fault> {
        let repeats = next != 0 && next == self.earlier;
        self.pages += 1;
        if repeats || self.pages > MOST_PAGES {
            return Err(Fault::Unusable("SCAN does not end there".to_owned()));
        }
        self.cursor = next;
        if self.pages.is_power_of_two() {
            self.earlier = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many pages a search fails, if it does within the cursors.
    fn pages_until_failure(cursors: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut search = Search::default();
        let mut cursors = cursors.into_iter();
        cursors
            .position(|next| search.advance(next).is_err())
            .map(|before| before + 1)
    }

    #[test]
    fn cursors_that_repeat_end_a_search() {
        for first in [0, 1, 2, 7, 100] {
            for length in [1, 2, 3, 64, 1000] {
                let cycle = (first + 1..=first + length).cycle();
                let pages = pages_until_failure((1..=first).chain(cycle));
                let pages = pages.expect("it ends") as u64;
                // Brent's bound: the reference is set within the cycle, at a power of two that is not below its length.
                let bound = 2 * (first + 1).max(length) + length;
                let all = first + length;
                assert!(
                    (all + 1..=bound).contains(&pages),
                    "{first} {length}: {pages}"
                );
            }
        }
    }

    #[test]
    fn different_cursors_reach_the_most_pages() {
        let pages = u64::from(MOST_PAGES);
        assert_eq!(pages_until_failure(1..=pages), None);
        assert_eq!(
            pages_until_failure(1..=pages + 1),
            Some(MOST_PAGES as usize + 1)
        );
    }

    #[test]
    fn a_search_ends_at_cursor_0() {
        let mut search = Search::default();
        assert_eq!(search.cursor(), Some(0));
        search.advance(5).expect("it is new");
        assert_eq!(search.cursor(), Some(5));
        search.advance(0).expect("it is the end");
        assert_eq!(search.cursor(), None);
    }

    #[test]
    fn too_many_keys_are_not_taken_for_a_search_without_end() {
        require_few(MOST_KEYS).expect("there is room");
        let failed = require_few(MOST_KEYS + 1).expect_err("there is none");
        assert_eq!(
            failed.to_string(),
            "more than 67,108,864 keys match: narrow with --match or --type"
        );
    }
}
