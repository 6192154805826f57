//! `valkeybloom move`: copies the filters of a server to another server, unchanged.
//!
//! Small filters go by DUMP and RESTORE, in one step. Large filters, and those whose DUMP the target can't read, go by
//! BF.SCANDUMP and BF.LOADCHUNK into a [temporary key](super::upload). valkey-bloom has no chunks, so its filters go by
//! DUMP whatever their size, like the values of RedisBloom's other types. A [`transfer()`] tries these ways.
//!
//! A key arrives at the target whole or not at all, and the source is only read, so a second run completes an aborted
//! one.

mod stop;
mod transfer;

use clap::Args;
use redis::cmd;
use serde_json::json;

use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::error::Error;

use super::difference::compare;
use super::failure::{Fault, Meaning, Result};
use super::family::is_filter;
use super::info::Info;
use super::keys::Found;
use super::outcomes::{Fate, Outcome, Outcomes};
use super::pair::{Between, Pair, SideFault, kinds_differ};
use super::progress::{Progress, Show};
use super::report::{grouped, print_json, print_line};
use super::server::{Server, Tls};
use super::sketches::Verdict;
use super::upload::is_temporary;

use stop::Stop;
use transfer::transfer;

/// The most attempts at a key that changes while it is copied.
const ATTEMPTS: u32 = 3;

/// The reasons for a key that was created at the target in every attempt, or that changed.
const TAKEN: &str = "another client created it at the target: run this again";
const CHANGES: &str = "it changes while it is copied: stop its writers, or run this again";

/// The columns of the table, and their widths.
const COLUMNS: [(Fate, usize); 4] = [
    (Fate::Moved, 10),
    (Fate::Replaced, 10),
    (Fate::Skipped, 10),
    (Fate::Refused, 10),
];

/// The columns of the table of a dry run, and their widths.
const DRY_COLUMNS: [(Fate, usize); 4] = [
    (Fate::WouldMove, 12),
    (Fate::WouldReplace, 15),
    (Fate::Skipped, 10),
    (Fate::Refused, 10),
];

/// Copy the filters of one server to another
#[derive(Args)]
pub struct Move {
    #[command(flatten)]
    pub between: Between,
    /// Replace filters that exist at the target
    #[arg(long)]
    replace: bool,
    /// Only report what would be done, and what the target can't take
    #[arg(long)]
    dry_run: bool,
    /// Compare parameters, items, every bit and the time to live afterwards
    #[arg(long)]
    verify: bool,
}

/// What to do with a key, by its types at both servers.
#[derive(Debug, PartialEq)]
enum Plan {
    /// Copy it. This is its outcome if nothing goes wrong.
    Copy(Fate),
    /// Leave the target's value in place.
    Keep,
}

impl Move {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let pair = self.between.connect(tls)?;
        let filters = self.between.keys.find(&pair.source)?;
        let bar = if self.dry_run { Show::Nothing } else { show };
        let total = Some(filters.len() as u64);
        let mut moving = Moving {
            options: self,
            pair: &pair,
            outcomes: Outcomes::default(),
            bytes: 0,
            progress: Progress::new(bar, "moving", "bytes", total),
            done: 0,
        };
        let mut filters = filters.into_iter();
        let ended = filters.try_for_each(|found| moving.copy_and_record(found));
        let outcomes = moving.outcomes;
        moving.progress.end(moving.bytes);
        let is_refused = |fate| fate == Fate::Refused;
        let what = ["could not be moved"; 2];
        let ended = ended.and_then(|()| outcomes.require_none(is_refused, what));
        if json {
            let found = json!({ "dry_run": self.dry_run, "keys": outcomes.keys_json() });
            return print_json(found, ended);
        }
        self.print(&outcomes, show);
        ended
    }

    /// Prints the keys whose outcome the user may not expect, and the totals.
    fn print(&self, outcomes: &Outcomes, show: Show) {
        for outcome in &outcomes.listed {
            match &outcome.reason {
                _ if show == Show::Nothing && outcome.fate != Fate::Refused => {}
                Some(reason) => outcome.print(Some(reason)),
                None if self.dry_run => {
                    let bytes = grouped(outcome.bytes.unwrap_or(0));
                    outcome.print(Some(&format!("{bytes} bytes")));
                }
                None if outcome.fate == Fate::Replaced => outcome.print(None),
                None => {}
            }
        }
        if show == Show::Nothing {
            return;
        }
        if self.dry_run {
            print_line("nothing was written: this was a dry run");
        }
        let columns = if self.dry_run { &DRY_COLUMNS } else { &COLUMNS };
        outcomes.print_table(columns, Some(18));
    }

    /// Decides what to do with a key of this type, by the type that it has at the target.
    ///
    /// # Errors
    /// The target's value is of another kind.
    fn plan(&self, kind: &str, target: &str) -> Result<Plan, Stop> {
        let is_replaceable = target == kind || is_filter(target) && is_filter(kind);
        Ok(match target {
            "none" if self.dry_run => Plan::Copy(Fate::WouldMove),
            "none" => Plan::Copy(Fate::Moved),
            _ if !is_replaceable => return Err(Stop::Refused(kinds_differ(kind, target))),
            _ if !self.replace => Plan::Keep,
            _ if self.dry_run => Plan::Copy(Fate::WouldReplace),
            _ => Plan::Copy(Fate::Replaced),
        })
    }
}

/// The state of a run.
struct Moving<'m> {
    options: &'m Move,
    pair: &'m Pair<'m>,
    outcomes: Outcomes,
    /// The bytes that were copied.
    bytes: u64,
    progress: Progress,
    /// The number of keys that are done.
    done: u64,
}

impl Moving<'_> {
    /// Copies a key, and records its outcome.
    ///
    /// # Errors
    /// No other key could be copied either.
    fn copy_and_record(&mut self, mut found: Found) -> Result<()> {
        let before = self.bytes;
        let (fate, reason) = match self.copy_with_retries(&mut found) {
            Ok(fate) => (fate, None),
            Err(stop) => self.outcome(stop)?,
        };
        self.done += 1;
        self.progress.at(self.done, self.bytes);
        self.outcomes.add(Outcome {
            key: found.key,
            kind: found.kind,
            fate,
            reason,
            bytes: Some(self.bytes - before),
        });
        Ok(())
    }

    /// Returns the outcome of a key that is not copied, and the reason for it.
    ///
    /// # Errors
    /// No other key could be copied either.
    fn outcome(&self, stop: Stop) -> Result<(Fate, Option<String>)> {
        let (server, what, fault) = match stop {
            Stop::Skipped(reason) => return Ok((Fate::Skipped, Some(reason))),
            Stop::Refused(reason) => return Ok((Fate::Refused, Some(reason))),
            Stop::Changed => return Ok((Fate::Refused, Some(CHANGES.to_owned()))),
            Stop::Taken => return Ok((Fate::Refused, Some(TAKEN.to_owned()))),
            Stop::Fault(SideFault::Source(fault)) => {
                (&self.pair.source, "could not read from", fault)
            }
            Stop::Fault(SideFault::Target(fault)) => {
                (&self.pair.target, "could not write to", fault)
            }
        };
        if fault.affects_all_keys() {
            return Err(server.failure(what, &fault));
        }
        Ok((Fate::Refused, Some(server.refusal(&fault))))
    }

    /// Copies a key, again if it changes at either server during the copy, or what is copied is lost. `found` then has its
    /// current type.
    fn copy_with_retries(&mut self, found: &mut Found) -> Result<Fate, Stop> {
        for _ in 1..ATTEMPTS {
            match self.attempt(found) {
                Err(
                    Stop::Changed | Stop::Taken | Stop::Fault(SideFault::Target(Fault::Gone(_))),
                ) => found.kind = self.kind_now(&found.key)?,
                outcome => return outcome,
            }
        }
        self.attempt(found)
    }

    /// Returns the current type of a key, which must be one of those that are moved.
    fn kind_now(&self, key: &[u8]) -> Result<String, Stop> {
        let kind = type_of(&self.pair.source, key).map_err(SideFault::Source)?;
        match &kind[..] {
            "none" => Err(Stop::gone()),
            name if self.pair.kinds.contains(&name) => Ok(kind),
            _ => Err(Stop::Refused(format!(
                "it changed while it was moved: its type is {kind} now"
            ))),
        }
    }

    /// Copies a key, expecting its known type.
    fn attempt(&mut self, found: &Found) -> Result<Fate, Stop> {
        let (Found { key, kind }, options) = (found, self.options);
        if is_temporary(key) {
            return Err(Stop::skipped(
                "it is the temporary key of an unfinished run",
            ));
        }
        let size = self.size(found)?;
        let target = type_of(&self.pair.target, key).map_err(SideFault::Target)?;
        let fate = match options.plan(kind, &target)? {
            Plan::Copy(fate) => fate,
            Plan::Keep if options.verify => {
                verify(self.pair, found)?;
                return Err(Stop::skipped(
                    "the target has it already, and it is the same",
                ));
            }
            Plan::Keep => return Err(Stop::skipped("the target has it already")),
        };
        // Other obstacles show when the value is sent, which a dry run does not do.
        let obstacle = if options.dry_run {
            self.pair.obstacle(key, kind)?
        } else {
            self.pair.capabilities.obstacle_of_type(kind)
        };
        if let Some(obstacle) = obstacle {
            return Err(Stop::Refused(obstacle));
        }
        if options.dry_run {
            self.bytes += size;
            return Ok(fate);
        }
        let (done, before) = (self.done, self.bytes);
        let show = |copied| self.progress.at(done, before + copied);
        // Only bytes of keys that arrive count.
        let replace = options.replace && target != "none";
        self.bytes += transfer(self.pair, found, size, replace, show)?;
        if options.verify {
            verify(self.pair, found)?;
        }
        Ok(fate)
    }

    /// Returns the bytes of a value at the source.
    fn size(&self, Found { key, kind }: &Found) -> Result<u64, Stop> {
        let source = &self.pair.source;
        let size = if is_filter(kind) {
            let info = Info::brief(source, key);
            info.map(|info| Some(info.of_filter(InfoField::Size).unwrap_or(0)))
        } else {
            source.query(key, cmd("MEMORY").arg("USAGE").arg(key))
        };
        size.map_err(SideFault::Source)?.ok_or_else(Stop::gone)
    }
}

/// Returns the type of a key, as TYPE returns it.
fn type_of(server: &Server, key: &[u8]) -> Result<String, Fault> {
    server.query(key, cmd("TYPE").arg(key))
}

/// Requires that a key has the same value at both servers.
fn verify(pair: &Pair<'_>, Found { key, kind }: &Found) -> Result<(), Stop> {
    // The key may have been copied. Another attempt would find its own copy at the target.
    let changed = || Stop::refused("it changed before it was verified");
    let is_gone = |server| type_of(server, key).is_ok_and(|kind| kind == "none");
    // No pauses: the target, which was written to directly, does not lag behind.
    match compare(pair, key, kind, &[]) {
        Ok(Verdict::Same | Verdict::WithinAccuracy(_)) => Ok(()),
        Ok(Verdict::Different(difference)) => Err(Stop::Refused(difference)),
        Ok(Verdict::Changing) => Err(changed()),
        Err(SideFault::Source(fault)) if fault.means(Meaning::WrongType) => Err(changed()),
        Err(SideFault::Source(fault) | SideFault::Target(fault)) if fault.is(Error::NOT_FOUND) => {
            // It may have expired, but a copy of a deleted key is still there.
            let are_gone = is_gone(&pair.source) && is_gone(&pair.target);
            Err(if are_gone { Stop::gone() } else { changed() })
        }
        Err(fault) => Err(fault.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parsed(options: &str) -> Move {
        let words = ["move", "source", "target"].into_iter();
        let words = words.chain(options.split_whitespace());
        let matches = Move::augment_args(Command::new("move")).get_matches_from(words);
        Move::from_arg_matches(&matches).expect("the options are those of move")
    }

    #[test]
    fn a_key_is_copied_where_its_type_permits() {
        let copy = |fate| Ok(Plan::Copy(fate));
        let reason = "its type is string at the target, not bloomfltr";
        let refused = || Err(Stop::refused(reason));
        for (options, target, plan) in [
            ("", "none", copy(Fate::Moved)),
            ("--replace --verify", "none", copy(Fate::Moved)),
            ("--dry-run", "none", copy(Fate::WouldMove)),
            ("", "bloomfltr", Ok(Plan::Keep)),
            ("--verify", "bloomfltr", Ok(Plan::Keep)),
            ("--dry-run", "bloomfltr", Ok(Plan::Keep)),
            ("--replace", "bloomfltr", copy(Fate::Replaced)),
            // Filters of other modules are Bloom filters as well.
            ("--replace", "MBbloom--", copy(Fate::Replaced)),
            ("--replace --dry-run", "bloomfltr", copy(Fate::WouldReplace)),
            ("", "MBbloom--", Ok(Plan::Keep)),
            ("", "string", refused()),
            ("--dry-run", "string", refused()),
            ("--verify", "string", refused()),
            ("--replace", "string", refused()),
            ("--replace --dry-run", "string", refused()),
        ] {
            let found = parsed(options).plan("bloomfltr", target);
            assert_eq!(found, plan, "{options} {target}");
        }
        let found = parsed("--replace").plan("TopK-TYPE", "TopK-TYPE");
        assert_eq!(found, copy(Fate::Replaced));
        let found = parsed("--replace").plan("TopK-TYPE", "bloomfltr");
        let reason = "its type is bloomfltr at the target, not TopK-TYPE";
        assert_eq!(found, Err(Stop::refused(reason)));
    }
}
