//! The table of `render-vectors/FIELDS.md`: every change that it names changes the placement.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::{Failed, Trial};
use serde_json::{Map, Value};

use crate::vectors::{Vector, join, placement, subject};

/// One row of the table.
#[derive(Clone, Debug)]
struct Row {
    field: String,
    files: Vec<String>,
    vector: String,
    /// Fields and their new values; null takes a field away. The first is the row's own.
    changes: Vec<(String, Value)>,
}

/// One test a row, and one that the table is there.
pub fn trials() -> Vec<Trial> {
    let rows = match table() {
        Ok(rows) => rows,
        Err(error) => return vec![Trial::test("fields", move || Err(Failed::from(format!("{error:#}"))))],
    };
    let trial = |(position, row): (usize, Row)| {
        let name = format!("fields::{position}::{}", row.field);
        Trial::test(name, move || {
            row.check().map_err(|error| Failed::from(format!("{error:#}")))
        })
    };
    rows.into_iter().enumerate().map(trial).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("render-vectors")
}

fn table() -> Result<Vec<Row>> {
    let text = fs::read_to_string(folder().join("FIELDS.md"))?;
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<Row> = rows
        .map(|line| row(line).with_context(|| line.to_owned()))
        .collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "FIELDS.md has no table");
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [field, files, vector, change] = cells[..] else {
        anyhow::bail!("not four cells");
    };
    // Code spans: the new value, then further fields and their values.
    let spans = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let field = spans(field).concat();
    let mut cells = spans(change).into_iter();
    let mut changes = vec![(
        field.clone(),
        serde_json::from_str(&cells.next().context("no change")?)?,
    )];
    while let (Some(field), Some(value)) = (cells.next(), cells.next()) {
        changes.push((field, serde_json::from_str(&value)?));
    }
    Ok(Row {
        field,
        files: spans(files),
        vector: vector.to_owned(),
        changes,
    })
}

impl Row {
    fn check(&self) -> Result<()> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/placement");
        for file in &self.files {
            ensure!(sources.join(file).exists(), "there is no src/placement/{file}");
        }
        let vector = Vector::read(&folder(), &self.vector)?;
        let mut objects = vector.objects.clone();
        let vm = objects.iter_mut().find(|object| subject(object)).context("no VM")?;
        // What the row changes beside its field is there before and after.
        let (own, further) = self.changes.split_first().context("no change")?;
        let template = &mut vm["spec"]["template"];
        for (field, value) in further {
            set(template, &path(field)?, value);
        }
        let before = placement(&join(objects.iter()))?;
        let vm = objects.iter_mut().find(|object| subject(object)).context("no VM")?;
        set(&mut vm["spec"]["template"], &path(&own.0)?, &own.1);
        let after = placement(&join(objects.iter()))?;
        ensure!(before != after, "nothing changes: {after}");
        Ok(())
    }
}

#[derive(Debug)]
enum Step {
    Field(String),
    Item(usize),
}

/// `a.b[0]["c.d"]` as steps.
fn path(text: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let (field, after) = quoted.split_once("\"]").context("an open quote")?;
            steps.push(Step::Field(field.to_owned()));
            rest = after;
        } else if let Some(item) = rest.strip_prefix('[') {
            let (item, after) = item.split_once(']').context("an open bracket")?;
            steps.push(Step::Item(item.parse()?));
            rest = after;
        } else {
            let field = rest.trim_start_matches('.');
            let end = field.find(['.', '[']).unwrap_or(field.len());
            steps.push(Step::Field(field[..end].to_owned()));
            rest = &field[end..];
        }
    }
    Ok(steps)
}

/// Puts a value where the path leads, making objects on the way; null takes away what is there.
fn set(at: &mut Value, path: &[Step], value: &Value) {
    match path {
        [] => *at = value.clone(),
        [Step::Item(item), rest @ ..] => {
            if let Some(at) = at.get_mut(*item) {
                set(at, rest, value);
            }
        }
        [Step::Field(field), rest @ ..] => {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            if let Some(fields) = at.as_object_mut() {
                if rest.is_empty() && value.is_null() {
                    fields.remove(field);
                } else {
                    set(fields.entry(field.clone()).or_insert(Value::Null), rest, value);
                }
            }
        }
    }
}
