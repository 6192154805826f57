//! Stages: which objects can become which by additions, according to their headers.

use valkeybloom_sketches::bloom::{Dialect, Limits, New, Object, Shape, Stage, chunks};

use crate::support::{
    Rng, add_at, bitmaps, counting, grow, header_of, object, of_valkey_bloom, params, scaled_to,
    tightened, windowed,
};

/// Returns empty objects of one seed, of each kind with the same parameters: first the stacks, then the tables.
fn kinds(rng: &mut Rng) -> ([Object; 3], [Object; 3]) {
    let (params, seed) = (params(10, 0.01, 2), rng.seed());
    let make = |new: New| Object::make(&new, seed, Limits::NONE).expect("an object");
    let shaped = |shape: Shape| make(New::Own(shape));
    let stacks = [
        shaped(Shape::plain(params)),
        shaped(Shape::plain(tightened(of_valkey_bloom(0.5), params))),
        make(New::RedisBloom { params, factor: 2 }),
    ];
    let window = windowed(params, 1000, 3);
    let tables = [window, counting(params), scaled_to(params)].map(shaped);
    (stacks, tables)
}

/// Adds items to an object in each of several periods, in which some of a window expire. Returns the header before and after each.
fn headers_of(mut object: Object, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut headers = vec![header_of(&object)];
    let mut most = 0;
    for period in 1..8 {
        for _ in 0..40 {
            add_at(&mut object, &rng.bytes(16), 1000 * period).expect("it grows");
        }
        headers.push(header_of(&object));
        most = most.max(object.totals().0);
    }
    assert!(most > 1, "it has not grown");
    headers
}

/// Each header of a stack precedes itself and all later ones, and never an earlier one.
#[test]
fn additions_lead_from_header_to_header() {
    let mut rng = Rng::new(1);
    for stack in kinds(&mut rng).0 {
        let headers = headers_of(stack, &mut rng);
        for (at, one) in headers.iter().enumerate() {
            for (place, other) in headers.iter().enumerate() {
                assert_eq!(Stage::header_precedes(one, other), at <= place);
            }
        }
    }
}

/// The header of an object of tables stays as it is, whatever the object gains and loses.
#[test]
fn headers_of_tables_precede_themselves() {
    let mut rng = Rng::new(4);
    for tables in kinds(&mut rng).1 {
        let headers = headers_of(tables, &mut rng);
        let mut pairs = headers.windows(2);
        assert!(pairs.all(|pair| Stage::header_precedes(&pair[0], &pair[1])));
    }
}

/// Objects of other parameters or another kind never meet.
#[test]
fn no_addition_leads_to_another_object() {
    let mut rng = Rng::new(2);
    let seed = rng.seed();
    let others = [
        object(&params(10, 0.01, 2), rng.seed()),
        object(&params(11, 0.01, 2), seed),
        object(&params(10, 0.02, 2), seed),
        object(&params(10, 0.01, 3), seed),
    ];
    let (stacks, tables) = kinds(&mut rng);
    let all: Vec<Vec<u8>> = (others.iter().chain(&stacks).chain(&tables))
        .map(header_of)
        .collect();
    for (at, one) in all.iter().enumerate() {
        for (place, other) in all.iter().enumerate() {
            assert_eq!(Stage::header_precedes(one, other), at == place);
        }
    }
}

#[test]
fn a_stage_has_the_length_of_the_cells() {
    let mut rng = Rng::new(5);
    let mut object = object(&params(10, 0.01, 2), rng.seed());
    grow(&mut object, &mut rng, |object| object.totals().0 == 4);
    let stage = Stage::of_header(&header_of(&object)).expect("a stack");
    assert_eq!(stage.cell_bytes(), bitmaps(&object).len() as u64);
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
