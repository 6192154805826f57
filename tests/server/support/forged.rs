//! Objects with right fields or wrong ones in each form that a server takes, and what it says of the wrong ones.

use std::fs;

use crc::{CRC_64_REDIS, Crc};

use crate::harness::{Client, Server, error, int};
use crate::plain::Field;
pub use crate::plain::{Plain as Forged, PlainFilter as ForgedFilter};

/// The fields of an RDB value of the type `bloomfltr`, as RESTORE takes them.
#[derive(Clone)]
pub struct Rdb(pub Vec<u8>);

/// The first bytes of a value: the mark of a module's value, and the type with its encoding version, nine characters
/// of six bits and ten bits.
pub const PREFIX: [u8; 10] = [7, 0x81, 0x6e, 0x5a, 0x28, 0x99, 0xf9, 0x6d, 0xac, 0x01];

impl Default for Rdb {
    fn default() -> Self {
        Self(PREFIX.to_vec())
    }
}

impl Rdb {
    /// Returns the value of an object.
    pub fn of(object: &Forged) -> Self {
        let fields = object.fields().into_iter();
        fields.fold(Self::default(), |value, field| match field {
            Field::Uint(number) => value.uint(number),
            Field::Double(number) => value.double(number),
            Field::Bytes(bytes) => value.string(&bytes),
        })
    }

    pub fn uint(mut self, value: u64) -> Self {
        self.0.push(2);
        self.length(value);
        self
    }

    pub fn double(mut self, value: f64) -> Self {
        self.0.push(4);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn string(mut self, value: &[u8]) -> Self {
        self.0.push(5);
        self.length(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn length(&mut self, value: u64) {
        match value {
            0..0x40 => self.0.push(value.to_le_bytes()[0]),
            0x40..0x4000 => {
                let [.., high, low] = value.to_be_bytes();
                self.0.extend([0x40 | high, low]);
            }
            0x4000..=0xffff_ffff => {
                self.0.push(0x80);
                self.0.extend(&value.to_be_bytes()[4..]);
            }
            _ => {
                self.0.push(0x81);
                self.0.extend(value.to_be_bytes());
            }
        }
    }

    /// Returns the beginning of a value of a module's type: nine characters of six bits, and ten bits of encoding
    /// version.
    pub fn of_type(id: u64) -> Self {
        Self(vec![7, 0x81]).raw(&id.to_be_bytes())
    }

    /// Returns a file with the value under the key `forged`.
    fn file(&self) -> Vec<u8> {
        file(&[("forged", self)])
    }

    /// Returns the payload: with the mark that ends a value, and a valid footer.
    pub fn payload(mut self, version: [u8; 2]) -> Vec<u8> {
        self.0.push(0);
        seal(self.0, version)
    }
}

/// Returns a file with values under short keys.
pub fn file(values: &[(&str, &Rdb)]) -> Vec<u8> {
    let mut file = b"REDIS0009\xfe\0".to_vec();
    for (key, value) in values {
        file.extend([7, key.len().to_le_bytes()[0]]);
        file.extend(key.as_bytes());
        file.extend(&value.0[1..]);
        file.push(0);
    }
    file.push(0xff);
    file.extend(crc64(&file).to_le_bytes());
    file
}

/// Appends the footer of a DUMP to a value: the version of the RDB form, and a checksum.
pub fn seal(mut value: Vec<u8>, version: [u8; 2]) -> Vec<u8> {
    value.extend(version);
    let checksum = crc64(&value);
    value.extend(checksum.to_le_bytes());
    value
}

/// Returns the version of the RDB form that a server writes, as its dumps have it.
pub fn rdb_version(client: &mut Client) -> [u8; 2] {
    client.ok("SET rdb-version x");
    let dump = client.cmd("DUMP rdb-version");
    client.expect("DEL rdb-version", int(1));
    let bytes = dump.as_bytes();
    let footer = &bytes[bytes.len() - 10..];
    [footer[0], footer[1]]
}

/// Returns the checksum of RDB files.
pub fn crc64(bytes: &[u8]) -> u64 {
    Crc::<u64>::new(&CRC_64_REDIS).checksum(bytes)
}

#[track_caller]
pub fn refuses(client: &mut Client, what: &str, args: &[&[u8]], text: &str) {
    assert_eq!(client.call(args), error(text), "{what}");
    client.expect("EXISTS forged", int(0));
}

/// Requires that a value is refused, by RESTORE and in the file that a server starts on, and that the log says so in
/// these words.
pub struct Refusing {
    server: Server,
    /// It is down, and never comes up.
    on_file: Server,
}

impl Refusing {
    pub fn start() -> Self {
        let mut on_file = Server::start();
        on_file.shutdown();
        Self {
            server: Server::start(),
            on_file,
        }
    }

    /// Returns the server that stays up.
    pub fn server(&self) -> &Server {
        &self.server
    }

    #[track_caller]
    pub fn refuses(&mut self, what: &str, value: &Rdb, words: &str) {
        let mut client = self.server.client();
        let length = self.server.log().len();
        let payload = value.clone().payload([9, 0]);
        let restore: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
        refuses(&mut client, what, &restore, "ERR Bad data format");
        let log = self.server.log().split_off(length);
        assert!(log.contains(words), "{what}: no {words:?} in {log}");

        let file = self.on_file.dir().join("dump.rdb");
        fs::write(file, value.file()).expect("the folder can be written to");
        let log = self.on_file.try_start_again().expect_err(what);
        assert!(log.contains(words), "{what}: no {words:?} in {log}");
        assert!(!log.contains("BUG REPORT"), "{what}: {log}");
    }
}
