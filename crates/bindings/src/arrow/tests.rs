use std::ffi::{CStr, c_void};

use super::*;
use crate::error::Code;

unsafe extern "C" fn nothing_to_do_for_a_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface passes the schema.
    unsafe { (*schema).release = None };
}

unsafe extern "C" fn nothing_to_do_for_an_array(array: *mut ArrowArray) {
    // SAFETY: the interface passes the array.
    unsafe { (*array).release = None };
}

fn schema(format: &'static CStr) -> ArrowSchema {
    ArrowSchema {
        format: format.as_ptr(),
        release: Some(nothing_to_do_for_a_schema),
        ..ArrowSchema::RELEASED
    }
}

fn array(length: i64, offset: i64, buffers: &mut [*const c_void]) -> ArrowArray {
    ArrowArray {
        length,
        offset,
        n_buffers: buffers.len().cast_signed() as i64,
        buffers: buffers.as_mut_ptr(),
        release: Some(nothing_to_do_for_an_array),
        ..ArrowArray::RELEASED
    }
}

fn pointer<T>(values: &[T]) -> *const c_void {
    values.as_ptr().cast()
}

/// Returns the items, or the text of the error.
fn items(format: &'static CStr, array: &ArrowArray) -> Result<Vec<String>, String> {
    let schema = schema(format);
    let mut batch = Batch::new();
    // SAFETY: the tests' buffers have what they say, or what is wrong is checked.
    let pushed = unsafe { push(&raw const schema, std::ptr::from_ref(array), &mut batch) };
    pushed.map_err(|error| error.text().to_owned())?;
    let mut items = Vec::new();
    let text = |item: &[u8]| String::from_utf8_lossy(item).into_owned();
    batch
        .visit_all(|found| items.extend(found.map(text)))
        .unwrap();
    assert_eq!(items.len(), batch.len());
    Ok(items)
}

#[test]
fn strings_between_offsets_may_be_a_slice() {
    let data = b"redgreenblue";
    let small = [0_i32, 3, 8, 8, 12];
    let mut buffers = [std::ptr::null(), pointer(&small), pointer(data)];
    let all = ["red", "green", "", "blue"];
    assert_eq!(items(c"u", &array(4, 0, &mut buffers)).unwrap(), all);
    assert_eq!(items(c"z", &array(2, 1, &mut buffers)).unwrap(), all[1..3]);
    let large = small.map(i64::from);
    buffers[1] = pointer(&large);
    assert_eq!(items(c"U", &array(3, 1, &mut buffers)).unwrap(), all[1..]);
    assert!(items(c"Z", &array(0, 0, &mut buffers)).unwrap().is_empty());
    let mut without = [std::ptr::null(); 3];
    assert!(items(c"u", &array(0, 0, &mut without)).unwrap().is_empty());
    assert!(items(c"u", &array(1, 0, &mut without)).is_err());
}

#[test]
fn offsets_and_views_that_lie_are_refused() {
    let data = b"redgreenblue";
    for offsets in [[0_i32, 9, 3], [0, -1, 3], [-4, 1, 2], [0, 3, i32::MIN]] {
        let mut buffers = [std::ptr::null(), pointer(&offsets), pointer(data)];
        let error = items(c"u", &array(2, 0, &mut buffers)).unwrap_err();
        assert_eq!(error, "offsets do not ascend within the buffer");
    }
    for (length, offset) in [
        (-1, 0),
        (1, -1),
        (i64::MAX, 1),
        (1, i64::MAX),
        (i64::MAX, 0),
    ] {
        let mut buffers = [std::ptr::null(), pointer(&[0_i32; 3]), pointer(data)];
        assert!(items(c"u", &array(length, offset, &mut buffers)).is_err());
    }
    let long = *b"a string in a buffer";
    let view = |length: i32, buffer: i32, offset: i32| {
        let mut view = [0; 16];
        view[..4].copy_from_slice(&length.to_le_bytes());
        view[8..12].copy_from_slice(&buffer.to_le_bytes());
        view[12..].copy_from_slice(&offset.to_le_bytes());
        view
    };
    let sizes = [20_i64];
    let of_view = |view: [u8; 16]| {
        let views = [u128::from_ne_bytes(view)];
        let mut buffers = [
            std::ptr::null(),
            pointer(&views),
            pointer(&long),
            pointer(&sizes),
        ];
        items(c"vu", &array(1, 0, &mut buffers))
    };
    assert_eq!(of_view(view(18, 0, 2)).unwrap(), ["string in a buffer"]);
    for wrong in [
        view(19, 0, 2),
        view(-1, 0, 0),
        view(13, 1, 0),
        view(13, -1, 0),
        view(13, 0, -1),
    ] {
        assert_eq!(
            of_view(wrong).unwrap_err(),
            "a view points outside of the buffers"
        );
    }
    let mut short = view(3, 0, 0);
    short[4..7].copy_from_slice(b"red");
    assert_eq!(of_view(short).unwrap(), ["red"]);
}

#[test]
fn a_null_is_refused_with_its_index() {
    let mut valid = [0b1110_1111_u8, 0xff];
    let numbers = [-1_i64; 9];
    let mut buffers = [pointer(&valid), pointer(&numbers)];
    let mut nulls = array(9, 0, &mut buffers);
    nulls.null_count = 1;
    assert_eq!(items(c"l", &nulls).unwrap_err(), "item 4 is null");
    nulls.null_count = -1;
    (nulls.offset, nulls.length) = (3, 4);
    assert_eq!(items(c"l", &nulls).unwrap_err(), "item 1 is null");
    (nulls.offset, nulls.length) = (5, 4);
    assert_eq!(items(c"l", &nulls).unwrap(), ["-1"; 4]);
    valid[0] = 0xff;
    buffers[0] = pointer(&valid);
    let mut all = array(9, 0, &mut buffers);
    all.null_count = -1;
    assert_eq!(items(c"l", &all).unwrap(), ["-1"; 9]);
    assert_eq!(
        items(c"n", &array(1, 0, &mut [])).unwrap_err(),
        "item 0 is null"
    );
}

#[test]
fn integers_and_fixed_bytes_are_items_and_other_types_are_not() {
    let numbers = [1_u16, 65_535, 3];
    let mut buffers = [std::ptr::null(), pointer(&numbers)];
    assert_eq!(
        items(c"S", &array(2, 1, &mut buffers)).unwrap(),
        ["65535", "3"]
    );
    assert_eq!(items(c"s", &array(1, 1, &mut buffers)).unwrap(), ["-1"]);
    let mut buffers = [std::ptr::null(), pointer(b"ab\0def")];
    assert_eq!(
        items(c"w:3", &array(2, 0, &mut buffers)).unwrap(),
        ["ab\0", "def"]
    );
    assert_eq!(items(c"w:0", &array(2, 0, &mut buffers)).unwrap(), ["", ""]);
    for (format, name) in [
        (c"g", "float64"),
        (c"b", "bool"),
        (c"+l", "list"),
        (c"tdD", "date"),
        (c"w:x", "fixed_size_binary"),
        (c"", ""),
    ] {
        let error = items(format, &array(1, 0, &mut buffers)).unwrap_err();
        assert!(
            error.ends_with(&format!("not of Arrow's type {name}")),
            "{error}"
        );
    }
    for (format, name) in [
        (c"vu", "string_view"),
        (c"vz", "binary_view"),
        (c"w:3", "fixed_size_binary"),
    ] {
        let (schema, array) = (schema(format), array(1, 0, &mut buffers));
        // SAFETY: both follow the interface.
        let error = unsafe { super::numbers(&raw const schema, &raw const array, 0) }.unwrap_err();
        let text = format!("an array of numbers is needed, not of Arrow's type {name}");
        assert_eq!(error.text(), text);
    }
}

#[test]
fn a_union_is_refused_by_its_type() {
    // Its first buffer has the types of the elements: it is not a bitmap, in which zeros are nulls.
    let mut buffers = [pointer(&[0_u8; 3])];
    let mut union = array(3, 0, &mut buffers);
    union.null_count = -1;
    let error = items(c"+us:0", &union).unwrap_err();
    assert!(error.ends_with("not of Arrow's type union"), "{error}");
}

#[test]
fn a_table_of_one_column_is_its_column() {
    let numbers = [1_u8, 2, 3, 4];
    let mut buffers = [std::ptr::null(), pointer(&numbers)];
    let mut child = array(4, 0, &mut buffers);
    let mut children = [&raw mut child];
    let mut none = [std::ptr::null()];
    let mut table = array(2, 1, &mut none);
    (table.n_children, table.children) = (1, children.as_mut_ptr());
    let mut column = schema(c"C");
    let mut columns = [&raw mut column];
    let mut of_table = schema(c"+s");
    (of_table.n_children, of_table.children) = (1, columns.as_mut_ptr());
    let mut batch = Batch::new();
    // SAFETY: both have one child.
    unsafe { push(&raw const of_table, &raw const table, &mut batch) }.unwrap();
    assert_eq!(batch.len(), 2);
    batch
        .visit_all(|items| assert_eq!(items.collect::<Vec<_>>(), [b"2", b"3"]))
        .unwrap();
    table.length = 4;
    // SAFETY: both have one child.
    let longer = unsafe { push(&raw const of_table, &raw const table, &mut batch) };
    assert_eq!(longer.unwrap_err().code(), Code::BadBatch);
}

fn items_of(batch: &Batch) -> Result<Vec<Vec<u8>>, Error> {
    let mut items = Vec::new();
    batch.visit_all(|all| items.extend(all.map(<[u8]>::to_vec)))?;
    Ok(items)
}

#[test]
fn keys_and_ends_of_runs_that_lie_are_refused() {
    let texts = [0_i32, 3, 8];
    let mut values = [std::ptr::null(), pointer(&texts), pointer(b"redgreen")];
    let mut values = array(2, 0, &mut values);
    let mut of_values = schema(c"u");
    let mut of_keys = schema(c"c");
    of_keys.dictionary = &raw mut of_values;
    let chosen = |keys: [i8; 3], dictionary: *mut ArrowArray| {
        let mut buffers = [std::ptr::null(), pointer(&keys)];
        let mut keys = array(3, 0, &mut buffers);
        keys.dictionary = dictionary;
        let mut batch = Batch::new();
        // SAFETY: both have a dictionary, or it is lacking.
        let pushed = unsafe { push(&raw const of_keys, &raw const keys, &mut batch) };
        pushed.map(|()| batch.len())
    };
    assert_eq!(chosen([1, 0, 1], &raw mut values).unwrap(), 3);
    for keys in [[0, 2, 0], [0, -1, 0], [127, 0, 0]] {
        let error = chosen(keys, &raw mut values).unwrap_err();
        assert_eq!(error.text(), "a key is outside of the dictionary");
    }
    assert!(chosen([0, 0, 0], std::ptr::null_mut()).is_err());
    values.length = -1;
    assert!(chosen([0, 0, 0], &raw mut values).is_err());
    values.length = 2;

    let mut of_ends = schema(c"i");
    let mut runs = |of_values: &mut ArrowSchema, ends: &[i32], length: i64, offset: i64| {
        let mut columns = [&raw mut of_ends, &raw mut *of_values];
        let mut of_runs = schema(c"+r");
        (of_runs.n_children, of_runs.children) = (2, columns.as_mut_ptr());
        let mut buffers = [std::ptr::null(), pointer(ends)];
        let mut ends = array(ends.len().cast_signed() as i64, 0, &mut buffers);
        let mut children = [&raw mut ends, &raw mut values];
        let mut runs = array(length, offset, &mut []);
        (runs.n_children, runs.children) = (2, children.as_mut_ptr());
        let mut batch = Batch::new();
        // SAFETY: both have two children.
        unsafe { push(&raw const of_runs, &raw const runs, &mut batch) }?;
        items_of(&batch)
    };
    assert_eq!(
        runs(&mut of_values, &[2, 5], 4, 1).unwrap(),
        [&b"red"[..], b"green", b"green", b"green"]
    );
    let mut of_nulls = schema(c"n");
    let error = runs(&mut of_nulls, &[2, 5], 2, 1).unwrap_err();
    assert_eq!(error.text(), "item 0 is null");
    for of_values in [&mut of_values, &mut of_nulls] {
        assert!(runs(of_values, &[2, 5], 0, 5).unwrap().is_empty());
        for (ends, length, offset) in [([2, 5], 1, 5), ([-1, -5], 1, 0)] {
            let error = runs(of_values, &ends, length, offset).unwrap_err();
            assert_eq!(error.text(), "the runs end before the array");
        }
    }
    // There may be more values than ends.
    for ends in [&[2, 5][..], &[2, i32::MIN], &[5]] {
        let error = runs(&mut of_values, ends, 6, 0).unwrap_err();
        assert_eq!(error.text(), "the runs end before the array");
    }
    assert_eq!(runs(&mut of_values, &[2], 2, 0).unwrap(), [b"red"; 2]);
    runs(&mut of_values, &[2, 5], i64::MAX >> 6, 0).unwrap_err();
}

#[test]
fn ends_of_other_rows_are_not_read() {
    let texts = [0_i32, 1, 2, 3, 4, 5, 6];
    let mut buffers = [std::ptr::null(), pointer(&texts), pointer(b"abcdef")];
    let mut values = array(6, 0, &mut buffers);
    let ends = [u64::MAX, 2, 5, 6, 7, u64::MAX];
    let mut buffers = [std::ptr::null(), pointer(&ends)];
    let mut ends = array(6, 0, &mut buffers);
    let mut children = [&raw mut ends, &raw mut values];
    let mut runs = array(4, 2, &mut []);
    (runs.n_children, runs.children) = (2, children.as_mut_ptr());
    let (mut of_ends, mut of_values) = (schema(c"L"), schema(c"u"));
    let mut columns = [&raw mut of_ends, &raw mut of_values];
    let mut of_runs = schema(c"+r");
    (of_runs.n_children, of_runs.children) = (2, columns.as_mut_ptr());
    let mut batch = Batch::new();
    // SAFETY: both have two children.
    unsafe { push(&raw const of_runs, &raw const runs, &mut batch) }.unwrap();
    assert_eq!(items_of(&batch).unwrap(), [b"c", b"c", b"c", b"d"]);
}

/// Returns the items of a dictionary of the texts between these offsets, without its first.
fn chosen(keys: &[i16], offsets: &[i32], valid: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let data: Vec<u8> = (0..=255).collect();
    let mut buffers = [pointer(valid), pointer(offsets), pointer(&data)];
    let mut values = array(offsets.len().cast_signed() as i64 - 2, 1, &mut buffers);
    values.null_count = -1;
    let mut of_values = schema(c"z");
    let mut of_keys = schema(c"s");
    of_keys.dictionary = &raw mut of_values;
    let mut buffers = [std::ptr::null(), pointer(keys)];
    let mut keys = array(keys.len().cast_signed() as i64 - 1, 1, &mut buffers);
    keys.dictionary = &raw mut values;
    let mut batch = Batch::new();
    // SAFETY: both have a dictionary, and the buffers have what they say.
    unsafe { push(&raw const of_keys, &raw const keys, &mut batch) }?;
    items_of(&batch)
}

#[test]
fn values_that_no_key_chooses_are_not_read() {
    // The value at place n is the byte n + 1. Those at 3 and 40 are null.
    let mut offsets: Vec<i32> = (0..=101).collect();
    let mut valid = [0xff_u8; 13];
    (valid[0], valid[5]) = (0b1110_1111, 0b1111_1101);
    for (keys, expected) in [
        (&[3_i16, 6, 4, 6, 5][..], &[[7_u8], [5], [7], [6]][..]),
        (&[40, 90, 4, 90], &[[91], [5], [91]]),
        (&[40, 99], &[[100]]),
        (&[40], &[]),
    ] {
        assert_eq!(chosen(keys, &offsets, &valid).unwrap(), expected);
    }
    for keys in [&[0_i16, 2, 40, 41][..], &[0, 90, 40], &[0, 4, 3]] {
        let error = chosen(keys, &offsets, &valid).unwrap_err();
        assert_eq!(error.text(), "item 1 is null");
    }
    // Offsets that lie lie below a range, and between values that are copied alone.
    (offsets[2], offsets[50]) = (i32::MIN, i32::MAX);
    assert_eq!(
        chosen(&[0, 6, 4, 5], &offsets, &valid).unwrap(),
        [[7], [5], [6]]
    );
    assert_eq!(chosen(&[0, 90, 4], &offsets, &valid).unwrap(), [[91], [5]]);
    chosen(&[0, 49], &offsets, &valid).unwrap_err();
}
