//! A connection to a server, or to a cluster, where commands go to the node of their key.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, Value,
};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use valkeybloom_connect::{Address, Bounded, Connector, IS_IT_UP, Place, advice_on_text};
use valkeybloom_near::slot;
use valkeybloom_protocol::names::BF_INFO;

use super::failure::{Failure, Fault, Result, shown, unless_refused};

pub use valkeybloom_connect::Tls;

/// The most items in one command, which takes some hundred microseconds of the server's time.
pub const COMMAND_ITEMS: usize = 1000;
/// The timeout of each step to a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The timeout of a reply. A server that saves its data replies slowly.
const REPLY: Duration = Duration::from_secs(60);
/// The most calls in flight on a cluster. If a connection breaks with more, the client library may wait for its own lock
/// until every reply has timed out: its driver runs out of the steps that tokio allows a task at a time.
const CLUSTER_CALLS: usize = 16;
/// The most time that a slot may take to move to another node.
const SLOT_MOVE: Duration = Duration::from_secs(20);
/// The command that lists a cluster's nodes.
const CLUSTER_SLOTS: &str = "CLUSTER SLOTS";

/// A primary of a cluster.
#[derive(Debug, PartialEq)]
struct Node {
    routing: SingleNodeRoutingInfo,
    slots: Vec<RangeInclusive<u16>>,
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A server, or a cluster.
pub struct Server {
    runtime: Runtime,
    connection: Connection,
    address: Address,
    database: i64,
    /// The slots of nodes whose BF.INFO is known to lack ALL; any for a single server.
    without_all: RefCell<Vec<RangeInclusive<u16>>>,
}

impl Server {
    /// Connects to the server at an address like `redis://user:password@host:port/database`, or to its cluster.
    pub fn connect(address: &str, tls: &Tls) -> Result<Self> {
        let address = parse(address)?;
        let tls = tls.connector(&address).map_err(Failure::new)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(error.to_string()))?;
        let opening = valkeybloom_connect::open(&address, tls.as_ref(), CONNECT);
        let stream = runtime
            .block_on(opening)
            .map_err(|why| not_connected(&address, &why.to_string()))?;
        let logging_in = log_in(address.info(), stream, tls);
        let connection = runtime
            .block_on(logging_in)
            .map_err(|error| login_failure(error, &address))?;
        Ok(Self {
            runtime,
            connection,
            database: address.info().redis_settings().db(),
            address,
            without_all: RefCell::default(),
        })
    }

    /// Calls a command on the node of a key, again and again while its slot moves to another node.
    pub fn call(&self, key: &[u8], command: &Cmd) -> Result<Value, Fault> {
        self.retry_while_slot_moves(|| {
            let call = self.connection.clone().call(primary_of(key), command);
            self.runtime.block_on(call)
        })
    }

    /// Calls a command on the node of a key, and converts the reply.
    pub fn get<T: FromRedisValue>(&self, key: &[u8], command: &Cmd) -> Result<T, Fault> {
        read(self.call(key, command)?)
    }

    /// Returns the time of the node of a key, in milliseconds since the epoch.
    pub fn time_ms(&self, key: &[u8]) -> Result<u64, Fault> {
        let (seconds, microseconds): (u64, u64) = self.get(key, &words("TIME"))?;
        Ok(1000 * seconds + microseconds / 1000)
    }

    /// Calls commands in parallel. A single server runs them in order. A cluster's client begins them in order, and may call
    /// one again, and so later, if its reply is lost or its slot moves.
    pub fn call_all(&self, commands: &[(Vec<u8>, Cmd)]) -> Vec<Result<Value, Fault>> {
        let at_once = match self.connection {
            Connection::One(_) => commands.len().max(1),
            Connection::Cluster(_) => CLUSTER_CALLS,
        };
        let calls = stream::iter(commands)
            .map(|(key, command)| self.connection.clone().call(primary_of(key), command))
            .buffered(at_once);
        self.runtime.block_on(calls.collect())
    }

    /// Calls a command of one or more words on each key, in parallel, and converts the replies.
    pub fn get_all<T: FromRedisValue>(
        &self,
        keys: &[&[u8]],
        command: &str,
    ) -> Vec<Result<T, Fault>> {
        let commands = keys.iter().map(|key| on_key(command, key));
        let replies = self.call_all(&commands.collect::<Vec<_>>()).into_iter();
        replies.map(|reply| reply.and_then(read)).collect()
    }

    fn retry_while_slot_moves<T>(&self, call: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
        let start = Instant::now();
        let in_cluster = matches!(self.connection, Connection::Cluster(_));
        loop {
            match call() {
                Err(fault)
                    if in_cluster && fault.is_slot_moving() && start.elapsed() < SLOT_MOVE =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                result => return result,
            }
        }
    }

    /// Returns the nodes that hold keys: a cluster's primaries, or the server itself.
    pub fn primaries(&self) -> Result<Vec<SingleNodeRoutingInfo>, Fault> {
        if !self.is_cluster() {
            return Ok(vec![SingleNodeRoutingInfo::RandomPrimary]);
        }
        let nodes = self.nodes()?.into_iter();
        Ok(nodes.map(|node| node.routing).collect())
    }

    /// Returns whether BF.INFO of the node of a key is known to lack ALL.
    pub fn lacks_all(&self, key: &[u8]) -> bool {
        let slot = slot(key);
        self.without_all
            .borrow()
            .iter()
            .any(|own| own.contains(&slot))
    }

    /// Notes that BF.INFO of the node of a key lacks ALL.
    pub fn note_lack_of_all(&self, key: &[u8]) {
        if self.lacks_all(key) {
            return;
        }
        let slot = slot(key);
        let mut without_all = self.without_all.borrow_mut();
        if !self.is_cluster() {
            without_all.push(0..=u16::MAX);
            return;
        }
        // If the node's slots can't be read, at least this one is known.
        without_all.push(slot..=slot);
        let mut nodes = self.nodes().unwrap_or_default().into_iter();
        let own = nodes.find(|node| node.slots.iter().any(|own| own.contains(&slot)));
        without_all.extend(own.into_iter().flat_map(|node| node.slots));
    }

    /// Returns a cluster's primaries.
    fn nodes(&self) -> Result<Vec<Node>, Fault> {
        // Nodes that announce no host have that of the address.
        let host = match self.address.place() {
            Place::Port { host, .. } => host,
            Place::Socket(_) => "",
        };
        primaries_in(self.call(b"", &words(CLUSTER_SLOTS))?, host)
    }

    /// Calls a command on one of [`primaries`](Self::primaries), and converts the reply.
    pub fn call_on<T: FromRedisValue>(
        &self,
        node: &SingleNodeRoutingInfo,
        command: &Cmd,
    ) -> Result<T, Fault> {
        let call = self.connection.clone().call(node.clone(), command);
        read(self.runtime.block_on(call)?)
    }

    /// Keeps reads on this connection from changing the times at which keys were last used, where the server can do so:
    /// since Redis 7.2 and Valkey 7.2.
    pub fn leave_untouched(&self) -> Result<(), Fault> {
        for node in self.primaries()? {
            unless_refused(self.call_on::<Value>(&node, &words("CLIENT NO-TOUCH ON")))?;
        }
        Ok(())
    }

    /// Returns whether this is a cluster, whose client sends a command again if its reply is lost.
    pub const fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }

    /// Returns the number of the database.
    pub const fn database(&self) -> i64 {
        self.database
    }

    /// Returns the type of a key, as TYPE returns it.
    pub fn type_of(&self, key: &[u8]) -> Result<String> {
        let kind = self.get(key, redis::cmd("TYPE").arg(key));
        kind.map_err(|fault| self.failure_of("read the type of", key, &fault))
    }

    /// Requires that the server has Bloom filters.
    pub fn require_bloom_filters(&self) -> Result<()> {
        match self.lacks(BF_INFO)? {
            Some(fault) => Err(self.failure("could not find filters at", &fault)),
            None => Ok(()),
        }
    }

    /// Returns the error for a command that the server lacks; `None` if it has the command. The user needs no permission,
    /// because a server checks first whether a command exists.
    pub fn lacks(&self, command: &str) -> Result<Option<Fault>> {
        match self.call(b"", &redis::cmd(command)) {
            Err(fault) if fault.is_unknown_command() => Ok(Some(fault)),
            Ok(_) | Err(Fault::Refused(_)) => Ok(None),
            Err(fault) => Err(self.failure("could not talk to", &fault)),
        }
    }

    /// Reports a failure at a key of this server.
    pub fn failure_of(&self, verb: &str, key: &[u8], fault: &Fault) -> Failure {
        self.failure(&format!("could not {verb} {} at", shown(key)), fault)
    }

    /// Reports that there is no such key.
    pub fn missing(&self, key: &[u8]) -> String {
        format!("{} does not exist at {}", shown(key), self.address)
    }

    /// Reports a failure at this server.
    pub fn failure(&self, what: &str, fault: &Fault) -> Failure {
        failure(what, &self.address, fault)
    }

    /// Reports that this server refused a command for a single key.
    pub fn refusal(&self, fault: &Fault) -> String {
        format!("{}: {fault}", self.address)
    }

    /// Returns the address, without a password.
    pub const fn address(&self) -> &Address {
        &self.address
    }
}

impl Connection {
    /// Calls a command: in a cluster, on this node.
    async fn call(self, node: SingleNodeRoutingInfo, command: &Cmd) -> Result<Value, Fault> {
        let reply = match self {
            Self::One(mut one) => one.send_packed_command(command).await,
            Self::Cluster(mut cluster) => {
                let route = RoutingInfo::SingleNode(node);
                cluster.route_command(command.clone(), route).await
            }
        };
        accepted(reply?)
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

/// Returns a command of words with spaces between them.
pub fn words(text: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(text.split(' ').collect::<Vec<_>>());
    command
}

/// Returns a command of one or more words on a key, for [`Server::call_all`].
pub fn on_key(text: &str, key: &[u8]) -> (Vec<u8>, Cmd) {
    let mut command = words(text);
    command.arg(key);
    (key.to_vec(), command)
}

/// Returns the reply, or the error that it is. A list may still contain errors.
fn accepted(reply: Value) -> Result<Value, Fault> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// Returns the primaries in a reply to CLUSTER SLOTS. `host` is that of primaries that announce none.
fn primaries_in(reply: Value, host: &str) -> Result<Vec<Node>, Fault> {
    let unexpected = || Fault::Unusable(format!("unexpected reply to {CLUSTER_SLOTS}"));
    let ranges: Vec<Vec<Value>> = read(reply).map_err(|_| unexpected())?;
    let mut nodes: Vec<Node> = Vec::new();
    for range in ranges {
        // A range consists of its first and last slot, its primary, and the replicas.
        let [
            Value::Int(first),
            Value::Int(last),
            Value::Array(primary),
            ..,
        ] = &range[..]
        else {
            return Err(unexpected());
        };
        let [announced, Value::Int(port), ..] = &primary[..] else {
            return Err(unexpected());
        };
        let number = |of: &i64| u16::try_from(*of).map_err(|_| unexpected());
        let announced: Option<String> = read(announced.clone()).map_err(|_| unexpected())?;
        let host = match announced.as_deref() {
            // The client library takes a wildcard address for that of the node, too.
            None | Some("" | "0.0.0.0" | "::") => host,
            Some("?") => {
                let why = "a node has no host in CLUSTER SLOTS: set its cluster-announce-hostname";
                return Err(Fault::Unusable(why.to_owned()));
            }
            Some(announced) => announced,
        };
        let routing = SingleNodeRoutingInfo::ByAddress {
            host: host.to_owned(),
            port: number(port)?,
        };
        let slots = number(first)?..=number(last)?;
        match nodes.iter_mut().find(|node| node.routing == routing) {
            Some(node) => node.slots.push(slots),
            None => nodes.push(Node {
                routing,
                slots: vec![slots],
            }),
        }
    }
    Ok(nodes)
}

fn primary_of(key: &[u8]) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master))
}

/// Converts a reply.
pub fn read<T: FromRedisValue>(reply: Value) -> Result<T, Fault> {
    let read = T::from_redis_value(reply);
    read.map_err(|error| Fault::Unusable(format!("unexpected reply: {error}")))
}

fn failure(what: &str, address: &Address, fault: &Fault) -> Failure {
    Failure::new(format!("{what} {address}: {fault}")).permanent(fault.needs_operator())
}

fn not_connected(address: &Address, why: &str) -> Failure {
    Failure::new(format!("could not connect to {address}: {why}"))
}

/// Reports a failure to log in, and what to check.
fn login_failure(error: RedisError, address: &Address) -> Failure {
    let is_socket = matches!(address.place(), Place::Socket(_));
    if is_socket && error.kind() == ErrorKind::InvalidClientConfig {
        let why = "it is a node of a cluster: write redis://host:port instead of a socket";
        return not_connected(address, why);
    }
    let is_ended = error.is_connection_dropped() && !error.is_connection_refusal();
    // The peer speaks TLS, or no protocol of a server.
    let is_strange = is_ended || error.kind() == ErrorKind::Parse;
    let fault = Fault::from(error);
    let (Fault::Lost(text) | Fault::Unusable(text)) = &fault else {
        return failure("could not connect to", address, &fault);
    };
    let advice = if is_strange && !is_socket && !address.has_tls() {
        "if that port speaks TLS, write rediss://"
    } else if is_strange || matches!(fault, Fault::Lost(_)) {
        advice_on_text(text).unwrap_or(IS_IT_UP)
    } else {
        return failure("could not connect to", address, &fault);
    };
    not_connected(address, &format!("{text}; {advice}"))
}

/// Logs in to a server over a stream, and connects to its cluster. The connections to a cluster's nodes are the client
/// library's, whose replies have no bounds.
async fn log_in(
    info: &ConnectionInfo,
    stream: Bounded,
    tls: Option<Connector>,
) -> Result<Connection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(REPLY));
    let opening = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
    let opened = timeout(CONNECT, opening).await.map_err(io::Error::from);
    let (mut one, driver) = opened??;
    tokio::spawn(driver);
    if !is_in_cluster(&mut one).await? {
        return Ok(Connection::One(one));
    }
    let mut builder = ClusterClientBuilder::new([info.clone()])
        .connection_timeout(CONNECT)
        .response_timeout(REPLY)
        .retries(8)
        .min_retry_wait(20)
        .max_retry_wait(500);
    if let Some(tls) = tls {
        builder = builder.certs(tls.certificates().clone());
    }
    let cluster = builder.build()?.get_async_connection().await?;
    Ok(Connection::Cluster(cluster))
}

/// Returns whether a server is a node of a cluster, by its reply to HELLO, for which no user needs a permission. What does not
/// know HELLO, such as a proxy, stands for a single server.
async fn is_in_cluster(one: &mut MultiplexedConnection) -> Result<bool, RedisError> {
    let hello = one.send_packed_command(&words("HELLO")).await?;
    let fields = HashMap::<String, Value>::from_redis_value(hello).unwrap_or_default();
    Ok(matches!(fields.get("mode"), Some(Value::BulkString(mode)) if mode == b"cluster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primaries(reply: &str) -> Result<Vec<Node>, Fault> {
        let reply = reply.replace(' ', "\r\n") + "\r\n";
        let reply = redis::parse_redis_value(reply.as_bytes());
        primaries_in(reply.expect("it is whole"), "own")
    }

    #[test]
    fn primaries_without_a_host_have_that_of_the_address() {
        let listed = primaries(
            "*5 *4 :0 :1 *2 $1 a :1 *2 $1 b :2 *3 :2 :2 *2 $0  :1 *3 :3 :3 *2 $-1 :1 *3 :4 :4 *2 $7 0.0.0.0 :1 *3 :9 :9 *3 $1 a :1 $1 i",
        );
        let listed = listed.expect("the reply is one of CLUSTER SLOTS");
        let node = |host: &str, slots: &[RangeInclusive<u16>]| Node {
            routing: SingleNodeRoutingInfo::ByAddress {
                host: host.to_owned(),
                port: 1,
            },
            slots: slots.to_vec(),
        };
        let expected = [
            node("a", &[0..=1, 9..=9]),
            node("own", &[2..=2, 3..=3, 4..=4]),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn other_replies_to_cluster_slots_are_refused() {
        for reply in [
            "+OK",
            "*1 +OK",
            "*1 *2 :0 :1",
            "*1 *3 :0 :1 $1 a",
            "*1 *3 :0 :1 *1 $1 a",
            "*1 *3 :0 :1 *2 $1 a $1 b",
            "*1 *3 :0 :1 *2 $1 a :65536",
            "*1 *3 :-1 :1 *2 $1 a :1",
            "*2 *3 :0 :1 *2 $1 a :1 *2 :2 :3",
            "*1 *3 :0 :1 *2 $1 ? :1",
        ] {
            let listed = primaries(reply);
            assert!(matches!(listed, Err(Fault::Unusable(_))), "{reply}");
        }
    }
}
