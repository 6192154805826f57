//! Keys with cuckoo filters: storing, replicating and publishing their changes.

use std::ffi::CStr;

use valkeybloom_protocol::cuckoo::CuckooOption;
use valkeybloom_sketches::cuckoo::{Limits, Outline, Params, wire};

use crate::ffi::{Argument, Ctx, Str};
use crate::keys;

use super::settings;
use super::value::{Cuckoo, OVERHEAD_BYTES};

/// A key opened for reading.
pub type Reader<'k, 'a> = keys::Reader<'k, 'a, Cuckoo>;
/// A key opened for writing.
pub type Writer<'k, 'a> = keys::Writer<'k, 'a, Cuckoo>;

/// The event of a new object.
const CREATED: &CStr = c"cuckoo.reserve";
/// The event of an item added to an object.
const ADDED: &CStr = c"cuckoo.add";
/// The event of an item removed from an object.
const REMOVED: &CStr = c"cuckoo.del";

/// Returns the limits on a command: [`Limits::NONE`] if it was already executed elsewhere.
pub fn limits_for(ctx: Ctx) -> Limits {
    if ctx.must_obey() {
        Limits::NONE
    } else {
        settings::limits(OVERHEAD_BYTES)
    }
}

impl Writer<'_, '_> {
    /// Stores a new object, which already holds these items, under the empty key. Every parameter is replicated, so
    /// that a server with other settings makes the same object.
    pub fn create(self, object: Cuckoo, params: &Params, items: &[Str]) {
        let name = self.name().bytes();
        let empty = Outline {
            filters: 1,
            items: 0,
            deletes: 0,
            ..object.outline()
        };
        let mut change = self.store(object, None);
        if CuckooOption::ALL.iter().any(|option| option.is(name)) {
            // RedisBloom parses such a key as the option in CF.RESERVE, and replicas here do the same.
            let header = wire::header_of(&empty);
            let arguments = [Argument::Text("1".to_owned()), Argument::Bytes(&header)];
            change.replicate(c"CF.LOADCHUNK", &arguments);
        } else {
            change.replicate(c"CF.RESERVE", &creation(params));
        }
        if !items.is_empty() {
            change.replicate(c"CF.INSERT", &addition(items));
        }
        let added = (!items.is_empty()).then_some(ADDED);
        change.publish([CREATED].into_iter().chain(added));
    }

    /// Publishes that the command added all of its items.
    #[inline]
    pub fn added_all(self) {
        self.publish_verbatim([ADDED]);
    }

    /// Publishes that these items were added.
    pub fn added(self, items: &[Str]) {
        let mut change = self.close();
        change.replicate(c"CF.INSERT", &addition(items));
        change.publish([ADDED]);
    }

    /// Publishes that the command removed its item.
    pub fn removed(self) {
        self.publish_verbatim([REMOVED]);
    }

    /// Publishes that the command moved items or wrote slots.
    pub fn rewritten(self) {
        self.publish_verbatim([]);
    }

    /// Stores the object that a header of chunks describes under the empty key.
    pub fn begin(self, object: Cuckoo) {
        let mut change = self.store(object, None);
        change.replicate_verbatim();
        change.publish([CREATED]);
    }
}

/// Returns `capacity BUCKETSIZE s MAXITERATIONS n EXPANSION e`.
fn creation(params: &Params) -> Vec<Argument<'static>> {
    let mut arguments = vec![Argument::Number(params.capacity)];
    for (option, value) in [
        (CuckooOption::BucketSize, u64::from(params.bucket_size)),
        (CuckooOption::MaxIterations, params.max_iterations.into()),
        (CuckooOption::Expansion, params.expansion.into()),
    ] {
        arguments.extend([
            Argument::Text(option.word().to_owned()),
            Argument::Number(value),
        ]);
    }
    arguments
}

/// Returns `NOCREATE ITEMS item …`.
fn addition<'c>(items: &'c [Str<'c>]) -> [Argument<'c>; 3] {
    [
        Argument::Word(c"NOCREATE"),
        Argument::Word(c"ITEMS"),
        Argument::Items(items),
    ]
}
