//! An object as a single byte string, the form of BF.LOAD and the AOF.

use crate::bloom::object::{Object, Tables};

use super::dialect::{self, Dialect};
use super::extent::Extent;
use super::{bloomfltr, bloomfltx};
use crate::bytes::DecodeError;

/// Decodes a whole dump.
///
/// ```
/// use valkeybloom_sketches::bloom::{Limits, Time, dump};
///
/// # use valkeybloom_sketches::bloom::{Growth, Object, Params, Tightening};
/// # use valkeybloom_sketches::{Fraction, Seed};
/// # let params = Params {
/// #     capacity: 100,
/// #     error_rate: Fraction::new(0.01).unwrap(),
/// #     tightening: Tightening::HALF,
/// #     growth: Growth::from_expansion(2),
/// # };
/// # let mut on_the_server = Object::plain(&params, Seed::random(), Limits::NONE).unwrap();
/// # on_the_server.add(b"known", Time::default(), || Limits::NONE).unwrap();
/// # let bytes = dump::encode(&on_the_server).unwrap();
/// let now = || 0; // A plain object does not read the clock.
/// let mut object = dump::decode(&bytes).unwrap();
/// assert!(object.contains(b"known", now));
///
/// object.add(b"new", Time::default(), || Limits::NONE).unwrap();
/// let again = dump::decode(&dump::encode(&object).unwrap()).unwrap();
/// assert!(again.contains(b"new", now));
/// assert_eq!(again.items(now), 2);
/// ```
///
/// # Errors
/// Any [`DecodeError`].
pub fn decode(dump: &[u8]) -> Result<Object, DecodeError> {
    if bloomfltx::begins(dump, Extent::Whole) {
        return bloomfltx::read_dump(dump);
    }
    Object::from_outline(&mut bloomfltr::read(dump, Extent::Whole)?)
}

/// Encodes an object as a dump. Returns `None` for an object of `RedisBloom`, which has no dump, and if allocation
/// fails.
pub fn encode(object: &Object) -> Option<Vec<u8>> {
    dialect::write(object, Extent::Whole)
}

/// Returns the length in bytes of the dump that [`encode`] writes, about that for an object of tables. Returns `None` if the
/// object has no dump or the header can't be allocated.
pub fn encoded_len(object: &Object) -> Option<usize> {
    if !Dialect::of(object).has_dump() {
        return None;
    }
    let header = dialect::write(object, Extent::Header)?.len();
    let cells = object.all_filters().iter();
    let cells: u64 = cells.map(|filter| filter.geometry().cell_bytes).sum();
    // Entries take less in pieces than in memory.
    let tables = object.tables().map_or(0, Tables::memory_bytes);
    Some(header.saturating_add(usize::try_from(cells + tables).unwrap_or(usize::MAX)))
}
