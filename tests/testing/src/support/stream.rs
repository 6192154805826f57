//! An RDB stream of a test.

use std::collections::VecDeque;

use valkeybloom_sketches::{DecodeError, RdbRead, RdbWrite};

use crate::plain::Field;

/// An RDB stream in memory: a queue of fields, written at its end and read at its front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream(pub VecDeque<Field>);

impl Stream {
    /// Returns the fields that are written.
    pub fn of(write: impl FnOnce(&mut Self)) -> Self {
        let mut fields = Self::default();
        write(&mut fields);
        fields
    }

    /// Returns the fields with another one in a place.
    pub fn with(&self, index: usize, field: Field) -> Self {
        let mut fields = self.clone();
        fields.0[index] = field;
        fields
    }
}

impl RdbWrite for Stream {
    fn uint(&mut self, value: u64) {
        self.0.push_back(Field::Uint(value));
    }

    fn double(&mut self, value: f64) {
        self.0.push_back(Field::Double(value));
    }

    fn bytes(&mut self, value: &[u8]) {
        self.0.push_back(Field::Bytes(value.to_vec()));
    }
}

impl RdbRead for Stream {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        match self.0.pop_front() {
            Some(Field::Uint(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.0.pop_front() {
            Some(Field::Double(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self.0.pop_front() {
            Some(Field::Bytes(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }
}
