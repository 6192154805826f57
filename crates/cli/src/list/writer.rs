//! Writes rows as they come. Only what the order of rows or the widths of columns need is kept.

use std::mem;

use serde_json::Value;

use super::advice::{Advice, Advisor};
use super::order::Order;
use super::sums::Sums;
use super::table::Table;
use crate::failure::{Failure, Result, shown};
use crate::held::columns::{self, listed, sort};
use crate::held::row::Row;
use crate::report::{print, print_line};

/// The rows that determine the widths of a table's columns. Wider cells of later rows move the rest of their line.
const WIDTH_ROWS: usize = 10_000;

/// A form of output.
pub enum Form {
    /// A table for a terminal of this width, or for any reader.
    Table(Option<usize>),
    Csv,
    Json,
}

/// Writes a listing to the standard output.
pub struct Writer {
    form: Form,
    advisor: Option<Advisor>,
    order: Order,
    /// Whether rows come in order.
    is_ordered: bool,
    /// Rows that can't be written yet.
    kept: Vec<Row>,
    table: Table,
    sums: Sums,
    /// The lines of advice that follow the table.
    lines: Vec<String>,
    is_begun: bool,
}

impl Writer {
    /// Creates a writer of rows that come in batches, in the order of their keys.
    pub fn new(form: Form, advisor: Option<Advisor>, order: Order) -> Self {
        Self {
            form,
            advisor,
            order,
            is_ordered: order.sort.title == "key",
            kept: Vec::new(),
            table: Table::default(),
            sums: Sums::default(),
            lines: Vec::new(),
            is_begun: false,
        }
    }

    /// Returns whether rows are written while others are read. A table on a terminal is written at the end.
    pub const fn is_prompt(&self) -> bool {
        self.is_ordered && !matches!(self.form, Form::Table(Some(_)))
    }

    /// Takes the rows of a batch.
    pub fn take(&mut self, mut rows: Vec<Row>) {
        if self.is_ordered {
            // Keys that changed their type come last in their batch.
            sort(&mut rows, self.order.sort, self.order.reverse);
        }
        self.kept.append(&mut rows);
        let needs_widths = matches!(self.form, Form::Table(_)) && !self.is_begun;
        if self.is_prompt() && !(needs_widths && self.kept.len() < WIDTH_ROWS) {
            self.write();
        }
    }

    /// Writes the rows that were kept.
    fn write(&mut self) {
        let rows = mem::take(&mut self.kept);
        let mut text = String::new();
        if !mem::replace(&mut self.is_begun, true) {
            text = match self.form {
                Form::Table(terminal) => {
                    let table = Table::new(listed(), &rows.iter().collect::<Vec<_>>());
                    self.table = match terminal {
                        Some(width) => table.with_short_keys(width),
                        None => table,
                    };
                    self.table.head() + "\n"
                }
                Form::Csv => columns::csv_head() + "\r\n",
                Form::Json => "{\"keys\":[".to_owned(),
            };
        }
        for row in rows {
            let advice = self.advisor.map(|advisor| advisor.advise(&row));
            let line = match self.form {
                Form::Table(_) => {
                    let key = shown(&row.key);
                    let lines = advice.iter().flatten();
                    let lines = lines.map(|advice| format!("{key}: {advice}"));
                    self.lines.extend(lines);
                    self.table.row(&row) + "\n"
                }
                Form::Csv => columns::csv(&row) + "\r\n",
                Form::Json => {
                    let mut object = columns::json(&row);
                    if let Some(advice) = advice {
                        object["advice"] = advice.iter().map(Advice::json).collect();
                    }
                    let comma = if self.sums.is_empty() { "" } else { "," };
                    format!("{comma}{object}")
                }
            };
            text += &line;
            self.sums.add(&row);
            if text.len() > 1 << 16 {
                print(mem::take(&mut text));
            }
        }
        print(text);
    }

    /// Writes what is left, and the end of a run with this result.
    pub fn end(&mut self, unreadable: u64, ended: Result<()>) -> Result<()> {
        if !self.is_ordered {
            sort(&mut self.kept, self.order.sort, self.order.reverse);
        }
        self.write();
        match self.form {
            Form::Csv => {}
            Form::Json => {
                self.end_json(Some(unreadable), ended.as_ref().err());
                return ended.map_err(Failure::already_written);
            }
            Form::Table(_) => {
                print_line(self.sums.line());
                for line in &self.lines {
                    print_line(line);
                }
            }
        }
        ended
    }

    /// Ends the JSON of a run that failed, if it has begun.
    pub fn failed(&mut self, failure: Failure) -> Failure {
        if !self.is_begun || !matches!(self.form, Form::Json) {
            return failure;
        }
        self.end_json(None, Some(&failure));
        failure.already_written()
    }

    /// Ends the list of keys and the object, with the sums, the number of unreadable keys and the error.
    fn end_json(&self, unreadable: Option<u64>, failure: Option<&Failure>) {
        let mut fields = self.sums.json();
        if let Some(unreadable) = unreadable {
            fields.insert("unreadable".to_owned(), unreadable.into());
        }
        if let Some(failure) = failure {
            fields.insert("error".to_owned(), failure.to_string().into());
        }
        let fields = Value::Object(fields).to_string();
        print_line(format_args!("],{}", fields.trim_start_matches('{')));
    }
}
