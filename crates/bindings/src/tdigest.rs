//! t-digests.

use valkeybloom_protocol::tdigest::{self as request, error};
use valkeybloom_sketches::tdigest::{self, Compressed, Compression, Refusal};

use super::error::Error;
use super::family::family;

family! {
    /// A t-digest.
    TDigest(tdigest::TDigest), "t-digest"
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotFinite => error::INFINITE_ADDITION.into(),
        Refusal::Overflow => error::OVERFLOW.into(),
        Refusal::OutOfMemory => Error::NO_MEMORY,
    }
}

impl TDigest {
    /// Creates the digest of TDIGEST.CREATE with this word as its compression.
    ///
    /// # Errors
    /// [`Code::Refused`](super::Code::Refused)
    pub fn create(compression: &[u8]) -> Result<Self, Error> {
        let compression = Compression::new(request::compression_of(compression)?);
        let compression = compression.filter(|compression| compression.is_within_limits());
        let compression = compression.ok_or(error::NOT_ALLOCATED)?;
        Ok(Self(tdigest::TDigest::new(compression)))
    }

    /// Adds observations in order.
    ///
    /// # Errors
    /// [`Code::Refused`](super::Code::Refused) for infinite ones and NaN, or [`Code::NoMemory`](super::Code::NoMemory).
    /// Then nothing is added.
    pub fn add(&mut self, values: &[f64]) -> Result<(), Error> {
        self.0.add_each(values).map_err(refused)
    }

    /// Returns the compressed digest, which answers what can't be refused.
    ///
    /// # Errors
    /// [`Code::NoMemory`](super::Code::NoMemory)
    pub fn compressed(&self) -> Result<Compressed<'_>, Error> {
        self.0.compressed().ok_or(Error::NO_MEMORY)
    }

    /// Replaces each share by its quantile: the value that this share of the observations is below; NaN if the digest
    /// is empty.
    ///
    /// # Errors
    /// [`Code::Refused`](super::Code::Refused) for a share outside 0 to 1, or
    /// [`Code::NoMemory`](super::Code::NoMemory).
    pub fn quantiles(&self, shares: &mut [f64]) -> Result<(), Error> {
        for share in &*shares {
            request::quantile_in_range(*share)?;
        }
        let digest = self.compressed()?;
        for share in shares {
            *share = digest.quantile(*share);
        }
        Ok(())
    }

    /// Returns the mean of the observations between two quantiles.
    ///
    /// # Errors
    /// [`Code::Refused`](super::Code::Refused) or [`Code::NoMemory`](super::Code::NoMemory).
    pub fn trimmed_mean(&self, low: f64, high: f64) -> Result<f64, Error> {
        let (low, high) = request::cuts_in_order(low, high)?;
        Ok(self.compressed()?.trimmed_mean(low, high))
    }

    /// Returns a digest with the observations of several digests, at least one. Without a compression, it takes the
    /// largest of theirs.
    ///
    /// # Errors
    /// [`Code::Refused`](super::Code::Refused) or [`Code::NoMemory`](super::Code::NoMemory).
    pub fn merged(digests: &[&Self], compression: Option<u64>) -> Result<Self, Error> {
        if digests.is_empty() {
            return Err(Error::NOTHING_TO_MERGE);
        }
        let compression = match compression {
            Some(number) => Compression::new(number).filter(|c| c.is_within_limits()),
            None => digests.iter().map(|digest| digest.0.compression()).max(),
        };
        let compression = compression.ok_or(error::DESTINATION_NOT_ALLOCATED)?;
        let merged = tdigest::TDigest::merged(compression, digests.iter().map(|digest| &digest.0));
        merged.map(Self).map_err(refused)
    }
}
