//! What a key holds that a subcommand is about to replace or to show.

use valkeybloom_protocol::names::TYPES;

use super::failure::{Failure, Result, shown};
use super::family::Family;
use super::held::read::Reader;
use super::held::row::Row;
use super::keys::Found;
use super::server::Server;

/// Describes the filter or sketch under a key; `None` if there is no key.
///
/// # Errors
/// The key holds another value, or the user may not read it.
pub fn existing(server: &Server, name: &str) -> Result<Option<(Family, Row)>> {
    let key = name.as_bytes().to_vec();
    let kind = server.type_of(&key)?;
    if kind == "none" {
        return Ok(None);
    }
    required_family(server, name, &kind)?;
    let mut rows = Vec::new();
    let read = Reader::new(server, 0, false).read(vec![Found { key, kind }], &TYPES, |read, _| {
        rows.extend(read);
    });
    let unreadable = read.map_err(|fault| server.failure_of("read", name.as_bytes(), &fault))?;
    // Another client may have replaced the key since its type was read.
    let reason = match (rows.pop(), unreadable.reason) {
        (Some(row), _) => return Ok(Some((required_family(server, name, &row.kind)?, row))),
        (None, Some(reason)) => reason,
        (None, None) if server.type_of(name.as_bytes())? == "none" => return Ok(None),
        (None, None) => "it changes while it is read: run this again".to_owned(),
    };
    let (key, address) = (shown(name.as_bytes()), server.address());
    let text = format!("could not read {key} at {address}: {reason}");
    Err(Failure::new(text))
}

/// Returns the family of the type of a key, as TYPE returns it.
///
/// # Errors
/// Values of the type are no filters or sketches.
pub fn required_family(server: &Server, name: &str, kind: &str) -> Result<Family> {
    Family::of(kind).ok_or_else(|| {
        let (key, address) = (shown(name.as_bytes()), server.address());
        Failure::new(format!(
            "{key} at {address} is no filter or sketch but of type {kind}: name another key"
        ))
    })
}
