//! A small client that returns replies as they are on the wire, in full text and shape:
//! client libraries split error codes off and turn one type into another.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use super::PATIENCE;

/// One reply. RESP3's attributes and big numbers are not sent by what is tested here.
#[derive(Clone, PartialEq)]
pub enum Reply {
    Simple(String),
    /// The whole text, with its code.
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    /// RESP3 text, with its format ("txt:") in front.
    Verbatim(Vec<u8>),
    /// Every null: RESP2's bulk and array, and RESP3's own.
    Nil,
    Bool(bool),
    Double(f64),
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Push(Vec<Reply>),
}

pub fn ok() -> Reply {
    simple("OK")
}

pub fn simple(text: &str) -> Reply {
    Reply::Simple(text.to_owned())
}

pub fn error(text: &str) -> Reply {
    Reply::Error(text.to_owned())
}

pub fn int(value: i64) -> Reply {
    Reply::Int(value)
}

pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(bytes.as_ref().to_vec())
}

pub fn nil() -> Reply {
    Reply::Nil
}

pub fn boolean(value: bool) -> Reply {
    Reply::Bool(value)
}

pub fn double(value: f64) -> Reply {
    Reply::Double(value)
}

pub fn array(items: impl IntoIterator<Item = Reply>) -> Reply {
    Reply::Array(items.into_iter().collect())
}

pub fn map(pairs: impl IntoIterator<Item = (Reply, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().collect())
}

impl Reply {
    #[track_caller]
    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    #[track_caller]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("not a bulk: {other:?}"),
        }
    }

    /// Returns the items of an array, a set or a push.
    #[track_caller]
    pub fn as_array(&self) -> &[Reply] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// Returns the text of whatever has one, an error included.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Verbatim(bytes) => String::from_utf8_lossy(&bytes[4..]).into_owned(),
            other => panic!("not a text: {other:?}"),
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Written like the constructors, so that a failed comparison can be read, and pasted.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = |name: &str, items: &[Reply]| {
            f.write_str(name)?;
            f.debug_list().entries(items).finish()
        };
        match self {
            Self::Array(items) => list("array", items),
            Self::Set(items) => list("set", items),
            Self::Push(items) => list("push", items),
            Self::Map(pairs) => f
                .debug_map()
                .entries(pairs.iter().map(|(k, v)| (k, v)))
                .finish(),
            Self::Simple(text) => write!(f, "simple({text:?})"),
            Self::Error(text) => write!(f, "error({text:?})"),
            Self::Int(value) => write!(f, "int({value})"),
            Self::Bulk(bytes) => write!(f, "bulk(b\"{}\")", bytes.escape_ascii()),
            Self::Verbatim(bytes) => write!(f, "verbatim(b\"{}\")", bytes.escape_ascii()),
            Self::Nil => f.write_str("nil()"),
            Self::Bool(value) => write!(f, "boolean({value})"),
            Self::Double(value) => write!(f, "double({value:?})"),
        }
    }
}

/// One connection to a server.
pub struct Client {
    stream: BufReader<TcpStream>,
    pushes: VecDeque<Reply>,
}

impl Client {
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
            pushes: VecDeque::new(),
        })
    }

    /// Calls a command written as one line, with one space between arguments; two of them hold an
    /// empty argument.
    #[track_caller]
    pub fn cmd(&mut self, line: &str) -> Reply {
        self.call(&words(line))
    }

    /// Calls a command that must have this reply.
    #[track_caller]
    pub fn expect(&mut self, line: impl AsRef<str>, reply: impl Borrow<Reply>) {
        let line = line.as_ref();
        assert_eq!(self.cmd(line), *reply.borrow(), "{line}");
    }

    /// Calls commands that must have these replies.
    #[track_caller]
    pub fn replies<L: AsRef<str>>(&mut self, rows: impl IntoIterator<Item = (L, Reply)>) {
        for (line, reply) in rows {
            self.expect(line, reply);
        }
    }

    /// Calls a command that must reply OK.
    #[track_caller]
    pub fn ok(&mut self, line: impl AsRef<str>) {
        self.expect(line, ok());
    }

    /// Calls commands that must all reply OK.
    #[track_caller]
    pub fn all_ok<L: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = L>) {
        for line in lines {
            self.ok(line);
        }
    }

    /// Calls a command that must not fail. Returns its reply.
    #[track_caller]
    pub fn run(&mut self, line: impl AsRef<str>) -> Reply {
        let line = line.as_ref();
        let reply = self.cmd(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    }

    /// Calls commands that must not fail.
    #[track_caller]
    pub fn run_all<L: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = L>) {
        for line in lines {
            self.run(line);
        }
    }

    /// Calls a command of words that are held elsewhere.
    #[track_caller]
    pub fn call_words(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        self.call(&words)
    }

    /// Calls a command of the words of a line, and of words that are held elsewhere.
    #[track_caller]
    pub fn call_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> Reply {
        let more = more.iter().map(AsRef::as_ref);
        self.call(&words(line).into_iter().chain(more).collect::<Vec<_>>())
    }

    /// Calls RESTORE, without a time to live.
    #[track_caller]
    pub fn restore(&mut self, key: &str, payload: impl AsRef<[u8]>) -> Reply {
        self.call(&[b"RESTORE", key.as_bytes(), b"0", payload.as_ref()])
    }

    /// Makes the server a replica of another one.
    #[track_caller]
    pub fn follow(&mut self, port: u16) {
        self.ok(format!("REPLICAOF 127.0.0.1 {port}"));
    }

    /// Calls a command of any bytes.
    #[track_caller]
    pub fn call(&mut self, args: &[&[u8]]) -> Reply {
        match self.try_call(args) {
            Ok(reply) => reply,
            Err(e) => panic!("no reply to {}: {e}", shown(args)),
        }
    }

    pub fn try_call(&mut self, args: &[&[u8]]) -> io::Result<Reply> {
        self.write(args)?;
        self.next_reply()
    }

    /// Returns the reply to raw bytes, which need not be a command.
    #[track_caller]
    pub fn raw(&mut self, bytes: &[u8]) -> Reply {
        let sent = self.stream.get_mut().write_all(bytes);
        sent.expect("the server reads");
        self.read()
    }

    /// Sends without reading; each one sent is owed one [`read`](Self::read).
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        self.send_args(&words(line));
    }

    #[track_caller]
    pub fn send_args(&mut self, args: &[&[u8]]) {
        if let Err(e) = self.write(args) {
            panic!("could not send {}: {e}", shown(args));
        }
    }

    /// Calls many commands with one write, which takes a fraction of the time.
    #[track_caller]
    pub fn call_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Reply> {
        let mut request = Vec::new();
        for command in commands {
            encode(command, &mut request);
        }
        if let Err(e) = self.stream.get_mut().write_all(&request) {
            panic!("could not send {} commands: {e}", commands.len());
        }
        let mut replies = Vec::with_capacity(commands.len());
        for (number, command) in commands.iter().enumerate() {
            match self.next_reply() {
                Ok(reply) => replies.push(reply),
                // The server sends replies together: the cause may be a later command.
                Err(e) => {
                    let whole = |command: &Vec<Vec<u8>>| {
                        let words = command.iter().map(|word| word.escape_ascii().to_string());
                        spaced(words)
                    };
                    let due: Vec<String> = commands[number..].iter().map(whole).collect();
                    panic!(
                        "no reply to {}: {e}; due are:\n{}",
                        whole(command),
                        due.join("\n")
                    );
                }
            }
        }
        replies
    }

    /// Returns the next reply; RESP3 pushes that come before it wait for [`read_push`](Self::read_push).
    #[track_caller]
    pub fn read(&mut self) -> Reply {
        self.next_reply().expect("a reply is due")
    }

    /// Returns the next RESP3 push, and awaits it if it has not come yet. No reply may be due.
    #[track_caller]
    pub fn read_push(&mut self) -> Reply {
        if let Some(push) = self.pushes.pop_front() {
            return push;
        }
        match self.message() {
            Ok(push @ Reply::Push(_)) => push,
            other => panic!("not a push: {other:?}"),
        }
    }

    fn write(&mut self, args: &[&[u8]]) -> io::Result<()> {
        let mut request = Vec::new();
        encode(args, &mut request);
        self.stream.get_mut().write_all(&request)
    }

    fn next_reply(&mut self) -> io::Result<Reply> {
        loop {
            match self.message()? {
                push @ Reply::Push(_) => self.pushes.push_back(push),
                reply => return Ok(reply),
            }
        }
    }

    fn message(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at(line.len().min(1));
        Ok(match kind {
            "+" => simple(rest),
            "-" => error(rest),
            ":" => Reply::Int(number(rest)?),
            "$" | "=" | "!" if rest != "-1" => {
                let bytes = self.bytes(number(rest)?)?;
                match kind {
                    "$" => Reply::Bulk(bytes),
                    "=" => Reply::Verbatim(bytes),
                    _ => Reply::Error(String::from_utf8_lossy(&bytes).into_owned()),
                }
            }
            "_" | "$" => Reply::Nil,
            "*" if rest == "-1" => Reply::Nil,
            "#" => Reply::Bool(rest == "t"),
            "," => Reply::Double(number(rest)?),
            "*" => Reply::Array(self.messages(number(rest)?)?),
            "~" => Reply::Set(self.messages(number(rest)?)?),
            ">" => Reply::Push(self.messages(number(rest)?)?),
            "%" => {
                let pair = |_| Ok((self.message()?, self.message()?));
                Reply::Map((0..number(rest)?).map(pair).collect::<io::Result<_>>()?)
            }
            _ => return Err(io::Error::other(format!("not RESP: {line:?}"))),
        })
    }

    fn messages(&mut self, count: usize) -> io::Result<Vec<Reply>> {
        (0..count).map(|_| self.message()).collect()
    }

    /// Returns a header line. The only texts in it are simple strings and errors.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let text = line
            .strip_suffix(b"\r\n")
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Appends a command in its form on the wire.
pub fn encode(args: &[impl AsRef<[u8]>], request: &mut Vec<u8>) {
    request.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
}

/// Returns values as the words of a line.
pub fn spaced(values: impl IntoIterator<Item: fmt::Display>) -> String {
    let words: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    words.join(" ")
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse()
        .map_err(|_| io::Error::other(format!("not a number: {text:?}")))
}

/// Returns the start of a command, as far as it can be read in a message.
fn shown(args: &[&[u8]]) -> String {
    let start = args
        .iter()
        .take(6)
        .map(|arg| arg[..arg.len().min(40)].escape_ascii().to_string());
    spaced(start)
}
