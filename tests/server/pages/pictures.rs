//! The pictures show what the pages say.

use super::page;
use crate::support::forged::crc64;

/// A picture, a checksum of what it shows when it was drawn, the page of that, and the beginning of its lines there.
const PICTURES: &str = "
memory.svg 05a17f41233f5d6d sizing.md | error rate | `NONSCALING`
growth.svg 30cc3e48db558173 sizing.md | | this module |
rates.svg f68cf68e84822c75 sizing.md | requested | capacity |
peers.svg 8b5a4768f63e6be4 speed.md | case | this module |
speed.svg 03e06e9f6d7083cd speed.md | case | AMD: measured |
list.svg 3505c0b1d4af1025 tool.md $ valkeybloom list 127.0.0.1:6379 --sort bytes --advice
dashboard.svg a76e750492202281 operating.md | seconds | items |
count-min.svg 56e81406f829c38d count-min.md | error, probability | stream |
top-k.svg fc8e0e4509a0a500 top-k.md | k, width × depth |
t-digest.svg e08df732d10e0077 t-digest.md | compression | stream |
";

/// The program that drew them is no longer here, because these lines hardly change. The commit before its end has it:
///
/// ```sh
/// git worktree add ../drawing "$(git log -1 --format=%h -- benches/pictures)^"
/// cp docs/*.md ../drawing/docs && (cd ../drawing && ./build.sh bench pictures) && cp ../drawing/docs/*.svg docs
/// ```
#[test]
fn pictures_show_what_the_pages_say() {
    for line in PICTURES.trim().lines() {
        let parts: Vec<&str> = line.splitn(4, ' ').collect();
        let [picture, drawn, shown, begin] = parts[..] else {
            panic!("{line}");
        };
        let text = page(&format!("docs/{shown}")).text;
        let (_, rest) = text.split_once(&format!("\n{begin}")).expect(begin);
        let lines = rest.split("\n\n").next().unwrap_or_default();
        let sum = format!("{:016x}", crc64(lines.as_bytes()));
        assert!(
            sum == drawn,
            "docs/{shown} has changed: draw docs/{picture} again, and enter {sum}"
        );
    }
}
