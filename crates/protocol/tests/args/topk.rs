//! The words of the TOPK commands.

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::topk;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::topk::Shape;

use crate::{are, words};

const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";

/// Returns the numbers of the shape that the words after the name and the key say.
fn reserve(numbers: &[&[u8]]) -> Result<String, Error> {
    let words = [&words("TOPK.RESERVE k")[..], numbers].concat();
    topk::require_shape_words(&words[..])?;
    let shape = topk::shape(&words[..], Origin::Client)?;
    let (k, width, depth) = (shape.k(), shape.width(), shape.depth());
    Ok(format!("{k} {width} {depth} {:?}", shape.decay()))
}

#[test]
fn reserve_takes_one_number_or_four() {
    are(
        "
5 => 5 8 7 0.9
4294967295 => 4294967295 8 7 0.9
5 2000 7 0.925 => 5 2000 7 0.925
1 1 1 1 => 1 1 1 1.0
1 4294967295 1 +.5 => 1 4294967295 1 0.5
1 134217727 32 5.e-1 => 1 134217727 32 0.5
1 1 1 5e-324 => 1 1 1 5e-324",
        reserve,
    );
    let deep = topk::shape(&words("TOPK.RESERVE k 1 2 65 0.9")[..], Origin::Elsewhere);
    assert_eq!(deep, Ok(Shape::new(1, 2, 65, 0.9).unwrap()));
}

#[test]
fn reserve_reports_the_first_error() {
    for line in ["", "TOPK.RESERVE", "TOPK.RESERVE k"] {
        assert_eq!(
            topk::require_shape_words(&words(line)[..]),
            Err(Error::Arity)
        );
    }
    are(
        "
1 2 => ERR wrong number of arguments
1 2 3 => ERR wrong number of arguments
x 2 3 0.9 5 => ERR wrong number of arguments
0 => TopK: invalid k
4294967296 => TopK: invalid k
0 0 0 0 => TopK: invalid k
<no count> => TopK: invalid k
<no count> x x x => TopK: invalid k
1 0 0 0 => TopK: invalid width
1 4294967296 0 0 => TopK: invalid width
1 <no count> x x => TopK: invalid width
1 1 0 0 => TopK: invalid depth
1 1 4294967296 0 => TopK: invalid depth
1 1 33 0 => TopK: invalid depth
1 1 <no count> x => TopK: invalid depth
1 1 1 0 => TopK: invalid decay value. must be '<= 1' & '> 0'
1 1 1 -0.0 => TopK: invalid decay value. must be '<= 1' & '> 0'
1 1 1 -0.5 => TopK: invalid decay value. must be '<= 1' & '> 0'
1 1 1 1.01 => TopK: invalid decay value. must be '<= 1' & '> 0'
1 1 1 inf => TopK: invalid decay value. must be '<= 1' & '> 0'
1 1 1 <no double> => TopK: invalid decay value. must be '<= 1' & '> 0'
1 2147483648 2 0.9 => ERR Insufficient memory to create topk data structure
1 134217728 32 0.9 => ERR Insufficient memory to create topk data structure",
        reserve,
    );
}

#[test]
fn increments_have_a_range() {
    for number in [0, 1, 99_999, 100_000] {
        assert_eq!(topk::increment(number.to_string().as_bytes()), Ok(number));
    }
    for word in ["<no count>", "100001", "4294967296", "9223372036854775807"] {
        let increment = |words: &[&[u8]]| topk::increment(words[0]).map(|it| it.to_string());
        are(&format!("{word} => {BAD_INCREMENT}"), increment);
    }
}

#[test]
fn list_takes_one_word() {
    are(
        "
TOPK.LIST k => false
TOPK.LIST k WITHCOUNT => true
TOPK.LIST k withcount => true
TOPK.LIST k wItHcOuNt => true
TOPK.LIST k  => WITHCOUNT keyword expected
TOPK.LIST k W => WITHCOUNT keyword expected
TOPK.LIST k WITHCOUN => WITHCOUNT keyword expected
TOPK.LIST k WITHCOUNTS => WITHCOUNT keyword expected
TOPK.LIST k withcount\0 => WITHCOUNT keyword expected
TOPK.LIST k x => WITHCOUNT keyword expected
TOPK.LIST => ERR wrong number of arguments
TOPK.LIST k WITHCOUNT x => ERR wrong number of arguments",
        |words| topk::lists_counts(words).map(|counts| counts.to_string()),
    );
}
