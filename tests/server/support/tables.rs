//! Tables of situations, written as text.
//!
//! A row is `given / given / command => expected`: the commands that prepare a situation, the command under test, and
//! what comes of it. `NAME = given / given` names a preparation for the rows below it. A line that begins with `=>`
//! continues the one above, and `#` begins a comment.

/// A situation and its outcome.
pub struct Row {
    /// The commands that prepare the situation.
    pub given: Vec<String>,
    pub command: String,
    pub expected: String,
}

impl Row {
    /// Returns the parts of the expected outcome between ` ; `. `-` stands for an empty list.
    pub fn parts(&self) -> Vec<&str> {
        match self.expected.as_str() {
            "-" => Vec::new(),
            parts => parts.split(" ; ").collect(),
        }
    }
}

/// Returns the rows of a table.
#[track_caller]
pub fn rows(table: &str) -> Vec<Row> {
    let mut names: Vec<(&str, Vec<String>)> = Vec::new();
    let mut rows = Vec::new();
    let table = table.replace("\n=>", " =>");
    for line in lines(&table) {
        let Some((steps, expected)) = line.split_once(" => ") else {
            let (name, steps) = line.split_once(" = ").expect("a row or a name");
            let steps = expand(steps, &names);
            names.push((name, steps));
            continue;
        };
        let mut given = expand(steps, &names);
        rows.push(Row {
            command: given.pop().expect("a command"),
            given,
            expected: expected.to_owned(),
        });
    }
    rows
}

/// Returns the lines of a table that are not empty and not comments.
fn lines(table: &str) -> impl Iterator<Item = &str> {
    let lines = table.lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn expand(steps: &str, names: &[(&str, Vec<String>)]) -> Vec<String> {
    let steps = steps.split(" / ").flat_map(|step| {
        let known = names.iter().find(|(name, _)| *name == step);
        known.map_or_else(|| vec![step.to_owned()], |(_, steps)| steps.clone())
    });
    steps.collect()
}
