//! A server, or a cluster as if it was one: commands go to the node of their key.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    FromRedisValue, IntoConnectionInfo, Pipeline, TlsCertificates, Value,
};
use tokio::runtime::Runtime;

use valkeybloom_sketches::bloom::Dialect;

use super::failure::{Failure, Fault, Result};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a reply may take: of a server that saves its data meanwhile, too.
const REPLY: Duration = Duration::from_secs(60);
/// How long a slot may be on its way to another node.
const PASSING: Duration = Duration::from_secs(20);

/// What TLS needs beside `rediss://` in the address.
#[derive(clap::Args, Clone, Default)]
pub struct Tls {
    /// Certificates of authorities to trust instead of the system's, in PEM
    #[arg(long, global = true, value_name = "FILE", help_heading = "TLS")]
    cacert: Option<PathBuf>,
    /// Certificate to show to the server, in PEM
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "TLS",
        requires = "key_file"
    )]
    cert: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(
        id = "key_file",
        long = "cert-key",
        global = true,
        value_name = "FILE",
        help_heading = "TLS",
        requires = "cert"
    )]
    cert_key: Option<PathBuf>,
}

impl Tls {
    fn certificates(&self) -> Result<TlsCertificates> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
        };
        let client_tls = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            _ => None,
        };
        let root_cert = self.cacert.as_ref().map(read).transpose()?;
        Ok(TlsCertificates {
            client_tls,
            root_cert,
        })
    }
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// The dialect of the values of a type, as TYPE names it, if these are Bloom filters.
pub fn dialect_of(kind: &str) -> Option<Dialect> {
    let mut dialects = Dialect::ALL.into_iter();
    dialects.find(|of| of.type_name().to_bytes() == kind.as_bytes())
}

/// Whether the values of a type, as TYPE names it, are Bloom filters.
pub fn is_filter(kind: &str) -> bool {
    dialect_of(kind).is_some()
}

/// A server, or a cluster.
pub struct Server {
    runtime: Runtime,
    connection: Connection,
    address: String,
}

impl Server {
    /// Connects to a server at an address like `redis://user:password@host:port/database`, or to the cluster
    /// that it is in.
    pub fn connect(address: &str, tls: &Tls) -> Result<Self> {
        // The client's own message would show the password.
        let bad = || {
            Failure::usage(
                "that is no address of a server: write redis://user:password@host:port/database",
            )
        };
        let info = if address.contains("://") {
            address.into_connection_info()
        } else {
            format!("redis://{address}").into_connection_info()
        };
        let info = info.map_err(|_| bad())?;
        let shown = info.addr().to_string();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(error.to_string()))?;
        let certificates = match info.addr() {
            ConnectionAddr::TcpTls { .. } => Some(tls.certificates()?),
            _ => None,
        };
        let connection = runtime.block_on(connect(info, certificates));
        let connection = connection.map_err(|fault| match fault {
            Fault::Lost(text) => Failure::new(format!(
                "could not connect to {shown}: {text}; is that its address, and is it up?"
            )),
            fault @ Fault::Refused(_) => failure("could not connect to", &shown, &fault),
        })?;
        Ok(Self {
            runtime,
            connection,
            address: shown,
        })
    }

    /// Calls a command on the node of a key.
    pub fn call(&self, key: &[u8], command: &Cmd) -> Result<Value, Fault> {
        self.patiently(key, || {
            let call = self.connection.clone().call(key, command);
            self.runtime.block_on(call)
        })
    }

    /// The same, for a reply of a known type.
    pub fn get<T: FromRedisValue>(&self, key: &[u8], command: &Cmd) -> Result<T, Fault> {
        read(self.call(key, command)?)
    }

    /// Calls commands side by side; those of one key run in their order.
    pub fn call_all(&self, commands: &[(Vec<u8>, Cmd)]) -> Vec<Result<Value, Fault>> {
        let calls = commands.iter().map(|(key, command)| {
            let connection = self.connection.clone();
            connection.call(key, command)
        });
        self.runtime.block_on(join_all(calls))
    }

    /// Calls a command on each of these keys, side by side, for replies of a known type. The command may be two words.
    pub fn get_all<T: FromRedisValue>(
        &self,
        keys: &[&[u8]],
        command: &str,
    ) -> Vec<Result<T, Fault>> {
        let commands = keys.iter().map(|key| {
            let mut call = Cmd::new();
            for word in command.split(' ') {
                call.arg(word);
            }
            call.arg(*key);
            (key.to_vec(), call)
        });
        let replies = self.call_all(&commands.collect::<Vec<_>>());
        replies
            .into_iter()
            .map(|reply| reply.and_then(read))
            .collect()
    }

    /// Calls commands on keys of one slot, all or none.
    pub fn atomically(&self, key: &[u8], commands: &[Cmd]) -> Result<Vec<Value>, Fault> {
        let count = commands.len() + 2;
        let mut pipeline = Pipeline::with_capacity(count);
        pipeline.cmd("MULTI");
        for command in commands {
            pipeline.add_command(command.clone());
        }
        pipeline.cmd("EXEC");
        self.patiently(key, || {
            let replies = async {
                match self.connection.clone() {
                    Connection::One(mut one) => one.send_packed_commands(&pipeline, 0, count).await,
                    Connection::Cluster(mut cluster) => {
                        let route = primary_of(key);
                        cluster
                            .route_pipeline(pipeline.clone(), 0, count, route)
                            .await
                    }
                }
            };
            // What is queued is refused before EXEC is.
            let replies = self.runtime.block_on(replies)?.into_iter();
            let replies: Vec<Value> = replies.map(accepted).collect::<Result<_, _>>()?;
            match replies.into_iter().next_back() {
                Some(Value::Array(replies)) => replies.into_iter().map(accepted).collect(),
                _ => Err(Fault::Lost("unexpected reply to EXEC".to_owned())),
            }
        })
    }

    /// Tries again while a slot is on its way to another node, where the commands will be obeyed.
    fn patiently<T>(&self, key: &[u8], call: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
        let start = Instant::now();
        let in_cluster = matches!(self.connection, Connection::Cluster(_));
        loop {
            match call() {
                Err(fault) if in_cluster && fault.is_passing() && start.elapsed() < PASSING => {
                    std::thread::sleep(Duration::from_millis(50));
                    // A pipeline that is sent elsewhere does not teach the client where the slot is now.
                    let mut ask = redis::cmd("EXISTS");
                    let learn = self.connection.clone().call(key, ask.arg(key));
                    let _ = self.runtime.block_on(learn);
                }
                result => return result,
            }
        }
    }

    /// The nodes that hold keys: of a server that is in no cluster, itself.
    pub fn primaries(&self) -> Result<Vec<Node>, Fault> {
        let Connection::Cluster(cluster) = &self.connection else {
            return Ok(vec![Node(None)]);
        };
        let mut cluster = cluster.clone();
        let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let slots = self
            .runtime
            .block_on(cluster.route_command(command, route))?;
        let mut nodes = Vec::new();
        for range in read::<Vec<Vec<Value>>>(slots)? {
            let Some(primary) = range.into_iter().nth(2) else {
                continue;
            };
            let primary: Vec<Value> = read(primary)?;
            let [host, port, ..] = &primary[..] else {
                continue;
            };
            let node = Node(Some((read(host.clone())?, read(port.clone())?)));
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        Ok(nodes)
    }

    /// Calls a command on one of [`primaries`](Self::primaries).
    pub fn call_on<T: FromRedisValue>(&self, node: &Node, command: &Cmd) -> Result<T, Fault> {
        let reply = async {
            match (self.connection.clone(), &node.0) {
                (Connection::Cluster(mut cluster), Some((host, port))) => {
                    let node = SingleNodeRoutingInfo::ByAddress {
                        host: host.clone(),
                        port: *port,
                    };
                    let route = RoutingInfo::SingleNode(node);
                    cluster.route_command(command.clone(), route).await
                }
                (connection, _) => return connection.call(b"", command).await,
            }
            .map_err(Fault::from)
        };
        read(accepted(self.runtime.block_on(reply)?)?)
    }

    /// Requires that a module with filters is there. Any user may ask: whether there is a command is looked at first.
    pub fn require_module(&self) -> Result<()> {
        match self.call(b"", &redis::cmd("BF.INFO")) {
            Err(fault) if fault.is_unknown_command() => {
                Err(self.failure("could not find filters at", &fault))
            }
            Err(fault @ Fault::Lost(_)) => Err(self.failure("could not talk to", &fault)),
            _ => Ok(()),
        }
    }

    /// Says that something failed here.
    pub fn failure(&self, what: &str, fault: &Fault) -> Failure {
        failure(what, &self.address, fault)
    }

    /// Its address, without a password.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// A node that holds keys.
#[derive(PartialEq)]
pub struct Node(Option<(String, u16)>);

impl Connection {
    async fn call(self, key: &[u8], command: &Cmd) -> Result<Value, Fault> {
        let reply = match self {
            Self::One(mut one) => one.send_packed_command(command).await,
            Self::Cluster(mut cluster) => {
                let route = RoutingInfo::SingleNode(primary_of(key));
                cluster.route_command(command.clone(), route).await
            }
        };
        accepted(reply?)
    }
}

/// A reply that is not an error; a list may have some in it.
fn accepted(reply: Value) -> Result<Value, Fault> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

fn primary_of(key: &[u8]) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master))
}

fn read<T: FromRedisValue>(reply: Value) -> Result<T, Fault> {
    let read = T::from_redis_value(reply);
    read.map_err(|error| Fault::Lost(format!("unexpected reply: {error}")))
}

fn failure(what: &str, address: &str, fault: &Fault) -> Failure {
    Failure::new(format!("{what} {address}: {fault}"))
}

async fn connect(
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
) -> Result<Connection, Fault> {
    let client = match certificates.clone() {
        Some(certificates) => Client::build_with_tls(info.clone(), certificates)?,
        None => Client::open(info.clone())?,
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(REPLY));
    let mut one = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    // A user who may not ask this is not one of a cluster's own tools; commands tell soon enough.
    let mut ask = redis::cmd("INFO");
    let about = ask.arg("cluster").query_async::<String>(&mut one).await;
    if !about.is_ok_and(|about| about.contains("cluster_enabled:1")) {
        return Ok(Connection::One(one));
    }
    let mut builder = ClusterClientBuilder::new([info])
        .connection_timeout(CONNECT)
        .response_timeout(REPLY)
        .retries(8)
        .min_retry_wait(20)
        .max_retry_wait(500);
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    let cluster = builder.build()?.get_async_connection().await?;
    Ok(Connection::Cluster(cluster))
}
