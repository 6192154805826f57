//! A primary that is played, so that a replica gets what no server would send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::harness::{Builder, Client, Server, bulk, int, wait_until};
use crate::support::aof::{Command, command, wire};
use crate::support::forged::file;

/// Plays a primary that sends part of an RDB file and breaks off; or, with commands to send after it, the whole file,
/// then these, and nothing more. Returns its port.
pub fn played_primary(rdb: Vec<u8>, then: Option<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let first = listener.accept();
        // A replica tries again; nothing listens then.
        drop(listener);
        if let Ok((stream, _)) = first {
            let _ = resync(&stream, &rdb, then.as_deref());
        }
    });
    port
}

/// Lets a server load this file from a primary, and then apply these commands of it.
#[track_caller]
pub fn receive(client: &mut Client, rdb: Vec<u8>, commands: &[Command]) {
    const END: &str = "the end of the commands";
    let end = command("SET").into_iter().chain([END.into(), vec![]]);
    let port = played_primary(rdb, Some(wire(&[commands, &[end.collect()]].concat())));
    client.follow(port);
    wait_until("all has come", || {
        client.call(&[b"EXISTS", END.as_bytes()]) == int(1)
    });
    client.ok("REPLICAOF NO ONE");
    assert_eq!(client.call(&[b"DEL", END.as_bytes()]), int(1));
}

/// Returns a server that has applied these commands of a primary, which began without data.
pub fn on_link_of(builder: Builder, commands: &[Command]) -> Server {
    let server = builder.start();
    receive(&mut server.client(), file(&[]), commands);
    server
}

/// Reads the words of the next command; there are none at the end of the stream.
pub fn read_command(from: &mut impl BufRead) -> std::io::Result<Vec<Vec<u8>>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let count = line.strip_prefix('*').and_then(|n| n.trim().parse().ok());
    let mut words = Vec::new();
    for _ in 0..count.unwrap_or(0) {
        line.clear();
        from.read_line(&mut line)?;
        let length: usize = line[1..].trim().parse().expect("a length");
        let mut word = vec![0; length + 2];
        from.read_exact(&mut word)?;
        word.truncate(length);
        words.push(word);
    }
    Ok(words)
}

/// A primary that is played for as long as a test writes to its replica.
pub struct Link {
    stream: TcpStream,
    sent: u64,
}

impl Link {
    /// Makes a server a replica that begins with a file.
    #[track_caller]
    pub fn begin(client: &mut Client, rdb: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        client.follow(listener.local_addr().expect("it is bound").port());
        let (stream, _) = listener.accept().expect("the replica connects");
        resync_until_acknowledged(&stream, rdb, true).expect("the replica takes the file");
        Self { stream, sent: 0 }
    }

    /// Sends commands, and awaits that the replica has applied them.
    #[track_caller]
    pub fn send(&mut self, client: &mut Client, commands: &[Command]) {
        self.sent += 1;
        let sent = self.sent.to_string();
        let end = command(&format!("SET {END} {sent}"));
        let sending = self.stream.write_all(&wire(&[commands, &[end]].concat()));
        sending.expect("the replica reads");
        wait_until("the commands have come", || {
            client.call(&[b"GET", END.as_bytes()]) == bulk(&sent)
        });
    }
}

/// The key that a [`Link`] sets after commands.
const END: &str = "end-of-commands";

fn resync(stream: &TcpStream, rdb: &[u8], then: Option<&[u8]>) -> std::io::Result<()> {
    if let Some(mut commands) = resync_until_acknowledged(stream, rdb, then.is_some())? {
        (&*stream).write_all(then.unwrap_or_default())?;
        // Until the replica goes away.
        commands.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

/// Sends a file, whole or in part, and returns what follows from the replica after it has acknowledged it; `None` if it
/// went away, or got a part.
fn resync_until_acknowledged(
    mut stream: &TcpStream,
    rdb: &[u8],
    is_whole: bool,
) -> std::io::Result<Option<BufReader<TcpStream>>> {
    let mut commands = BufReader::new(stream.try_clone()?);
    loop {
        let words = read_command(&mut commands)?;
        if words.is_empty() {
            return Ok(None);
        }
        match words[0].as_slice() {
            b"PING" => stream.write_all(b"+PONG\r\n")?,
            b"PSYNC" => {
                let (history, end) = ("a".repeat(40), "b".repeat(40));
                let start = format!("+FULLRESYNC {history} 0\r\n$EOF:{end}\r\n");
                stream.write_all(start.as_bytes())?;
                stream.write_all(rdb)?;
                if !is_whole {
                    return Ok(None);
                }
                stream.write_all(end.as_bytes())?;
            }
            // The file has been loaded.
            b"REPLCONF" if words[1] == b"ACK" => return Ok(Some(commands)),
            _ => stream.write_all(b"+OK\r\n")?,
        }
    }
}
