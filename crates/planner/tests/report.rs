//! The figures of a plan as people read them.

use valkeybloom_planner::grouped;

#[test]
fn digits_are_in_groups_of_three() {
    for (number, text) in [
        (0, "0"),
        (999, "999"),
        (1000, "1,000"),
        (123_456, "123,456"),
        (u64::MAX, "18,446,744,073,709,551,615"),
    ] {
        assert_eq!(grouped(number), text);
    }
}
