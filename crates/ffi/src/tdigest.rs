//! t-digests.

use valkeybloom_bindings::arrow::{self, ArrowArray, ArrowSchema};
use valkeybloom_bindings::{Compressed, Error, Shared, TDigest, copied};

use super::border::{Outcome, Status, call, places, put, slice};
use super::object::{self, Object, borrow_as};

/// Makes a digest. The server's default compression is 100. A larger one is more exact and takes more memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_new(
    compression: u64,
    digest: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        // Parsed like the word of TDIGEST.CREATE, 0 and numbers above 2^63 - 1 are refused with a server's texts.
        let compression = compression.to_string();
        object::give_new(digest, || Ok(TDigest::create(compression.as_bytes())?))
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
        Ok(borrow_as::<TDigest>(digest)?.write(|digest| digest.add(values))??)
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
        Ok(borrow_as::<TDigest>(digest)?.write(|digest| digest.add(&values))??)
    })
}

/// Answers numbers one by one, from the compressed digest. The answers may have the places of the numbers, so they are
/// collected before the places are written.
///
/// # Safety
/// The digest is null or valid. There are `length` numbers and as many places, unless a pointer is null, for the length of
/// the call.
unsafe fn answer_each<T: Copy, A: Copy + From<u8>>(
    digest: *const Object,
    numbers: *const T,
    length: usize,
    answers: *mut A,
    answer: impl Fn(&Compressed<'_>, T) -> A,
) -> Outcome<()> {
    // SAFETY: the digest is null or valid, and there are `length` numbers, or their pointer is null.
    let (digest, numbers) = unsafe { (borrow_as::<TDigest>(digest)?, slice(numbers, length)?) };
    let mut found = Vec::new();
    found.try_reserve_exact(length)?;
    digest.read(|digest| {
        let digest = digest.compressed()?;
        found.extend(numbers.iter().map(|number| answer(&digest, *number)));
        Ok::<_, Error>(())
    })??;
    // SAFETY: there are `length` places, or the pointer is null.
    unsafe { places(answers, length) }?.copy_from_slice(&found);
    Ok(())
}

/// Estimates quantiles: for each share, from 0 to 1, the value that is larger than this share of the observations. NaN if the
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
        let mut numbers = copied(slice(shares, length)?)?;
        borrow_as::<TDigest>(digest)?.read(|digest| digest.quantiles(&mut numbers))??;
        places(values, length)?.copy_from_slice(&numbers);
        Ok(())
    })
}

/// Estimates for each value the share of the observations below it, plus half of those equal to it; NaN if the digest
/// is empty or the value is NaN. `shares` may be `values`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_cdf(
    digest: *const Object,
    values: *const f64,
    length: usize,
    shares: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        answer_each(digest, values, length, shares, |digest, value| {
            digest.cdf(value)
        })
    })
}

/// Estimates the rank of each value: the number of observations below it, plus half of those equal to it; -1 if all
/// observations are larger, -2 if the digest is empty or the value is NaN. With `reverse`, observations above the value count
/// instead of those below it, and the rank is -1 if all are smaller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_ranks(
    digest: *const Object,
    values: *const f64,
    length: usize,
    reverse: bool,
    ranks: *mut i64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        answer_each(digest, values, length, ranks, |digest, value| {
            if reverse {
                digest.reverse_rank(value)
            } else {
                digest.rank(value)
            }
        })
    })
}

/// Estimates the value of each rank, counted from 0 at the smallest observation; infinity past the last one, NaN if the
/// digest is empty. With `reverse`, ranks are counted from the largest observation; -infinity is past the last one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_by_ranks(
    digest: *const Object,
    ranks: *const u64,
    length: usize,
    reverse: bool,
    values: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        answer_each(digest, ranks, length, values, |digest, rank| {
            if reverse {
                digest.by_reverse_rank(rank)
            } else {
                digest.by_rank(rank)
            }
        })
    })
}

/// Estimates the mean of the observations between two quantiles, from 0 to 1; NaN if the digest is empty. `low` has to be
/// below `high`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_tdigest_trimmed_mean(
    digest: *const Object,
    low: f64,
    high: f64,
    mean: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let found = borrow_as::<TDigest>(digest)?.read(|digest| digest.trimmed_mean(low, high))?;
        put(mean, found?)
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
        let all = object::borrow_all_as::<TDigest>(digests, digests_length)?;
        let compression = Some(compression).filter(|compression| *compression > 0);
        let merged = |digests: &[&TDigest]| TDigest::merged(digests, compression);
        object::give_new(digest, || Ok(Shared::read_all(&all, merged)??))
    })
}

/// Parameters and contents of a digest.
#[repr(C)]
pub struct TDigestInfo {
    /// The size of this structure, which the caller sets.
    size: usize,
    /// The compression that the digest was made with.
    compression: u64,
    /// The number of observations.
    observations: u64,
    /// The smallest observation; NaN if there is none.
    min: f64,
    /// The largest observation; NaN if there is none.
    max: f64,
    /// The memory that the digest takes, in bytes.
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
        object::describe(digest, info, |digest: &TDigest| TDigestInfo {
            size: size_of::<TDigestInfo>(),
            compression: digest.compression().get(),
            observations: digest.observations().unsigned_abs(),
            min: digest.min(),
            max: digest.max(),
            memory_bytes: digest.memory_bytes(),
        })
    })
}
