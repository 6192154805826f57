//! A filter that is being fetched in chunks.

use std::fmt;
use std::time::Duration;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, LoadError, Value};
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
    Invalid(DecodeError),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("out of memory"),
            Self::Replaced => f.write_str(REPLACED),
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
    /// The first chunk.
    header: Box<[u8]>,
    value: Option<Value>,
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
            header: Box::default(),
            value: None,
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
        let value = match self.value.take() {
            None => {
                self.header = chunk.into();
                chunks::begin(chunk, Limits::NONE)?
            }
            Some(Value::Partial(mut partial)) => {
                let object = partial.load_within(cursor, chunk, Limits::NONE)?;
                object.map_or(Value::Partial(partial), Value::Complete)
            }
            Some(Value::Complete(object)) if precedes(&self.header, chunk) => {
                return Ok(Loaded::Complete(object, self.mark));
            }
            Some(Value::Complete(_)) => return Err(Misfit::Replaced),
        };
        self.next = match value {
            Value::Complete(object) if self.mark.is_some() => {
                return Ok(Loaded::Complete(object, self.mark));
            }
            Value::Complete(_) => 0,
            Value::Partial(_) => cursor,
        };
        self.value = Some(value);
        Ok(Loaded::More(self))
    }
}

/// Returns whether additions alone lead from one header to a later one.
fn precedes(header: &[u8], later: &[u8]) -> bool {
    let stages = Stage::of_header(header).zip(Stage::of_header(later));
    stages.is_some_and(|(stage, later)| stage.precedes(&later))
}
