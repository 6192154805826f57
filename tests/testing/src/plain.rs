//! Plain objects in each stored form, written from the description of the format and not by the code that reads it.
//! Every field can be wrong.

use crate::support::Stream;

/// One value of an RDB stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Uint(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

/// The published seed of objects without randomness.
pub const FIXED: [u8; 32] = [
    89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62,
    152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
];

/// The length of a blob's header.
const HEADER_BYTES: usize = 45;

#[derive(Clone)]
pub struct Plain {
    pub version: u8,
    pub expansion: u64,
    pub error_rate: f64,
    pub tightening: f64,
    pub seed_is_random: u64,
    /// The number of filters to write, if it is not the true one.
    pub count: Option<u64>,
    pub filters: Vec<PlainFilter>,
    /// Bytes after the object.
    pub trailing: Vec<u8>,
}

#[derive(Clone)]
pub struct PlainFilter {
    pub version: u8,
    /// The length of the bitmap to write, if it is not the true one.
    pub bitmap_bytes: Option<u64>,
    pub hashes: u32,
    pub seed: [u8; 32],
    pub bitmap: Vec<u8>,
    /// The length that the blob is cut to, if it is cut.
    pub cut: Option<usize>,
    /// The length of the blob to write, if it is not the true one.
    pub length: Option<u64>,
    pub capacity: u64,
    pub items: u64,
}

impl PlainFilter {
    pub fn new(capacity: u64, items: u64, bitmap: Vec<u8>) -> Self {
        Self {
            version: 1,
            bitmap_bytes: None,
            hashes: 3,
            seed: [7; 32],
            bitmap,
            cut: None,
            length: None,
            capacity,
            items,
        }
    }

    pub fn blob(&self) -> Vec<u8> {
        let mut blob = vec![self.version];
        let bytes = self.bitmap_bytes.unwrap_or(self.bitmap.len() as u64);
        blob.extend(bytes.to_le_bytes());
        blob.extend(self.hashes.to_le_bytes());
        blob.extend(self.seed);
        blob.extend(&self.bitmap);
        blob.truncate(self.cut.unwrap_or(blob.len()));
        blob
    }
}

impl Plain {
    /// Returns a valid object: a full filter, and one on it that is half full.
    pub fn new() -> Self {
        Self {
            version: 1,
            expansion: 2,
            error_rate: 0.01,
            tightening: 0.5,
            seed_is_random: 1,
            count: None,
            filters: vec![
                PlainFilter::new(10, 10, vec![0x5a; 16]),
                PlainFilter::new(20, 10, vec![0x21; 40]),
            ],
            trailing: Vec::new(),
        }
    }

    /// Returns a valid one with the published seed: a full filter, and one on it that is a third full.
    pub fn valid() -> Self {
        let filter = |bitmap: &[u8], hashes, capacity, items| PlainFilter {
            hashes,
            seed: FIXED,
            ..PlainFilter::new(capacity, items, bitmap.to_vec())
        };
        Self {
            error_rate: 0.1,
            seed_is_random: 0,
            filters: vec![
                filter(&[0xa5, 0x01, 0x80], 4, 3, 3),
                filter(&[0x11, 0x22, 0x33, 0x44, 0x00], 6, 6, 2),
            ],
            ..Self::new()
        }
    }

    /// Returns the valid one after a change.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut plain = Self::valid();
        change(&mut plain);
        plain
    }

    fn count(&self) -> u64 {
        self.count.unwrap_or(self.filters.len() as u64)
    }

    /// Returns a dump under this version, or a header, whose blobs are headers alone.
    pub fn bytes(&self, version: u8, is_header: bool) -> Vec<u8> {
        let mut out = vec![version];
        let expansion = u32::try_from(self.expansion).expect("32 bits in these forms");
        out.extend(expansion.to_le_bytes());
        out.extend(self.error_rate.to_le_bytes());
        out.extend(self.tightening.to_le_bytes());
        out.push(u8::try_from(self.seed_is_random).expect("8 bits in these forms"));
        out.extend(self.count().to_le_bytes());
        for filter in &self.filters {
            let mut blob = filter.blob();
            if is_header {
                blob.truncate(HEADER_BYTES);
            }
            let length = filter.length.unwrap_or(blob.len() as u64);
            out.extend(length.to_le_bytes());
            out.extend(blob);
            out.extend(filter.items.to_le_bytes());
            out.extend(filter.capacity.to_le_bytes());
        }
        out.extend(&self.trailing);
        out
    }

    /// Returns the dump for BF.LOAD.
    pub fn dump(&self) -> Vec<u8> {
        self.bytes(self.version, false)
    }

    /// Returns the header for BF.LOADCHUNK at cursor 1.
    pub fn header(&self) -> Vec<u8> {
        self.bytes(self.version | 0x80, true)
    }

    /// Returns an RDB stream of its fields.
    pub fn stream(&self) -> Stream {
        Stream(self.fields().into())
    }

    /// Returns the fields of an RDB value.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            Field::Uint(self.count()),
            Field::Uint(self.expansion),
            Field::Double(self.error_rate),
            Field::Double(self.tightening),
            Field::Uint(self.seed_is_random),
        ];
        for (index, filter) in self.filters.iter().enumerate() {
            fields.push(Field::Uint(filter.capacity));
            if index + 1 == self.filters.len() {
                fields.push(Field::Uint(filter.items));
            }
            fields.push(Field::Bytes(filter.blob()));
        }
        fields
    }
}

/// Returns the header of the chunks of a cuckoo filter: items, buckets of the first filter, removals and filters; the
/// size of a bucket, iterations and the expansion.
pub fn cuckoo_header(long: [u64; 4], short: [u16; 3]) -> Vec<u8> {
    let long = long.into_iter().flat_map(u64::to_le_bytes);
    let short = short.into_iter().flat_map(u16::to_le_bytes);
    long.chain(short).collect()
}
