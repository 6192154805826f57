//! Stages: which objects can become which by additions, according to their headers.

use valkeybloom_sketches::bloom::{Dialect, Object, Stage, chunks};

use crate::support::{Rng, add_new, bitmaps, grow, header_of, object, params};

fn stage(object: &Object) -> Stage {
    Stage::of_header(&header_of(object)).expect("a plain object")
}

/// Each stage precedes itself and all later ones, and never an earlier one.
#[test]
fn additions_lead_from_stage_to_stage() {
    let mut rng = Rng::new(1);
    let mut object = object(&params(10, 0.01, 2), rng.seed());
    let mut stages = vec![stage(&object)];
    for filters in 1..5 {
        add_new(&mut object, &rng.bytes(16));
        stages.push(stage(&object));
        grow(&mut object, &mut rng, |object| object.totals().0 > filters);
        stages.push(stage(&object));
    }
    for (at, one) in stages.iter().enumerate() {
        let precedes = stages.iter().map(|other| one.precedes(other));
        assert!(
            precedes.eq((0..stages.len()).map(|place| at <= place)),
            "{at}"
        );
    }
    let cells = bitmaps(&object).len() as u64;
    assert_eq!(stages.last().expect("some").cell_bytes(), cells);
}

/// Objects whose items go different ways meet no more; those of other parameters never do.
#[test]
fn no_addition_leads_to_another_object() {
    let mut rng = Rng::new(2);
    let seed = rng.seed();
    let first = object(&params(10, 0.01, 2), seed);
    for other in [
        object(&params(10, 0.01, 2), rng.seed()),
        object(&params(11, 0.01, 2), seed),
        object(&params(10, 0.02, 2), seed),
        object(&params(10, 0.01, 3), seed),
    ] {
        let [one, other] = [&first, &other].map(stage);
        assert!(!one.precedes(&other) && !other.precedes(&one));
    }
    let mut more = first.try_clone().expect("memory");
    grow(&mut more, &mut rng, |object| object.totals().0 == 2);
    assert!(stage(&first).precedes(&stage(&more)));
    assert!(!stage(&more).precedes(&stage(&first)));
}

/// Cut headers, and headers with bytes after them, are invalid.
#[test]
fn only_headers_have_stages() {
    let mut rng = Rng::new(3);
    let mut object = object(&params(10, 0.01, 2), rng.seed());
    grow(&mut object, &mut rng, |object| object.totals().0 == 3);
    assert_eq!(Dialect::of(&object), Dialect::Bloomfltr);
    let mut header = header_of(&object);
    for length in 0..header.len() {
        assert_eq!(Stage::of_header(&header[..length]), None, "{length}");
    }
    header.push(0);
    assert_eq!(Stage::of_header(&header), None);
    let (_, chunk) = chunks::piece(&object, 1).expect("memory");
    assert_eq!(Stage::of_header(&chunk), None);
}
