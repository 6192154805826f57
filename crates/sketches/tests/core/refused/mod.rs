//! Bytes that are not an object: every form that can express a fault refuses it, in the words of the broken rule. The
//! bytes are put together after the descriptions of the forms, not by the code that reads them.

mod extended;
mod plain;
mod redisbloom;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::{Dialect, dump, rdb};

use crate::plain::Plain;
use crate::support::begin;

/// A stored form.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Dump,
    Header,
    Fields,
}

const ALL: &[Form] = &[Form::Dump, Form::Header, Form::Fields];
const CUT: &[Form] = &[Form::Dump, Form::Header];
const WHOLE: &[Form] = &[Form::Dump, Form::Fields];
const FIELDS: &[Form] = &[Form::Fields];
const HEADER: &[Form] = &[Form::Header];

/// An object to be stored, any field of which may be wrong.
trait Draft: Clone {
    /// Returns the error of reading the draft in a form.
    fn error(&self, form: Form) -> Option<DecodeError>;
}

impl Draft for Plain {
    fn error(&self, form: Form) -> Option<DecodeError> {
        match form {
            Form::Dump => dump::decode(&self.dump()).err(),
            Form::Header => begin(&self.header()).err(),
            Form::Fields => rdb::read(Dialect::Bloomfltr, 1, &mut self.stream()).err(),
        }
    }
}

impl Draft for crate::draft::Draft {
    fn error(&self, form: Form) -> Option<DecodeError> {
        match form {
            Form::Dump => None,
            Form::Header => begin(&self.header()).err(),
            Form::Fields => rdb::read(Dialect::RedisBloom, self.version, &mut self.fields()).err(),
        }
    }
}

/// Requires that forms refuse a draft after a change, with this error.
#[track_caller]
fn refused<D: Draft>(
    draft: &D,
    forms: &[Form],
    error: impl Into<DecodeError>,
    change: impl FnOnce(&mut D),
) {
    let (mut broken, error) = (draft.clone(), error.into());
    change(&mut broken);
    for form in forms {
        assert_eq!(broken.error(*form), Some(error), "{form:?}");
    }
}
