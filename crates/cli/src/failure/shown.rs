//! Keys and texts of others in messages, where nothing may act on a terminal or be invisible.

use std::borrow::Cow;

/// Returns a key as a word of a command line: verbatim if it is readable, else quoted and escaped.
pub fn word(key: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(key) {
        Ok(text) if shown(key) == text && !text.contains(['"', '\'', '\\']) => text.into(),
        _ => format!("\"{}\"", key.escape_ascii()).into(),
    }
}

/// Returns a key for a message: verbatim if it is readable, else quoted and escaped.
pub fn shown(key: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(key) {
        Ok(text) if !text.is_empty() && !text.contains(' ') && visible(text) == text => text.into(),
        _ => format!("\"{}\"", key.escape_ascii()).into(),
    }
}

/// Returns a text with escapes for all that a terminal would act on, or not show: control and format characters, spaces
/// other than the usual one, and characters without a meaning.
pub fn visible(text: &str) -> String {
    // Backslashes and quotes are visible, and joiners change the letters and emoji beside them.
    let plain = ['"', '\'', '\u{200c}', '\u{200d}'];
    let escaped = |part: &str| {
        let text = part.escape_debug().to_string();
        let plain = plain.iter();
        plain.fold(text, |text, c| {
            text.replace(&c.escape_debug().to_string(), &c.to_string())
        })
    };
    // Between backslashes, so that each backslash of an escaped part begins an escape.
    let parts: Vec<_> = text.split('\\').map(escaped).collect();
    parts.join("\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_like_escapes_stay() {
        for text in [r"\u{200c}", r"\\u{200d}\'", r#"\""#, "a\u{200c}b", r"\n\"] {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("a\n\u{202e}"), r"a\n\u{202e}");
    }
}
