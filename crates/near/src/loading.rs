//! A filter that is being fetched in chunks.

use std::fmt;
use std::time::Duration;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, LoadError, Partial, Value};
use valkeybloom_sketches::bloom::{Limits, Object, Stage};

/// Where fetching began in the filter's feed.
#[derive(Debug)]
pub struct Mark {
    pub cursor: Box<[u8]>,
    pub items: u64,
}

/// The reason to begin anew when the chunks are of several filters.
pub const REPLACED: &str = "the filter was replaced while it was fetched";

/// Why a chunk was not loaded.
#[derive(Debug)]
pub enum Misfit {
    NoMemory,
    Replaced,
    /// The filter is one whose items leave, so its chunks may not belong together.
    NotPlain,
    Invalid(DecodeError),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("out of memory"),
            Self::Replaced => f.write_str(REPLACED),
            Self::NotPlain => Error::NO_FEED.fmt(f),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl From<LoadError> for Misfit {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::TooLarge | LoadError::Decode(DecodeError::NoMemory) => Self::NoMemory,
            LoadError::Decode(error) => Self::Invalid(error),
        }
    }
}

/// What a chunk made of a filter that is being fetched.
pub enum Loaded {
    More(Box<Loading>),
    Complete(Object, Option<Mark>),
}

/// A filter that is being fetched.
#[derive(Debug)]
pub struct Loading {
    /// `None` if the filter has no feed.
    pub mark: Option<Mark>,
    /// Whether chunks come with the filter's id.
    pub has_ids: bool,
    /// When the first chunk was requested.
    pub begun: Duration,
    /// The cursor of the next chunk.
    pub next: u64,
    /// The filter's id, once it is known.
    id: Option<Box<[u8]>>,
    phase: Phase,
}

/// What the next chunk is for.
#[derive(Debug)]
enum Phase {
    /// It is the first one, the header.
    Header,
    /// The object lacks it.
    Chunks {
        header: Box<[u8]>,
        partial: Box<Partial>,
    },
    /// It is the first one once more, and shows whether all chunks are of one filter.
    Check { header: Box<[u8]>, object: Object },
}

impl Loading {
    pub fn new(mark: Option<Mark>, has_ids: bool, begun: Duration) -> Self {
        // Every cursor of a feed begins with the id of its filter.
        let id_of = |mark: &Mark| {
            let mut parts = mark.cursor.split(|&byte| byte == b'-');
            parts.next().map(Box::from)
        };
        Self {
            id: mark.as_ref().and_then(id_of),
            mark,
            has_ids,
            begun,
            next: 0,
            phase: Phase::Header,
        }
    }

    /// Loads the chunk at [`next`](Self::next), which came with the cursor after it and the filter's id. Without a feed, the
    /// filter is complete only once the first chunk has come again, and shows that items alone were added since then: some
    /// may have come between two chunks.
    ///
    /// # Errors
    /// The reason why the chunk does not fit.
    pub fn load(
        mut self: Box<Self>,
        cursor: u64,
        id: &[u8],
        chunk: &[u8],
    ) -> Result<Loaded, Misfit> {
        if **self.id.get_or_insert_with(|| id.into()) != *id {
            return Err(Misfit::Replaced);
        }
        let (header, value) = match self.phase {
            Phase::Header => {
                let value = chunks::begin(chunk, Limits::NONE)?;
                Stage::of_header(chunk).ok_or(Misfit::NotPlain)?;
                (chunk.into(), value)
            }
            Phase::Chunks {
                header,
                mut partial,
            } => {
                let object = partial.load_within(cursor, chunk, Limits::NONE)?;
                let value = object.map_or(Value::Partial(partial), Value::Complete);
                (header, value)
            }
            Phase::Check { header, object } if Stage::header_precedes(&header, chunk) => {
                return Ok(Loaded::Complete(object, self.mark));
            }
            Phase::Check { .. } => return Err(Misfit::Replaced),
        };
        (self.next, self.phase) = match value {
            Value::Partial(partial) => (cursor, Phase::Chunks { header, partial }),
            Value::Complete(object) if self.mark.is_some() => {
                return Ok(Loaded::Complete(object, self.mark));
            }
            Value::Complete(object) => (0, Phase::Check { header, object }),
        };
        Ok(Loaded::More(self))
    }
}

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::Seed;
    use valkeybloom_testing::support::{add, header_of, object, object_of, params, windowed};

    use super::*;

    const ID: &[u8] = b"00000000000000ff";

    fn filter(capacity: u64, items: &[&str]) -> Object {
        let mut filter = object(&params(capacity, 0.01, 2), Seed::FIXED);
        for item in items {
            add(&mut filter, item.as_bytes()).expect("room");
        }
        filter
    }

    /// Loads the chunks of a filter. Returns what the last one made of it.
    fn load_all(mark: Option<Mark>, from: &Object) -> Result<Loaded, Misfit> {
        let mut loading = Box::new(Loading::new(mark, true, Duration::ZERO));
        loop {
            let (next, chunk) = chunks::piece(from, loading.next).expect("memory");
            loading = match loading.load(next, ID, &chunk)? {
                Loaded::More(loading) if loading.next > 0 => loading,
                loaded => return Ok(loaded),
            };
        }
    }

    fn is(object: &Object, expected: &Object) -> bool {
        chunks::pieces(object).eq(chunks::pieces(expected))
    }

    #[test]
    fn with_a_feed_the_last_chunk_completes_the_filter() {
        let mark = |cursor: &[u8]| {
            let cursor = cursor.into();
            Some(Mark { cursor, items: 0 })
        };
        let filter = filter(100, &["a"]);
        let loaded = load_all(mark(b"00000000000000ff-0"), &filter);
        let Ok(Loaded::Complete(object, Some(_))) = loaded else {
            panic!("it lacks chunks");
        };
        assert!(is(&object, &filter));
        let other = load_all(mark(b"00000000000000fe-0"), &filter);
        assert!(matches!(other, Err(Misfit::Replaced)), "another id");
    }

    #[test]
    fn without_a_feed_the_header_comes_again() {
        let begun = filter(100, &["a"]);
        for (now, fits) in [
            (filter(100, &["a"]), true),
            (filter(100, &["a", "b"]), true),
            (filter(100, &[]), false),
            (filter(200, &["a", "b"]), false),
        ] {
            let Ok(Loaded::More(loading)) = load_all(None, &begun) else {
                panic!("no header came again");
            };
            match loading.load(1, ID, &header_of(&now)) {
                Ok(Loaded::Complete(object, None)) => assert!(fits && is(&object, &begun)),
                loaded => assert!(!fits && matches!(loaded, Err(Misfit::Replaced))),
            }
        }
    }

    #[test]
    fn only_a_plain_filter_is_loaded() {
        let window = object_of(&windowed(params(100, 0.01, 2), 1000, 3), Seed::FIXED);
        let loaded = load_all(None, &window);
        assert!(matches!(loaded, Err(Misfit::NotPlain)));
    }

    #[test]
    fn a_chunk_of_another_filter_does_not_fit() {
        let (one, other) = (filter(100, &["a"]), filter(900, &["a"]));
        let loading = Box::new(Loading::new(None, true, Duration::ZERO));
        let (next, header) = chunks::piece(&one, 0).expect("memory");
        let Ok(Loaded::More(loading)) = loading.load(next, ID, &header) else {
            panic!("a header is no filter");
        };
        let (next, chunk) = chunks::piece(&other, next).expect("memory");
        let loaded = loading.load(next, ID, &chunk);
        assert!(matches!(loaded, Err(Misfit::Invalid(_))));
    }
}
