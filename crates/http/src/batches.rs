//! Keys of several requests in one command.
//!
//! While the server answers, requests gather, and the next batch takes all of them: the busier the service, the larger
//! its commands. A request that finds the server idle is sent at once.

use hyper::StatusCode;
use redis::{Cmd, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use valkeybloom_near::once;

use crate::fault::Fault;
use crate::link::Link;
use crate::log;
use crate::options::Options;

/// The largest number of keys in a request and in a command: the server does nothing else while it looks them up.
pub const MAX_KEYS: usize = 1000;

/// The largest number of requests in a batch.
const MAX_REQUESTS: usize = 256;

/// What a request does with its keys.
#[derive(Clone, Copy, PartialEq)]
pub enum Action {
    /// Looks them up.
    Ask,
    /// Inserts them.
    Insert,
    /// Asks whether the server answers lookups. There are no keys.
    Check,
}

/// The commands for a filter, without the keys.
struct Commands {
    ask: Cmd,
    insert: Cmd,
    check: Cmd,
}

impl Commands {
    fn new(options: &Options) -> Self {
        let length = u64::try_from(options.length.as_millis()).unwrap_or(u64::MAX);
        // If the filter was lost, for example because the server keeps no files, an insertion creates it again.
        let mut insert = redis::cmd("BF.INSERT");
        insert.arg(&options.key).arg("CAPACITY").arg(options.size);
        insert.arg("ERROR").arg(options.error_rate);
        insert.arg("WINDOW").arg(length);
        insert.arg("PERIODS").arg(options.periods);
        let mut ask = redis::cmd("BF.MEXISTS");
        ask.arg(&options.key);
        let mut check = ask.clone();
        check.arg("");
        Self { ask, insert, check }
    }

    /// Returns the command for requests of a group.
    fn of(&self, group: &[Request]) -> Cmd {
        let mut command = match group[0].action {
            Action::Ask => self.ask.clone(),
            Action::Insert => self.insert.clone(),
            Action::Check => self.check.clone(),
        };
        if let Some(receipt) = &group[0].receipt {
            command.arg("ONCE").arg(receipt).arg(0);
        }
        if group[0].action == Action::Insert {
            command.arg("ITEMS");
        }
        for request in group {
            command.arg(&request.keys);
        }
        command
    }
}

/// The keys of a request, and for each whether the filter held it.
type Answer = Result<(Vec<String>, Vec<bool>), Fault>;

struct Request {
    action: Action,
    keys: Vec<String>,
    /// Where the answer of an insertion is kept, so that the same request gets it again.
    receipt: Option<Vec<u8>>,
    answer: oneshot::Sender<Answer>,
}

impl Request {
    fn answer(self, found: Result<Vec<bool>, Fault>) {
        // A client that is gone takes no answer.
        let _ = self.answer.send(found.map(|found| (self.keys, found)));
    }
}

/// The requests that wait for the server.
pub struct Queue(mpsc::UnboundedSender<Request>);

impl Queue {
    /// Creates the filter, unless it exists, and starts a task that sends what is queued.
    ///
    /// # Errors
    /// The server refuses the options. A server that is down, or refuses for a state that may end, is not an error.
    pub async fn start(mut link: Link, options: &Options) -> RedisResult<Self> {
        let commands = Commands::new(options);
        let sent = link
            .send(redis::pipe().add_command(commands.insert.clone()))
            .await;
        for reply in sent.unwrap_or_default() {
            let Value::ServerError(error) = reply else {
                continue;
            };
            let fault = Fault::from(error.clone());
            if fault.text.starts_with("ERR ") && !fault.text.starts_with("ERR unknown command") {
                return Err(error.into());
            }
            log::line(format_args!("{} refuses: {}", link.address(), fault.text));
        }
        // Each connection has at most one request in the queue.
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(send_all(receiver, commands, link));
        Ok(Self(sender))
    }

    /// Does something with keys, and returns them with whether the filter held each before. An insertion with a receipt
    /// that has its answer returns that, and inserts nothing.
    ///
    /// # Errors
    /// What the server refused, or why it did not answer. In the latter case keys may have been inserted.
    pub async fn send(
        &self,
        action: Action,
        keys: Vec<String>,
        receipt: Option<Vec<u8>>,
    ) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ended = || Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the service is ending");
        let request = Request {
            action,
            keys,
            receipt,
            answer,
        };
        self.0.send(request).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

async fn send_all(mut queue: mpsc::UnboundedReceiver<Request>, commands: Commands, mut link: Link) {
    // Requests without an answer, because one before them in the same command was refused.
    let mut left: Vec<Request> = Vec::new();
    let mut requests = Vec::new();
    while !left.is_empty() || queue.recv_many(&mut requests, MAX_REQUESTS).await > 0 {
        // Each has a command of its own now, or a full filter would refuse one request a round.
        let alone = left.drain(..).map(|request| vec![request]);
        let groups: Vec<_> = alone.chain(grouped(requests.drain(..))).collect();
        let mut batch = redis::pipe();
        for group in &groups {
            batch.add_command(commands.of(group));
        }
        match link.send(&batch).await {
            Ok(replies) => {
                for (group, reply) in groups.into_iter().zip(replies) {
                    left.extend(share(group, reply));
                }
            }
            Err(error) => {
                let fault = Fault::from(error);
                // Those who wait would only wait longer.
                let waiting = std::iter::from_fn(|| queue.try_recv().ok());
                for request in groups.into_iter().flatten().chain(waiting) {
                    request.answer(Err(fault.clone()));
                }
            }
        }
    }
}

/// Groups requests with the same action. A group has at most [`MAX_KEYS`] keys. A request with a receipt stays alone.
fn grouped(requests: impl Iterator<Item = Request>) -> Vec<Vec<Request>> {
    let mut groups: Vec<Vec<Request>> = Vec::new();
    // For each action, the number of keys in its newest group, and the group's index.
    let mut newest = [(MAX_KEYS + 1, 0); 3];
    for request in requests {
        if request.receipt.is_some() {
            groups.push(vec![request]);
            continue;
        }
        let (keys, index) = &mut newest[request.action as usize];
        *keys += request.keys.len();
        if *keys > MAX_KEYS {
            (*keys, *index) = (request.keys.len(), groups.len());
            groups.push(Vec::new());
        }
        groups[*index].push(request);
    }
    groups
}

/// Answers requests with their parts of a reply. Returns those without one: an insertion that fails ends the reply.
fn share(group: Vec<Request>, reply: Value) -> Vec<Request> {
    let action = group[0].action;
    let items = match reply {
        Value::ServerError(error) => {
            let fault = Fault::from(error);
            let lacks_once = group[0].receipt.is_some() && once::is_lacking(&fault.text);
            Err(if lacks_once {
                Fault::new(fault.status, once::LACKING)
            } else {
                fault
            })
        }
        _ if action == Action::Check => Ok(Vec::new()),
        reply => reply.into_sequence().map_err(|_| unexpected()),
    };
    let mut items = match items {
        Ok(items) => items.into_iter(),
        Err(fault) => {
            for request in group {
                request.answer(Err(fault.clone()));
            }
            return Vec::new();
        }
    };
    let mut has_failed = false;
    let mut unanswered = Vec::new();
    for request in group {
        let count = request.keys.len();
        let found = items.by_ref().take(count).map(|item| match item {
            Value::Int(reply) => Ok((reply == 1) == (action == Action::Ask)),
            Value::ServerError(error) => Err(Fault::from(error)),
            _ => Err(unexpected()),
        });
        let found: Vec<_> = found.collect();
        if found.is_empty() && has_failed {
            unanswered.push(request);
            continue;
        }
        let is_short = found.len() < count;
        let found: Result<Vec<_>, _> = found.into_iter().collect();
        has_failed |= found.is_err();
        request.answer(match found {
            Ok(_) if is_short => Err(unexpected()),
            found => found,
        });
    }
    unanswered
}

fn unexpected() -> Fault {
    let why = "the server sent an unexpected reply";
    Fault::new(StatusCode::BAD_GATEWAY, why)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use clap::Parser;
    use tokio::io::Interest;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn keys(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    /// The reply of an insertion ends with the error of the first key that was refused. Later requests are sent again.
    #[test]
    fn requests_after_a_refused_key_are_left() {
        let requests = ["a b", "c d", "e", "f g"].map(|names| {
            let (answer, answered) = oneshot::channel();
            let (action, keys) = (Action::Insert, keys(names));
            let request = Request {
                action,
                keys,
                receipt: None,
                answer,
            };
            (request, answered)
        });
        let (group, answers): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let reply = redis::parse_redis_value(b"*4\r\n:1\r\n:0\r\n:1\r\n-ERR it is full\r\n");
        let left = share(group, reply.expect("it is whole"));
        let left: Vec<_> = left.iter().map(|request| &request.keys).collect();
        assert_eq!(left, [&keys("e"), &keys("f g")]);
        let mut answers = answers.into_iter().map(|mut answer| answer.try_recv());
        let mut next = || answers.next().expect("four requests").ok();
        let first = next().expect("it is answered").expect("no key was refused");
        assert_eq!(first, (keys("a b"), vec![false, true]));
        let refused = next().expect("it is answered").expect_err("d was refused");
        assert_eq!(refused.text, "ERR it is full");
        assert!(next().is_none() && next().is_none());
    }

    /// Returns what the client sends next.
    async fn read(stream: &TcpStream) -> String {
        let mut bytes = [0; 4096];
        let read = stream.async_io(Interest::READABLE, || stream.try_read(&mut bytes));
        let count = read.await.expect("the client sends");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    /// Accepts a connection, and answers its first commands and the creation of the filter.
    async fn accept(server: &TcpListener) -> TcpStream {
        let (stream, _) = server.accept().await.expect("a client");
        for reply in ["+OK\r\n+OK\r\n", "*0\r\n"] {
            read(&stream).await;
            let sent = stream.try_write(reply.as_bytes());
            assert_eq!(sent.expect("a short reply fits"), reply.len());
        }
        stream
    }

    /// Starts a queue, and returns it with the connection that it made, and what accepts others.
    async fn start() -> (Queue, TcpStream, TcpListener) {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("it listens").to_string();
        let options = Options::parse_from(["", "--server", &address]);
        let link = Link::new(&options).expect("an address");
        let (queue, stream) = tokio::join!(Queue::start(link, &options), accept(&server));
        let queue = queue.expect("the filter is created");
        (queue, stream, server)
    }

    /// A full filter refuses each of them.
    #[tokio::test]
    async fn requests_behind_a_refused_one_take_one_more_round() {
        let (queue, stream, _server) = start().await;
        let insert = |name| queue.send(Action::Insert, keys(name), None);
        let (mut first, mut a, mut b, mut c) = (
            pin!(insert("first")),
            pin!(insert("a")),
            pin!(insert("b")),
            pin!(insert("c")),
        );
        // The others wait for the first one, and share a command.
        assert!(is_pending(first.as_mut()));
        read(&stream).await;
        assert!([&mut a, &mut b, &mut c].map(|it| is_pending(it.as_mut())) == [true; 3]);
        let reply = |text: &str| stream.try_write(text.as_bytes()).expect("it fits");
        reply("*1\r\n:1\r\n");
        assert_eq!(first.await.expect("it is new").1, [false]);
        assert_eq!(read(&stream).await.matches("BF.INSERT").count(), 1);
        let full = "*1\r\n-ERR non scaling filter is full\r\n";
        reply(full);
        assert!(a.await.is_err());
        assert_eq!(read(&stream).await.matches("BF.INSERT").count(), 2);
        reply(full);
        reply("*1\r\n:0\r\n");
        assert!(b.await.is_err());
        assert_eq!(c.await.expect("it is known").1, [true]);
    }

    fn is_pending(future: Pin<&mut impl Future>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        future.poll(&mut context).is_pending()
    }

    /// Otherwise, each batch would wait for the server in its turn.
    #[tokio::test]
    async fn a_lost_server_fails_all_that_wait_for_it() {
        let (queue, stream, server) = start().await;
        let mut sent = pin!(queue.send(Action::Ask, keys("a"), None));
        assert!(is_pending(sent.as_mut()));
        assert!(read(&stream).await.contains("BF.MEXISTS"));
        let mut waiting = pin!(queue.send(Action::Insert, keys("b"), None));
        assert!(is_pending(waiting.as_mut()));
        drop(stream);
        let (sent, waiting) = tokio::join!(sent, waiting);
        for answer in [sent, waiting] {
            assert_eq!(answer.expect_err("it was not sent").status, 503);
        }
        assert!(is_pending(pin!(server.accept())), "it connected again");
    }

    #[tokio::test]
    async fn a_connection_that_ends_within_a_reply_is_lost() {
        for reply in ["*2\r\n:1\r\n", "*2\r\n:1"] {
            let (queue, stream, _server) = start().await;
            let mut sent = pin!(queue.send(Action::Ask, keys("a b"), None));
            assert!(is_pending(sent.as_mut()));
            read(&stream).await;
            stream.try_write(reply.as_bytes()).expect("it fits");
            drop(stream);
            let fault = sent.await.expect_err("the reply is not whole");
            assert_eq!(fault.status, 503, "{}", fault.text);
        }
    }
}
