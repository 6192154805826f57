//! Keys: open them, create and change what is under them, and publish what happened.
//!
//! Publishing consumes the [`Writer`], which closes its key first: subscribers of an event run at once, and may
//! delete any key. Replicas come first, so that what subscribers do follows its cause.

use std::ffi::CStr;
use std::marker::PhantomData;

use valkeybloom_protocol::error::Error;

use crate::family::Family;
use crate::ffi::{Access, Argument, Content, Key, Keyspace, Str, each_value};
use crate::ledger;
use crate::values::Entered;

/// The value in what a key holds, or `None` if there is no such key.
///
/// # Errors
/// [`Error::WrongType`] or [`Error::Saving`].
#[inline]
pub fn found<V>(held: Content<V>) -> Result<Option<V>, Error> {
    match held {
        Content::Missing => Ok(None),
        Content::Value(value) => Ok(Some(value)),
        Content::WrongType => Err(Error::WrongType),
        Content::Saving => Err(Error::Saving),
    }
}

/// A key opened for reading a value of a family.
pub struct Reader<'k, 'a, V>(Key<'k, 'a>, PhantomData<V>);

impl<'k, 'a, V: Family> Reader<'k, 'a, V> {
    /// Opens the key.
    #[inline]
    pub fn open(keys: &'k mut Keyspace<'a>, name: Str<'a>) -> Self {
        Self(keys.open(name, Access::Read), PhantomData)
    }

    /// The object, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WrongType`], or the error of [`Family::object`].
    #[inline(always)]
    pub fn object(&self) -> Result<Option<&V::Object>, Error> {
        match found(self.0.value::<Entered<V>>())? {
            Some(entered) => entered.value().object().map(Some),
            None => Ok(None),
        }
    }

    /// The object.
    ///
    /// # Errors
    /// [`Error::NotFound`], and those of [`object`](Self::object).
    #[inline]
    pub fn existing(&self) -> Result<&V::Object, Error> {
        self.object()?.ok_or(Error::NotFound)
    }
}

/// A key opened for writing a value of a family.
pub struct Writer<'k, 'a, V>(Key<'k, 'a>, PhantomData<V>);

impl<'k, 'a, V: Family> Writer<'k, 'a, V> {
    /// Opens the key.
    #[inline]
    pub fn open(keys: &'k mut Keyspace<'a>, name: Str<'a>) -> Self {
        Self(keys.open(name, Access::Write), PhantomData)
    }

    /// The key's name.
    pub fn name(&self) -> Str<'a> {
        self.0.name()
    }

    /// The value under the key, or `None` if there is none. A value that was renamed is entered in its database's ledger
    /// again.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::Saving`].
    #[inline]
    pub fn held(&mut self) -> Result<Option<&mut Entered<V>>, Error> {
        let ctx = self.0.ctx();
        let mut held = found(self.0.value_mut::<Entered<V>>())?;
        if let Some(entered) = &mut held
            && entered.is_unlinked()
        {
            entered.enter_in(ledger::of_database(ctx.database()));
        }
        Ok(held)
    }

    /// Whether there is an object under the key.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::Saving`], or the error of [`Family::object`].
    pub fn exists(&mut self) -> Result<bool, Error> {
        match found(self.0.value_mut::<Entered<V>>())? {
            Some(entered) => entered.value().object().map(|_| true),
            None => Ok(false),
        }
    }

    /// Changes the object under the key. Returns `None` if there is none.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::Saving`], or the error of [`Family::object_mut`].
    #[inline]
    pub fn update<R>(
        &mut self,
        change: impl FnOnce(&mut V::Object) -> R,
    ) -> Result<Option<R>, Error> {
        match self.held()? {
            Some(entered) => entered
                .update(|value| value.object_mut().map(change))
                .map(Some),
            None => Ok(None),
        }
    }

    /// Stores a value under the empty key, which expires at `expires_ms`, if given.
    pub fn store(self, value: V, expires_ms: Option<i64>) -> Change<'k, 'a> {
        let name = self.0.name();
        let ledger = ledger::of_database(self.0.ctx().database());
        let keys = self.0.set(Entered::new(value, ledger), expires_ms);
        Change { keys, name }
    }

    /// Closes the key, for its change to be published.
    #[inline]
    pub fn close(self) -> Change<'k, 'a> {
        let name = self.0.name();
        let keys = self.0.close();
        Change { keys, name }
    }

    /// Closes the key, replicates the command as it came, and publishes events.
    #[inline]
    pub fn publish_verbatim(self, events: impl IntoIterator<Item = &'static CStr>) {
        let mut change = self.close();
        change.replicate_verbatim();
        change.publish(events);
    }
}

/// Moves the values of a database that are in the ledger of the unplaced to that database's own: flushed values leave
/// the sums with the ledger of their database.
pub fn place<V: Family>(database: i32) {
    let Some(unplaced) = ledger::unplaced() else {
        return;
    };
    let own = ledger::of_database(database);
    each_value(database, &mut |entered: &mut Entered<V>| {
        if entered.is_in(&unplaced) {
            entered.enter_in(own.clone());
        }
    });
}

/// A change that has been made, and its key closed; to be published.
pub struct Change<'k, 'a> {
    keys: &'k mut Keyspace<'a>,
    name: Str<'a>,
}

impl Change<'_, '_> {
    /// Replicates the command as it came.
    #[inline]
    pub fn replicate_verbatim(&mut self) {
        self.keys.replicate_verbatim();
    }

    /// Replicates another command, with the key and then these arguments.
    pub fn replicate(&mut self, command: &CStr, arguments: &[Argument]) {
        self.keys.replicate(command, self.name, arguments);
    }

    /// Replicates the key's expiry as a point in time, because replicas may apply it later.
    pub fn replicate_expiry(&mut self, at_ms: Option<i64>) {
        if let Some(ms) = at_ms {
            self.replicate(c"PEXPIREAT", &[Argument::Text(ms.to_string())]);
        }
    }

    /// Signals the change, and then runs the events' subscribers, who may change or delete the key.
    #[inline]
    pub fn publish(self, events: impl IntoIterator<Item = &'static CStr>) {
        self.keys.signal_modified(self.name);
        for event in events {
            self.keys.notify(event, self.name);
        }
    }
}
