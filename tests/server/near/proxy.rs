//! A proxy that stalls and cuts: no answer is ever older than it may be.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use redis::aio::ConnectionManagerConfig;
use tokio::runtime::Runtime;
use valkeybloom_client::near::Options;
use valkeybloom_client::{Error, Near};

use super::KEY;
use super::task::{becomes_equal, url};
use crate::harness::{Server, int, wait_until};
use crate::support::Rng;
use crate::support::cutter::proxy;

/// What a proxy does with all its connections.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Mode {
    Forward,
    /// Bytes wait.
    Stall,
    /// Connections end, and new ones too.
    Cut,
}

struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    fn of(server: &Server) -> Self {
        let mode = Arc::new(AtomicU8::new(Mode::Forward as u8));
        let of_all = mode.clone();
        let port = proxy(server.port(), move |from, to| {
            for (from, to) in [(&from, &to), (&to, &from)] {
                let [from, to] =
                    [from, to].map(|end| end.try_clone().expect("a handle can be copied"));
                let mode = of_all.clone();
                thread::spawn(move || pass(from, to, &mode));
            }
        });
        Self { port, mode }
    }

    fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, SeqCst);
    }
}

/// Passes bytes on until either side ends or the proxy cuts.
fn pass(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8) {
    let tick = Some(Duration::from_millis(1));
    from.set_read_timeout(tick).expect("a time");
    let mut buffer = vec![0; 1 << 16];
    loop {
        let is = |wanted: Mode| mode.load(SeqCst) == wanted as u8;
        if is(Mode::Cut) {
            break;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                while is(Mode::Stall) {
                    thread::sleep(Duration::from_millis(1));
                }
                if is(Mode::Cut) || to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Returns a copy that is read and asked through a proxy, and gives up soon.
fn follow(runtime: &Runtime, proxy: &Proxy, options: Options) -> Near {
    runtime.block_on(async {
        let client = redis::Client::open(url(proxy.port, false)).expect("a valid address");
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(2)
            .set_min_delay(Duration::from_millis(5))
            .set_max_delay(Duration::from_millis(20))
            .set_connection_timeout(Some(Duration::from_millis(100)));
        let connection = client.get_connection_manager_with_config(config).await;
        let near = Near::follow(connection.expect("it is up"), KEY, options);
        near.timeout(Duration::from_millis(200))
    })
}

/// An item of the writer, with the last moment at which the server did not have it, or no longer had it.
type Changed = (String, Instant);

/// Returns how old an answer has to be that is `wrong` by now: 0 for the other one, `None` if there is no answer.
fn age(near: &Near, (item, changed): &Changed, wrong: bool) -> Option<Duration> {
    // Time that passes between these lines only makes an answer younger than it seems.
    let since = changed.elapsed();
    let is_wrong = near.local(item)? == wrong;
    Some(if is_wrong { since } else { Duration::ZERO })
}

#[test]
fn no_answer_is_older_than_it_may_be() {
    let max_age = Duration::from_millis(150);
    let options = Options {
        every: Duration::from_millis(10),
        max_age,
        ..Options::default()
    };
    let server = Server::start();
    let proxy = Proxy::of(&server);
    let runtime = Runtime::new().expect("a runtime");
    let mut writer = server.client();
    let reserve = "BF.RESERVE k 0.000000001 100000";
    writer.ok(reserve);
    let near = follow(&runtime, &proxy, options);
    assert_eq!(runtime.block_on(near.ready()), Ok(()));

    let mut random = Rng::new(23);
    let (mut added, mut deleted) = (Vec::new(), Vec::new());
    let (mut fresh, mut stale, mut next) = (0, 0, 0_u64);
    for phase in 0..80 {
        let mode = *random.pick(&[Mode::Forward, Mode::Forward, Mode::Stall, Mode::Cut]);
        proxy.set(mode);
        let end = Instant::now() + Duration::from_millis(20 + random.below(250) as u64);
        if phase % 7 == 6 {
            writer.expect("DEL k", int(1));
            let now = Instant::now();
            let all = added.drain(..);
            deleted = all.map(|(item, _): Changed| (item, now)).collect();
            writer.ok(reserve);
        }
        while Instant::now() < end {
            next += 1;
            let item = next.to_string();
            writer.expect(format!("BF.ADD k {item}"), int(1));
            added.push((item, Instant::now()));
            let recent = added.iter().rev().take(200).map(|item| (item, false));
            let gone = deleted.iter().take(200).map(|item| (item, true));
            for (item, wrong) in recent.chain(gone) {
                match age(&near, item, wrong) {
                    Some(age) => {
                        fresh += 1;
                        assert!(age < max_age, "{mode:?}: {age:?}");
                    }
                    None => stale += 1,
                }
            }
        }
    }
    assert!(fresh > 1000 && stale > 1000, "{fresh} fresh, {stale} stale");
    assert!(near.stats().follower.errors > 10, "{:?}", near.stats());

    proxy.set(Mode::Forward);
    let mut client = server.client();
    let exists = |item: &str| client.cmd(&format!("BF.EXISTS k {item}")) == int(1);
    becomes_equal(&near, exists, "all that");
    let last = [next.to_string(), (next + 1).to_string()];
    let answers = runtime.block_on(near.contains_each(&last));
    assert_eq!(answers, Ok(vec![true, false]));
}

/// Where the copy is too old and the server can't be reached, lookups fail.
#[test]
fn lookups_fail_rather_than_be_wrong() {
    let server = Server::start();
    let proxy = Proxy::of(&server);
    let runtime = Runtime::new().expect("a runtime");
    let mut writer = server.client();
    writer.ok("BF.RESERVE k 0.000001 1000");
    writer.expect("BF.ADD k a", int(1));
    for confirm in [false, true] {
        let options = Options {
            every: Duration::from_millis(10),
            max_age: Duration::from_millis(300),
            confirm,
            ..Options::default()
        };
        let near = follow(&runtime, &proxy, options);
        for mode in [Mode::Stall, Mode::Cut] {
            assert_eq!(runtime.block_on(near.ready()), Ok(()));
            assert_eq!(near.local("a"), Some(true));
            proxy.set(mode);
            wait_until("the copy is too old", || near.local("a").is_none());
            let (lookup, batch, add, adds) = runtime.block_on(async {
                let batch = near.contains_each(&["a", "b"]).await;
                let adds = near.add_each(&["a"]).await;
                (near.contains("a").await, batch, near.add("c").await, adds)
            });
            let errors = [lookup.err(), batch.err(), add.err(), adds[0].clone().err()];
            for error in errors {
                match error {
                    Some(Error::Timeout) => {}
                    Some(Error::Node(error)) => assert!(error.code().is_none(), "{error}"),
                    other => panic!("{mode:?}: {other:?}"),
                }
            }
            assert!(near.age().expect("there is a copy") >= options.max_age);
            proxy.set(Mode::Forward);
            wait_until("the copy is fresh again", || near.local("a").is_some());
        }
    }
}
