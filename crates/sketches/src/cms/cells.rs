//! Counters of 1, 2, 4 or 8 bytes in a table of bytes, little endian.

/// Returns counter `index`.
#[inline]
pub fn get<const BYTES: usize>(table: &[u8], index: usize) -> u64 {
    widen(&table.as_chunks::<BYTES>().0[index])
}

/// Returns the number of a counter's bytes.
#[inline]
pub fn widen<const BYTES: usize>(cell: &[u8; BYTES]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..BYTES].copy_from_slice(cell);
    u64::from_le_bytes(bytes)
}

/// Replaces counter `index`. A value that does not fit its bytes wraps.
#[inline]
pub fn set<const BYTES: usize>(table: &mut [u8], index: usize, value: u64) {
    table.as_chunks_mut::<BYTES>().0[index] = narrow(value);
}

/// Returns the bytes of a counter. A value that does not fit them wraps.
#[inline]
pub fn narrow<const BYTES: usize>(value: u64) -> [u8; BYTES] {
    let mut cell = [0; BYTES];
    cell.copy_from_slice(&value.to_le_bytes()[..BYTES]);
    cell
}

/// Calls a function whose const argument is the number of bytes of a `CellSize`.
macro_rules! for_cell_size {
    ($size:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $size {
            CellSize::One => $function::<1>($($argument),*),
            CellSize::Two => $function::<2>($($argument),*),
            CellSize::Four => $function::<4>($($argument),*),
            CellSize::Eight => $function::<8>($($argument),*),
        }
    };
}
pub(super) use for_cell_size;
