//! The hash tags of keys.

/// Returns the part of a key by which a cluster chooses its slot, if that is not the whole key: what lies between the first
/// opening brace and the next closing one.
pub fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let place = |bytes: &[u8], byte| bytes.iter().position(|other| *other == byte);
    let after = &key[place(key, b'{')? + 1..];
    let tag = &after[..place(after, b'}')?];
    (!tag.is_empty()).then_some(tag)
}
