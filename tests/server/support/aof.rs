//! AOFs: servers that write them, what these wrote, and servers that are started on one.

use std::path::PathBuf;
use std::{fs, iter};

use crate::harness::{Builder, Server, encode, wait_until};
use crate::support::primary::read_command;

/// The words of a command.
pub type Command = Vec<Vec<u8>>;

/// Returns the words of a line.
pub fn command(line: &str) -> Command {
    let words = line.split(' ');
    words.map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns a server whose AOF holds commands only, each of them on the disk before it is answered.
pub fn with_command_log() -> Server {
    Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
        ("auto-aof-rewrite-percentage", "0"),
    ])
}

/// Returns the part of a server's AOF whose name ends in this.
#[track_caller]
pub fn part(server: &Server, end: &str) -> PathBuf {
    let folder = fs::read_dir(server.dir().join("appendonlydir")).expect("there is an AOF");
    let mut files = folder.map(|file| file.expect("it can be read").path());
    let found = files.find(|file| file.to_string_lossy().ends_with(end));
    found.expect("there is such a part")
}

/// Awaits that the AOF holds everything: no rewrite is running, or about to begin after a full resync.
#[track_caller]
pub fn log_is_complete(server: &Server) {
    wait_until("the AOF is complete", || {
        let info = server.info("persistence");
        info["aof_enabled"] == "1"
            && info["aof_rewrite_in_progress"] == "0"
            && info["aof_rewrite_scheduled"] == "0"
    });
}

#[track_caller]
pub fn rewrite_aof(server: &Server) {
    server.client().run("BGREWRITEAOF");
    log_is_complete(server);
    assert_eq!(
        server.info("persistence")["aof_last_bgrewrite_status"],
        "ok"
    );
}

/// The commands that a server has written to its AOF.
pub struct Log {
    file: PathBuf,
    read: usize,
}

impl Log {
    pub fn of(server: &Server) -> Self {
        Self {
            file: part(server, ".1.incr.aof"),
            read: 0,
        }
    }

    /// Returns the commands since the last call, without the selection of the first database.
    #[track_caller]
    pub fn since(&mut self) -> Vec<Command> {
        let bytes = fs::read(&self.file).expect("the server has an AOF");
        let new = commands(&bytes[self.read..]);
        self.read = bytes.len();
        new
    }
}

/// Returns the commands of a log; the choice of the first database is left out.
#[track_caller]
pub fn commands(log: &[u8]) -> Vec<Command> {
    let mut rest = log;
    let next = || read_command(&mut rest).expect("memory can be read");
    let all = iter::repeat_with(next).take_while(|words| !words.is_empty());
    all.filter(|words| *words != command("SELECT 0")).collect()
}

/// Returns commands as bytes of a log and of the wire.
pub fn wire(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        encode(command, &mut bytes);
    }
    bytes
}

/// Returns a server that is started on a log: a base, and what was written since.
pub fn on_log(base: &[u8], since: &[u8]) -> Server {
    on_log_of(Server::builder(), base, since)
}

pub fn on_log_of(builder: Builder, base: &[u8], since: &[u8]) -> Server {
    let mut server = builder
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", "no")
        .start();
    server.shutdown();
    let folder = server.dir().join("appendonlydir");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let (old, new) = ("appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof");
    for (bytes, file) in [(base, old), (since, new)] {
        fs::write(folder.join(file), bytes).unwrap();
    }
    let manifest = format!("file {old} seq 1 type b\nfile {new} seq 1 type i\n");
    fs::write(folder.join("appendonly.aof.manifest"), manifest).unwrap();
    server.start_again();
    server
}
