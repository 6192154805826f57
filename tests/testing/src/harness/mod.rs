//! Real servers: each is a process in its own folder, ended when its guard is dropped.

mod client;
pub mod cluster;
mod follow;
mod plugin;
pub mod worst;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use tempfile::TempDir;

pub use client::{
    Client, Reply, array, boolean, bulk, double, encode, error, int, map, nil, ok, simple, spaced,
};
pub use follow::Answer;
pub use plugin::Plugin;

/// The time after which a wait counts as failed. Long, for busy machines.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a condition; after [`PATIENCE`] it panics, saying what it was waiting for.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "gave up waiting until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Awaits that a replica has applied all that its primary had written at this moment.
#[track_caller]
pub fn wait_in_sync(primary: &Server, replica: &Server) {
    wait_until("the replica is in sync", || {
        let from = primary.info("replication");
        let to = replica.info("replication");
        let offset = |info: &HashMap<String, String>, field: &str| {
            info.get(field).and_then(|v| v.parse::<u64>().ok())
        };
        // The replica is queried last, and pings move the primary on: the replica may be further by then.
        to.get("master_link_status")
            .is_some_and(|status| status == "up")
            && to["master_replid"] == from["master_replid"]
            && offset(&to, "slave_repl_offset") >= offset(&from, "master_repl_offset")
    });
}

/// Returns the server's digest of the value of a key; equal values have equal digests.
#[track_caller]
pub fn digest(client: &mut Client, key: &str) -> String {
    client
        .call(&[b"DEBUG", b"DIGEST-VALUE", key.as_bytes()])
        .as_array()[0]
        .text()
}

/// Returns the digest of the value of every key.
#[track_caller]
pub fn digests(client: &mut Client) -> BTreeMap<String, String> {
    let keys = client.cmd("KEYS *");
    let keys = keys.as_array().iter().map(Reply::text);
    keys.map(|key| (key.clone(), digest(client, &key)))
        .collect()
}

/// The configuration of a server to be started.
pub struct Builder {
    program: PathBuf,
    module: Option<PathBuf>,
    module_args: String,
    before_module: Vec<String>,
    after_module: Vec<String>,
    launcher: Vec<String>,
    flags: Vec<String>,
}

impl Builder {
    /// Adds a setting. A later one of the same name wins.
    pub fn config(self, name: &str, value: &str) -> Self {
        let value = if value.is_empty() { "\"\"" } else { value };
        self.before_module(&format!("{name} {value}"))
    }

    pub fn module_args(mut self, args: &[&str]) -> Self {
        self.module_args = args.join(" ");
        self
    }

    /// Adds a line to the config file, before the one that loads the module.
    pub fn before_module(mut self, line: &str) -> Self {
        self.before_module.push(line.to_owned());
        self
    }

    /// Adds a line to the config file, after the one that loads the module.
    pub fn after_module(mut self, line: &str) -> Self {
        self.after_module.push(line.to_owned());
        self
    }

    /// Runs another server than the default one of the tests.
    pub fn program(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.program);
        self
    }

    /// Starts the server through a program with arguments, which gets the server's command line after them and
    /// executes it.
    pub fn launched_by(mut self, launcher: &[&str]) -> Self {
        self.launcher = launcher.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Adds a word at the end of the server's command line.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub fn without_module(mut self) -> Self {
        self.module = None;
        self
    }

    /// Loads the module with debug assertions, which count its work.
    pub fn checked(mut self) -> Self {
        self.module = Some(given("VALKEYBLOOM_CHECKED_SO"));
        self
    }

    #[track_caller]
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(log) => panic!("the server does not start:\n{log}"),
        }
    }

    /// Starts the server. An error is its log if it refuses to start.
    pub fn try_start(self) -> Result<Server, String> {
        let folder = folder();
        let text = self.config_file(folder.path());
        fs::write(folder.path().join("server.conf"), text).expect("the folder can be written to");
        let mut server = Server {
            program: self.program,
            child: None,
            port: 0,
            folder,
            launcher: self.launcher,
            flags: self.flags,
        };
        server.try_start_again()?;
        Ok(server)
    }

    fn config_file(&self, folder: &Path) -> String {
        let mut text = format!("dir \"{}\"\n", folder.display());
        let mut add = |line: &str| writeln!(text, "{line}").expect("a String takes all");
        for line in DEFAULTS
            .iter()
            .copied()
            .chain(self.before_module.iter().map(String::as_str))
        {
            add(line);
        }
        if let Some(module) = &self.module {
            add(&format!(
                "loadmodule \"{}\" {}",
                module.display(),
                self.module_args
            ));
        }
        for line in &self.after_module {
            add(line);
        }
        text
    }
}

/// Settings for a quick start, and for no files unless a test wants them.
const DEFAULTS: [&str; 5] = [
    "bind 127.0.0.1",
    "save \"\"",
    "enable-debug-command yes",
    "enable-module-command yes",
    "repl-diskless-sync-delay 0",
];

#[derive(Debug, PartialEq)]
pub struct Version {
    pub valkey: bool,
    pub major: u32,
    pub minor: u32,
}

/// A running server. Dropping it ends the process and removes its folder.
pub struct Server {
    program: PathBuf,
    /// None while the server is down between two starts.
    child: Option<Child>,
    port: u16,
    folder: TempDir,
    launcher: Vec<String>,
    flags: Vec<String>,
}

impl Server {
    /// Returns a server with the module, and with nothing else set.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a server with the module, and a connection in RESP2.
    #[track_caller]
    pub fn with_client() -> (Self, Client) {
        let server = Self::start();
        let client = server.client();
        (server, client)
    }

    /// Returns a server with the module and these settings.
    #[track_caller]
    pub fn with(config: &[(&str, &str)]) -> Self {
        config
            .iter()
            .fold(Self::builder(), |builder, (name, value)| {
                builder.config(name, value)
            })
            .start()
    }

    pub fn builder() -> Builder {
        Builder {
            program: given("VALKEY_SERVER"),
            module: Some(given("VALKEYBLOOM_SO")),
            module_args: String::new(),
            before_module: Vec::new(),
            after_module: Vec::new(),
            launcher: Vec::new(),
            flags: Vec::new(),
        }
    }

    pub fn replica_of(primary: &Self) -> Builder {
        Self::builder().config("replicaof", &format!("127.0.0.1 {}", primary.port))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server is up").id()
    }

    /// Returns the server's folder, where its RDB, its AOF and its config file (server.conf) are.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    fn log_file(&self) -> PathBuf {
        self.dir().join("server.log")
    }

    /// Returns all that the server has logged since its first start.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_file()).expect("the server has a log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn log_contains(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// Returns a connection in RESP2.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.port).expect("the server takes connections")
    }

    /// Returns a connection in RESP3.
    #[track_caller]
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        client.run("HELLO 3");
        client
    }

    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        fields(&self.client().call(&[b"INFO", section.as_bytes()]))
    }

    #[track_caller]
    pub fn version(&self) -> Version {
        let info = self.info("server");
        let valkey = info.get("valkey_version");
        let text = valkey.unwrap_or_else(|| &info["redis_version"]);
        let mut numbers = text
            .split('.')
            .map(|number| number.parse().expect("a version of numbers"));
        let mut number = || numbers.next().expect("a version of three numbers");
        Version {
            valkey: valkey.is_some(),
            major: number(),
            minor: number(),
        }
    }

    /// Active defragmentation needs it.
    #[track_caller]
    pub fn has_jemalloc(&self) -> bool {
        self.info("memory")["mem_allocator"].starts_with("jemalloc")
    }

    /// Ends the server as an operator does: it saves if its settings say so.
    #[track_caller]
    pub fn shutdown(&mut self) {
        self.end_by(&[b"SHUTDOWN"]);
    }

    /// Ends the server after it has saved an RDB.
    #[track_caller]
    pub fn shutdown_save(&mut self) {
        self.end_by(&[b"SHUTDOWN", b"SAVE"]);
    }

    #[track_caller]
    pub fn restart(&mut self) {
        self.shutdown();
        self.start_again();
    }

    #[track_caller]
    pub fn restart_saving(&mut self) {
        self.shutdown_save();
        self.start_again();
    }

    /// Ends the server with SIGKILL, as a crash would.
    #[track_caller]
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the server is up");
        child.kill().expect("the process is ours");
        child.wait().expect("the process is ours");
    }

    /// Starts a server that is down, in its folder and where possible at its port.
    #[track_caller]
    pub fn start_again(&mut self) {
        if let Err(log) = self.try_start_again() {
            panic!("the server does not start again:\n{log}");
        }
    }

    /// Starts the server again, or returns what it logged if it refuses.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "the server is up");
        loop {
            while self.port == 0 || !is_free(self.port) {
                self.port = next_port();
            }
            let logged = fs::metadata(self.log_file()).map_or(0, |log| log.len());
            if self.launch() {
                return Ok(());
            }
            let bytes = fs::read(self.log_file()).expect("the server has a log");
            let since = usize::try_from(logged).expect("a log fits into memory");
            let log = String::from_utf8_lossy(&bytes[since..]).into_owned();
            // Another process may have taken the port.
            if !log.contains("Address already in use") {
                return Err(log);
            }
        }
    }

    /// Returns whether the process came up. It logs to its output, so that the file also holds what goes wrong before
    /// a server has read where its log is.
    fn launch(&mut self) -> bool {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_file());
        let log = log.expect("the folder can be written to");
        let server = &self.program;
        let mut command = match self.launcher.split_first() {
            None => Command::new(server),
            Some((launcher, args)) => {
                let mut command = Command::new(launcher);
                command.args(args).arg(server);
                command
            }
        };
        let child = command
            .arg(self.dir().join("server.conf"))
            .args(["--port", &self.port.to_string()])
            .args(&self.flags)
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file handle can be copied"))
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap_or_else(|e| panic!("{}: {e}", self.program.display())));
        wait_until("the server answers", || {
            self.has_ended() || self.answers().unwrap_or(false)
        });
        if self.has_ended() {
            self.child = None;
        }
        self.child.is_some()
    }

    fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut().expect("the server was started");
        child.try_wait().expect("the process is ours").is_some()
    }

    /// Returns whether it is this process that answers at the port, and its data is loaded.
    fn answers(&self) -> io::Result<bool> {
        let mut client = Client::connect(self.port)?;
        let info = fields(&client.try_call(&[b"INFO", b"server"])?);
        let ready = client.try_call(&[b"PING"])? == simple("PONG");
        Ok(ready && info.get("process_id") == Some(&self.pid().to_string()))
    }

    #[track_caller]
    fn end_by(&mut self, shutdown: &[&[u8]]) {
        // The connection ends without a reply; there is one only where the server refuses.
        if let Ok(refusal) = self.client().try_call(shutdown) {
            panic!("the server does not shut down: {refusal:?}");
        }
        wait_until("the server has ended", || self.has_ended());
        self.child = None;
    }
}

impl Server {
    /// Asks the server to end by itself, when tools for memory report their findings. A server that refuses, or does
    /// not answer, is left running.
    fn end_gently(&mut self) {
        let asked = Client::connect(self.port)
            .map(|mut client| client.try_call(&[b"SHUTDOWN", b"NOSAVE", b"NOW", b"FORCE"]));
        // A server that ends does not reply.
        if let Ok(Err(_)) = asked {
            let start = Instant::now();
            while !self.has_ended() && start.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if env::var_os("MEMCHECK_DIR").is_some() && self.child.is_some() && !thread::panicking() {
            self.end_gently();
        }
        let status = self.child.take().map(|mut child| {
            child.kill().expect("the process is ours");
            child.wait().expect("the process is ours")
        });
        // A test may pass although the server broke down after its last reply. It left a report, or
        // ended by itself: one that was killed just now has no exit code.
        let log = self.log();
        let code = status.and_then(|status| status.code());
        let broken = log.contains(CRASH) || code.is_some_and(|code| code != 0);
        if broken || thread::panicking() {
            eprintln!("of the log of the server at port {}:", self.port);
            eprintln!("{}", telling(&log));
        }
        assert!(!broken || thread::panicking(), "the server broke down");
    }
}

/// The line that servers write above the report of a crash.
const CRASH: &str = "BUG REPORT START";

/// Returns the part of a log that may explain a failure: around a crash report, which starts with the stack and is
/// long, or else the end.
fn telling(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let crash = lines.iter().position(|line| line.contains(CRASH));
    let start = crash.unwrap_or(lines.len()).saturating_sub(40);
    let part = lines.iter().skip(start).take(100);
    part.copied().collect::<Vec<_>>().join("\n")
}

/// Makes an empty folder. The child of a killed server may be writing still when it is dropped; then it stays.
pub fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("valkeybloom-").tempdir();
    folder.expect("there is room for temporary files")
}

/// Returns a path from an environment variable of the tests.
pub fn given(name: &str) -> PathBuf {
    let path = env::var_os(name).map(PathBuf::from);
    path.unwrap_or_else(|| {
        panic!("{name} is not set: run ./build.sh test, or set VALKEY_SERVER to a server and VALKEYBLOOM_SO to the module")
    })
}

/// Returns the folder that tools/servers.sh fills.
fn servers() -> PathBuf {
    env::var_os("SERVERS_DIR").map_or_else(
        || given("HOME").join(".cache/valkeybloom-servers"),
        PathBuf::from,
    )
}

/// Returns the program that checks metrics and rules of Prometheus.
pub fn promtool() -> PathBuf {
    servers().join("prometheus/usr/bin/promtool")
}

/// Returns Docker Compose, which needs no engine to check a file.
pub fn docker_compose() -> PathBuf {
    servers().join("trixie/docker-compose")
}

/// Returns the program that holds objects of Kubernetes against their schemas.
pub fn kubernetes_validate() -> PathBuf {
    servers().join("kubernetes/bin/kubernetes-validate")
}

/// Returns the servers that the project supports, as tools/servers.sh lays them out.
pub fn supported_servers() -> Vec<PathBuf> {
    let folder = servers();
    let servers = [
        "valkey-9.1/valkey-server",
        "valkey-8.0/usr/bin/valkey-server",
        "redis-7.0/usr/bin/redis-server",
        "trixie/valkey-server",
        "trixie/redis-server",
    ];
    servers.map(|server| folder.join(server)).to_vec()
}

/// Returns a number that no other call in this process has got.
fn count() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns a port to try. It lies below those of outgoing connections, which could take it while its server restarts;
/// so does the cluster bus, 10000 above.
fn next_port() -> u16 {
    let step = std::process::id().wrapping_mul(97).wrapping_add(count());
    10_000 + u16::try_from(step % 10_000).expect("less than 10000")
}

/// Returns a port that is free, and so is the one of its cluster bus.
pub fn free_port() -> u16 {
    loop {
        let port = next_port();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns the `name:value` lines of a reply to INFO.
fn fields(info: &Reply) -> HashMap<String, String> {
    let text = info.text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
