//! The keys of a server that hold filters or sketches.

use std::collections::HashSet;

use clap::Args;
use redis::cmd;

use valkeybloom_sketches::bloom::Dialect;

use super::failure::Fault;
use super::server::Server;

/// RedisBloom's types other than its Bloom filter's.
const OTHERS: [&str; 4] = ["MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"];

/// The keys that a subcommand works on.
#[derive(Args)]
pub struct Selection {
    /// Only keys that match a pattern, as of KEYS
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Only keys of a type, as of TYPE
    #[arg(long = "type", value_name = "TYPE", value_parser = [
        "bloomfltr", "bloomfltx", "MBbloom--", "MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE",
    ])]
    kind: Option<String>,
}

/// A key that was found.
pub struct Found {
    /// Its name.
    pub key: Vec<u8>,
    /// Its type, as of TYPE.
    pub kind: String,
}

impl Selection {
    /// Returns the types of the keys.
    pub fn kinds(&self) -> Vec<&str> {
        let own = Dialect::ALL.map(|of| of.type_name().to_str().unwrap_or_default());
        match &self.kind {
            Some(kind) => vec![kind],
            None => own.into_iter().chain(OTHERS).collect(),
        }
    }

    /// Finds the keys on each node of a server, in the order of their names.
    pub fn find(&self, server: &Server) -> Result<Vec<Found>, Fault> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for node in server.primaries()? {
            for kind in self.kinds() {
                let mut cursor = 0_u64;
                loop {
                    let mut scan = cmd("SCAN");
                    scan.arg(cursor)
                        .arg("COUNT")
                        .arg(1000)
                        .arg("TYPE")
                        .arg(kind);
                    if let Some(pattern) = &self.pattern {
                        scan.arg("MATCH").arg(pattern);
                    }
                    let page = server.call_on::<(u64, Vec<Vec<u8>>)>(&node, &scan);
                    let (next, keys) = match page {
                        // Servers that have no such type; some say so.
                        Err(Fault::Refused(text)) if text.contains("unknown type") => (0, vec![]),
                        page => page?,
                    };
                    for key in keys {
                        if seen.insert(key.clone()) {
                            let kind = kind.to_owned();
                            all.push(Found { key, kind });
                        }
                    }
                    cursor = next;
                    if cursor == 0 {
                        break;
                    }
                }
            }
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }
}
