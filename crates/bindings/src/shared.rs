//! Objects shared by threads.

use std::cmp::Ordering;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use super::error::{Code, Error};

/// An object behind a lock. Calls that only read run in parallel. A batch is one call, so other threads see all of it
/// or nothing.
///
/// The lock is held for the length of a call. None of the caller's code runs in that time, except the closure. A thread
/// that holds a lock of its language, such as Python's, tries first, and releases that lock before it waits.
#[derive(Debug, Default)]
pub struct Shared<T>(RwLock<T>);

fn broken<G>(_: std::sync::PoisonError<G>) -> Error {
    Error::new(
        Code::Broken,
        "an earlier call on this object failed in the middle",
    )
}

impl<T> Shared<T> {
    /// Puts a lock around an object.
    pub const fn new(object: T) -> Self {
        Self(RwLock::new(object))
    }

    /// Reads the object, once no other thread is changing it.
    ///
    /// # Errors
    /// [`Code::Broken`]
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R, Error> {
        Ok(look(&*self.0.read().map_err(broken)?))
    }

    /// Changes the object, once no other thread is using it.
    ///
    /// # Errors
    /// [`Code::Broken`]
    pub fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        Ok(change(&mut *self.0.write().map_err(broken)?))
    }

    /// Reads the object if no other thread is changing it; else returns the closure.
    ///
    /// # Errors
    /// [`Code::Broken`]
    #[inline]
    pub fn try_read<R, F: FnOnce(&T) -> R>(&self, look: F) -> Result<Result<R, F>, Error> {
        match self.0.try_read() {
            Ok(object) => Ok(Ok(look(&object))),
            Err(TryLockError::WouldBlock) => Ok(Err(look)),
            Err(TryLockError::Poisoned(error)) => Err(broken(error)),
        }
    }

    /// Changes the object if no other thread is using it; else returns the closure.
    ///
    /// # Errors
    /// [`Code::Broken`]
    #[inline]
    pub fn try_write<R, F: FnOnce(&mut T) -> R>(&self, change: F) -> Result<Result<R, F>, Error> {
        match self.0.try_write() {
            Ok(mut object) => Ok(Ok(change(&mut object))),
            Err(TryLockError::WouldBlock) => Ok(Err(change)),
            Err(TryLockError::Poisoned(error)) => Err(broken(error)),
        }
    }

    /// Reads several objects at once. An object may occur more than once.
    ///
    /// # Errors
    /// [`Code::Broken`]
    pub fn read_all<R>(objects: &[&Self], look: impl FnOnce(&[&T]) -> R) -> Result<R, Error> {
        let locks = Locks::of(None, objects)?;
        let all: Vec<&T> = objects.iter().filter_map(|o| locks.get(o)).collect();
        Ok(look(&all))
    }

    /// Replaces the object by one made from other objects. The object itself may be among them.
    ///
    /// # Errors
    /// [`Code::Broken`], and those of the closure. Then nothing has changed.
    pub fn replace(
        &self,
        sources: &[&Self],
        make: impl FnOnce(&[&T]) -> Result<T, Error>,
    ) -> Result<(), Error> {
        let mut locks = Locks::of(Some(self), sources)?;
        let all: Vec<&T> = sources.iter().filter_map(|o| locks.get(o)).collect();
        let new = make(&all)?;
        if let Some(target) = locks.target() {
            *target = new;
        }
        Ok(())
    }
}

/// The locks of several objects, taken in the order of their addresses, so that threads can't wait for each other for
/// ever.
struct Locks<'s, T>(Vec<(&'s Shared<T>, Guard<'s, T>)>);

enum Guard<'s, T> {
    Read(RwLockReadGuard<'s, T>),
    Write(RwLockWriteGuard<'s, T>),
}

fn by_address<T>(one: &Shared<T>, other: &Shared<T>) -> Ordering {
    std::ptr::from_ref(one).cmp(&std::ptr::from_ref(other))
}

impl<'s, T> Locks<'s, T> {
    fn of(target: Option<&'s Shared<T>>, others: &[&'s Shared<T>]) -> Result<Self, Error> {
        let mut all: Vec<_> = others.iter().copied().chain(target).collect();
        all.sort_unstable_by(|one, other| by_address(one, other));
        all.dedup_by(|one, other| std::ptr::eq(*one, *other));
        let lock = |shared: &'s Shared<T>| {
            let guard = if target.is_some_and(|target| std::ptr::eq(target, shared)) {
                Guard::Write(shared.0.write().map_err(broken)?)
            } else {
                Guard::Read(shared.0.read().map_err(broken)?)
            };
            Ok((shared, guard))
        };
        Ok(Self(
            all.into_iter().map(lock).collect::<Result<_, Error>>()?,
        ))
    }

    fn get(&self, shared: &Shared<T>) -> Option<&T> {
        let place = self
            .0
            .binary_search_by(|(other, _)| by_address(other, shared));
        Some(match &self.0[place.ok()?].1 {
            Guard::Read(object) => object,
            Guard::Write(object) => object,
        })
    }

    fn target(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find_map(|(_, guard)| match guard {
            Guard::Write(object) => Some(&mut **object),
            Guard::Read(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                        at(0)
                            .replace(&sources, |of| Ok(of.iter().copied().max().unwrap() + 1))
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
                assert_eq!(object.try_read(|n| *n).unwrap().ok(), Some(1));
                assert!(object.try_write(|n| *n = 2).unwrap().is_err());
            })
            .unwrap();
        assert!(object.try_write(|n| *n = 2).unwrap().is_ok());
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
