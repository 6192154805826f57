//! Writes rows as they come. Only what the order of rows or the widths of columns need is kept.

use std::io::{self, BufWriter, Write};
use std::mem;

use serde_json::Value;

use super::advice::{Advice, Advisor};
use super::order::Order;
use super::sums::Sums;
use super::table::Table;
use crate::failure::{Failure, Result, shown};
use crate::held::columns::{self, listed, sort};
use crate::held::row::Row;

/// The rows that determine the columns of a table and their widths. Wider cells of later rows move the rest of their line.
const WIDTH_ROWS: usize = 10_000;

/// A form of output.
#[derive(Clone, Copy)]
pub enum Form {
    /// A table for a terminal of this width, or for any reader.
    Table(Option<usize>),
    Csv,
    Json,
}

/// Writes a listing.
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    form: Form,
    order: Order,
    advisor: Option<Advisor>,
    /// Rows that can't be written yet.
    kept: Vec<Row>,
    /// The form whose head is written.
    begun: Option<Begun>,
    sums: Sums,
}

/// A form whose head is written.
enum Begun {
    /// A table, and the lines of advice that follow it.
    Table(Table, Vec<String>),
    Csv,
    /// JSON, and what separates the next row from the one before.
    Json(&'static str),
}

impl<W: Write> Writer<W> {
    /// Creates a writer of rows that come in batches, in the order of their keys.
    pub fn new(out: W, form: Form, order: Order, advisor: Option<Advisor>) -> Self {
        Self {
            out: BufWriter::with_capacity(1 << 16, out),
            form,
            order,
            advisor,
            kept: Vec::new(),
            begun: None,
            sums: Sums::default(),
        }
    }

    /// Returns whether rows are written while others are read. A table on a terminal is written at the end.
    pub fn is_prompt(&self) -> bool {
        self.order.sort.title == "key" && !matches!(self.form, Form::Table(Some(_)))
    }

    /// Takes the rows of a batch.
    pub fn take(&mut self, mut rows: Vec<Row>) -> io::Result<()> {
        self.kept.append(&mut rows);
        let needs_widths = matches!(self.form, Form::Table(_)) && self.begun.is_none();
        if !self.is_prompt() || needs_widths && self.kept.len() < WIDTH_ROWS {
            return Ok(());
        }
        self.write()
    }

    /// Writes the rows that were kept.
    fn write(&mut self) -> io::Result<()> {
        let mut rows = mem::take(&mut self.kept);
        // Also for a batch in the order of keys: in it, keys that changed their type come last.
        sort(&mut rows, self.order.sort, self.order.reverse);
        let begun = match &mut self.begun {
            Some(begun) => begun,
            none => none.insert(Begun::with_head(self.form, &rows, &mut self.out)?),
        };
        for row in rows {
            let advice = self.advisor.map(|advisor| advisor.advise(&row));
            begun.row(&row, advice, &mut self.out)?;
            self.sums.add(&row);
        }
        self.out.flush()
    }

    /// Writes what is left, and the end of a run with this result.
    pub fn end(&mut self, unreadable: u64, ended: Result<()>) -> io::Result<Result<()>> {
        self.write()?;
        match &self.begun {
            Some(Begun::Json(_)) => {
                self.end_json(Some(unreadable), ended.as_ref().err())?;
                return Ok(ended.map_err(Failure::already_written));
            }
            Some(Begun::Table(_, advice)) => {
                for line in [&self.sums.line()].into_iter().chain(advice) {
                    writeln!(self.out, "{line}")?;
                }
                self.out.flush()?;
            }
            Some(Begun::Csv) | None => {}
        }
        Ok(ended)
    }

    /// Ends the JSON of a run that failed, if it has begun.
    pub fn fail(&mut self, failure: Failure) -> io::Result<Failure> {
        if !matches!(self.begun, Some(Begun::Json(_))) {
            return Ok(failure);
        }
        self.end_json(None, Some(&failure))?;
        Ok(failure.already_written())
    }

    /// Ends the list of keys and the object, with the sums, the number of unreadable keys and the error.
    fn end_json(&mut self, unreadable: Option<u64>, failure: Option<&Failure>) -> io::Result<()> {
        let mut fields = self.sums.json();
        if let Some(unreadable) = unreadable {
            fields.insert("unreadable".to_owned(), unreadable.into());
        }
        if let Some(failure) = failure {
            fields.insert("error".to_owned(), failure.to_string().into());
        }
        let fields = Value::Object(fields).to_string();
        writeln!(self.out, "],{}", fields.trim_start_matches('{'))?;
        self.out.flush()
    }
}

impl Begun {
    /// Writes the head of a form. These rows determine the widths of a table's columns.
    fn with_head(form: Form, rows: &[Row], mut out: impl Write) -> io::Result<Self> {
        Ok(match form {
            Form::Table(terminal) => {
                let table = Table::new(listed(), &rows.iter().collect::<Vec<_>>());
                let table = match terminal {
                    Some(width) => table.with_short_keys(width),
                    None => table,
                };
                writeln!(out, "{}", table.head())?;
                Self::Table(table, Vec::new())
            }
            Form::Csv => {
                write!(out, "{}\r\n", columns::csv_head())?;
                Self::Csv
            }
            Form::Json => {
                out.write_all(b"{\"keys\":[")?;
                Self::Json("")
            }
        })
    }

    /// Writes a row, and keeps the advice on it if that comes last.
    fn row(
        &mut self,
        row: &Row,
        advice: Option<Vec<Advice>>,
        mut out: impl Write,
    ) -> io::Result<()> {
        match self {
            Self::Table(table, lines) => {
                let (key, advice) = (shown(&row.key), advice.iter().flatten());
                lines.extend(advice.map(|advice| format!("{key}: {advice}")));
                writeln!(out, "{}", table.row(row))
            }
            Self::Csv => write!(out, "{}\r\n", columns::csv(row)),
            Self::Json(separator) => {
                let mut object = columns::json(row);
                if let Some(advice) = advice {
                    object["advice"] = advice.iter().map(Advice::json).collect();
                }
                write!(out, "{}{object}", mem::replace(separator, ","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::held::columns::column;
    use crate::held::limits::Settings;

    const TABLE: Form = Form::Table(None);

    fn order(option: &str) -> Order {
        Order {
            sort: column(option),
            reverse: false,
            rate: 0,
        }
    }

    /// Returns a row of a key that was not used for some days.
    fn row(key: &str, bytes: u64, idle_days: u64) -> Row {
        Row {
            key: key.into(),
            kind: "TDIS-TYPE".to_owned(),
            bytes: Some(bytes),
            idle_seconds: Some(idle_days * 86_400),
            ..Row::default()
        }
    }

    /// Returns what is written until now.
    fn written(writer: &Writer<Vec<u8>>) -> &str {
        str::from_utf8(writer.out.get_ref()).expect("it is UTF-8")
    }

    fn writer(form: Form, title: &str) -> Writer<Vec<u8>> {
        let advisor = Advisor {
            settings: Settings::default(),
            idle_days: 30,
        };
        // CSV has no advice.
        let advisor = (!matches!(form, Form::Csv)).then_some(advisor);
        Writer::new(Vec::new(), form, order(title), advisor)
    }

    /// Ends a listing without unreadable keys.
    fn end(writer: &mut Writer<Vec<u8>>) {
        let ended = writer.end(0, Ok(()));
        ended.expect("a Vec takes all").expect("no failure");
    }

    #[test]
    fn a_listing_of_no_keys_has_a_head_and_sums() {
        let head = "key  type  items  capacity  full %  rate  rate now  filters  bytes  ttl\n";
        for (form, text) in [
            (TABLE, head.to_owned() + "0 keys, 0 bytes\n"),
            (Form::Csv, columns::csv_head() + "\r\n"),
            (
                Form::Json,
                "{\"keys\":[],\"bytes\":0,\"types\":{},\"unreadable\":0}\n".to_owned(),
            ),
        ] {
            let mut writer = writer(form, "key");
            end(&mut writer);
            assert_eq!(written(&writer), text);
        }
    }

    #[test]
    fn a_table_ends_with_its_sums_and_the_advice() {
        let mut writer = writer(TABLE, "key");
        for rows in [vec![row("a key", 1_000, 40)], vec![row("b", 5, 3)]] {
            writer.take(rows).expect("a Vec takes all");
        }
        end(&mut writer);
        assert_eq!(
            written(&writer),
            "key      type       items  capacity  full %  rate  rate now  filters  bytes  ttl\n\
             \"a key\"  TDIS-TYPE      -         -       -     -         -        -  1,000    -\n\
             b        TDIS-TYPE      -         -       -     -         -        -      5    -\n\
             2 keys, 1,005 bytes: 2 TDIS-TYPE\n\
             \"a key\": it was not used for 40 days; delete it if nobody needs it: UNLINK \"a key\"\n"
        );
    }

    #[test]
    fn json_is_one_object_with_the_advice_of_each_key() {
        let mut writer = writer(Form::Json, "key");
        for rows in [vec![row("a", 1_000, 40)], vec![], vec![row("b", 5, 3)]] {
            writer.take(rows).expect("a Vec takes all");
        }
        end(&mut writer);
        let object: Value = serde_json::from_str(written(&writer)).expect("it is JSON");
        let advice = json!([{
            "reason": "it was not used for 40 days; delete it if nobody needs it",
            "command": "UNLINK a",
        }]);
        assert_eq!(object["keys"][0]["advice"], advice);
        assert_eq!(object["keys"][1]["advice"], json!([]));
        assert_eq!(object["bytes"], 1_005);
        assert_eq!(
            object["types"],
            json!({ "TDIS-TYPE": { "keys": 2, "bytes": 1_005 } })
        );
    }

    /// A key that changed its type comes last in its batch.
    #[test]
    fn rows_are_written_as_they_come_or_once_their_order_is_known() {
        let terminal = Form::Table(Some(80));
        for (form, title, until_end, all) in [
            (Form::Csv, "key", "abcd", "abcd"),
            (Form::Csv, "bytes", "", "cbda"),
            (Form::Json, "key", "abcd", "abcd"),
            (TABLE, "key", "", "abcd"),
            (terminal, "key", "", "abcd"),
        ] {
            let mut writer = writer(form, title);
            for rows in [
                vec![row("b", 7, 0), row("a", 1, 0)],
                vec![row("c", 9, 0), row("d", 5, 0)],
            ] {
                writer.take(rows).expect("a Vec takes all");
            }
            // Only the keys have one letter.
            let keys = |writer: &Writer<Vec<u8>>| {
                let words = written(writer).split(|c: char| !c.is_alphanumeric() && c != '-');
                words
                    .filter(|word| ["a", "b", "c", "d"].contains(word))
                    .collect::<String>()
            };
            assert_eq!(keys(&writer), until_end, "{title}");
            end(&mut writer);
            assert_eq!(keys(&writer), all, "{title}");
        }
    }

    #[test]
    fn the_first_rows_determine_the_widths_of_a_table() {
        let mut writer = writer(TABLE, "key");
        let rows = (1..WIDTH_ROWS).map(|number| row(&format!("{number:05}"), 1, 0));
        writer.take(rows.collect()).expect("a Vec takes all");
        assert_eq!(written(&writer), "");
        writer
            .take(vec![row("a-long-key", 1, 0)])
            .expect("a Vec takes all");
        let lines = |writer: &Writer<Vec<u8>>| written(writer).lines().count();
        assert_eq!(lines(&writer), 1 + WIDTH_ROWS);
        writer
            .take(vec![row("b-longer-key", 1, 0)])
            .expect("a Vec takes all");
        assert_eq!(lines(&writer), 2 + WIDTH_ROWS);
        let last: Vec<&str> = written(&writer).lines().skip(WIDTH_ROWS).collect();
        assert_eq!(
            last,
            [
                "a-long-key  TDIS-TYPE      -         -       -     -         -        -      1    -",
                "b-longer-key  TDIS-TYPE      -         -       -     -         -        -      1    -",
            ]
        );
    }

    #[test]
    fn only_json_that_has_begun_has_the_error_of_a_run() {
        for (form, batches, text) in [
            (Form::Json, 0, ""),
            (
                Form::Json,
                1,
                "{\"keys\":[],\"bytes\":0,\"error\":\"lost\",\"types\":{}}\n",
            ),
            (Form::Csv, 0, ""),
            (TABLE, 1, ""),
        ] {
            let mut writer = writer(form, "key");
            for _ in 0..batches {
                writer.take(Vec::new()).expect("a Vec takes all");
            }
            let failure = writer.fail(Failure::new("lost")).expect("a Vec takes all");
            assert_eq!(written(&writer), text);
            assert_eq!(failure.into_json().is_none(), !text.is_empty());
        }
        // Keys that could not be read are an error at the end.
        let mut writer = writer(Form::Json, "key");
        let ended = writer.end(3, Err(Failure::new("3 keys could not be read")));
        let failure = ended.expect("a Vec takes all").expect_err("an error");
        assert!(failure.into_json().is_none());
        let end = "\"error\":\"3 keys could not be read\",\"types\":{},\"unreadable\":3}\n";
        assert!(written(&writer).ends_with(end), "{}", written(&writer));
    }

    /// An output that takes this many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_of_the_output_is_returned() {
        for form in [TABLE, Form::Csv, Form::Json] {
            let mut whole = Writer::new(Vec::new(), form, order("key"), None);
            whole.take(vec![row("a", 1, 0)]).expect("a Vec takes all");
            end(&mut whole);
            let length = written(&whole).len();
            for room in 0..length {
                let mut full = Writer::new(Full(room), form, order("key"), None);
                let ended = full.take(vec![row("a", 1, 0)]);
                let ended = ended.and_then(|()| full.end(0, Ok(())));
                let error = ended.expect_err("it has less room than is needed");
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room}");
            }
        }
    }
}
