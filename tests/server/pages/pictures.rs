//! The pictures show what the pages say.

use super::page;
use crate::support::forged::crc64;

/// A picture, the page and the beginning of its lines that it shows, and a checksum of these lines when it was drawn.
const PICTURES: [(&str, &str, &str, u64); 10] = [
    (
        "memory.svg",
        "sizing.md",
        "| error rate | `NONSCALING`",
        0x05a1_7f41_233f_5d6d,
    ),
    (
        "growth.svg",
        "sizing.md",
        "| | this module |",
        0x30cc_3e48_db55_8173,
    ),
    (
        "rates.svg",
        "sizing.md",
        "| requested | capacity |",
        0xf68c_f68e_8482_2c75,
    ),
    (
        "peers.svg",
        "speed.md",
        "| case | this module |",
        0x8b5a_4768_f63e_6be4,
    ),
    (
        "speed.svg",
        "speed.md",
        "| case | AMD: measured |",
        0x03e0_6e9f_6d70_83cd,
    ),
    (
        "list.svg",
        "tool.md",
        "$ valkeybloom list 127.0.0.1:6379 --sort bytes --advice",
        0xf32d_b626_72e8_8732,
    ),
    (
        "dashboard.svg",
        "operating.md",
        "| seconds | items |",
        0xa76e_7504_9220_2281,
    ),
    (
        "count-min.svg",
        "count-min.md",
        "| error, probability | stream |",
        0x56e8_1406_f829_c38d,
    ),
    (
        "top-k.svg",
        "top-k.md",
        "| k, width × depth |",
        0xfc8e_0e45_09a0_a500,
    ),
    (
        "t-digest.svg",
        "t-digest.md",
        "| compression | stream |",
        0xe08d_f732_d10e_0077,
    ),
];

/// The program that drew them is no longer here, because these lines hardly change. The commit before its end has it:
///
/// ```sh
/// git worktree add ../drawing "$(git log -1 --format=%h -- benches/pictures)^"
/// cp docs/*.md ../drawing/docs && (cd ../drawing && ./build.sh bench pictures) && cp ../drawing/docs/*.svg docs
/// ```
#[test]
fn pictures_show_what_the_pages_say() {
    for (picture, shown, begin, drawn) in PICTURES {
        let text = page(&format!("docs/{shown}")).text;
        let (_, rest) = text.split_once(&format!("\n{begin}")).expect(begin);
        let lines = rest.split("\n\n").next().unwrap_or_default();
        let sum = crc64(lines.as_bytes());
        assert!(
            sum == drawn,
            "docs/{shown} has changed: draw docs/{picture} again, and enter {sum:#x}"
        );
    }
}
