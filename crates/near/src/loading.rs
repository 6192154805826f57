//! A filter that is being fetched in chunks.

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
pub enum Unfit {
    NoMemory,
    Other(String),
}

impl From<LoadError> for Unfit {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::TooLarge | LoadError::Decode(DecodeError::NoMemory) => Self::NoMemory,
            LoadError::Decode(error) => Self::Other(error.to_string()),
        }
    }
}

impl From<Unfit> for String {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::NoMemory => "out of memory".to_owned(),
            Unfit::Other(text) => text,
        }
    }
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

    /// Returns whether a chunk with this id is of the same filter as those before it.
    pub fn belongs(&mut self, id: &[u8]) -> bool {
        **self.id.get_or_insert_with(|| id.into()) == *id
    }

    /// Loads the chunk at [`next`](Self::next), which came with the cursor after it. Returns whether the filter is
    /// complete. Without a feed, that is only so once the first chunk has come again, and shows that all chunks belong
    /// together.
    ///
    /// # Errors
    /// The reason why the chunk does not fit.
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<bool, Unfit> {
        match &mut self.value {
            None => {
                self.value = Some(chunks::begin(chunk, Limits::NONE)?);
                self.header = chunk.into();
            }
            Some(Value::Partial(partial)) => {
                if let Some(object) = partial.load_within(cursor, chunk, Limits::NONE)? {
                    self.value = Some(Value::Complete(object));
                }
            }
            Some(Value::Complete(_)) if precedes(&self.header, chunk) => return Ok(true),
            Some(Value::Complete(_)) => return Err(Unfit::Other(REPLACED.to_owned())),
        }
        let is_complete = matches!(self.value, Some(Value::Complete(_)));
        self.next = if is_complete { 0 } else { cursor };
        Ok(is_complete && self.mark.is_some())
    }

    /// Returns the filter, if it is complete.
    pub fn end(self) -> Option<(Option<Mark>, Object)> {
        match self.value {
            Some(Value::Complete(object)) => Some((self.mark, object)),
            _ => None,
        }
    }
}

/// Returns whether additions alone lead from one header to a later one.
fn precedes(header: &[u8], later: &[u8]) -> bool {
    let stages = Stage::of_header(header).zip(Stage::of_header(later));
    stages.is_some_and(|(stage, later)| stage.precedes(&later))
}
