//! The slots of keys in a cluster, and names in the slot of a key.

/// Returns the part of a key by which a cluster chooses its slot, if that is not the whole key: what lies between the first
/// opening brace and the next closing one.
pub fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let place = |bytes: &[u8], byte| bytes.iter().position(|other| *other == byte);
    let after = &key[place(key, b'{')? + 1..];
    let tag = &after[..place(after, b'}')?];
    (!tag.is_empty()).then_some(tag)
}

/// Returns the slot of a key in a cluster: the CRC-16 of its hash tag, or of the key if it has none.
pub fn slot(key: &[u8]) -> u16 {
    let bytes = hash_tag(key).unwrap_or(key);
    let crc = bytes.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16_384
}

/// Returns the beginning of names in the slot of a key, whatever follows it: the key with its own hash tag, or the whole key
/// as one. A key that can't be a tag follows a numbered one of its slot.
pub fn slot_prefix(key: &[u8]) -> Vec<u8> {
    if hash_tag(key).is_some() {
        key.to_vec()
    } else if !key.is_empty() && !key.contains(&b'}') {
        [b"{", key, b"}"].concat()
    } else {
        let tags = (0_u64..).map(|number| format!("{{once-{number}}}").into_bytes());
        let mut tags = tags.filter(|tag| slot(tag) == slot(key));
        [&tags.next().unwrap_or_default(), key].concat()
    }
}

/// Returns the beginning of the names of a filter's receipts.
pub fn receipt_prefix(key: &[u8]) -> Vec<u8> {
    [&slot_prefix(key)[..], b":once:"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_clusters() {
        // The check value of CRC-16/XMODEM, 0x31c3.
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"a{123456789}{b}"), 12_739);
    }

    #[test]
    fn what_follows_a_slot_prefix_stays_in_the_slot() {
        for key in ["seen", "{a}seen", "see{n", "a{b}c{d}", "", "a}", "a{}b{c}"] {
            for rest in ["", ":new", "}", "{x}"] {
                let name = [&slot_prefix(key.as_bytes())[..], rest.as_bytes()].concat();
                assert_eq!(slot(&name), slot(key.as_bytes()), "{key:?}, {rest:?}");
            }
        }
    }
}
