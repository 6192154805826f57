//! Keys and texts of others in output, where nothing may act on a terminal or be invisible.

use std::borrow::Cow;

/// Returns a key as a word of a command line: verbatim if it is readable, else quoted and escaped.
pub fn word(key: &[u8]) -> Cow<'_, str> {
    match shown(key) {
        text if text.as_bytes() == key && !text.contains(['"', '\'', '\\']) => text,
        _ => quoted(key),
    }
}

/// Returns a key for a message: verbatim if it is one readable word, else quoted and escaped.
pub fn shown(key: &[u8]) -> Cow<'_, str> {
    match readable(key) {
        Some(text) if !text.is_empty() && !text.contains(' ') => text.into(),
        _ => quoted(key),
    }
}

/// Returns a key, or an item, for JSON, CSV and metrics: verbatim if it is readable, else quoted and escaped.
pub fn text_of(key: &[u8]) -> Cow<'_, str> {
    readable(key).map_or_else(|| quoted(key), Cow::from)
}

/// Returns a key whose characters are all visible. Keys that begin with a quote are left to [`quoted`], so that no key
/// looks like another one in quotes.
fn readable(key: &[u8]) -> Option<&str> {
    let text = str::from_utf8(key).ok()?;
    (!text.starts_with('"') && visible(text) == text).then_some(text)
}

fn quoted(key: &[u8]) -> Cow<'_, str> {
    format!("\"{}\"", key.escape_ascii()).into()
}

/// Letters, marks and symbols without a shape of their own.
const BLANK: [char; 11] = [
    '\u{34f}',
    '\u{115f}',
    '\u{1160}',
    '\u{17b4}',
    '\u{17b5}',
    '\u{2800}',
    '\u{3164}',
    '\u{ffa0}',
    '\u{1d159}',
    '\u{13441}',
    '\u{13442}',
];

/// Returns a text with escapes for all that a terminal would act on, or not show: control and format characters, spaces
/// other than the usual one, and characters without a meaning.
pub fn visible(text: &str) -> String {
    // Backslashes and quotes are visible, and joiners change the letters and emoji beside them, as variation selectors do.
    let plain = ['"', '\'', '\u{200c}', '\u{200d}'];
    let escaped = |part: &str| {
        let text = part.escape_debug().to_string();
        let plain = plain.iter();
        let text = plain.fold(text, |text, c| {
            text.replace(&c.escape_debug().to_string(), &c.to_string())
        });
        BLANK.iter().fold(text, |text, c| {
            text.replace(*c, &c.escape_unicode().to_string())
        })
    };
    // Between backslashes, so that each backslash of an escaped part begins an escape.
    let parts: Vec<_> = text.split('\\').map(escaped).collect();
    parts.join("\\")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn texts_that_look_like_escapes_stay() {
        for text in [r"\u{200c}", r"\\u{200d}\'", r#"\""#, "a\u{200c}b", r"\n\"] {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("a\n\u{202e}"), r"a\n\u{202e}");
        assert_eq!(visible("a\u{3164}b\u{34f}"), r"a\u{3164}b\u{34f}");
        // Selectors belong to the character before them.
        assert_eq!(visible("\u{2764}\u{fe0f}"), "\u{2764}\u{fe0f}");
    }

    /// Keys that look like others with escapes, or like those that have none.
    const KEYS: [&[u8]; 24] = [
        b"",
        b" ",
        b"a",
        b"a b",
        b"\"",
        b"\"\"",
        b"\"a\"",
        b"\"a b\"",
        b"a\"",
        b"\\",
        b"\\\\",
        b"\n",
        b"\\n",
        b"\"\n\"",
        b"\r",
        b"\\r",
        b"\"\r\"",
        b"\"\\r\"",
        b"\x1b",
        b"\\x1b",
        b"\xff",
        b"\\xff",
        b"\"\\xff\"",
        "\u{ff}".as_bytes(),
    ];

    #[test]
    fn different_keys_have_different_texts_of_one_line() {
        for form in [word, shown, text_of] {
            let mut texts = HashMap::new();
            for key in KEYS {
                let text = form(key);
                assert_eq!(visible(&text), text);
                assert_eq!(texts.insert(text, key), None, "{key:?}");
            }
        }
    }

    #[test]
    fn programs_get_keys_verbatim_that_messages_quote() {
        for (key, in_command, in_message, text) in [
            (&b"a"[..], "a", "a", "a"),
            (b"", "\"\"", "\"\"", ""),
            (b"a b", "\"a b\"", "\"a b\"", "a b"),
            (b"a\"b", r#""a\"b""#, "a\"b", "a\"b"),
            (b"a'b", r#""a\'b""#, "a'b", "a'b"),
            (b"\"a\"", r#""\"a\"""#, r#""\"a\"""#, r#""\"a\"""#),
            (b"\xff", r#""\xff""#, r#""\xff""#, r#""\xff""#),
            ("größe".as_bytes(), "größe", "größe", "größe"),
        ] {
            assert_eq!(word(key), in_command);
            assert_eq!(shown(key), in_message);
            assert_eq!(text_of(key), text);
        }
    }
}
