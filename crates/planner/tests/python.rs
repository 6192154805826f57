//! The lines of Python for plans. The tests of the package run them, and compare what they make with what the commands
//! make on a server.

use serde_json::{Value, json};

#[test]
fn plans_have_a_line_of_python() {
    let plans: Vec<(Value, String, String)> =
        serde_json::from_str(include_str!("python.json")).expect("forms, commands and lines");
    assert!(plans.len() > 10);
    for (form, command, line) in plans {
        let answer: Value =
            serde_json::from_str(&valkeybloom_planner::answer(&form.to_string())).expect("JSON");
        assert_eq!(answer["values"]["command"], command, "{form}");
        assert_eq!(answer["python"], line, "{form}");
    }
}

#[test]
fn filters_of_peers_have_none() {
    for maker in ["redisbloom", "valkey-bloom"] {
        let form = json!({ "items": "1M", "rate": "0.01", "maker": maker });
        let answer: Value =
            serde_json::from_str(&valkeybloom_planner::answer(&form.to_string())).expect("JSON");
        assert_eq!(
            answer["values"]["command"],
            "BF.RESERVE key 0.01 1000000 EXPANSION 2"
        );
        assert_eq!(answer["python"], Value::Null);
    }
}
