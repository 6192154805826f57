//! The words of the CMS commands.

use valkeybloom_protocol::cms::{
    Merge, error, increment, require_count, shape_by_rates, shape_by_size,
};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::cms::{CellSize, Shape};

use super::{are, words};

/// Returns the width, the depth and the bytes of a counter that the words after the name and the key say.
fn shape(
    numbers: &[&[u8]],
    parse: impl Fn(&[&[u8]]) -> Result<Shape, Error>,
) -> Result<String, Error> {
    let words = [&words("CMS.INIT k")[..], numbers].concat();
    require_count(&words[..])?;
    let shape = parse(&words)?;
    let (width, depth, bytes) = (shape.width(), shape.depth(), shape.cell_size().bytes());
    Ok(format!("{width} {depth} {bytes}"))
}

#[test]
fn sizes_are_parsed() {
    are(
        "
1 1 => 1 1 4
2000 7 => 2000 7 4
1 256 => 1 256 4
9223372036854775807 1 => 9223372036854775807 1 4
4611686018427387903 2 => 4611686018427387903 2 4
10 5 CELL_SIZE 1 => 10 5 1
10 5 cell_size 2 => 10 5 2
10 5 Cell_Size 4 => 10 5 4
10 5 CELL_SIZE 8 => 10 5 8
x 0 => CMS: invalid width
<no count> 5 => CMS: invalid width
0 x CELL_SIZE 3 => CMS: invalid width
1 0 => CMS: invalid depth
1 x word 3 => CMS: invalid depth
1 257 => CMS: invalid depth
5 <no count> => CMS: invalid depth
1 1 CELLSIZE 3 => CMS: unknown argument
1 1  4 => CMS: unknown argument
9223372036854775807 2 WORD 4 => CMS: unknown argument
1 1 CELL_SIZE 3 => CMS: CELL_SIZE must be 1, 2, 4 or 8
1 1 CELL_SIZE 0 => CMS: CELL_SIZE must be 1, 2, 4 or 8
1 1 CELL_SIZE 16 => CMS: CELL_SIZE must be 1, 2, 4 or 8
9223372036854775807 2 CELL_SIZE 08 => CMS: CELL_SIZE must be 1, 2, 4 or 8
9223372036854775807 2 => CMS: invalid init arguments
4611686018427387904 2 => CMS: invalid init arguments",
        |numbers| shape(numbers, |words| shape_by_size(words, Origin::Client)),
    );
    let deep = shape_by_size(&words("CMS.INITBYDIM k 1 1500")[..], Origin::Elsewhere);
    assert_eq!(deep.ok(), Shape::new(1, 1500, CellSize::Four));
}

#[test]
fn rates_are_parsed() {
    are(
        "
+0.5 5.e-1 => 4 1 4
0.001 0.01 => 2000 7 4
.5 1e-45 => 4 149 4
0.1 0.5 CELL_SIZE 8 => 20 1 8
0 x => CMS: invalid overestimation value
1 0.1 => CMS: invalid overestimation value
-0.1 0.1 => CMS: invalid overestimation value
nan 0.1 => CMS: invalid overestimation value
inf 0.1 => CMS: invalid overestimation value
0x0.8p0 0.5 => CMS: invalid overestimation value
1e-400 0.5 => CMS: invalid overestimation value
 0.5 => CMS: invalid overestimation value
0.1 0 => CMS: invalid prob value
0.1 1 => CMS: invalid prob value
0.1 y word 3 => CMS: invalid prob value
0.1 nan => CMS: invalid prob value
0.1 0.1 size 4 => CMS: unknown argument
0.1 0.1 CELL_SIZE 5 => CMS: CELL_SIZE must be 1, 2, 4 or 8
0.9 0.9999999999999999 => CMS: invalid init arguments
1e-19 0.5 => CMS: invalid init arguments
3e-19 0.1 => CMS: invalid init arguments
0.5 7e-46 => CMS: invalid init arguments",
        |numbers| shape(numbers, |words| shape_by_rates(words)),
    );
}

#[test]
fn increments_are_integers() {
    are(
        "
0 => 0
1 => 1
-1 => -1
9223372036854775807 => 9223372036854775807
-9223372036854775807 => -9223372036854775807
<no integer> => CMS: Cannot parse number
-9223372036854775808 => CMS: invalid increment",
        |words| increment(words[0], || false).map(|number| number.to_string()),
    );
    // RedisBloom 8.8 has no negative increments.
    for word in ["-1", "-9223372036854775808"] {
        let refused = increment(word.as_bytes(), || true);
        assert_eq!(refused, Err(error::NEGATIVE_INCREMENT));
    }
    assert_eq!(increment(b"0", || true), Ok(0));
}

/// Returns the sources with their weights.
fn merge(words: &[&[u8]]) -> Result<String, Error> {
    let merge = Merge::parse(words)?;
    let mut text = Vec::new();
    let mut has_keyword = false;
    for index in merge.sources.clone() {
        let name = words[index].escape_ascii();
        text.push(format!("{name}*{}", merge.weight(words, index)?));
        has_keyword |= words[index].eq_ignore_ascii_case(b"weights");
    }
    assert_eq!(merge.has_source_like_keyword(words), has_keyword);
    Ok(text.join(" "))
}

/// Keys may have the keyword's name.
#[test]
fn sources_and_weights_are_found() {
    are(
        "
CMS.MERGE d 1 a => a*1
CMS.MERGE d 2 a b => a*1 b*1
CMS.MERGE d 2 a a weights 3 -7 => a*3 a*-7
CMS.MERGE d 1 a WEIGHTS 0 => a*0
CMS.MERGE d 1 a WeIgHtS 9223372036854775807 => a*9223372036854775807
CMS.MERGE d 1 a weights -9223372036854775808 => a*-9223372036854775808
CMS.MERGE d 1 weights => weights*1
CMS.MERGE d 2 a weights => a*1 weights*1
CMS.MERGE d 2 weights weights weights 1 2 => weights*1 weights*2
CMS.MERGE d 1 weights WEIGHTS 5 => weights*5
CMS.MERGE d 1  => *1
CMS.MERGE d x c => CMS: invalid numkeys
CMS.MERGE d 1.0 c => CMS: invalid numkeys
CMS.MERGE d 9223372036854775808 c => CMS: invalid numkeys
CMS.MERGE d 0 c => CMS: Number of keys must be positive
CMS.MERGE d -1 c => CMS: Number of keys must be positive
CMS.MERGE d 2 c => CMS: wrong number of keys
CMS.MERGE d 1 c e => CMS: wrong number of keys
CMS.MERGE d 1 c e f => CMS: wrong number of keys
CMS.MERGE d 9223372036854775807 c => CMS: wrong number of keys
CMS.MERGE d 1 c WEIGHTS => CMS: wrong number of keys/weights
CMS.MERGE d 1 c WEIGHTS 1 2 => CMS: wrong number of keys/weights
CMS.MERGE d 1 c d WEIGHTS 1 2 => CMS: wrong number of keys/weights
CMS.MERGE d 2 c WEIGHTS 1 => CMS: wrong number of keys/weights
CMS.MERGE d 3 c WEIGHTS => CMS: wrong number of keys/weights
CMS.MERGE d 9223372036854775807 c WEIGHTS 2 => CMS: wrong number of keys/weights
CMS.MERGE d 1 c WEIGHTS x => CMS: invalid weight value
CMS.MERGE d 1 c WEIGHTS 1.5 => CMS: invalid weight value
CMS.MERGE d 1 c WEIGHTS 9223372036854775808 => CMS: invalid weight value
CMS.MERGE d 2 c e WEIGHTS 1 +1 => CMS: invalid weight value",
        merge,
    );
}
