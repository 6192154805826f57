//! New values that are put in place, where the options permit that.

use clap::Args;

use super::adding::Adding;
use super::enough;
use super::filter::{self, Filters, Ready};
use super::source::{Counts, Source};
use super::target::{Plan, Target};
use crate::existing::existing;
use crate::failure::{Failure, Result, shown};
use crate::family::Family;
use crate::held::limits;
use crate::held::row::Row;
use crate::options;
use crate::report::counted;
use crate::server::{Server, Tls};
use crate::upload::{NewExpiry, Upload};

/// What may be replaced, and by what.
#[derive(Args)]
pub struct ReplaceOptions {
    /// Replace the filter or sketch that is there
    #[arg(long)]
    replace: bool,
    /// Replace it even by another family, or a filter that counts or has a window by one that does not
    #[arg(long)]
    change_kind: bool,
    /// Time to live, like 30d
    #[arg(long, value_name = "TIME", value_parser = options::duration_ms)]
    ttl: Option<u64>,
    /// Build it even if the files hold no items, or fewer than half of --items, or of the items that they replace
    #[arg(long)]
    allow_few: bool,
}

/// A run that builds new values, and puts them in place.
pub struct Replacing<'r> {
    pub options: &'r ReplaceOptions,
    pub target: Target,
    /// The number of items, if the options name it.
    pub items: Option<u64>,
    /// The keys: one, or one for each shard.
    pub keys: &'r [String],
    pub source: &'r Source<'r>,
    /// The address of the server.
    pub address: &'r str,
    pub tls: &'r Tls,
}

/// What a run has built.
pub struct Built {
    pub counts: Counts,
    /// The number of items of each key that was replaced, if known.
    pub replaced: Vec<Option<u64>>,
}

impl Replacing<'_> {
    /// Returns whether the items are counted in a first pass, because the capacity depends on their number.
    pub const fn counts_first(&self) -> bool {
        self.target.has_capacity() && self.items.is_none()
    }

    /// Builds the values, and puts them in place.
    pub fn run(&self, server: Server) -> Result<Built> {
        if self.target.family() == Family::Bloom {
            server.require_bloom_filters()?;
        }
        let items_to_replace = self.items_to_replace(&server)?;
        let (counted, server) = if self.counts_first() {
            (self.source.count()?, self.reconnect()?)
        } else {
            (0, server)
        };
        let items = self.items.unwrap_or(counted);
        let require_enough = |counts| self.require_enough(counted, counts, items_to_replace);
        let (counts, replaced) = match self.target.plan(items, self.source.shards) {
            Plan::Local(shape) => {
                let mut filters = Filters::new(&server, self.keys, &shape)?;
                let counts = filters.fill(self.source)?;
                require_enough(&counts)?;
                let server = self.reconnect()?;
                let ready = filters.send(&server, self.source.show)?;
                (counts, self.put_in_place(&server, ready)?)
            }
            Plan::Command(creation) => {
                let (counts, ready) = self.fill_on_server(&server, &creation)?;
                require_enough(&counts)?;
                (counts, self.put_in_place(&server, vec![ready])?)
            }
        };
        Ok(Built { counts, replaced })
    }

    /// Connects again after the files were read: the server, or what is between, may have closed the idle connection.
    fn reconnect(&self) -> Result<Server> {
        Server::connect(self.address, self.tls)
    }

    /// Returns the number of items of the keys that are to be replaced, as far as they are of the target's family.
    fn items_to_replace(&self, server: &Server) -> Result<u64> {
        let mut items = 0;
        for key in self.keys {
            let row = self.check(server, key)?;
            let alike = row.filter(|row| Family::of(&row.kind) == Some(self.target.family()));
            items += alike.and_then(|row| row.items).unwrap_or(0);
        }
        Ok(items)
    }

    /// Creates a value under a temporary key, and has the server fill it.
    fn fill_on_server<'s>(
        &'s self,
        server: &'s Server,
        creation: &[String],
    ) -> Result<(Counts, Ready<'s>)> {
        let key = &self.keys[0];
        let failed = |fault| {
            let what = format!("could not build {} at", shown(key.as_bytes()));
            limits::failure(server, &what, &fault, None)
        };
        let words: Vec<&[u8]> = creation.iter().map(String::as_bytes).collect();
        let mut upload = Upload::create(server, key.as_bytes(), &words).map_err(failed)?;
        let adding = Adding::to_temporary(server, self.target.family(), key, upload.temporary());
        let counts = adding.add(self.source, || upload.renew().map_err(failed))?;
        adding.finish();
        Ok((counts, Ready { key, upload }))
    }

    /// Requires the items that were counted in the first pass, and unless few are allowed, half of those that `--items`
    /// promised or that are to be replaced.
    fn require_enough(&self, counted: u64, counts: &Counts, items_to_replace: u64) -> Result<()> {
        enough::require_counted(counted, counts.items)?;
        if self.options.allow_few {
            return Ok(());
        }
        enough::require_any(counts.items)?;
        enough::require_promised(self.items.unwrap_or(0), counts.items)?;
        // Filters count the items that were new to them.
        let comparable = if self.target.has_capacity() {
            counts.new
        } else {
            counts.items
        };
        enough::require_replaced(items_to_replace, comparable)
    }

    /// Renames the values to their keys, one after another. Returns the number of items that each replaced key had.
    fn put_in_place(&self, server: &Server, ready: Vec<Ready<'_>>) -> Result<Vec<Option<u64>>> {
        let mut replaced = Vec::new();
        let mut waiting = ready.into_iter();
        for place in 0.. {
            let renewed = filter::renew_all(server, waiting.as_mut_slice());
            let Some(next) = waiting.next() else {
                break;
            };
            let put = renewed.and_then(|()| self.put(server, next));
            let row = put.map_err(|failure| match place {
                0 => failure,
                _ => failure.with_note("the shards before it are in place already"),
            })?;
            replaced.extend(row.map(|row| row.items));
        }
        Ok(replaced)
    }

    /// Renames a value to its key. Returns what it replaced.
    fn put(&self, server: &Server, Ready { key, upload }: Ready<'_>) -> Result<Option<Row>> {
        // Another client may have replaced it.
        let replaced = self.check(server, key)?;
        let expires = NewExpiry::of_ttl(self.options.ttl);
        let finished = upload.finish(expires, self.options.replaces());
        if finished.map_err(|fault| server.failure_of("build", key.as_bytes(), &fault))? {
            return Ok(replaced);
        }
        let (key, address) = (shown(key.as_bytes()), server.address());
        Err(Failure::new(format!(
            "could not build {key} at {address}: another client has just created it"
        )))
    }

    /// Returns what a key holds, which the run may replace; `None` if the key does not exist.
    ///
    /// # Errors
    /// The key holds another value, or a filter or sketch that the options do not permit to replace.
    fn check(&self, server: &Server, name: &str) -> Result<Option<Row>> {
        let Some((family, row)) = existing(server, name)? else {
            return Ok(None);
        };
        let Some(obstacle) = self.options.obstacle(&self.target, family, &row) else {
            return Ok(Some(row));
        };
        let (name, address) = (shown(name.as_bytes()), server.address());
        Err(Failure::new(format!("{name} at {address} {obstacle}")))
    }
}

impl ReplaceOptions {
    const fn replaces(&self) -> bool {
        self.replace || self.change_kind
    }

    /// Returns why a target may not replace a value: nothing may, or it is of another family, counts, or has a window.
    fn obstacle(&self, target: &Target, family: Family, row: &Row) -> Option<String> {
        if !self.replaces() {
            let items = items_or_unknown(row.items);
            return Some(format!(
                "exists, with {items}: replace it with --replace, or add to it with --add"
            ));
        }
        if self.change_kind {
            return None;
        }
        let kind = row.bloom().map(|bloom| bloom.kind);
        let difference = target.difference(family, kind)?;
        Some(format!("{difference}, or replace it with --change-kind"))
    }
}

/// Returns a number of items that may be unknown.
pub fn items_or_unknown(items: Option<u64>) -> String {
    items.map_or("unknown items".to_owned(), |items| counted(items, "item"))
}
