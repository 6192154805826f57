//! The clients that read a feed.

use crate::ffi::bytes_given;

/// A client that reads a feed.
#[derive(Clone, Copy)]
pub struct Client {
    /// The server's id of the client.
    pub id: u64,
    /// The most bytes that the list of readers may take with it; 0 if the server may use no more memory.
    pub most_bytes: u64,
}

/// The recent readers of a feed, with the time of each one's last read.
#[derive(Default)]
pub struct Readers(Vec<Reader>);

struct Reader {
    /// The server's id of the client.
    id: u64,
    /// In milliseconds since the epoch.
    read_ms: u64,
}

impl Readers {
    /// The most clients that are counted, so that the list takes at most 16 KiB, however many connect.
    const MOST: u64 = 1024;

    /// Notes a read. A further client is left out if the list is full, or there is no memory.
    pub fn note(&mut self, client: Client, read_ms: u64) {
        let Client { id, most_bytes } = client;
        match self.0.binary_search_by_key(&id, |reader| reader.id) {
            Ok(found) => self.0[found].read_ms = read_ms,
            Err(place) => {
                let most = Self::MOST.min(most_bytes / size_of::<Reader>() as u64);
                if self.count() < most && self.0.try_reserve_exact(1).is_ok() {
                    self.0.insert(place, Reader { id, read_ms });
                }
            }
        }
    }

    /// Forgets the clients that have not read for `idle_ms`.
    pub fn forget(&mut self, now_ms: u64, idle_ms: u64) {
        // The clock may have been set back.
        self.0
            .retain(|reader| now_ms.abs_diff(reader.read_ms) < idle_ms);
    }

    /// Returns the number of clients.
    pub const fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the bytes that the allocator gave for the list.
    pub fn bytes(&self) -> u64 {
        if self.0.capacity() == 0 {
            return 0;
        }
        bytes_given(self.0.as_ptr())
    }
}
