//! The transfer of a value: by DUMP and RESTORE, or in chunks.

use redis::cmd;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::Stage;

use super::stop::Stop;
use crate::dump::{self, Chunk};
use crate::expiry::Expiry;
use crate::failure::{Fault, Meaning, Result};
use crate::family::is_filter;
use crate::keys::Found;
use crate::pair::{Pair, SideFault};
use crate::program::Program;
use crate::sketches;
use crate::upload::{NewExpiry, Upload};

/// The most bytes of a filter that goes by DUMP: a few chunks.
const DUMP_BYTES: u64 = 16 << 20;

const UNREADABLE: &str = "the target can't read it";

/// A way to copy a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// DUMP and RESTORE.
    Dump,
    /// BF.SCANDUMP and BF.LOADCHUNK.
    Chunks,
}

/// Returns the ways to try for a value of this type and size, in their order.
fn ways(kind: &str, bytes: u64, target: Program) -> &'static [Way] {
    // valkey-bloom has no chunks.
    let has_chunks = is_filter(kind) && target != Program::ValkeyBloom;
    match (has_chunks, bytes <= DUMP_BYTES) {
        (false, _) => &[Way::Dump],
        (true, true) => &[Way::Dump, Way::Chunks],
        (true, false) => &[Way::Chunks, Way::Dump],
    }
}

/// The result of trying one way.
#[derive(Debug, PartialEq)]
enum Attempt {
    /// The target has the value, for which this many bytes were copied.
    Restored(u64),
    /// This way is closed for this reason, and the target unchanged.
    TryAnotherWay(Stop),
}

/// Copies a value of this size, and calls `show` after each chunk with the bytes copied. Returns the bytes copied in all.
///
/// # Errors
/// The value did not arrive.
pub fn transfer(
    pair: &Pair<'_>,
    found: &Found,
    bytes: u64,
    replace: bool,
    mut show: impl FnMut(u64),
) -> Result<u64, Stop> {
    let transfer = Transfer {
        pair,
        found,
        bytes,
        replace,
    };
    let mut closed = Vec::new();
    for way in ways(&found.kind, bytes, pair.capabilities.program) {
        let attempt = match way {
            Way::Dump => transfer.by_dump()?,
            Way::Chunks => transfer.by_chunks(&mut show)?,
        };
        match attempt {
            Attempt::Restored(bytes) => return Ok(bytes),
            Attempt::TryAnotherWay(reason) => closed.push((*way, reason)),
        }
    }
    Err(all_closed(closed))
}

/// A value to copy.
struct Transfer<'t> {
    pair: &'t Pair<'t>,
    found: &'t Found,
    /// The size of the value at the source.
    bytes: u64,
    /// Whether to replace a value of the target.
    replace: bool,
}

impl Transfer<'_> {
    /// Copies the value by DUMP and RESTORE.
    fn by_dump(&self) -> Result<Attempt, Stop> {
        let Found { key, kind } = self.found;
        let payload = match dump::payload(&self.pair.source, key) {
            Ok(payload) => payload,
            Err(fault) => return after_fault(fault, SideFault::Source),
        };
        // The payload contains its type. A separate TYPE could miss a change between the two commands.
        if !dump::is_of_type(&payload, kind) {
            return Err(Stop::Changed);
        }
        if let Some(obstacle) = self.pair.obstacle_of_length("its DUMP", payload.len())? {
            return Ok(Attempt::TryAnotherWay(Stop::Refused(obstacle)));
        }
        let mut restore = cmd("RESTORE");
        restore.arg(key).arg(self.expires_ms()?.unwrap_or(0));
        restore.arg(dump::for_any_server(&payload)).arg("ABSTTL");
        if self.replace {
            restore.arg("REPLACE");
        }
        match self.pair.target.call(key, &restore) {
            Ok(_) => Ok(Attempt::Restored(self.bytes)),
            // The client may have sent it again, because the first reply was lost.
            Err(fault) if fault.means(Meaning::KeyExists) => {
                self.require_at_target(&payload)?;
                Ok(Attempt::Restored(self.bytes))
            }
            Err(fault) => after_restore(fault, &payload, self.pair.capabilities.program),
        }
    }

    /// Requires that the target has the value of a payload.
    fn require_at_target(&self, payload: &[u8]) -> Result<(), Stop> {
        match dump::payload(&self.pair.target, &self.found.key) {
            Ok(other) if sketches::are_same(payload, &other) => Ok(()),
            Err(fault) if !fault.forbids_calls() => Err(SideFault::Target(fault).into()),
            _ => Err(Stop::Taken),
        }
    }

    /// Copies the value, which is a filter, in chunks.
    fn by_chunks(&self, mut show: impl FnMut(u64)) -> Result<Attempt, Stop> {
        let (pair, Found { key, kind }) = (self.pair, self.found);
        let header = match dump::scan_with_id(&pair.source, key, 0) {
            Ok(header) => header,
            Err(fault) => return after_fault(fault, SideFault::Source),
        };
        let id = header.id.as_deref();
        let mut upload = match Upload::begin(&pair.target, key, &header.bytes) {
            Ok(upload) => upload,
            Err(fault) => return after_header(fault),
        };
        let (mut cursor, mut bytes) = (header.next, 0);
        loop {
            let chunk = self.chunk(cursor, id)?;
            if chunk.next == 0 {
                break;
            }
            if let Some(obstacle) = pair.obstacle_of_length("a chunk of it", chunk.bytes.len())? {
                return Err(Stop::Refused(obstacle));
            }
            let sent = upload.chunk(chunk.next, &chunk.bytes);
            // The filter has grown or was replaced, so the chunk does not match the header.
            sent.map_err(|fault| changed_if(Error::BAD_CHUNK, fault))?;
            bytes += chunk.bytes.len() as u64;
            show(bytes);
            cursor = chunk.next;
        }
        // Filters of RedisBloom have no ids, so the header shows a replacement as far as it can be seen.
        if !Stage::header_precedes(&header.bytes, &self.chunk(0, id)?.bytes) {
            return Err(Stop::Changed);
        }
        if upload.type_name().map_err(SideFault::Target)? != *kind {
            return Err(Stop::Changed);
        }
        let expiry = (self.expires_ms()?).map_or(NewExpiry::Never, NewExpiry::At);
        match upload.finish(expiry, self.replace) {
            Ok(true) => Ok(Attempt::Restored(bytes)),
            Ok(false) => Err(Stop::Taken),
            Err(fault) => Err(changed_if(Error::STILL_LOADING, fault)),
        }
    }

    /// Returns the time at which the key expires, if it does. It is read after the value: a key that expired before and was made
    /// again has the new one's time then, and is not deleted at the target.
    fn expires_ms(&self) -> Result<Option<u64>, Stop> {
        let expiry = Expiry::of(&self.pair.source, &self.found.key);
        Ok(expiry.map_err(SideFault::Source)?.ms)
    }

    /// Reads a chunk of the filter with this id.
    fn chunk(&self, cursor: u64, id: Option<&[u8]>) -> Result<Chunk, Stop> {
        let (source, key) = (&self.pair.source, &self.found.key);
        let chunk = match id {
            Some(_) => dump::scan_with_id(source, key, cursor),
            None => dump::scan(source, key, cursor),
        };
        let chunk = chunk.map_err(SideFault::Source)?;
        if chunk.id.as_deref() == id {
            Ok(chunk)
        } else {
            Err(Stop::Changed)
        }
    }
}

/// Tries another way if no call of the failed command can succeed, or its reply is too large.
///
/// # Errors
/// Other faults stop the copy.
fn after_fault(fault: Fault, side: fn(Fault) -> SideFault) -> Result<Attempt, Stop> {
    let is_closed = fault.forbids_calls() || fault == Fault::TooLarge;
    let stop = side(fault).into();
    if is_closed {
        Ok(Attempt::TryAnotherWay(stop))
    } else {
        Err(stop)
    }
}

/// Tries another way if the target can't read this payload, or no RESTORE can succeed.
///
/// # Errors
/// Other faults stop the copy.
fn after_restore(fault: Fault, payload: &[u8], target: Program) -> Result<Attempt, Stop> {
    if !fault.means(Meaning::Unreadable) {
        return after_fault(fault, SideFault::Target);
    }
    let obstacle = sketches::obstacle(payload, target);
    let obstacle = obstacle.unwrap_or_else(|| UNREADABLE.to_owned());
    Ok(Attempt::TryAnotherWay(Stop::Refused(obstacle)))
}

/// Tries another way if the target does not permit an upload.
///
/// # Errors
/// Other faults stop the copy.
fn after_header(fault: Fault) -> Result<Attempt, Stop> {
    // The header is whole, so the target does not know what it says.
    if fault.is(Error::BAD_CHUNK) {
        return Err(Stop::refused(UNREADABLE));
    }
    after_fault(fault, SideFault::Target)
}

/// Returns why a fault of the target stops the copy: if it is this error, because the value changed.
fn changed_if(error: Error, fault: Fault) -> Stop {
    if fault.is(error) {
        Stop::Changed
    } else {
        SideFault::Target(fault).into()
    }
}

/// Returns the reason to report if all ways are closed: that of chunks if there is one, because a permission can be granted. A
/// source that has no chunks can't get them.
fn all_closed(closed: Vec<(Way, Stop)>) -> Stop {
    let rank = |(way, reason): &(Way, Stop)| match reason {
        _ if *way == Way::Dump => 1,
        Stop::Fault(SideFault::Source(fault)) if fault.means(Meaning::UnknownCommand) => 0,
        _ => 2,
    };
    let (_, reason) = closed
        .into_iter()
        .max_by_key(rank)
        .expect("one way at least");
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Fault {
        Fault::Refused(text.to_owned())
    }

    fn at_source(text: &str) -> Stop {
        Stop::Fault(SideFault::Source(refused(text)))
    }

    fn at_target(text: &str) -> Stop {
        Stop::Fault(SideFault::Target(refused(text)))
    }

    /// Returns the reason to report if both ways are closed, which their order does not change.
    fn reported(dump: impl Fn() -> Stop, chunks: impl Fn() -> Stop) -> Stop {
        let ways = || vec![(Way::Dump, dump()), (Way::Chunks, chunks())];
        let reason = all_closed(ways());
        assert_eq!(all_closed(ways().into_iter().rev().collect()), reason);
        reason
    }

    #[test]
    fn large_filters_go_in_chunks_first_where_the_target_has_them() {
        use Way::{Chunks, Dump};
        let large = DUMP_BYTES + 1;
        for (kind, bytes, target, expected) in [
            ("bloomfltr", 0, Program::ThisModule, &[Dump, Chunks][..]),
            (
                "MBbloom--",
                DUMP_BYTES,
                Program::RedisBloom,
                &[Dump, Chunks],
            ),
            ("bloomfltr", large, Program::ThisModule, &[Chunks, Dump]),
            ("bloomfltr", 0, Program::ValkeyBloom, &[Dump]),
            ("bloomfltr", u64::MAX, Program::ValkeyBloom, &[Dump]),
            ("MBbloomCF", 0, Program::ThisModule, &[Dump]),
            ("TopK-TYPE", u64::MAX, Program::RedisBloom, &[Dump]),
        ] {
            assert_eq!(ways(kind, bytes, target), expected, "{kind} {bytes}");
        }
    }

    #[test]
    fn a_value_whose_payload_is_too_large_may_go_another_way() {
        let too_large = || SideFault::Source(Fault::TooLarge).into();
        let found = after_fault(Fault::TooLarge, SideFault::Source);
        assert_eq!(found, Ok(Attempt::TryAnotherWay(too_large())));
        let no_permission = || at_target("NOPERM no");
        assert_eq!(reported(too_large, no_permission), no_permission());
    }

    #[test]
    fn a_payload_that_the_target_refuses_may_go_another_way() {
        let closed = |stop| Ok(Attempt::TryAnotherWay(stop));
        let (no_permission, unknown) = ("NOPERM no", "ERR unknown command 'RESTORE'");
        for (text, expected) in [
            ("ERR Bad data format", closed(Stop::refused(UNREADABLE))),
            (
                "ERR DUMP payload version or checksum are wrong",
                closed(Stop::refused(UNREADABLE)),
            ),
            (no_permission, closed(at_target(no_permission))),
            (unknown, closed(at_target(unknown))),
            ("OOM full", Err(at_target("OOM full"))),
            ("READONLY a replica", Err(at_target("READONLY a replica"))),
        ] {
            let found = after_restore(refused(text), b"", Program::ThisModule);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn an_upload_that_the_target_does_not_permit_may_go_another_way() {
        let no_permission = "NOPERM no";
        for (fault, expected) in [
            (Error::BAD_CHUNK.into(), Err(Stop::refused(UNREADABLE))),
            (
                refused(no_permission),
                Ok(Attempt::TryAnotherWay(at_target(no_permission))),
            ),
            (refused("OOM full"), Err(at_target("OOM full"))),
        ] {
            assert_eq!(after_header(fault), expected);
        }
    }

    #[test]
    fn an_error_of_chunks_shows_a_change() {
        let text = Error::BAD_CHUNK.to_string();
        let stop = |error| changed_if(error, refused(&text));
        assert_eq!(stop(Error::BAD_CHUNK), Stop::Changed);
        assert_eq!(stop(Error::STILL_LOADING), at_target(&text));
    }

    #[test]
    fn a_permission_that_chunks_need_is_reported_before_what_is_wrong_with_a_dump() {
        let dump = || Stop::refused(UNREADABLE);
        for at_side in [at_source as fn(&str) -> Stop, at_target] {
            let no_permission = || at_side("NOPERM no");
            assert_eq!(reported(dump, no_permission), no_permission());
        }
        let lacking = || at_source("ERR unknown command 'BF.SCANDUMP'");
        assert_eq!(reported(dump, lacking), dump());
    }
}
