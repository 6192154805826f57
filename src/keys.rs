//! Keys: opening them, creating and changing their values, and publishing the changes.
//!
//! Publishing consumes the [`Writer`], which closes its key first: subscribers of an event run at once, and may
//! delete any key. A change is replicated before its events, so that changes by subscribers follow their cause.

use std::ffi::CStr;
use std::marker::PhantomData;

use valkeybloom_protocol::error::Error;

use crate::family::Family;
use crate::feeds::FeedSlot;
use crate::ffi::{Access, Argument, Held, Key, Keyspace, Str, Values};
use crate::values::Stored;

/// The server's event of a key that got a time to live.
pub const EXPIRE: &CStr = c"expire";

/// Returns the object of a key, or `None` if there is no such key.
///
/// # Errors
/// [`Error::WRONG_TYPE`], or the error of `Holds::object`.
#[inline]
fn object_in<V: Family>(held: Held<&Stored<V>>) -> Held<&V::Object> {
    held?.map(|stored| stored.value().object()).transpose()
}

/// A key opened for reading a value of a family.
pub struct Reader<'k, 'a, V>(Key<'k, 'a>, PhantomData<V>);

impl<'k, 'a, V: Family> Reader<'k, 'a, V> {
    /// Opens the key.
    #[inline]
    pub fn open(keys: &'k mut Keyspace<'a>, name: Str<'a>) -> Self {
        Self(keys.open(name, Access::Read), PhantomData)
    }

    /// Returns the object, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], or the error of `Holds::object`.
    #[inline]
    pub fn object(&self) -> Result<Option<&V::Object>, Error> {
        object_in::<V>(self.0.value())
    }

    /// Reads the object by a function that may make a cache within it. Returns `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], or the error of `Holds::object`.
    pub fn caching<R>(&self, read: impl FnOnce(&V::Object) -> R) -> Result<Option<R>, Error> {
        let stored = self.0.value::<Stored<V>>()?;
        let read = stored.map(|stored| stored.caching(|value| value.object().map(read)));
        read.transpose()
    }

    /// Returns the object and its feed.
    ///
    /// # Errors
    /// [`Error::NOT_FOUND`], and the errors of [`object`](Self::object).
    pub fn fed(&self) -> Result<(&V::Object, &FeedSlot), Error> {
        let stored = self.0.value::<Stored<V>>()?;
        let stored = stored.ok_or(Error::NOT_FOUND)?;
        Ok((stored.value().object()?, stored.feed()))
    }

    /// Returns the object.
    ///
    /// # Errors
    /// [`Error::NOT_FOUND`], and the errors of [`object`](Self::object).
    #[inline]
    pub fn existing(&self) -> Result<&V::Object, Error> {
        self.object()?.ok_or(Error::NOT_FOUND)
    }
}

/// Objects under several keys, to be read together.
pub struct Readers<'k, 'a, V: Family>(Values<'k, 'a, Stored<V>>);

impl<'k, 'a, V: Family> Readers<'k, 'a, V> {
    /// Makes an empty list of objects.
    pub fn new(keys: &'k mut Keyspace<'a>) -> Self {
        Self(Values::new(keys))
    }

    /// Adds the object under a key, and returns it. If there is no such key, returns `None` and clears the list,
    /// because subscribers may have run.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], or the error of `Holds::object`.
    pub fn open(&mut self, name: Str<'a>) -> Result<Option<&V::Object>, Error> {
        object_in::<V>(self.0.open(name))
    }

    /// Returns all objects in the list.
    pub fn objects(&self) -> Vec<&V::Object> {
        self.0
            .all()
            .filter_map(|stored| stored.value().object().ok())
            .collect()
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

    /// Returns the key's name.
    pub fn name(&self) -> Str<'a> {
        self.0.name()
    }

    /// Returns whether there was no such key when it was opened, as [`Key::was_missing`] does.
    pub fn was_missing(&self) -> bool {
        self.0.was_missing()
    }

    /// Returns the value under the key, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`] or [`Error::SAVING`].
    #[inline]
    pub fn held(&mut self) -> Result<Option<&mut Stored<V>>, Error> {
        self.0.value_mut()
    }

    /// Returns whether there is an object under the key.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::SAVING`], or the error of `Holds::object`.
    pub fn exists(&mut self) -> Result<bool, Error> {
        match self.held()? {
            Some(stored) => stored.value().object().map(|_| true),
            None => Ok(false),
        }
    }

    /// Changes the object under the key, whose feed ends. Returns `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::SAVING`], or the error of `Holds::object_mut`.
    #[inline]
    pub fn update<R>(
        &mut self,
        change: impl FnOnce(&mut V::Object) -> R,
    ) -> Result<Option<R>, Error> {
        self.update_fed(|object, feed| {
            feed.end();
            change(object)
        })
    }

    /// Changes the object under the key. `change` appends the items that were new to the object's feed, or ends it.
    /// Returns `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::SAVING`], or the error of `Holds::object_mut`.
    #[inline]
    pub fn update_fed<R>(
        &mut self,
        change: impl FnOnce(&mut V::Object, &FeedSlot) -> R,
    ) -> Result<Option<R>, Error> {
        let stored = self.held()?;
        let changed = stored.map(|stored| {
            stored.update(|value, feed| value.object_mut().map(|object| change(object, feed)))
        });
        changed.transpose()
    }

    /// Stores a value under the key, in place of one that it may hold. The key expires at `expires_ms`, if given.
    pub fn store(self, value: V, expires_ms: Option<i64>) -> Change<'k, 'a> {
        let name = self.0.name();
        let keys = self.0.set(Stored::new(value), expires_ms);
        Change { keys, name }
    }

    /// Stores a value under the key, replicates the command as it came, and publishes its event.
    pub fn store_verbatim(self, value: V, event: &'static CStr) {
        let mut change = self.store(value, None);
        change.replicate_verbatim();
        change.publish([event]);
    }

    /// Closes the key, and returns its change for publishing.
    #[inline]
    pub fn close(self) -> Change<'k, 'a> {
        let name = self.0.name();
        let keys = self.0.close();
        Change { keys, name }
    }

    /// Closes the key, replicates `command` with the key and these arguments, and publishes an event.
    pub fn publish(self, command: &CStr, arguments: &[Argument], event: &'static CStr) {
        let mut change = self.close();
        change.replicate(command, arguments);
        change.publish([event]);
    }

    /// Closes the key, replicates the command as it came, and publishes events.
    #[inline]
    pub fn publish_verbatim(self, events: impl IntoIterator<Item = &'static CStr>) {
        let mut change = self.close();
        change.replicate_verbatim();
        change.publish(events);
    }
}

/// An unpublished change, whose key is closed.
pub struct Change<'k, 'a> {
    keys: &'k mut Keyspace<'a>,
    name: Str<'a>,
}

impl<'k, 'a> Change<'k, 'a> {
    /// Returns the key's name.
    pub fn name(&self) -> Str<'a> {
        self.name
    }

    /// Returns the keyspace, for a change of another key that is published with this one.
    pub fn keys(&mut self) -> &mut Keyspace<'a> {
        self.keys
    }

    /// Returns the keyspace of a change that is not to be published.
    pub fn into_keys(self) -> &'k mut Keyspace<'a> {
        self.keys
    }

    /// Replicates the command as it came.
    #[inline]
    pub fn replicate_verbatim(&mut self) {
        self.keys.replicate_verbatim();
    }

    /// Replicates `command`, with the key and then these arguments.
    pub fn replicate(&mut self, command: &CStr, arguments: &[Argument]) {
        self.keys.replicate(command, self.name, arguments);
    }

    /// Replicates the key's expiry as a point in time, because replicas may apply it later.
    pub fn replicate_expiry(&mut self, at_ms: Option<i64>) {
        if let Some(ms) = at_ms {
            self.replicate(c"PEXPIREAT", &[Argument::Text(ms.to_string())]);
        }
    }

    /// Signals the change, and then publishes the events, whose subscribers may change or delete the key. Returns the
    /// keyspace, for what is published after that.
    #[inline]
    pub fn publish(self, events: impl IntoIterator<Item = &'static CStr>) -> &'k mut Keyspace<'a> {
        self.keys.publish(self.name, events);
        self.keys
    }
}
