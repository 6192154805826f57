//! A copy of a server's filter that stays fresh, so that lookups need no network.

mod driver;
mod shared;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::Notify;
use valkeybloom_near::once::{Adding, Once, Receipts};
use valkeybloom_near::{Follower, clock};

use crate::batches::{BF_MEXISTS, TIMEOUT, answers_to, is_yes};
use crate::connection::send_within;
use crate::error::Error;
use crate::once::{Call, random};
use shared::Inner;

pub use crate::connection::Connection;
pub use valkeybloom_near::{Options, State};

/// The most items that are looked up at a time, so that a large batch does not keep the copy from being updated.
const LOOKUP_ITEMS: usize = 4096;

/// What a copy has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of items that lookups had to ask the server for.
    pub asked: u64,
    /// What following took.
    pub follower: valkeybloom_near::Stats,
}

/// A copy of a server's Bloom filter in this program's memory. Clones are cheap handles to the same copy.
///
/// A task polls the server for new items (`BF.READ`). The copy answers lookups while its last poll is younger than
/// [`Options::max_age`]. Otherwise the server is asked, and if it can't be reached, lookups fail: an answer is never
/// older than that. So each answer is the one that the server gave at some moment within the last `max_age`. Time in
/// which the machine is suspended does not count.
///
/// With [`Options::confirm`], the copy only claims items, and the server is asked about all others. Its answers are
/// then the server's own, except that items of a filter that was deleted or replaced are claimed until the next poll.
///
/// The task ends when the last handle is dropped. It needs a few microseconds for each poll.
#[derive(Clone)]
pub struct Near {
    inner: Arc<Inner>,
    timeout: Duration,
    creates: bool,
    has_receipts: bool,
}

/// The additions of a copy.
const ADDING: Adding = Adding {
    creates: false,
    may_skip_receipts: true,
};

impl Near {
    /// Begins to follow the filter at a key. The copy answers as soon as it is fetched; until then the server is asked.
    ///
    /// A missing key is a filter without items. If it appears, it is followed.
    ///
    /// The connection's own response timeout ends commands earlier if it is shorter. The copy is fetched in pieces of up
    /// to 4 MiB, which must arrive within it and within 5 seconds.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time.
    pub fn follow(
        connection: impl Connection + Clone,
        key: impl AsRef<[u8]>,
        options: Options,
    ) -> Self {
        Self::start(connection.clone(), connection, key.as_ref(), options)
    }

    /// Begins to follow the filter at a key as [`follow`](Self::follow) does, but reads it from a replica: a connection
    /// to one server, in a cluster one that sent `READONLY`.
    ///
    /// The copy is behind by as much as the replica, besides `max_age`. A replica that has lost its primary goes on to
    /// serve old data, unless its setting `replica-serve-stale-data` is `no`. [`Options::lag`] is how far it may be behind
    /// the primary, `max_age` if it is 0: for so long, items that this program adds are kept beside the copy. Afterwards,
    /// the primary is asked about those that the copy still lacks.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time.
    pub fn follow_replica(
        replica: impl Connection,
        connection: impl Connection,
        key: impl AsRef<[u8]>,
        mut options: Options,
    ) -> Self {
        if options.lag.is_zero() {
            options.lag = options.max_age;
        }
        Self::start(replica, connection, key.as_ref(), options)
    }

    fn start(
        reads: impl Connection,
        connection: impl Connection,
        key: &[u8],
        options: Options,
    ) -> Self {
        let once = Once::new(key, Receipts::Own(random()), ADDING);
        let inner = Arc::new(Inner {
            follower: RwLock::new(Follower::new(options)),
            once: Mutex::new(once),
            connection: Box::new(connection),
            key: key.into(),
            max_age: options.max_age,
            asked: AtomicU64::new(0),
            changed: Notify::new(),
            is_closed: AtomicBool::new(false),
            task: Mutex::new(None),
        });
        let task = tokio::spawn(driver::drive(Arc::downgrade(&inner), reads));
        *inner.task() = Some(task);
        Self {
            inner,
            timeout: TIMEOUT,
            creates: false,
            has_receipts: true,
        }
    }

    /// Sets the timeout of a command that this handle sends: 5 seconds by default. The connection's own timeouts end it
    /// earlier if they are shorter.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Lets the server create a missing filter, with the parameters of its settings, when this handle adds an item.
    /// Otherwise, additions to a missing key fail.
    #[must_use]
    pub fn creating(mut self) -> Self {
        self.creates = true;
        self
    }

    /// Lets this handle add without receipts, so that a reply that is lost takes its answer with it. That saves the server
    /// some work.
    #[must_use]
    pub fn without_receipts(mut self) -> Self {
        self.has_receipts = false;
        self
    }

    /// Returns whether an item was added: `true` for every item that was, and for other items at the filter's error rate.
    /// Asks the server if the copy can't answer.
    ///
    /// # Errors
    ///
    /// The server was asked and can't be reached, refused, or did not answer in time.
    pub async fn contains(&self, item: impl AsRef<[u8]>) -> Result<bool, Error> {
        if let Some(answer) = self.local(item.as_ref()) {
            return Ok(answer);
        }
        self.inner.asked.fetch_add(1, Relaxed);
        let mut command = redis::cmd("BF.EXISTS");
        command.arg(&self.inner.key[..]).arg(item.as_ref());
        let reply = self.send(command).await?;
        is_yes(&reply).ok_or(Error::Unexpected)
    }

    /// Returns for each item, in order, whether it was added. Asks the server about the items that the copy can't answer
    /// for, up to 10,000 in a command.
    ///
    /// # Errors
    ///
    /// The server was asked and can't be reached, refused, or did not answer in time.
    pub async fn contains_each(&self, items: &[impl AsRef<[u8]>]) -> Result<Vec<bool>, Error> {
        let mut answers = vec![false; items.len()];
        let mut unknown = Vec::new();
        self.each_local(items, |at, answer| match answer {
            Some(answer) => answers[at] = answer,
            None => unknown.push(at),
        });
        self.inner.asked.fetch_add(unknown.len() as u64, Relaxed);
        let words = [BF_MEXISTS.as_bytes(), &self.inner.key];
        let asked = answers_to(&words, items, &unknown, |command| self.send(command)).await;
        for (&at, answer) in unknown.iter().zip(asked) {
            answers[at] = answer?;
        }
        Ok(answers)
    }

    /// Returns whether an item was added, or `None` if the server has to be asked: the copy is too old or not yet there, or
    /// does not claim the item and only the server may deny it. Neither waits for the network nor needs a runtime.
    #[inline]
    pub fn local(&self, item: impl AsRef<[u8]>) -> Option<bool> {
        let follower = self.inner.follower();
        follower.contains(item.as_ref(), clock::now_for(&follower))
    }

    /// Adds an item, and returns whether it was new. A false positive counts as not new. A missing filter is not created,
    /// except after [`creating`](Self::creating).
    ///
    /// An item that the copy claims is not new, and nothing is sent. So the answer is the one that the server would have
    /// given at some moment within the last `max_age`: an item of a filter that was deleted since is not added anew. From
    /// then on lookups through this copy claim the item.
    ///
    /// The answer is kept in a receipt on the server, as those of [`Once`](crate::Once): a connection may send the command
    /// again. If the server takes no receipts, because its `BF.INSERT` lacks `ONCE` or the user may not write them, items
    /// are added without them from then on.
    ///
    /// # Errors
    ///
    /// The server can't be reached, refused, or did not answer in time. The item may have been added; the next call returns
    /// whether it was new to this one.
    pub async fn add(&self, item: impl AsRef<[u8]>) -> Result<bool, Error> {
        let added = self.add_each(&[item]).await.pop();
        added.unwrap_or(Err(Error::Unexpected))
    }

    /// Adds items, and returns for each, in order, whether it was new, as [`add`](Self::add) does. Only the first of equal
    /// items is new. Sends up to 10,000 items in a command.
    ///
    /// If a command fails, or the server refuses an item, that item gets the error, or all items of the command, and items
    /// after it get [`Error::NotTried`]. An item with an error may have been added; the next call that has it returns
    /// whether it was new.
    pub async fn add_each(&self, items: &[impl AsRef<[u8]>]) -> Vec<Result<bool, Error>> {
        let mut claimed = Vec::with_capacity(items.len());
        self.each_local(items, |_, answer| claimed.push(answer == Some(true)));
        let off = Mutex::new(Once::new(&self.inner.key, Receipts::Off, ADDING));
        let once = if self.has_receipts {
            &self.inner.once
        } else {
            &off
        };
        let given = items.iter().map(AsRef::as_ref).zip(claimed);
        let mut call = Call::begin(once, given, 0);
        call.set_creates(self.creates);
        let keep = |added: &[&[u8]]| {
            let now = clock::now();
            let mut follower = self.inner.follower_mut();
            for item in added {
                follower.keep(item, now);
            }
        };
        let done = call
            .run(&self.inner.key, |command| self.send(command), keep)
            .await;
        let answers = call.answers().into_iter();
        let answers = answers.map(|answer| answer.ok_or(Error::NotTried));
        let mut answers: Vec<_> = answers.collect();
        if let Err(error) = done {
            for index in call.failed() {
                answers[index] = Err(error.clone());
            }
        }
        call.finish();
        answers
    }

    /// Returns how old the copy is: the time since its last complete poll. `None` if there is no copy.
    pub fn age(&self) -> Option<Duration> {
        self.inner.follower().age(clock::now())
    }

    /// Returns what the copy is doing.
    pub fn state(&self) -> State {
        self.inner.follower().state(clock::now())
    }

    /// Returns what the copy has done.
    pub fn stats(&self) -> Stats {
        Stats {
            asked: self.inner.asked.load(Relaxed),
            follower: self.inner.follower().stats().clone(),
        }
    }

    /// Returns once the copy answers, at once if it does already. Waits while the server can't be reached;
    /// [`stats`](Self::stats) has the latest error.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the filter can't be followed or the password is wrong, and [`Error::Closed`]. A later call may
    /// succeed: the server is tried again within half a minute, or after [`Options::every`] if it is longer.
    pub async fn ready(&self) -> Result<(), Error> {
        loop {
            let mut changed = std::pin::pin!(self.inner.changed.notified());
            // From here on no notification is missed.
            changed.as_mut().enable();
            if self.inner.is_closed.load(Relaxed) {
                return Err(Error::Closed);
            }
            {
                let follower = self.inner.follower();
                let now = clock::now();
                if follower.is_fresh(now) {
                    return Ok(());
                }
                if follower.state(now) == State::Refused {
                    let why = follower.stats().last_error.clone();
                    return Err(Error::Refused(why.unwrap_or_default()));
                }
            }
            changed.await;
        }
    }

    /// Ends the task, for all handles, and returns once it has ended. The copy answers until it is too old; then the server
    /// is asked.
    pub async fn close(&self) {
        let task = self.inner.task().take();
        self.inner.is_closed.store(true, Relaxed);
        self.inner.changed.notify_waiters();
        if let Some(task) = task {
            task.abort();
            // It was cancelled, which is what is awaited.
            let _ = task.await;
        }
    }

    /// Passes the position of each item and the result of [`local`](Self::local) to `answer`.
    fn each_local(&self, items: &[impl AsRef<[u8]>], mut answer: impl FnMut(usize, Option<bool>)) {
        let mut at = 0;
        for part in items.chunks(LOOKUP_ITEMS) {
            let follower = self.inner.follower();
            let part = part.iter().map(AsRef::as_ref);
            follower.contains_each(part, clock::now_for(&follower), |found| {
                answer(at, found);
                at += 1;
            });
        }
    }

    async fn send(&self, command: Cmd) -> Result<Value, Error> {
        let Inner {
            connection, key, ..
        } = &*self.inner;
        send_within(self.timeout, &**connection, key, command).await
    }
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Near")
            .field("key", &format_args!("{}", self.inner.key.escape_ascii()))
            .field("state", &self.state())
            .field("age", &self.age())
            .finish_non_exhaustive()
    }
}
