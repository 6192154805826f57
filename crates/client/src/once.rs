//! Additions whose answers the server can repeat.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use valkeybloom_near::once::{self, Adding, Receipts, Refusal};
use valkeybloom_sketches::Forgotten;

use crate::batches::{TIMEOUT, is_yes};
use crate::connection::{Connection, send_within};
use crate::error::Error;

/// Additions to a server's filter, so that no lost reply costs an answer. Clones are cheap handles to the same object.
///
/// The answers are kept in receipts on the server. The object has receipts of its own, one for each call in flight. So a
/// connection may send a command as often as it likes. If [`add`](Self::add) fails or its future is dropped, call it again
/// with these items: it returns what was new to the first call. That holds while the server keeps the receipt: for the
/// seconds of its setting `bf.bloom-receipt-ttl` after the last use.
///
/// A program that reads its input again, from positions of its own, has a [`Consumer`].
///
/// ```no_run
/// use valkeybloom_client::Once;
///
/// # async fn sign_up() -> Result<(), Box<dyn std::error::Error>> {
/// let client = redis::Client::open("redis://10.0.0.1/")?;
/// let connection = client.get_connection_manager().await?;
/// let names = Once::new(connection.clone(), "names");
/// if names.add(&["ann"]).await? == [true] {
///     println!("the name is yours");
/// }
///
/// let clicks = Once::new(connection, "clicks").consumer("worker-7", 1200);
/// assert_eq!(clicks.add(&["/a", "/b", "/a"], 1200).await?, [true, true, false]);
/// assert_eq!(clicks.add(&["/b", "/a", "/c"], 1201).await?, [true, false, true]);
/// assert_eq!(clicks.position().await?, 1204);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Once(Adder);

/// A consumer of [`Once`]: it says the position of each item in its input, and has one receipt. Clones are cheap handles.
///
/// Positions that were added before get the same answers again, and their items are not added. The receipt keeps the last
/// 100,000 answers. Add the batches of one consumer one after the other.
#[derive(Clone)]
pub struct Consumer(Adder);

/// What an object or a consumer adds with: the connection, and the receipts.
#[derive(Clone)]
struct Adder {
    connection: Arc<dyn Connection>,
    key: Arc<[u8]>,
    timeout: Duration,
    receipts: Arc<Mutex<once::Once>>,
}

/// The reason why a call has its addition.
const UNTIL_END: &str = "a call has its addition until it ends";

const REQUIRED: Adding = Adding {
    creates: true,
    may_skip_receipts: false,
};

/// Returns a random number, so that hardly ever another object has the same.
pub fn random() -> u128 {
    // Two processes after a fork would get the same numbers from a generator in the program.
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    u128::from_ne_bytes(bytes)
}

impl Once {
    /// Makes an object for the filter at a key. A missing filter is created, with the server's default parameters.
    pub fn new(connection: impl Connection, key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        let receipts = once::Once::new(key, Receipts::Own(random()), REQUIRED);
        Self(Adder {
            connection: Arc::new(connection),
            key: key.into(),
            timeout: TIMEOUT,
            receipts: Arc::new(Mutex::new(receipts)),
        })
    }

    /// Sets the timeout of a command: 5 seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// Returns the consumer with this name, whose receipt is `{key}:once:name`. `begin` is the position of its first batch.
    pub fn consumer(self, name: impl AsRef<[u8]>, begin: u64) -> Consumer {
        let receipts = Receipts::Consumer(name.as_ref(), begin);
        let receipts = once::Once::new(&self.0.key, receipts, REQUIRED);
        let receipts = Arc::new(Mutex::new(receipts));
        Consumer(Adder { receipts, ..self.0 })
    }

    /// Adds items, and returns for each, in order, whether it was new. Sends up to 10,000 items in a command.
    ///
    /// # Errors
    ///
    /// The server can't be reached, refused, or did not answer in time; [`Error::NoReceipts`] if it has no receipts. The next
    /// call that has these items returns what was new. After [`Error::Forgotten`] it can't: the server lost the receipt of an
    /// earlier call that failed, and what was new to that call is not known any more.
    pub async fn add(&self, items: &[impl AsRef<[u8]>]) -> Result<Vec<bool>, Error> {
        self.0.add(items, 0).await
    }
}

impl Consumer {
    /// Adds items. The first has the position `at`, the next ones follow it. Returns for each, in order, whether it was new.
    ///
    /// # Errors
    ///
    /// As [`Once::add`]. [`Error::Forgotten`] says which answers the receipt has. After any other error, the same call gets
    /// the same answers.
    pub async fn add(&self, items: &[impl AsRef<[u8]>], at: u64) -> Result<Vec<bool>, Error> {
        self.0.add(items, at).await
    }

    /// Returns the first position without an answer, which is where the consumer begins if there is no receipt.
    ///
    /// # Errors
    ///
    /// The server can't be reached, refused, or did not answer in time; [`Error::Unexpected`] if the key of the receipt
    /// holds a string that is not a receipt. Any other type is a refusal.
    pub async fn position(&self) -> Result<u64, Error> {
        let words = locked(&self.0.receipts).position_words();
        let mut command = Cmd::new();
        command.arg(&words.ok_or(Error::Unexpected)?[..]);
        let reply = self.0.send(command).await?;
        let head = match &reply {
            Value::BulkString(head) => &head[..],
            _ => return Err(Error::Unexpected),
        };
        let position = locked(&self.0.receipts).position_in(head);
        position.ok_or(Error::Unexpected)
    }
}

impl Adder {
    async fn add(&self, items: &[impl AsRef<[u8]>], at: u64) -> Result<Vec<bool>, Error> {
        let items = items.iter().map(|item| (item.as_ref(), false));
        let mut call = Call::begin(&self.receipts, items, at);
        call.run(&self.key, |command| self.send(command), |_| {})
            .await?;
        let answers = call.answers().into_iter();
        let answers = answers.map(|answer| answer.ok_or(Error::Unexpected));
        let answers = answers.collect::<Result<_, _>>()?;
        call.finish();
        Ok(answers)
    }

    async fn send(&self, command: Cmd) -> Result<Value, Error> {
        send_within(self.timeout, &*self.connection, &self.key, command).await
    }
}

pub fn locked(receipts: &Mutex<once::Once>) -> MutexGuard<'_, once::Once> {
    receipts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that adds items. If it is dropped before it is [finished](Self::finish), the program did not get the answers.
pub struct Call<'o> {
    receipts: &'o Mutex<once::Once>,
    /// `None` once the call has ended.
    addition: Option<once::Addition>,
}

impl<'o> Call<'o> {
    /// Begins a call with items. Each comes with whether a copy of the filter claims it.
    pub fn begin<'i>(
        receipts: &'o Mutex<once::Once>,
        items: impl Iterator<Item = (&'i [u8], bool)>,
        at: u64,
    ) -> Self {
        let mut once = locked(receipts);
        let mut addition = once.begin(at);
        for (item, is_claimed) in items {
            // Without memory, a Rust program ends anyway.
            let pushed = once.push(&mut addition, item, is_claimed);
            pushed.expect("there is memory for the items of a call");
        }
        Self {
            receipts,
            addition: Some(addition),
        }
    }

    /// Sets whether the call creates a missing filter.
    pub fn set_creates(&mut self, creates: bool) {
        self.addition_mut().set_creates(creates);
    }

    fn addition(&self) -> &once::Addition {
        self.addition.as_ref().expect(UNTIL_END)
    }

    fn addition_mut(&mut self) -> &mut once::Addition {
        self.addition.as_mut().expect(UNTIL_END)
    }

    /// Sends the commands of the call, and passes the items of each to `added`.
    pub async fn run<S: Future<Output = Result<Value, Error>>>(
        &mut self,
        key: &[u8],
        send: impl Fn(Cmd) -> S,
        mut added: impl FnMut(&[&[u8]]),
    ) -> Result<(), Error> {
        while let Some((command, count)) = next_command(self.addition_mut(), key) {
            let reply = match send(command).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.require_retry(error)?;
                    continue;
                }
            };
            let (answers, refusal) = answers_in(reply, count)?;
            let is_short = answers.len() < count;
            added(&self.addition_mut().take(answers));
            if let Some(error) = refusal {
                self.addition_mut().refuse_item();
                return Err(error);
            }
            if is_short {
                return Err(Error::Unexpected);
            }
        }
        Ok(())
    }

    /// Takes the error of a command. Returns it, or a clearer one, unless the call goes on without receipts.
    fn require_retry(&mut self, error: Error) -> Result<(), Error> {
        let Some(text) = error.server_text() else {
            return Err(error);
        };
        Err(match self.addition_mut().refuse(&text) {
            Refusal::Without => return Ok(()),
            Refusal::Forgotten(Forgotten { from, to }) => Error::Forgotten { from, to },
            Refusal::Lacking => Error::NoReceipts,
            Refusal::Other => error,
        })
    }

    /// Returns the answers that are known.
    pub fn answers(&self) -> Vec<Option<bool>> {
        self.addition().answers()
    }

    /// Returns the indices of the items that the last error is about.
    pub fn failed(&self) -> Vec<usize> {
        self.addition().failed()
    }

    /// Ends the call. The program gets the answers that are known.
    pub fn finish(mut self) {
        self.end(true);
    }

    fn end(&mut self, is_delivered: bool) {
        if let Some(addition) = self.addition.take() {
            locked(self.receipts).end(addition, is_delivered);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Returns the command to send next, and its number of items.
fn next_command(addition: &mut once::Addition, key: &[u8]) -> Option<(Cmd, usize)> {
    let next = addition.command()?;
    let mut command = Cmd::new();
    for (place, word) in next.words.iter().enumerate() {
        command.arg(word);
        if place == 0 {
            command.arg(key);
        }
    }
    let count = next.items().len();
    next.items().for_each(|item| {
        command.arg(item);
    });
    Some((command, count))
}

/// Returns the answers in the reply to a command with `count` items, and the error of the item after them, if it was
/// refused.
fn answers_in(reply: Value, count: usize) -> Result<(Vec<bool>, Option<Error>), Error> {
    let Value::Array(elements) = reply else {
        return Err(Error::Unexpected);
    };
    if elements.len() > count {
        return Err(Error::Unexpected);
    }
    let mut answers = Vec::with_capacity(elements.len());
    for element in elements {
        if let Value::ServerError(error) = element {
            return Ok((answers, Some(error.into())));
        }
        answers.push(is_yes(&element).ok_or(Error::Unexpected)?);
    }
    Ok((answers, None))
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once({})", self.0.key.escape_ascii())
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Consumer({})", self.0.key.escape_ascii())
    }
}
