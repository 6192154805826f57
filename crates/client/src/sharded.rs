//! One logical filter over many keys of a cluster.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use tokio::sync::Semaphore;

use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::names::{BF_INFO, BF_INSERT, BF_RESERVE};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, shard_capacity};

use crate::batches::{BF_MEXISTS, TIMEOUT, answers_to, is_yes};
use crate::connection::primary_of;
use crate::error::Error;

/// The most calls in flight. If connections break with more, the client library may wait for its own lock for ever: one of its
/// requests has the lock, has run out of the steps that tokio allows a task at a time, and is not polled while the library
/// recovers. With 16, ten of 180 runs of the test that breaks connections stopped on a busy machine; with 8, none.
const CALLS: usize = 8;

/// Returns the keys of the shards of a filter.
///
/// # Errors
///
/// [`Error::Name`].
pub fn shard_keys(name: &str, shards: NonZeroU32) -> Result<Vec<String>, Error> {
    if name.contains(['{', '}']) {
        return Err(Error::Name);
    }
    Ok((0..shards.get()).map(|at| format!("{name}:{at}")).collect())
}

/// Returns the number of the shard that an item belongs to, from 0.
#[must_use]
pub fn shard_of(item: impl AsRef<[u8]>, shards: NonZeroU32) -> u32 {
    crc32fast::hash(item.as_ref()) % shards
}

/// The sums of all shards' `BF.INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The shards' capacity: more than was requested, see [`shard_capacity`].
    pub capacity: u64,
    /// The shards' memory in bytes.
    pub bytes: u64,
    /// The number of filters, at least one per shard.
    pub filters: u64,
    /// The number of items that were new when they were added.
    pub items: u64,
}

/// A filter spread over keys of a cluster. Clones are cheap handles to the same filter.
///
/// A batch becomes one command per shard, or one for each 10,000 items of a shard; shards are queried in parallel. Large
/// batches are best: a few thousand items per shard. The task that awaits a batch assembles it, so several tasks use
/// several processors.
///
/// Up to 8 commands are in flight, those of all clones counted: with more, `redis-rs` may stall when a connection to a node
/// breaks. Filters that are used at the same time should have connections of their own, not clones of one.
#[derive(Clone)]
pub struct ShardedFilter {
    connection: ClusterConnection,
    /// A permit for each call in flight.
    calls: Arc<Semaphore>,
    keys: Arc<[String]>,
    timeout: Duration,
    /// The number of replicas that must acknowledge a write, and the time that they have.
    acknowledgement: Option<(NonZeroU32, Duration)>,
}

impl fmt::Debug for ShardedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedFilter")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl ShardedFilter {
    /// Returns a handle to the filter with this name and number of shards, without sending anything to the cluster.
    ///
    /// Queries go to primaries. A connection that reads from replicas uses one in place of a lost primary; that
    /// replica may lack the latest items.
    ///
    /// # Errors
    ///
    /// [`Error::Name`].
    pub fn new(
        connection: ClusterConnection,
        name: &str,
        shards: NonZeroU32,
    ) -> Result<Self, Error> {
        Ok(Self {
            connection,
            calls: Arc::new(Semaphore::new(CALLS)),
            keys: shard_keys(name, shards)?.into(),
            timeout: TIMEOUT,
            acknowledgement: None,
        })
    }

    /// Sets the timeout of one command, which includes the time in which the connection finds a moved or restarted node:
    /// 5 seconds by default. The connection's own timeouts and retries end the command earlier if they are shorter; by
    /// default they take minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Requires that `replicas` replicas of the shard's primary acknowledge each write (`WAIT`) within the timeout. The
    /// timeout is at least a millisecond, and is added to that of the command.
    ///
    /// An acknowledged item outlives the primary if one of those replicas is promoted. The server prefers the most
    /// up-to-date replica; the item is safe in every case if `replicas` counts all replicas. Other commands on this
    /// connection wait as well.
    ///
    /// `WAIT` does not wait after a command that changed nothing, although the items found may not have reached the
    /// replicas yet. In this case a key `{name:i}:sync` is set for a millisecond, and `WAIT` waits for that write.
    #[must_use]
    pub fn acknowledged_by(mut self, replicas: NonZeroU32, timeout: Duration) -> Self {
        self.acknowledgement = Some((replicas, timeout.max(Duration::from_millis(1))));
        self
    }

    /// Creates the shards that do not exist, for a total of `capacity` items (1 to 2⁶³−1) at this error rate. Existing
    /// shards stay unchanged, so several clients may create the same filter concurrently, and may retry after a failure.
    ///
    /// # Errors
    ///
    /// The error of the first shard that was not created.
    pub async fn create(
        &self,
        capacity: u64,
        error_rate: Fraction,
        growth: Growth,
    ) -> Result<(), Error> {
        let capacity = shard_capacity(capacity, self.shards());
        let created = self.keys.iter().map(|key| {
            let mut reserve = redis::cmd(BF_RESERVE);
            reserve.arg(key).arg(error_rate.get()).arg(capacity);
            match growth {
                Growth::Fixed => reserve.arg("NONSCALING"),
                Growth::By(factor) => reserve.arg("EXPANSION").arg(factor.get()),
            };
            self.write(key, reserve)
        });
        let created = join_all(created).await;
        created.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// Adds items, and returns for each, in order, whether it was new. Only the first of equal items is new. A false
    /// positive counts as not new.
    ///
    /// If a shard fails, each of its items gets an error, and the items of other shards get their answers. An item with
    /// an error may have been added; adding it again is harmless, except that it may then count as not new. The connection
    /// also retries if a node is lost or a slot moves.
    ///
    /// Shards are not created: a missing shard is `ERR not found`.
    pub async fn add(&self, items: &[impl AsRef<[u8]>]) -> Vec<Result<bool, Error>> {
        self.each(items, true).await
    }

    /// Returns for each item, in order, whether it was added: `true` for every item that was, and for other items at the
    /// error rate.
    ///
    /// If a shard fails, each of its items gets an error, and the items of other shards get their answers. A missing
    /// shard has no items.
    pub async fn ask(&self, items: &[impl AsRef<[u8]>]) -> Vec<Result<bool, Error>> {
        self.each(items, false).await
    }

    /// Returns the number of items that were new when they were added. A missing shard has no items.
    ///
    /// # Errors
    ///
    /// The error of the first shard that failed: a sum without that shard would be wrong.
    pub async fn card(&self) -> Result<u64, Error> {
        let cards = self.on_all("BF.CARD").await;
        cards.into_iter().map(|card| read::<u64>(card?)).sum()
    }

    /// Returns the sums of the shards' `BF.INFO`.
    ///
    /// # Errors
    ///
    /// The error of the first shard that failed; `ERR not found` for a shard that was never created.
    pub async fn info(&self) -> Result<Info, Error> {
        let mut sum = Info::default();
        for fields in self.on_all(BF_INFO).await {
            let fields: HashMap<CString, Value> = read(fields?)?;
            for (field, total) in [
                (InfoField::Capacity, &mut sum.capacity),
                (InfoField::Size, &mut sum.bytes),
                (InfoField::Filters, &mut sum.filters),
                (InfoField::Items, &mut sum.items),
            ] {
                let value = fields.get(field.title()).ok_or(Error::Unexpected)?;
                *total += read::<u64>(value.clone())?;
            }
        }
        Ok(sum)
    }

    fn shards(&self) -> NonZeroU32 {
        let shards = u32::try_from(self.keys.len()).ok();
        let shards = shards.and_then(NonZeroU32::new);
        shards.expect("`new` took a number of shards")
    }

    async fn on_all(&self, command: &str) -> Vec<Result<Value, Error>> {
        let replies = self.keys.iter().map(|key| async move {
            let mut words = redis::cmd(command);
            words.arg(key);
            let [reply] = self.call(key, [words]).await?;
            Ok(reply.extract_error()?)
        });
        join_all(replies).await
    }

    async fn each(&self, items: &[impl AsRef<[u8]>], add: bool) -> Vec<Result<bool, Error>> {
        let shards = self.shards();
        let mut positions = vec![Vec::new(); self.keys.len()];
        for (at, item) in items.iter().enumerate() {
            positions[shard_of(item, shards) as usize].push(at);
        }
        let of_shards = self.keys.iter().zip(&positions);
        let of_shards = of_shards.map(|(key, own)| self.each_of_shard(key, items, own, add));
        let mut answers = vec![Err(Error::NotTried); items.len()];
        for (own, of_shard) in positions.iter().zip(join_all(of_shards).await) {
            for (&at, answer) in own.iter().zip(of_shard) {
                answers[at] = answer;
            }
        }
        answers
    }

    /// Returns the answers for a shard's items, up to the first failed command. The commands are sequential, so that only
    /// the first of equal items is new, and a lost node costs one timeout.
    async fn each_of_shard(
        &self,
        key: &str,
        items: &[impl AsRef<[u8]>],
        positions: &[usize],
        add: bool,
    ) -> Vec<Result<bool, Error>> {
        // Not BF.MADD, which would create a missing shard from the server's settings.
        let adding = [BF_INSERT, key, "NOCREATE", "ITEMS"].map(str::as_bytes);
        let looking_up = [BF_MEXISTS, key].map(str::as_bytes);
        let words = if add { &adding[..] } else { &looking_up };
        let send = |command| async move {
            if add {
                self.write(key, command).await
            } else {
                self.read(key, command).await
            }
        };
        answers_to(words, items, positions, send).await
    }

    /// Sends a command that writes to a shard, and waits until it is acknowledged. A shard that exists already is not an
    /// error.
    async fn write(&self, key: &str, command: Cmd) -> Result<Value, Error> {
        let Some((replicas, timeout)) = self.acknowledgement else {
            return self.read(key, command).await;
        };
        let mut wait = redis::cmd("WAIT");
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        wait.arg(replicas.get()).arg(timeout);
        // WAIT covers the writes of its own connection, so both commands go in one pipeline.
        let [reply, mut acknowledged] = self.call(key, [command, wait.clone()]).await?;
        let changed = match &reply {
            Value::Okay => true,
            Value::Array(answers) => answers.iter().any(|answer| is_yes(answer) == Some(true)),
            _ => false,
        };
        let reply = accepted(reply)?;
        if !changed {
            let mut sync = redis::cmd("SET");
            sync.arg(format!("{{{key}}}:sync")).arg("").arg("PX").arg(1);
            let [set, waited] = self.call(key, [sync, wait]).await?;
            accepted(set)?;
            acknowledged = waited;
        }
        match read::<u64>(acknowledged)? {
            enough if enough >= u64::from(replicas.get()) => Ok(reply),
            replicas => Err(Error::Unacknowledged { replicas }),
        }
    }

    /// Sends a command to a shard's primary.
    async fn read(&self, key: &str, command: Cmd) -> Result<Value, Error> {
        let [reply] = self.call(key, [command]).await?;
        accepted(reply)
    }

    /// Sends commands to a shard's primary as one pipeline.
    async fn call<const N: usize>(
        &self,
        key: &str,
        commands: [Cmd; N],
    ) -> Result<[Value; N], Error> {
        let mut pipeline = Pipeline::with_capacity(N);
        for command in commands {
            pipeline.add_command(command);
        }
        let route = primary_of(key.as_bytes());
        let _permit = self.calls.acquire().await.expect("it is never closed");
        let mut connection = self.connection.clone();
        let replies = connection.route_pipeline(pipeline, 0, N, route);
        let acknowledgement = self
            .acknowledgement
            .map_or(Duration::ZERO, |(_, time)| time);
        let replies = tokio::time::timeout(self.timeout + acknowledgement, replies).await;
        let replies = replies.map_err(|_| Error::Timeout)??;
        replies.try_into().map_err(|_| Error::Unexpected)
    }
}

/// Returns the reply, or the error that it is. That the shard exists already is not an error.
fn accepted(reply: Value) -> Result<Value, Error> {
    let Value::ServerError(error) = reply else {
        return Ok(reply);
    };
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    let exists = text == valkeybloom_protocol::error::Error::EXISTS.to_string();
    exists.then_some(Value::Okay).ok_or(error.into())
}

fn read<T: FromRedisValue>(reply: Value) -> Result<T, Error> {
    let read = T::from_redis_value(reply.extract_error()?);
    read.map_err(|_| Error::Unexpected)
}
