//! Files of text, CSV and JSON lines: the types of their columns, and their batches.

use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_json::reader::infer_json_schema;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use drillcore::{Error, OnError, type_name};
use indicatif::HumanCount;

use crate::files::batches::{Batch, Input, Part, Places, Reading, Taken, unusable};
use crate::files::exact_text::is_rounded;
use crate::files::flat_json::{array_texts, flat, names};
use crate::files::parser::{NOT_UTF_8, Parsed, Parser, shortened, texts};
use crate::files::records::{RecordError, RecordReader, Records, Syntax};
use crate::files::time_text::time_type;
use crate::process::fault::Fault;

/// Bytes of a text that its columns' types are guessed from, and its first record.
const SAMPLE_BYTES: usize = 4 << 20;
/// Rows of it.
const SAMPLE_ROWS: usize = 10_000;
/// Columns that are guessed of one record. Each takes hundreds of bytes while they are, so that a record of nothing
/// but commas would take a hundred times its own.
const COLUMNS_MAX: usize = 65_536;
/// What texts in UTF-16 begin with.
const BYTE_ORDER_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// A file of text.
pub struct Text<'a> {
    name: &'a str,
    reader: RecordReader<Unpacked>,
    reading: &'a Reading<'a>,
    syntax: Syntax,
}

type Unpacked = BufReader<Box<dyn Read + Send>>;

impl<'a> Text<'a> {
    pub fn new(
        name: &'a str,
        file: Box<dyn Read + Send>,
        syntax: Syntax,
        reading: &'a Reading<'a>,
    ) -> Text<'a> {
        let reader = RecordReader::new(BufReader::new(file), syntax);
        Text { name, reader, reading, syntax }
    }

    /// The file as CSV, with a separator between cells.
    pub fn csv(mut self, separator: u8, taken: Option<&Taken>) -> Result<Input, Fault> {
        let header = self.records(1)?;
        let names = header.text(0..header.len());
        self.check_is_no_utf_16(names)?;
        let line = header.lines(0..header.len()).first().copied().unwrap_or(1);
        if std::str::from_utf8(names).is_err() {
            return Err(bad_line(self.name, line, NOT_UTF_8));
        }
        if names.trim_ascii_end().contains(&b'\r') {
            let what = "the header contains a carriage return; end lines with line feeds";
            return Err(Fault::wrong_call(what).at(self.name));
        }
        let columns = 1 + names.iter().filter(|&&byte| byte == separator).count();
        if columns > COLUMNS_MAX {
            return Err(bad_line(self.name, line, &too_many_columns(columns)));
        }
        let head = self.head()?;
        // Rows that do not parse, and what is no UTF-8, are for the parser to tell.
        let format = arrow_csv::reader::Format::default()
            .with_header(true)
            .with_truncated_rows(true)
            .with_delimiter(separator);
        let text = [names, head.text(0..head.len())].concat();
        let text = String::from_utf8_lossy(&text);
        let guessed = format.infer_schema(text.as_bytes(), Some(SAMPLE_ROWS));
        let (guessed, _) = guessed.map_err(|error| self.malformed(&error))?;
        self.check_guess(&head, taken)?;
        let guessed = texts_for_nulls(&guessed);
        if taken.is_none() {
            self.check_whole_numbers(&guessed, &head)?;
        }
        let guessed = self.with_times(guessed, &head);
        if let (true, Some(taken)) = (head.is_empty(), taken) {
            self.check_header(&guessed, taken)?;
        }
        let schema = csv_columns(guessed, taken);
        check_readable(&schema).map_err(|error| self.malformed(&error))?;
        Ok(self.input(head, schema, taken))
    }

    pub fn jsonl(mut self, taken: Option<&Taken>) -> Result<Input, Fault> {
        let head = self.head()?;
        self.check_is_no_utf_16(head.text(0..head.len()))?;
        self.check_guess(&head, taken)?;
        let guessed = self.flat_head(&head, taken).and_then(|flat| {
            let flat = flat.as_ref().unwrap_or(&head);
            let guessed = self.guessed(flat)?;
            if taken.is_none() {
                self.check_whole_numbers(&guessed, flat)?;
            }
            Ok(self.with_times(guessed, flat))
        });
        let schema = match taken {
            None => Arc::new(guessed?),
            // What cannot be guessed may still fit the columns that are known.
            Some(taken) => jsonl_columns(guessed.ok(), taken),
        };
        Ok(self.input(head, schema, taken))
    }

    /// Refuses a text that begins as those do that some programs save as "Unicode".
    fn check_is_no_utf_16(&self, text: &[u8]) -> Result<(), Fault> {
        let is_utf_16 = BYTE_ORDER_MARKS.iter().any(|mark| text.starts_with(mark));
        match is_utf_16 {
            true => {
                Err(Fault::wrong_call("the text is in UTF-16; save the file as UTF-8")
                    .at(self.name))
            }
            false => Ok(()),
        }
    }

    /// What types are guessed from, flat if it is not so already; records that cannot be made flat are left out, or refused.
    fn flat_head(&self, head: &Records, taken: Option<&Taken>) -> Result<Option<Records>, Fault> {
        let known = taken.map(|taken| taken.columns.as_ref());
        let given = self.reading.given.unwrap_or(&[]);
        let mut given = given.to_vec();
        if known.is_none() {
            given.extend(array_texts(head, &given));
        }
        let given = &given[..];
        if let Ok(flat) = flat(head, known, given) {
            return Ok(flat);
        }
        let mut good = Records::default();
        for record in 0..head.len() {
            let (text, line) = (head.text(record..record + 1), head.lines(record..record + 1)[0]);
            match flat(&head.part(record..record + 1), known, given) {
                Ok(None) => good.push(text, line),
                Ok(Some(flat)) => good.push(flat.text(0..flat.len()), line),
                Err(_) if self.reading.on_error == OnError::Skip => {}
                Err(why) => return Err(bad_line(self.name, line, &why)),
            }
        }
        Ok(Some(good))
    }

    /// The columns of JSON lines, of those that are JSON where the others are to be left out.
    fn guessed(&self, head: &Records) -> Result<Schema, Fault> {
        for record in 0..head.len() {
            let names = count_names(head.text(record..record + 1));
            if names > COLUMNS_MAX {
                let line = head.lines(record..record + 1)[0];
                return Err(bad_line(self.name, line, &too_many_columns(names)));
            }
        }
        let guess = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            let guessed = infer_json_schema(text.as_bytes(), Some(SAMPLE_ROWS));
            guessed.map(|(guessed, _)| texts_for_nulls(&without_null_objects(guessed)))
        };
        let all = match guess(head.text(0..head.len())) {
            Ok(guessed) => return Ok(in_order(guessed, head)),
            Err(error) => error,
        };
        let mut good = Vec::new();
        for record in 0..head.len() {
            let text = head.text(record..record + 1);
            match guess(text) {
                Ok(_) => good.extend_from_slice(text),
                Err(_) if self.reading.on_error == OnError::Skip => {}
                Err(error) => {
                    let line = head.lines(record..record + 1)[0];
                    // It was looked at alone, so "line 1" is not what a reader wants.
                    let reason = error.to_string().replace(" at line 1 column", " at column");
                    let reason = format!("{reason}; write one JSON object per line");
                    return Err(bad_line(self.name, line, &reason));
                }
            }
        }
        let guessed = guess(&good).map_err(|_| self.malformed(&all))?;
        Ok(in_order(guessed, head))
    }

    /// What types are guessed from.
    fn head(&mut self) -> Result<Records, Fault> {
        let mut head = Records::default();
        let is_enough = |head: &Records| {
            head.len() >= SAMPLE_ROWS || !head.is_empty() && head.byte_len() >= SAMPLE_BYTES
        };
        let mut read = Ok(true);
        while !is_enough(&head) && matches!(read, Ok(true)) {
            read = self.reader.read(&mut head);
        }
        read.map(|_| head).map_err(|error| unread(self.name, error))
    }

    /// Refuses to guess the types of columns from nothing.
    fn check_guess(&self, head: &Records, taken: Option<&Taken>) -> Result<(), Fault> {
        if taken.is_some() || !head.is_empty() {
            return Ok(());
        }
        let what = "the file has no rows, so the columns of a new table cannot be guessed; \
                    begin with a file that has rows";
        Err(Fault::wrong_call(what).at(self.name))
    }

    /// Refuses a header without rows that is none of the table's. Where there are rows, appending them says so.
    fn check_header(&self, header: &Schema, taken: &Taken) -> Result<(), Fault> {
        let is_unknown = |field: &&FieldRef| taken.columns.column_with_name(field.name()).is_none();
        let other = header.fields().iter().find(is_unknown);
        match other.filter(|_| !taken.skips_others && !taken.adds_others) {
            None => Ok(()),
            Some(other) => {
                let names = taken.columns.fields().iter().map(|field| field.name().as_str());
                Err(Fault::from(Error::unknown("column", other.name(), names)).at(self.name))
            }
        }
    }

    fn records(&mut self, count: usize) -> Result<Records, Fault> {
        self.reader.read_up_to(count).map_err(|error| unread(self.name, error))
    }

    /// The columns guessed, with those of times as [`time_type`] has them. The guess itself knows no offsets, and
    /// of JSON no times at all.
    fn with_times(&self, guessed: Schema, head: &Records) -> Schema {
        let may_be_time = |field: &&FieldRef| match self.syntax {
            Syntax::Csv { .. } => matches!(field.data_type(), DataType::Timestamp(_, _)),
            Syntax::Jsonl => *field.data_type() == DataType::Utf8,
        };
        let names: Vec<&str> = guessed
            .fields()
            .iter()
            .filter(may_be_time)
            .map(|field| field.name().as_str())
            .collect();
        if names.is_empty() {
            return guessed;
        }
        let parts = self.texts_of(&guessed, &names, head);
        let field = |field: &FieldRef| {
            let Some(column) = names.iter().position(|name| name == field.name()) else {
                return field.as_ref().clone();
            };
            let texts =
                || parts.iter().flat_map(|(_, part)| part.column(column).as_string::<i32>());
            let data_type = match texts().flatten().next() {
                None => field.data_type().clone(),
                Some(_) => time_type(texts().flatten()).unwrap_or(DataType::Utf8),
            };
            Field::new(field.name(), data_type, true)
        };
        Schema::new(guessed.fields().iter().map(field).collect::<Vec<_>>())
    }

    /// Refuses to guess that a column holds floats if they would be other numbers than those of the file.
    fn check_whole_numbers(&self, guessed: &Schema, head: &Records) -> Result<(), Fault> {
        let given = self.reading.given.unwrap_or(&[]);
        let given = |name: &String| given.iter().any(|(given, _)| given == name);
        let floats = guessed.fields().iter().filter(|field| field.data_type().is_floating());
        let names: Vec<&str> = floats
            .map(|field| field.name())
            .filter(|name| !given(name))
            .map(String::as_str)
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        for (first, part) in self.texts_of(guessed, &names, head) {
            for (name, column) in names.iter().zip(part.columns()) {
                let texts = column.as_string::<i32>().iter().enumerate();
                let mut rounded = texts.filter_map(|(row, text)| Some((row, text?)));
                if let Some((row, text)) = rounded.find(|(_, text)| is_rounded(text)) {
                    let line = head.lines(0..head.len()).get(first + row).copied().unwrap_or(0);
                    let text = shortened(text);
                    let what = format!(
                        "column {name:?} would store float64, which cannot hold {text} exactly; give the type of the \
                         column: --type {name}=float64 rounds, {name}=string does not, nor do {name}=uint64 and \
                         \"{name}=decimal128(38, 0)\" if they hold it"
                    );
                    return Err(bad_line(self.name, line, &what));
                }
            }
        }
        Ok(())
    }

    /// The values of some columns as text, in parts that each begin with a record.
    fn texts_of(
        &self,
        schema: &Schema,
        names: &[&str],
        head: &Records,
    ) -> Vec<(usize, RecordBatch)> {
        let of = |records: Range<usize>| {
            let (text, count) = (head.text(records.clone()), records.len());
            texts(self.syntax, schema, names, text, count).ok().flatten()
        };
        match of(0..head.len()) {
            Some(whole) => vec![(0, whole)],
            // Records that cannot be parsed are reported later.
            None => {
                let one = |record| Some((record, of(record..record + 1)?));
                (0..head.len()).filter_map(one).collect()
            }
        }
    }

    fn input(self, head: Records, schema: SchemaRef, taken: Option<&Taken>) -> Input {
        let parser = Parser {
            syntax: self.syntax,
            schema: schema.clone(),
            // A column that first comes behind the sample is not dropped silently.
            is_strict: !taken.is_some_and(|taken| taken.skips_others),
            spelled_out: taken.map_or(Vec::new(), |taken| taken.spelled_out.clone()),
            given: self.reading.given.map(<[_]>::to_vec),
        };
        let parts = TextParts {
            name: Arc::from(self.name),
            parser: Arc::new(parser),
            batch_rows: self.reading.batch_rows,
            on_error: self.reading.on_error,
            records: Arc::new(head),
            parted_count: 0,
            records_read: 0,
            records_before: self.reading.records_before,
            reader: self.reader,
        };
        Input { schema, parts: Box::new(parts) }
    }

    fn malformed(&self, error: &ArrowError) -> Fault {
        Fault::wrong_call(format!("{}: {error}", self.name))
    }
}

/// A text that cannot be cut into records is wrong; one that cannot be read is unusable.
fn unread(name: &str, error: RecordError) -> Fault {
    match error {
        RecordError::Io(error) => unusable(name, &error),
        wrong => Fault::wrong_call(format!("{name}, {wrong}")),
    }
}

fn too_many_columns(found: usize) -> String {
    let [found, limit] = [found, COLUMNS_MAX].map(|columns| HumanCount(columns as u64));
    format!(
        "the record has {found} columns; the limit is {limit}. Check that the file is CSV or JSON lines"
    )
}

/// How many names a JSON line has, in objects of objects too: a quote, which is none of a text's, and a colon.
fn count_names(line: &[u8]) -> usize {
    line.windows(3).filter(|three| three[0] != b'\\' && three[1..] == *b"\":").count()
}

fn bad_line(name: &str, line: u64, reason: &str) -> Fault {
    Fault::wrong_call(format!("{name}, line {line}: {reason}"))
}

/// The parts of a text, cut where records end: first those of the beginning that was read already.
struct TextParts {
    name: Arc<str>,
    parser: Arc<Parser>,
    batch_rows: usize,
    on_error: OnError,
    /// Those read last, and how many of them are in parts.
    records: Arc<Records>,
    parted_count: usize,
    /// Of the file, up to what is in parts.
    records_read: u64,
    /// That are passed over.
    records_before: u64,
    reader: RecordReader<Unpacked>,
}

impl TextParts {
    fn part(&mut self) -> Result<Option<Part>, Fault> {
        loop {
            if self.parted_count == self.records.len() {
                let read = self.reader.read_up_to(self.batch_rows);
                self.records = Arc::new(read.map_err(|error| unread(&self.name, error))?);
                self.parted_count = 0;
            }
            let left = self.records.len() - self.parted_count;
            if left == 0 {
                return Ok(None);
            }
            let before = self.records_before.saturating_sub(self.records_read);
            let passed = usize::try_from(before).unwrap_or(usize::MAX).min(left);
            let first = self.parted_count + passed;
            self.parted_count = self.records.len().min(first + self.batch_rows);
            self.records_read += (passed + self.parted_count - first) as u64;
            if self.parted_count > first {
                return Ok(Some(self.part_of(first..self.parted_count)));
            }
        }
    }

    fn part_of(&self, range: Range<usize>) -> Part {
        let (name, parser, records) =
            (self.name.clone(), self.parser.clone(), self.records.clone());
        let (on_error, records_read) = (self.on_error, self.records_read);
        let bytes = records.text(range.clone()).len() as u64;
        Part::new(bytes, move || {
            let parsed = parser.parse(&records, range, on_error);
            let Parsed { rows, lines, bad } = parsed.map_err(|error| unusable(&name, &error))?;
            match bad.first() {
                Some(first) if on_error == OnError::Raise => {
                    Err(bad_line(&name, first.line, &first.reason))
                }
                _ => Ok(vec![Batch { rows, places: Places::Lines(lines), bad, records_read }]),
            }
        })
    }
}

impl Iterator for TextParts {
    type Item = Result<Part, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.part().transpose()
    }
}

/// Refuses columns whose values CSV has no text for.
fn check_readable(schema: &Schema) -> Result<(), ArrowError> {
    let has_no_text =
        |data_type: &DataType| data_type.is_nested() || *data_type == DataType::Binary;
    match schema.fields().iter().find(|field| has_no_text(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(ArrowError::CsvError(format!(
            "column {:?} stores {}, which CSV cannot hold; use JSON lines, Parquet or Arrow",
            field.name(),
            type_name(field.data_type())
        ))),
    }
}

/// Leaves out columns that are only ever null where others are fields of an object of that name.
fn without_null_objects(guessed: Schema) -> Schema {
    let fields = guessed.fields();
    let is_object = |name: &str| {
        let is_field = |of: &str| of.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        fields.iter().any(|field| is_field(field.name()))
    };
    let is_kept = |field: &&FieldRef| !field.data_type().is_null() || !is_object(field.name());
    Schema::new(fields.iter().filter(is_kept).cloned().collect::<Vec<_>>())
}

/// The columns in the order in which they appear in the records: a guess has them in that of the alphabet.
fn in_order(guessed: Schema, head: &Records) -> Schema {
    let mut left: HashSet<&str> =
        guessed.fields().iter().map(|field| field.name().as_str()).collect();
    let mut places = HashMap::new();
    for record in 0..head.len() {
        // Most often the first record has all of them.
        if left.is_empty() {
            break;
        }
        for name in names(head.text(record..record + 1)) {
            if left.remove(name.as_str()) {
                places.insert(name, places.len());
            }
        }
    }
    let mut fields: Vec<FieldRef> = guessed.fields().iter().cloned().collect();
    fields.sort_by_key(|field| places.get(field.name()).copied().unwrap_or(usize::MAX));
    Schema::new(fields)
}

/// Columns of which the beginning has no value are guessed to hold text.
fn texts_for_nulls(guessed: &Schema) -> Schema {
    let text = |data_type: &DataType| match data_type {
        DataType::Null => DataType::Utf8,
        DataType::List(item) if item.data_type().is_null() => {
            DataType::new_list(DataType::Utf8, true)
        }
        other => other.clone(),
    };
    let field = |field: &FieldRef| Field::new(field.name(), text(field.data_type()), true);
    Schema::new(guessed.fields().iter().map(field).collect::<Vec<_>>())
}

/// The columns of the header in the types of those taken. Columns to be skipped are text, which always fits.
fn csv_columns(guessed: Schema, taken: Option<&Taken>) -> SchemaRef {
    let Some(taken) = taken else { return Arc::new(guessed) };
    let field = |field: &FieldRef| {
        let data_type = match taken.columns.field_with_name(field.name()) {
            Ok(known) => known.data_type().clone(),
            Err(_) if taken.skips_others => DataType::Utf8,
            Err(_) => field.data_type().clone(),
        };
        Field::new(field.name(), data_type, true)
    };
    Arc::new(Schema::new(guessed.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The columns taken, all of which a row may lack, and those that the beginning of the file has besides.
fn jsonl_columns(guessed: Option<Schema>, taken: &Taken) -> SchemaRef {
    let known = taken.columns.fields();
    let mut fields: Vec<Field> = known
        .iter()
        .map(|field| Field::new(field.name(), field.data_type().clone(), true))
        .collect();
    if let (false, Some(guessed)) = (taken.skips_others, guessed) {
        let others = guessed.fields().iter().filter(|field| known.find(field.name()).is_none());
        fields.extend(others.map(|field| field.as_ref().clone()));
    }
    Arc::new(Schema::new(fields))
}
