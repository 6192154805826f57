//! t-digests.

use valkeybloom_bindings::arrow::{self, ArrowArray, ArrowSchema};
use valkeybloom_bindings::{Error, Family as _, Shared, TDigest};

use super::border::{Outcome, Status, call, places, put, require_info, slice};
use super::object::{self, Object, typed};

/// Makes a digest. The server's default compression is 100. A larger one is more exact and takes more memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_new(
    compression: u64,
    digest: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let compression = compression.to_string();
        let words = [&b"COMPRESSION"[..], compression.as_bytes()];
        object::make(digest, || Ok(TDigest::create(&words)?))
    })
}

/// Adds observations. If one of them is infinite or NaN, nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_add(
    digest: *mut Object,
    values: *const f64,
    length: usize,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let values = slice(values, length)?;
        Ok(typed::<TDigest>(digest)?.write(|digest| digest.add(values))??)
    })
}

/// Adds the observations of an Arrow array: doubles, floats or integers. The array stays yours: it is not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_add_array(
    digest: *mut Object,
    schema: *const ArrowSchema,
    array: *const ArrowArray,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let mut values = Vec::new();
        arrow::numbers(schema, array, 0)?.append_doubles(&mut values)?;
        Ok(typed::<TDigest>(digest)?.write(|digest| digest.add(&values))??)
    })
}

/// Answers all numbers at once. The places of the answers may be those of the numbers.
///
/// # Safety
/// There are `length` numbers and as many places, unless a pointer is null, for the length of the call.
unsafe fn answer_in_place(
    numbers: *const f64,
    length: usize,
    answers: *mut f64,
    answer: impl FnOnce(&mut [f64]) -> Result<(), Error>,
) -> Outcome<()> {
    let mut copies = Vec::new();
    copies.try_reserve_exact(length)?;
    // SAFETY: the caller promises it. A failure leaves the places as they are.
    copies.extend_from_slice(unsafe { slice(numbers, length) }?);
    answer(&mut copies)?;
    // SAFETY: the caller promises it.
    unsafe { places(answers, length) }?.copy_from_slice(&copies);
    Ok(())
}

/// Answers numbers one by one, and writes the answers unless one of them fails.
///
/// # Safety
/// There are `length` numbers and as many places, unless a pointer is null, for the length of the call.
unsafe fn answer_each<T: Copy + 'static, A: Copy + From<u8> + 'static>(
    numbers: *const T,
    length: usize,
    answers: *mut A,
    mut answer: impl FnMut(T) -> Result<A, Error>,
) -> Outcome<()> {
    // SAFETY: the caller promises it.
    let numbers = unsafe { slice(numbers, length) }?;
    let mut found = Vec::new();
    found.try_reserve_exact(length)?;
    for number in numbers {
        found.push(answer(*number)?);
    }
    // SAFETY: the caller promises it.
    unsafe { places(answers, length) }?.copy_from_slice(&found);
    Ok(())
}

/// Estimates quantiles: for each share, from 0 to 1, the value that this share of the observations is below; NaN if the
/// digest is empty. `values` may be `shares`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_quantiles(
    digest: *const Object,
    shares: *const f64,
    length: usize,
    values: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let digest = &typed::<TDigest>(digest)?;
        answer_in_place(shares, length, values, |all| {
            digest.read(|digest| digest.quantiles(all))?
        })
    })
}

/// Estimates for each value the share of the observations below it, plus half of those equal to it; NaN if the digest
/// is empty. `shares` may be `values`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_cdf(
    digest: *const Object,
    values: *const f64,
    length: usize,
    shares: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let digest = &typed::<TDigest>(digest)?;
        answer_in_place(values, length, shares, |all| {
            digest.read(|digest| digest.cdf(all))?
        })
    })
}

/// Estimates the rank of each value: the number of observations below it, plus half of those equal to it; -1 if all are
/// larger, -2 if the digest is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_ranks(
    digest: *const Object,
    values: *const f64,
    length: usize,
    ranks: *mut i64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let digest = &typed::<TDigest>(digest)?;
        digest.read(|digest| answer_each(values, length, ranks, |value| digest.rank(value)))?
    })
}

/// Estimates the reverse rank of each value: the number of observations above it, plus half of those equal to it; -1 if
/// all are smaller, -2 if the digest is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_reverse_ranks(
    digest: *const Object,
    values: *const f64,
    length: usize,
    ranks: *mut i64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let digest = &typed::<TDigest>(digest)?;
        digest
            .read(|digest| answer_each(values, length, ranks, |value| digest.reverse_rank(value)))?
    })
}

/// Estimates the value of each rank, counted from 0 at the smallest observation; infinity past the last one, NaN if the
/// digest is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_by_ranks(
    digest: *const Object,
    ranks: *const u64,
    length: usize,
    values: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let digest = &typed::<TDigest>(digest)?;
        digest.read(|digest| answer_each(ranks, length, values, |rank| digest.by_rank(rank)))?
    })
}

/// Estimates the value of each reverse rank, counted from 0 at the largest observation; -infinity past the last one,
/// NaN if the digest is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_by_reverse_ranks(
    digest: *const Object,
    ranks: *const u64,
    length: usize,
    values: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let digest = &typed::<TDigest>(digest)?;
        digest.read(|digest| {
            answer_each(ranks, length, values, |rank| digest.by_reverse_rank(rank))
        })?
    })
}

/// Estimates the mean of the observations between two quantiles, from 0 to 1; NaN if the digest is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_trimmed_mean(
    digest: *const Object,
    low: f64,
    high: f64,
    mean: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        put(
            mean,
            typed::<TDigest>(digest)?.read(|digest| digest.trimmed_mean(low, high))??,
        )
    })
}

/// Makes a digest with the observations of one or more digests. If `compression` is 0, it is the largest of theirs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_merge(
    digests: *const *const Object,
    digests_length: usize,
    compression: u64,
    digest: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let all = object::all::<TDigest>(digests, digests_length)?;
        let compression = Some(compression).filter(|compression| *compression > 0);
        let merged = |digests: &[&TDigest]| TDigest::merged(digests, compression);
        object::make(digest, || Ok(Shared::read_all(&all, merged)??))
    })
}

/// Parameters and contents of a digest.
#[repr(C)]
pub struct TDigestInfo {
    /// The size of this structure in bytes. Set it before the call.
    size: usize,
    /// The compression.
    compression: u64,
    /// The number of observations.
    observations: u64,
    /// The smallest observation; NaN if the digest is empty.
    min: f64,
    /// The largest observation; NaN if the digest is empty.
    max: f64,
    /// The digest's memory, in bytes.
    memory_bytes: u64,
}

/// Describes a digest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_describe(
    digest: *const Object,
    info: *mut TDigestInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require_info(info)?;
        let found = typed::<TDigest>(digest)?.read(|digest| TDigestInfo {
            size: size_of::<TDigestInfo>(),
            compression: digest.compression(),
            observations: digest.observations().unsigned_abs(),
            min: digest.min(),
            max: digest.max(),
            memory_bytes: digest.memory_bytes(),
        })?;
        put(info, found)
    })
}
