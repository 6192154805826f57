//! What the handles of a copy share with its task.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use valkeybloom_near::Follower;
use valkeybloom_near::once::Once;

use crate::connection::Connection;

pub struct Inner {
    pub follower: RwLock<Follower>,
    /// The receipts of additions.
    pub once: Mutex<Once>,
    /// The connection to the server that is asked and written to.
    pub connection: Box<dyn Connection>,
    pub key: Arc<[u8]>,
    pub max_age: Duration,
    /// The number of lookups that the server answered.
    pub asked: AtomicU64,
    /// Notifies after each step of the follower.
    pub changed: Notify,
    pub is_closed: AtomicBool,
    pub task: Mutex<Option<JoinHandle<()>>>,
}

impl Inner {
    #[inline]
    pub fn follower(&self) -> RwLockReadGuard<'_, Follower> {
        self.follower.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn follower_mut(&self) -> RwLockWriteGuard<'_, Follower> {
        let follower = self.follower.write();
        follower.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn task(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.task().take() {
            task.abort();
        }
    }
}
