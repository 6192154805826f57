//! A server, or a cluster, where commands go to the node of their key.
//!
//! Methods that *call* commands return the replies as they are, and those that *query* convert them.

mod connection;
mod moves;
mod nodes;

use std::cell::RefCell;
use std::ops::RangeInclusive;

use futures_util::stream::{self, StreamExt};
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, FromRedisValue, Value};
use tokio::runtime::Runtime;

use valkeybloom_connect::{Address, Connector, Place};
use valkeybloom_near::slot;
use valkeybloom_protocol::names::BF_INFO;

use self::connection::Connection;
use self::moves::{pauses, until_moved};
use self::nodes::{CLUSTER_SLOTS, Primary, primaries_in};
use super::failure::{Failure, Fault, Meaning, Result, shown, unless_refused};

pub use self::connection::{convert, words};
pub use valkeybloom_connect::Tls;

/// The most items in one command, which takes some hundred microseconds of the server's time. It never changes: a run that
/// continues divides its items as the earlier one did.
pub const COMMAND_ITEMS: usize = 1000;
/// The most calls in flight on a cluster. If connections break with more, the client library may wait for its own lock for
/// ever: one of its requests has the lock, has run out of the steps that tokio allows a task at a time, and is not polled
/// while the library recovers. 16 were too many when the machine was busy.
const CLUSTER_CALLS: usize = 8;

/// A server, or a cluster.
pub struct Server {
    runtime: Runtime,
    /// In a cell because a reply above the bounds ends a connection, and another one takes its place.
    connection: RefCell<Connection>,
    address: Address,
    connector: Option<Connector>,
}

impl Server {
    /// Connects to the server at an address like `redis://user:password@host:port/database`, or to its cluster.
    pub fn connect(address: &str, tls: &Tls) -> Result<Self> {
        let address = parse(address)?;
        let connector = tls.connector(&address).map_err(Failure::new)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(error.to_string()))?;
        let connection = runtime.block_on(Connection::open(&address, connector.clone()))?;
        Ok(Self {
            runtime,
            connection: RefCell::new(connection),
            address,
            connector,
        })
    }

    /// Calls a command on the node of a key, again and again while its slot moves to another node.
    pub fn call(&self, key: &[u8], command: &Cmd) -> Result<Value, Fault> {
        self.call_until_moved(&[(key, command)]).swap_remove(0)
    }

    /// Calls a command on the node of a key, and converts the reply.
    pub fn query<T: FromRedisValue>(&self, key: &[u8], command: &Cmd) -> Result<T, Fault> {
        convert(self.call(key, command)?)
    }

    /// Returns the time of the node of a key, in milliseconds since the epoch.
    pub fn time_ms(&self, key: &[u8]) -> Result<u64, Fault> {
        let (seconds, microseconds): (u64, u64) = self.query(key, &words("TIME"))?;
        Ok(1000 * seconds + microseconds / 1000)
    }

    /// Calls commands in parallel. A single server runs them in order. A cluster's client begins them in order. A command
    /// whose reply is lost, or whose slot moves to another node, is called again, and so later.
    pub fn call_all(&self, commands: &[(Vec<u8>, Cmd)]) -> Vec<Result<Value, Fault>> {
        let commands = commands.iter().map(|(key, command)| (&key[..], command));
        self.call_until_moved(&commands.collect::<Vec<_>>())
    }

    fn call_until_moved(&self, commands: &[(&[u8], &Cmd)]) -> Vec<Result<Value, Fault>> {
        let mut pause = pauses();
        let pause = || self.is_cluster() && pause();
        until_moved(commands, |commands| self.call_once(commands), pause)
    }

    fn call_once(&self, commands: &[(&[u8], &Cmd)]) -> Vec<Result<Value, Fault>> {
        let connection = self.connection.borrow().clone();
        let at_once = match connection {
            Connection::Single(_) => commands.len().max(1),
            Connection::Cluster(_) => CLUSTER_CALLS,
        };
        let calls = stream::iter(commands)
            .map(|(key, command)| connection.clone().call(primary_of(key), command))
            .buffered(at_once);
        let replies: Vec<_> = self.runtime.block_on(calls.collect());
        let is_too_large = |reply: &Result<_, _>| matches!(reply, Err(Fault::TooLarge));
        if replies.iter().any(is_too_large) {
            self.reconnect();
        }
        replies
    }

    /// Replaces the connection. If that fails, the next call reports that the connection is lost.
    fn reconnect(&self) {
        let opening = Connection::open(&self.address, self.connector.clone());
        if let Ok(connection) = self.runtime.block_on(opening) {
            *self.connection.borrow_mut() = connection;
        }
    }

    /// Calls a command of one or more words on each key, in parallel, and converts the replies.
    pub fn query_all<T: FromRedisValue>(
        &self,
        keys: &[&[u8]],
        command: &str,
    ) -> Vec<Result<T, Fault>> {
        let commands = keys.iter().map(|key| on_key(command, key));
        let replies = self.call_all(&commands.collect::<Vec<_>>()).into_iter();
        replies.map(|reply| reply.and_then(convert)).collect()
    }

    /// Returns the nodes that hold keys: a cluster's primaries, or the server itself.
    pub fn primaries(&self) -> Result<Vec<SingleNodeRoutingInfo>, Fault> {
        if !self.is_cluster() {
            return Ok(vec![SingleNodeRoutingInfo::RandomPrimary]);
        }
        let primaries = self.cluster_primaries()?.into_iter();
        Ok(primaries.map(|primary| primary.routing).collect())
    }

    fn cluster_primaries(&self) -> Result<Vec<Primary>, Fault> {
        // Nodes that announce no host have that of the address.
        let host = match self.address.place() {
            Place::Port { host, .. } => host,
            Place::Socket(_) => "",
        };
        primaries_in(self.call(b"", &words(CLUSTER_SLOTS))?, host)
    }

    /// Returns the slots of the node of a key: all for a single server. If a cluster's slots can't be read, returns the key's
    /// own.
    pub fn slots_beside(&self, key: &[u8]) -> Vec<RangeInclusive<u16>> {
        if !self.is_cluster() {
            return vec![0..=u16::MAX];
        }
        let slot = slot(key);
        let mut primaries = self.cluster_primaries().unwrap_or_default().into_iter();
        let own = primaries.find(|primary| primary.has(slot));
        own.map_or_else(|| vec![slot..=slot], |primary| primary.slots)
    }

    /// Calls a command without a key on one of [`primaries`](Self::primaries), and converts the reply.
    pub fn query_on<T: FromRedisValue>(
        &self,
        node: &SingleNodeRoutingInfo,
        command: &Cmd,
    ) -> Result<T, Fault> {
        let connection = self.connection.borrow().clone();
        convert(
            self.runtime
                .block_on(connection.call(node.clone(), command))?,
        )
    }

    /// Keeps reads on this connection from changing the times at which keys were last used, where the server can do so:
    /// since Redis 7.2 and Valkey 7.2. A connection that is made later, as by a cluster's client after a failover, reads without
    /// this.
    pub fn leave_untouched(&self) -> Result<(), Fault> {
        for node in self.primaries()? {
            unless_refused(self.query_on::<Value>(&node, &words("CLIENT NO-TOUCH ON")))?;
        }
        Ok(())
    }

    /// Returns whether this is a cluster, whose client sends a command again if its reply is lost.
    pub fn is_cluster(&self) -> bool {
        matches!(*self.connection.borrow(), Connection::Cluster(_))
    }

    /// Returns the number of the database.
    pub fn database(&self) -> i64 {
        self.address.info().redis_settings().db()
    }

    /// Returns the type of a key, as TYPE returns it.
    pub fn type_of(&self, key: &[u8]) -> Result<String> {
        let kind = self.query(key, redis::cmd("TYPE").arg(key));
        kind.map_err(|fault| self.failure_of("read the type of", key, &fault))
    }

    /// Returns the type of a key, which has to exist.
    pub fn required_type(&self, key: &[u8]) -> Result<String> {
        let kind = self.type_of(key)?;
        if kind == "none" {
            return Err(Failure::new(self.missing_key(key)));
        }
        Ok(kind)
    }

    /// Requires that the server has Bloom filters.
    pub fn require_bloom_filters(&self) -> Result<()> {
        let missing = self.missing_command(BF_INFO);
        match missing.map_err(|fault| self.failure("could not talk to", &fault))? {
            Some(fault) => Err(self.failure("could not find filters at", &fault)),
            None => Ok(()),
        }
    }

    /// Returns the error for a command that the server lacks; `None` if it has the command. The user needs no permission,
    /// because a server checks first whether a command exists.
    pub fn missing_command(&self, command: &str) -> Result<Option<Fault>, Fault> {
        match self.call(b"", &redis::cmd(command)) {
            Err(fault) if fault.means(Meaning::UnknownCommand) => Ok(Some(fault)),
            reply => unless_refused(reply).map(|_| None),
        }
    }

    /// Reports a failure at this server. `what` ends before the address.
    pub fn failure(&self, what: &str, fault: &Fault) -> Failure {
        Failure::of_fault(format_args!("{what} {}", self.address), fault)
    }

    /// Reports a failure to do something to a key of this server.
    pub fn failure_of(&self, verb: &str, key: &[u8], fault: &Fault) -> Failure {
        self.failure(&format!("could not {verb} {} at", shown(key)), fault)
    }

    /// Says that there is no such key.
    pub fn missing_key(&self, key: &[u8]) -> String {
        format!("{} does not exist at {}", shown(key), self.address)
    }

    /// Says that this server refused a command for a single key.
    pub fn refusal(&self, fault: &Fault) -> String {
        format!("{}: {}", self.address, fault.with_advice())
    }

    /// Returns the address, without a password.
    pub const fn address(&self) -> &Address {
        &self.address
    }
}

/// Checks the options for TLS against the addresses of the command line.
pub fn check_tls(addresses: &[&str], tls: &Tls) -> Result<()> {
    let addresses: Result<Vec<_>> = addresses.iter().map(|address| parse(address)).collect();
    tls.check(&addresses?).map_err(Failure::usage)
}

fn parse(address: &str) -> Result<Address> {
    Address::parse(address).map_err(|wrong| Failure::usage(wrong.to_string()))
}

/// Returns a command of one or more words on a key, for [`Server::call_all`].
pub fn on_key(text: &str, key: &[u8]) -> (Vec<u8>, Cmd) {
    let mut command = words(text);
    command.arg(key);
    (key.to_vec(), command)
}

fn primary_of(key: &[u8]) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master))
}
