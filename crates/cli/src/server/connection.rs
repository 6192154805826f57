//! Connections: how one is opened, and how a command is sent on it.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, Value,
};
use tokio::time::timeout;

use valkeybloom_connect::{Address, Bounded, Connector, IS_IT_UP, Place, advice_on_text};

use crate::failure::{Failure, Fault, Result};

/// The timeout of each step to a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a reply. A server that saves its data replies slowly.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a single server, or to the nodes of a cluster.
#[derive(Clone)]
pub enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects to the server at an address, or to its cluster.
    pub async fn open(address: &Address, tls: Option<Connector>) -> Result<Self> {
        let stream = valkeybloom_connect::open(address, tls.as_ref(), CONNECT_TIMEOUT).await;
        let stream = stream.map_err(|why| not_connected(address, &why.to_string()))?;
        let logged_in = log_in(address.info(), stream, tls).await;
        logged_in.map_err(|error| login_failure(error, address))
    }

    /// Calls a command: in a cluster, on this node.
    pub async fn call(self, node: SingleNodeRoutingInfo, command: &Cmd) -> Result<Value, Fault> {
        let reply = match self {
            Self::Single(mut server) => server.send_packed_command(command).await,
            Self::Cluster(mut cluster) => {
                let route = RoutingInfo::SingleNode(node);
                cluster.route_command(command.clone(), route).await
            }
        };
        accepted(reply?)
    }
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
    let text = match &fault {
        Fault::Lost(text) => text,
        Fault::Unusable(text) if is_strange => text,
        _ => return Failure::of_fault(format_args!("could not connect to {address}"), &fault),
    };
    let advice = if is_strange && !is_socket && !address.has_tls() {
        "if that port speaks TLS, write rediss://"
    } else {
        advice_on_text(text).unwrap_or(IS_IT_UP)
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
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(REPLY_TIMEOUT));
    let opening = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
    let opened = timeout(CONNECT_TIMEOUT, opening)
        .await
        .map_err(io::Error::from);
    let (mut server, driver) = opened??;
    tokio::spawn(driver);
    if !is_in_cluster(&mut server).await? {
        return Ok(Connection::Single(server));
    }
    let mut builder = ClusterClientBuilder::new([info.clone()])
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(REPLY_TIMEOUT)
        .retries(8)
        .min_retry_wait(20)
        .max_retry_wait(500);
    if let Some(tls) = tls {
        builder = builder.certs(tls.certificates().clone());
    }
    let cluster = builder.build()?.get_async_connection().await?;
    Ok(Connection::Cluster(cluster))
}

/// Returns whether a server is a node of a cluster, by its reply to HELLO, for which no user needs a permission. A peer without
/// HELLO, such as a proxy, counts as a single server.
async fn is_in_cluster(server: &mut MultiplexedConnection) -> Result<bool, RedisError> {
    let hello = server.send_packed_command(&words("HELLO")).await?;
    let fields = HashMap::<String, Value>::from_redis_value(hello).unwrap_or_default();
    Ok(matches!(fields.get("mode"), Some(Value::BulkString(mode)) if mode == b"cluster"))
}

/// Returns a command of words with spaces between them.
pub fn words(text: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(text.split(' ').collect::<Vec<_>>());
    command
}

/// Returns the reply, or the error that it is. A list may still contain errors.
fn accepted(reply: Value) -> Result<Value, Fault> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// Converts a reply.
pub fn convert<T: FromRedisValue>(reply: Value) -> Result<T, Fault> {
    let converted = T::from_redis_value(reply);
    converted.map_err(|error| Fault::Unusable(format!("unexpected reply: {error}")))
}
