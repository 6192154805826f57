//! A proxy that cuts connections at random requests: before a request, after it, and within its reply.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::harness::Server;
use crate::harness::cluster::alone;

use super::Rng;

/// Starts a proxy that handles its connections so, each with one to a port. Returns its own port.
pub fn proxy(target: u16, handle: impl Fn(TcpStream, TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection");
            // The client of a server that is down loses its connection.
            if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
                handle(client, server);
            }
        }
    });
    port
}

/// The numbers of connections that were cut before a request, after it, and within its reply.
type Cuts = Arc<Mutex<(Rng, [usize; 3])>>;

/// A proxy of a port.
pub struct Cutter {
    pub port: u16,
    cuts: Cuts,
}

impl Cutter {
    /// Starts a proxy that may cut requests with these bytes.
    pub fn of(target: u16, marker: &'static [u8], seed: u64) -> Self {
        let cuts: Cuts = Arc::new(Mutex::new((Rng::new(seed), [0; 3])));
        let of_all = cuts.clone();
        let port = proxy(target, move |client, server| {
            let cuts = of_all.clone();
            thread::spawn(move || {
                serve(&client, &server, marker, &cuts);
                for end in [client, server] {
                    let _ = end.shutdown(Shutdown::Both);
                }
            });
        });
        Self { port, cuts }
    }

    /// Makes a node a whole cluster that is reached through a proxy.
    pub fn of_cluster(node: &Server, marker: &'static [u8], seed: u64) -> Self {
        let cutter = Self::of(node.port(), marker, seed);
        node.client()
            .ok(format!("CONFIG SET cluster-announce-port {}", cutter.port));
        alone(node);
        cutter
    }

    /// Returns whether connections were cut at each of the three places.
    pub fn has_cuts(&self) -> bool {
        let (_, numbers) = &*self.cuts.lock().unwrap();
        numbers.iter().all(|number| *number > 0)
    }

    /// Requires that connections were cut at each of the three places.
    #[track_caller]
    pub fn require_cuts(&self) {
        let (_, numbers) = &*self.cuts.lock().unwrap();
        assert!(numbers.iter().all(|number| *number > 0), "{numbers:?}");
    }
}

/// Passes requests and replies on until a side ends or a connection is to be cut.
fn serve(mut client: &TcpStream, mut server: &TcpStream, marker: &[u8], cuts: &Cuts) {
    let cut = Arc::new(Mutex::new(None));
    let (mut back, mut to, cut_back) = (
        server.try_clone().expect("a handle can be copied"),
        client.try_clone().expect("a handle can be copied"),
        cut.clone(),
    );
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = back.read(&mut buffer) {
            let cut = *cut_back.lock().unwrap();
            let part = match cut {
                None => count,
                Some(1) => 0,
                Some(_) => count / 2,
            };
            if to.write_all(&buffer[..part]).is_err() || cut.is_some() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..count];
        if bytes.windows(marker.len()).any(|part| part == marker) {
            let (rng, numbers) = &mut *cuts.lock().unwrap();
            let kind = rng.below(8);
            if kind < 3 {
                numbers[kind] += 1;
                if kind == 0 {
                    let _ = server.write_all(&bytes[..count / 2]);
                    return;
                }
                *cut.lock().unwrap() = Some(kind);
            }
        }
        if server.write_all(bytes).is_err() {
            return;
        }
    }
}
