//! Bars of block characters, for terminals.

use super::report::double;

/// The parts of a character that a bar may end with, in eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Returns the bar of a share of the whole, padded to `width` columns. A share above 0 is seen.
pub fn bar(share: f64, width: usize) -> String {
    let all = double(width as u64 * 8);
    let eighths = (share.clamp(0.0, 1.0) * all).round();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the width of a terminal"
    )]
    let eighths = eighths as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let columns = eighths.div_ceil(8);
    bar + &" ".repeat(width.saturating_sub(columns))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_has_an_eighth_of_a_column_for_each_part() {
        for (share, drawn) in [
            (0.0, "    "),
            (1e-9, "▏   "),
            (0.25, "█   "),
            (0.5 + 1.0 / 32.0, "██▏ "),
            (31.0 / 32.0, "███▉"),
            (1.0, "████"),
            (2.0, "████"),
            (f64::NAN, "    "),
        ] {
            assert_eq!(bar(share, 4), drawn, "{share}");
        }
    }
}
