//! The class `TDigest`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use valkeybloom_bindings::{Shared, TDigest as Digest};

use super::batches::doubles;
use super::calls::Call;
use super::common::{self, common, properties};
use super::locked::{change, detached, look, made};
use super::words::{Real, Whole};

/// A t-digest: estimates of quantiles and ranks of a distribution, most exact at its ends.
///
/// Quantiles, shares, means and extremes of an empty digest are nan.
///
/// >>> from valkeybloom import TDigest
/// >>> times = TDigest()
/// >>> times.add(12.5, 40)
/// >>> times.update(range(100))
/// >>> times.min, times.max, len(times)
/// (0.0, 99.0, 102)
/// >>> 48 < times.quantile(0.5) < 51
/// True
#[pyclass(frozen, module = "valkeybloom")]
pub struct TDigest(pub(crate) Shared<Digest>);

#[pymethods]
impl TDigest {
    #[new]
    #[pyo3(signature = (compression = Whole::of(100)), text_signature = "(compression=100)")]
    fn new(py: Python<'_>, compression: Whole) -> PyResult<Self> {
        let word = compression.word("compression")?;
        made(py, || Digest::create(word)).map(Self)
    }

    /// Add observations: float or int, finite.
    #[pyo3(signature = (*values))]
    fn add(&self, values: &Bound<'_, PyTuple>) -> PyResult<()> {
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            numbers.push(value.extract::<Real>()?.0);
        }
        change(values.py(), &self.0, |digest| digest.add(&numbers))
    }

    /// Add a batch of observations: a list or any other iterable, or an array of numpy or Arrow.
    ///
    /// Raises ValueError if an observation is infinite or nan. Then nothing is added.
    #[pyo3(signature = (values, /))]
    fn update(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let numbers = doubles(values)?;
        detached(values.py(), || {
            self.0.write(|digest| digest.add(&numbers))?
        })
    }

    /// Return the value that a share of the observations, from 0 to 1, is below.
    #[pyo3(signature = (share, /))]
    fn quantile(&self, py: Python<'_>, share: Real) -> PyResult<f64> {
        Ok(self.quantiles(py, vec![share])?[0])
    }

    /// Return for each share, from 0 to 1, the value that this share of the observations is below.
    #[pyo3(signature = (shares, /))]
    fn quantiles(&self, py: Python<'_>, shares: Vec<Real>) -> PyResult<Vec<f64>> {
        let mut shares: Vec<f64> = shares.into_iter().map(|share| share.0).collect();
        look(py, &self.0, |digest| {
            digest.quantiles(&mut shares)?;
            Ok(shares)
        })
    }

    /// Return the share of the observations below a value, plus half of those equal to it.
    #[pyo3(signature = (value, /))]
    fn cdf(&self, py: Python<'_>, value: Real) -> PyResult<f64> {
        look(py, &self.0, |digest| Ok(digest.compressed()?.cdf(value.0)))
    }

    /// Return the number of observations below a value, plus half of those equal to it; -1 if all are larger, -2 if
    /// there are none.
    #[pyo3(signature = (value, /))]
    fn rank(&self, py: Python<'_>, value: Real) -> PyResult<i64> {
        look(py, &self.0, |digest| Ok(digest.compressed()?.rank(value.0)))
    }

    /// Return the number of observations above a value, plus half of those equal to it; -1 if all are smaller, -2 if
    /// there are none.
    #[pyo3(signature = (value, /))]
    fn rev_rank(&self, py: Python<'_>, value: Real) -> PyResult<i64> {
        look(py, &self.0, |digest| {
            Ok(digest.compressed()?.reverse_rank(value.0))
        })
    }

    /// Return the observation with a rank, counted from 0 at the smallest; inf past the end.
    #[pyo3(signature = (rank, /))]
    fn by_rank(&self, py: Python<'_>, rank: Whole) -> PyResult<f64> {
        let rank = rank.get("rank")?;
        look(py, &self.0, |digest| Ok(digest.compressed()?.by_rank(rank)))
    }

    /// Return the observation with a rank, counted from 0 at the largest; -inf past the end.
    #[pyo3(signature = (rank, /))]
    fn by_rev_rank(&self, py: Python<'_>, rank: Whole) -> PyResult<f64> {
        let rank = rank.get("rank")?;
        look(py, &self.0, |digest| {
            Ok(digest.compressed()?.by_reverse_rank(rank))
        })
    }

    /// Return the mean of the observations between two quantiles, from 0 to 1.
    ///
    /// >>> from valkeybloom import TDigest
    /// >>> times = TDigest()
    /// >>> times.update([1, 2, 3, 1000])
    /// >>> times.trimmed_mean(0, 0.75)
    /// 2.0
    #[pyo3(signature = (low, high, /))]
    fn trimmed_mean(&self, py: Python<'_>, low: Real, high: Real) -> PyResult<f64> {
        look(py, &self.0, |digest| digest.trimmed_mean(low.0, high.0))
    }

    /// Return a new digest with the observations of several digests. Without a compression, it takes the largest of theirs.
    #[staticmethod]
    #[pyo3(signature = (digests, /, compression = None))]
    fn merged(
        py: Python<'_>,
        digests: &Bound<'_, PyAny>,
        compression: Option<Whole>,
    ) -> PyResult<Self> {
        let compression = compression.map(|c| c.get("compression")).transpose()?;
        let _call = Call::begin();
        let mut all = Vec::new();
        for digest in digests.try_iter()? {
            all.push(digest?.cast_into::<Self>()?);
        }
        let all: Vec<_> = all.iter().map(|digest| &digest.get().0).collect();
        made(py, || {
            Shared::read_all(&all, |all| Digest::merged(all, compression))?
        })
        .map(Self)
    }

    /// Remove all observations.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        change(py, &self.0, |digest| {
            digest.reset();
            Ok(())
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let observations = look(py, &self.0, |digest| Ok(digest.observations()))?;
        Ok(usize::try_from(observations).unwrap_or(0))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.0, |digest| {
            let (compression, count) = (digest.compression().get(), digest.observations());
            Ok(format!("<TDigest({compression}) of {count} observations>"))
        })
    }
}

properties! { TDigest(digest):
    /// The smallest observation.
    min: f64 = digest.min();
    /// The largest observation.
    max: f64 = digest.max();
    /// The compression: a higher one is more exact and takes more memory.
    compression: u64 = digest.compression().get();
}

common!(TDigest, "TDigest(50)");
