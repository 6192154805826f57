//! Keys of several requests in one command.
//!
//! While the server answers, requests gather, and the next batch takes all of them: the busier the service, the larger
//! its commands. A request that finds the server idle is sent at once.

use std::mem;

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
#[derive(Clone, PartialEq)]
enum Action {
    LookUp,
    Insert {
        /// Where the answer is kept, so that the same request gets it again.
        receipt: Option<Vec<u8>>,
    },
    /// Asks whether the server answers lookups. There are no keys.
    Check,
}

/// The keys of a request, and for each whether the filter held it.
type Answer = Result<(Vec<String>, Vec<bool>), Fault>;

struct Request {
    keys: Vec<String>,
    answer: oneshot::Sender<Answer>,
}

impl Request {
    fn answer(self, found: Result<Vec<bool>, Fault>) {
        // A client that is gone takes no answer.
        let _ = self.answer.send(found.map(|found| (self.keys, found)));
    }
}

/// The requests of a command.
struct Group {
    action: Action,
    requests: Vec<Request>,
}

impl Group {
    fn alone(action: Action, request: Request) -> Self {
        let requests = vec![request];
        Self { action, requests }
    }

    /// Returns whether the keys of another request of this action fit. A receipt is for one request.
    fn has_room(&self, request: &Request) -> bool {
        let keys: usize = self.requests.iter().map(|request| request.keys.len()).sum();
        let is_shared = !matches!(self.action, Action::Insert { receipt: Some(_) });
        is_shared && keys + request.keys.len() <= MAX_KEYS
    }
}

/// The commands for a filter, without the keys.
struct Commands {
    look_up: Cmd,
    insert: Cmd,
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
        let mut look_up = redis::cmd("BF.MEXISTS");
        look_up.arg(&options.key);
        Self { look_up, insert }
    }

    /// Returns the command for a group.
    fn of(&self, group: &Group) -> Cmd {
        let mut command = match &group.action {
            Action::LookUp | Action::Check => self.look_up.clone(),
            Action::Insert { .. } => self.insert.clone(),
        };
        match &group.action {
            Action::LookUp => {}
            Action::Insert { receipt } => {
                if let Some(receipt) = receipt {
                    command.arg("ONCE").arg(receipt).arg(0);
                }
                command.arg("ITEMS");
            }
            Action::Check => {
                command.arg("");
            }
        }
        for request in &group.requests {
            command.arg(&request.keys);
        }
        command
    }
}

/// The requests that wait for the server.
pub struct Queue(mpsc::Sender<(Action, Request)>);

impl Queue {
    /// Creates the filter, unless it exists, and starts a task that sends what is queued.
    ///
    /// # Errors
    /// The server refuses the options. A server that is down, or refuses for another reason, which may end, is not an error.
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
            if is_about_options(&fault.text) {
                return Err(error.into());
            }
            log::line(format_args!("{} refuses: {}", link.address(), fault.text));
        }
        // Each connection waits for one request at most. Requests of clients that left stay in the queue, so it has a bound.
        let (sender, receiver) = mpsc::channel(options.connections as usize);
        tokio::spawn(send_all(receiver, commands, link));
        Ok(Self(sender))
    }

    /// Looks keys up, and returns them with whether the filter holds each.
    ///
    /// # Errors
    /// What the server refused, or why it did not answer.
    pub async fn look_up(&self, keys: Vec<String>) -> Answer {
        self.send(Action::LookUp, keys).await
    }

    /// Inserts keys, and returns them with whether the filter held each before. If there is a receipt with the answer of
    /// the same request, it returns that answer, and inserts nothing.
    ///
    /// # Errors
    /// What the server refused, or why it did not answer. Keys may have been inserted: those before a refused one, or all
    /// if there is no answer.
    pub async fn insert(&self, keys: Vec<String>, receipt: Option<Vec<u8>>) -> Answer {
        self.send(Action::Insert { receipt }, keys).await
    }

    /// Checks that the server answers lookups.
    ///
    /// # Errors
    /// What the server refused, or why it did not answer.
    pub async fn check(&self) -> Result<(), Fault> {
        self.send(Action::Check, Vec::new()).await.map(drop)
    }

    async fn send(&self, action: Action, keys: Vec<String>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ended = || Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the service is ending");
        let sent = self.0.send((action, Request { keys, answer })).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

/// Returns whether the server refuses to create the filter because of its options. It would do so again, whereas a module
/// may be loaded later, and a copy that another client loads into the key may be completed.
fn is_about_options(refusal: &str) -> bool {
    let begins = [
        "ERR bad ",
        "ERR (",
        "ERR unknown argument",
        "ERR operation exceeds bloom object memory limit",
        "ERR false positive degrades to 0",
    ];
    // `bf.bloom-new-filters` names a maker whose filters have no windows.
    let is_not_made = refusal.starts_with("ERR ") && refusal.contains(" is not possible with ");
    is_not_made || begins.iter().any(|begin| refusal.starts_with(begin))
}

async fn send_all(
    mut queue: mpsc::Receiver<(Action, Request)>,
    commands: Commands,
    mut link: Link,
) {
    // Requests without an answer, because one before them in the same command was refused. Each has a command of its own
    // now, or a full filter would refuse one request a round.
    let mut left: Vec<Group> = Vec::new();
    let mut requests = Vec::new();
    while !left.is_empty() || queue.recv_many(&mut requests, MAX_REQUESTS).await > 0 {
        let mut groups = mem::take(&mut left);
        groups.extend(grouped(requests.drain(..)));
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
                let waiting = waiting.map(|(_, request)| request);
                let sent = groups.into_iter().flat_map(|group| group.requests);
                for request in sent.chain(waiting) {
                    request.answer(Err(fault.clone()));
                }
            }
        }
    }
}

/// Groups requests with the same action.
fn grouped(requests: impl Iterator<Item = (Action, Request)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (action, request) in requests {
        let newest = groups.iter_mut().rfind(|group| group.action == action);
        match newest.filter(|group| group.has_room(&request)) {
            Some(group) => group.requests.push(request),
            None => groups.push(Group::alone(action, request)),
        }
    }
    groups
}

/// Answers requests with their parts of a reply. Returns those without one: an insertion that fails ends the reply.
fn share(group: Group, reply: Value) -> Vec<Group> {
    let Group { action, requests } = group;
    let items = match reply {
        Value::ServerError(error) => {
            let mut fault = Fault::from(error);
            let has_receipt = matches!(action, Action::Insert { receipt: Some(_) });
            if has_receipt && once::is_lacking(&fault.text) {
                once::LACKING.clone_into(&mut fault.text);
            }
            Err(fault)
        }
        _ if action == Action::Check => Ok(Vec::new()),
        Value::Array(items) => Ok(items),
        _ => Err(unexpected()),
    };
    let mut items = match items {
        Ok(items) => items.into_iter(),
        Err(fault) => {
            for request in requests {
                request.answer(Err(fault.clone()));
            }
            return Vec::new();
        }
    };
    let mut has_failed = false;
    let mut unanswered = Vec::new();
    for request in requests {
        let count = request.keys.len();
        let found: Vec<_> = items
            .by_ref()
            .take(count)
            .map(|item| is_found(&action, item))
            .collect();
        if found.is_empty() && has_failed {
            unanswered.push(Group::alone(action.clone(), request));
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

/// Returns whether the filter held a key, by its element of a reply: a lookup answers whether it is there, and an insertion
/// whether it was new.
fn is_found(action: &Action, element: Value) -> Result<bool, Fault> {
    match element {
        Value::Int(answer @ (0 | 1)) => Ok((answer == 1) == (*action == Action::LookUp)),
        Value::ServerError(error) => Err(error.into()),
        _ => Err(unexpected()),
    }
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
            let keys = keys(names);
            (Request { keys, answer }, answered)
        });
        let (requests, answers): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let action = Action::Insert { receipt: None };
        let group = Group { action, requests };
        let reply = redis::parse_redis_value(b"*4\r\n:1\r\n:0\r\n:1\r\n-ERR it is full\r\n");
        let left = share(group, reply.expect("it is whole"));
        let left: Vec<_> = left.iter().map(|group| &group.requests[0].keys).collect();
        assert_eq!(left, [&keys("e"), &keys("f g")]);
        let mut answers = answers.into_iter().map(|mut answer| answer.try_recv());
        let mut next = || answers.next().expect("four requests").ok();
        let first = next().expect("it is answered").expect("no key was refused");
        assert_eq!(first, (keys("a b"), vec![false, true]));
        let refused = next().expect("it is answered").expect_err("d was refused");
        assert_eq!(refused.text, "ERR it is full");
        assert!(next().is_none() && next().is_none());
    }

    /// Two requests with equal receipts are for the same keys, and the second gets the answer of the first.
    #[test]
    fn a_command_has_the_requests_of_one_action_that_fit() {
        let receipt = |name: &str| Action::Insert {
            receipt: Some(name.as_bytes().to_vec()),
        };
        let insert = || Action::Insert { receipt: None };
        let requests = [
            (Action::LookUp, 600),
            (insert(), 1),
            (Action::LookUp, 400),
            (receipt("a"), 1),
            (receipt("a"), 1),
            (Action::LookUp, 1),
            (insert(), 2),
            (Action::LookUp, 999),
        ];
        let requests = requests.map(|(action, count)| {
            let keys = vec![String::new(); count];
            let (answer, _) = oneshot::channel();
            (action, Request { keys, answer })
        });
        let counts = |group: &Group| group.requests.iter().map(|it| it.keys.len()).collect();
        let groups = grouped(requests.into_iter());
        let groups: Vec<Vec<usize>> = groups.iter().map(counts).collect();
        let expected = [vec![600, 400], vec![1, 2], vec![1], vec![1], vec![1, 999]];
        assert_eq!(groups, expected);
    }

    #[test]
    fn only_0_and_1_are_answers() {
        for (reply, expected) in [(0, Some(true)), (1, Some(false)), (2, None), (-1, None)] {
            let insert = Action::Insert { receipt: None };
            let found = is_found(&insert, Value::Int(reply)).ok();
            assert_eq!(found, expected);
            let found = is_found(&Action::LookUp, Value::Int(reply)).ok();
            assert_eq!(found, expected.map(|found| !found));
        }
    }

    #[test]
    fn only_the_options_end_the_service() {
        let maker = "ERR WINDOW is not possible with bf.bloom-new-filters redisbloom";
        for (refusal, expected) in [
            ("ERR bad error rate", true),
            ("ERR (capacity should be larger than 0)", true),
            ("ERR (0 < error rate range < 1)", true),
            ("ERR unknown argument received", true),
            ("ERR operation exceeds bloom object memory limit", true),
            ("ERR false positive degrades to 0 on scale out", true),
            (maker, true),
            ("ERR bloom object is still being loaded", false),
            ("ERR unknown command 'BF.INSERT'", false),
            ("ERR max number of clients reached", false),
            ("ERR upstream failure", false),
            ("OOM not enough memory for bloom object", false),
            ("NOPERM this user has no permissions", false),
            ("READONLY You can't write against a replica.", false),
            ("WRONGTYPE Operation against a key", false),
        ] {
            assert_eq!(is_about_options(refusal), expected, "{refusal}");
        }
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
        start_with(&[]).await
    }

    async fn start_with(options: &[&str]) -> (Queue, TcpStream, TcpListener) {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("it listens").to_string();
        let options = Options::parse_from([&["", "--server", &address], options].concat());
        let link = Link::new(&options).expect("an address");
        let (queue, stream) = tokio::join!(Queue::start(link, &options), accept(&server));
        let queue = queue.expect("the filter is created");
        (queue, stream, server)
    }

    /// A full filter refuses each of them.
    #[tokio::test]
    async fn requests_behind_a_refused_one_take_one_more_round() {
        let (queue, stream, _server) = start().await;
        let insert = |name| queue.insert(keys(name), None);
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

    /// Otherwise, clients that send a request to a server that hangs and leave would fill the memory.
    #[tokio::test]
    async fn requests_of_clients_that_left_take_bounded_room() {
        let (queue, stream, _server) = start_with(&["--connections", "2"]).await;
        let mut first = pin!(queue.insert(keys("first"), None));
        assert!(is_pending(first.as_mut()));
        read(&stream).await;
        for name in ["left-1", "left-2", "left-3", "left-4"] {
            assert!(is_pending(pin!(queue.insert(keys(name), None))));
        }
        stream.try_write(b"*1\r\n:1\r\n").expect("it fits");
        assert_eq!(first.await.expect("it is new").1, [false]);
        assert_eq!(read(&stream).await.matches("left").count(), 2);
    }

    /// Otherwise, each batch would wait for the server in its turn.
    #[tokio::test]
    async fn a_lost_server_fails_all_that_wait_for_it() {
        let (queue, stream, server) = start().await;
        let mut sent = pin!(queue.look_up(keys("a")));
        assert!(is_pending(sent.as_mut()));
        assert!(read(&stream).await.contains("BF.MEXISTS"));
        let mut waiting = pin!(queue.insert(keys("b"), None));
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
            let mut sent = pin!(queue.look_up(keys("a b")));
            assert!(is_pending(sent.as_mut()));
            read(&stream).await;
            stream.try_write(reply.as_bytes()).expect("it fits");
            drop(stream);
            let fault = sent.await.expect_err("the reply is not whole");
            assert_eq!(fault.status, 503, "{}", fault.text);
        }
    }
}
