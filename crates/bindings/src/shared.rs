//! Objects shared by threads.

use std::ptr;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use super::batch::copied;
use super::error::Error;

/// An object behind a lock. Calls that only read run in parallel. A batch is one call, so other threads see all of it
/// or nothing.
///
/// The lock is held for the length of a call. None of the caller's code runs in that time, except the closure. A thread
/// that holds a lock of its language, such as Python's, tries first, and releases that lock before it waits.
///
/// A WebAssembly has one thread. There, a lock that is held belongs to a call that was cut off, such as by a lack of
/// memory, so nobody waits for it, and the object is [`Code::Broken`](super::Code::Broken).
#[derive(Debug, Default)]
pub struct Shared<T>(RwLock<T>);

/// Whether no other thread can release a lock.
const ALONE: bool = cfg!(all(target_family = "wasm", not(target_feature = "atomics")));

fn reading<T>(lock: &RwLock<T>) -> Result<RwLockReadGuard<'_, T>, Error> {
    if ALONE {
        return at_once(lock.try_read())?.ok_or(Error::BROKEN);
    }
    lock.read().map_err(|_| Error::BROKEN)
}

fn writing<T>(lock: &RwLock<T>) -> Result<RwLockWriteGuard<'_, T>, Error> {
    if ALONE {
        return at_once(lock.try_write())?.ok_or(Error::BROKEN);
    }
    lock.write().map_err(|_| Error::BROKEN)
}

impl<T> Shared<T> {
    /// Puts a lock around an object.
    pub const fn new(object: T) -> Self {
        Self(RwLock::new(object))
    }

    /// Reads the object, once no other thread is changing it.
    ///
    /// # Errors
    /// [`Code::Broken`](super::Code::Broken)
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R, Error> {
        Ok(look(&*reading(&self.0)?))
    }

    /// Changes the object, once no other thread is using it.
    ///
    /// # Errors
    /// [`Code::Broken`](super::Code::Broken)
    pub fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        Ok(change(&mut *writing(&self.0)?))
    }

    /// Returns the object for reading; `None` while another thread is changing it.
    ///
    /// # Errors
    /// [`Code::Broken`](super::Code::Broken)
    #[inline]
    pub fn try_read(&self) -> Result<Option<RwLockReadGuard<'_, T>>, Error> {
        at_once(self.0.try_read())
    }

    /// Returns the object for changes; `None` while another thread is using it.
    ///
    /// # Errors
    /// [`Code::Broken`](super::Code::Broken)
    #[inline]
    pub fn try_write(&self) -> Result<Option<RwLockWriteGuard<'_, T>>, Error> {
        at_once(self.0.try_write())
    }

    /// Reads several objects at once. An object may occur more than once.
    ///
    /// The locks are taken in the order of their addresses, so that threads can't wait for each other for ever.
    ///
    /// # Errors
    /// [`Code::Broken`](super::Code::Broken) or [`Code::NoMemory`](super::Code::NoMemory).
    pub fn read_all<R>(objects: &[&Self], look: impl FnOnce(&[&T]) -> R) -> Result<R, Error> {
        let address = |object: &&Self| ptr::from_ref(*object);
        let mut ascending = copied(objects)?;
        ascending.sort_unstable_by_key(address);
        ascending.dedup_by_key(|object| address(object));
        let (mut locks, mut all) = (Vec::new(), Vec::new());
        locks.try_reserve_exact(ascending.len())?;
        all.try_reserve_exact(objects.len())?;
        for object in &ascending {
            locks.push(reading(&object.0)?);
        }
        let place = |object| ascending.binary_search_by_key(&address(object), address);
        let held = objects.iter().map(place).filter_map(Result::ok);
        all.extend(held.map(|place| &*locks[place]));
        Ok(look(&all))
    }

    /// Replaces the object by one made from it and another one, which may be the same. The locks are taken in the order
    /// of [`read_all`](Self::read_all).
    ///
    /// # Errors
    /// [`Code::Broken`](super::Code::Broken), and those of the closure. Then nothing has changed.
    pub fn merge(
        &self,
        other: &Self,
        make: impl FnOnce(&T, &T) -> Result<T, Error>,
    ) -> Result<(), Error> {
        let order = ptr::from_ref(other).cmp(&ptr::from_ref(self));
        let read = |is_now: bool| is_now.then(|| reading(&other.0)).transpose();
        let earlier = read(order.is_lt())?;
        let mut own = writing(&self.0)?;
        let later = read(order.is_gt())?;
        let new = make(&own, earlier.or(later).as_deref().unwrap_or(&own))?;
        *own = new;
        Ok(())
    }
}

fn at_once<G>(lock: Result<G, TryLockError<G>>) -> Result<Option<G>, Error> {
    match lock {
        Ok(object) => Ok(Some(object)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Poisoned(_)) => Err(Error::BROKEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn threads_that_merge_into_one_another_do_not_wait_for_ever() {
        let objects = [Shared::new(0_u64), Shared::new(0), Shared::new(0)];
        std::thread::scope(|scope| {
            for start in 0..6 {
                let objects = &objects;
                scope.spawn(move || {
                    for step in 0..2000 {
                        let at = |i: usize| &objects[(start + step + i) % 3];
                        let sources = [at(1), at(2), at(1), at(0)];
                        at(2).merge(at(2), |one, _| Ok(*one)).unwrap();
                        at(0)
                            .merge(at(1), |one, other| Ok(one.max(other) + 1))
                            .unwrap();
                        Shared::read_all(&sources, |of| assert_eq!(of.len(), 4)).unwrap();
                    }
                });
            }
        });
        let most = objects.iter().map(|o| o.read(|n| *n).unwrap()).max();
        assert!(most.unwrap() >= 2000);
    }

    #[test]
    fn an_object_that_is_used_is_not_waited_for() {
        let object = Shared::new(1);
        object
            .read(|_| {
                assert_eq!(object.try_read().unwrap().as_deref(), Some(&1));
                assert!(object.try_write().unwrap().is_none());
            })
            .unwrap();
        *object.try_write().unwrap().unwrap() = 2;
        assert_eq!(object.read(|n| *n), Ok(2));
    }

    #[test]
    fn an_object_whose_change_panicked_is_refused() {
        let object = Shared::new(1);
        let change = || object.write(|_| -> () { panic!("on purpose") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(change)).is_err());
        assert_eq!(object.read(|n| *n).unwrap_err().code(), Code::Broken);
        assert!(Shared::read_all(&[&object], |_| ()).is_err());
    }
}
