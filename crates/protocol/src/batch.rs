//! How clients divide a batch of items into commands.

/// The most items in one command, which keeps a server busy for some milliseconds.
pub const COMMAND_ITEMS: usize = 10_000;

/// The most bytes of items in one command with more than one item.
pub const COMMAND_BYTES: usize = 16 << 20;

/// Returns how many of the items with these lengths go into the next command, and their bytes. No items only if there are
/// none.
pub fn next_command(lengths: impl IntoIterator<Item = usize>) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for length in lengths.into_iter().take(COMMAND_ITEMS) {
        if count > 0 && bytes + length > COMMAND_BYTES {
            break;
        }
        count += 1;
        bytes += length;
    }
    (count, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_at_their_bounds() {
        let next = |lengths: &[usize]| next_command(lengths.iter().copied());
        assert_eq!(next(&[]), (0, 0));
        assert_eq!(next(&[0, 5, 7]), (3, 12));
        assert_eq!(next(&[COMMAND_BYTES + 1, 1]), (1, COMMAND_BYTES + 1));
        assert_eq!(next(&[COMMAND_BYTES - 1, 1, 1]), (2, COMMAND_BYTES));
        assert_eq!(next(&vec![1; 12_345]), (COMMAND_ITEMS, COMMAND_ITEMS));
    }
}
