//! What each process has of its own, although Python forks.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use pyo3::prelude::*;
use valkeybloom_bindings::Shared;

/// The number of forks between the process that loaded the package and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Note that this process is a new child.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// Returns the number of forks between the process that loaded the package and this one.
pub fn forks() -> u32 {
    FORKS.load(Relaxed)
}

/// An object of a process.
///
/// In a child of `fork`, a lock that another thread held stays locked. So a child has an object of its own.
pub struct PerProcess<T> {
    forks: u32,
    object: Shared<T>,
    child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    pub fn new(object: T) -> Self {
        Self {
            forks: forks(),
            object: Shared::new(object),
            child: OnceLock::new(),
        }
    }

    /// Returns the object of this process. `of_child` makes it from the parent's.
    #[inline]
    pub fn get(&self, of_child: impl Fn(&Shared<T>) -> T) -> &Shared<T> {
        if self.forks == forks() {
            return &self.object;
        }
        self.get_of_child(of_child)
    }

    #[cold]
    fn get_of_child(&self, of_child: impl Fn(&Shared<T>) -> T) -> &Shared<T> {
        let mut own = self;
        while own.forks != forks() {
            own = own
                .child
                .get_or_init(|| Box::new(Self::new(of_child(&own.object))));
        }
        &own.object
    }
}
