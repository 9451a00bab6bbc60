//! Parquet, Arrow IPC and Arrow in memory.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, downcast_dictionary_array};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::Error;
use crate::panel::Slot;
use crate::schema::{Kind, Schema};
use crate::source::cell::CellReader;
use crate::source::intake::Intake;
use crate::source::plain::Plain;
use crate::source::{Shared, Watch, absent, user_column};

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Rows in a batch of Parquet.
const BATCH: usize = 4 * crate::panel::PANEL;

/// Rows that a worker reads at a time from where they lie: as many as stay in its cache.
const IN_PLACE: usize = 8 * crate::panel::PANEL;

/// Rows that a worker takes at a time from a batch in memory, which may be the whole table.
const SHARE: usize = 64 * crate::panel::PANEL;

/// Something with an Arrow schema, opened.
pub(crate) struct Reader {
    name: String,
    schema: SchemaRef,
    source: Source,
}

enum Source {
    Parquet { path: PathBuf, metadata: ArrowReaderMetadata },
    Batches(Batches),
}

impl Reader {
    pub fn parquet(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|error| {
            Error::table(&name, format!("this Parquet file cannot be read ({error}); make it again"))
        })?;
        // Columns are found by their place among the fields, of which some may be left out.
        if metadata.parquet_schema().root_schema().get_fields().len() != metadata.schema().fields().len() {
            return Err(Error::table(&name, "this Parquet file has columns that hold nothing; write it without them"));
        }
        Ok(Self {
            name,
            schema: metadata.schema().clone(),
            source: Source::Parquet { path: path.to_owned(), metadata },
        })
    }

    pub fn file(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
        let reader = FileReader::try_new(BufReader::new(file), None).map_err(|error| unreadable(&name, &error))?;
        Ok(Self { name, schema: reader.schema(), source: Source::Batches(Box::new(reader)) })
    }

    pub fn stream(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
        let reader = StreamReader::try_new(BufReader::new(file), None).map_err(|error| unreadable(&name, &error))?;
        Ok(Self { name, schema: reader.schema(), source: Source::Batches(Box::new(reader)) })
    }

    pub fn memory(batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map_or_else(|| Arc::new(arrow_schema::Schema::empty()), RecordBatch::schema);
        let batches = batches.into_iter().map(Ok);
        Self { name: "memory".into(), schema: schema.clone(), source: Source::Batches(in_shares(schema, batches)) }
    }

    pub fn other(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        let schema = reader.schema();
        // What another program says about its failure may hold a value.
        let calm = |_| {
            let message = "what hands over the rows failed; read them without m2m to see why";
            ArrowError::ExternalError(message.into())
        };
        let batches = in_shares(schema.clone(), reader.map(move |batch| batch.map_err(calm)));
        Self { name: "memory".into(), schema, source: Source::Batches(batches) }
    }

    /// Checks the columns against the schema and makes ready for several workers.
    pub fn shared(self, schema: &Schema) -> Result<SharedArrow, Error> {
        let find = |name: &str| {
            let mut found = self.schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
            match (found.next(), found.next()) {
                (Some((at, field)), None) => Ok((at, field.data_type().clone())),
                (Some(_), Some(_)) => {
                    Err(Error::table(&self.name, format!("there are two columns `{name}`; rename one of them")))
                }
                (None, _) => Err(absent(&self.name, name)),
            }
        };
        let mut columns = Vec::new();
        for column in schema.columns() {
            let (at, found) = find(&column.name)?;
            if !fits(&found, &column.kind) {
                return Err(Error::table(
                    &self.name,
                    format!(
                        "column `{}` has type {found}, which cannot be read as {}; change the schema or the file",
                        column.name,
                        column.kind.name()
                    ),
                ));
            }
            columns.push(at);
        }
        let user = match user_column(schema) {
            None => None,
            Some(name) => {
                let (at, found) = find(name)?;
                if !is_textual(&found) {
                    return Err(Error::table(
                        &self.name,
                        format!(
                            "column `{name}` has type {found}, which cannot identify users; use text or whole numbers"
                        ),
                    ));
                }
                Some(at)
            }
        };
        let readers = match self.source {
            Source::Batches(batches) => vec![Mutex::new(RowGroup { rows: Some(Rows::Batches(batches)), sequence: 0 })],
            Source::Parquet { path, metadata } => {
                let mut wanted = columns.clone();
                wanted.extend(user);
                wanted.sort_unstable();
                wanted.dedup();
                let place = |at: &usize| wanted.binary_search(at).expect("every wanted column is there");
                let columns = columns.iter().map(place).collect();
                let user = user.as_ref().map(place);
                let groups = metadata.metadata().num_row_groups();
                let parquet = Parquet { path, metadata, wanted };
                let readers = (0..groups)
                    .map(|group| Mutex::new(RowGroup { rows: None, sequence: (group as u64) << 32 }))
                    .collect();
                let rows = parquet.metadata.metadata().file_metadata().num_rows();
                let bytes_per_row =
                    std::fs::metadata(&parquet.path).ok().map(|file| file.len() as f64 / rows.max(1) as f64);
                return Ok(SharedArrow {
                    name: self.name,
                    columns,
                    user,
                    readers,
                    parquet: Some(parquet),
                    bytes_per_row,
                });
            }
        };
        Ok(SharedArrow { name: self.name, columns, user, readers, parquet: None, bytes_per_row: None })
    }
}

/// The same rows in batches that several workers can share, without a copy; an error where columns change on the way.
fn in_shares(
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
) -> Batches {
    let same = move |batch: RecordBatch| {
        if batch.schema_ref().fields() == schema.fields() {
            return Ok(batch);
        }
        let message = "batches of one table must have the same columns in the same order; make them alike";
        Err(ArrowError::ExternalError(message.into()))
    };
    let shares = |batch: RecordBatch| {
        let rows = batch.num_rows();
        (0..rows).step_by(SHARE).map(move |from| Ok(batch.slice(from, SHARE.min(rows - from))))
    };
    Box::new(batches.map(move |batch| batch.and_then(&same)).flat_map(move |batch| {
        let (whole, failed) = batch.map_or_else(|error| (None, Some(Err(error))), |batch| (Some(batch), None));
        whole.into_iter().flat_map(shares).chain(failed)
    }))
}

/// Names and types as a schema would have them.
pub(crate) fn fields(reader: &Reader) -> Vec<(String, Option<&'static str>)> {
    let word = |found: &DataType| match found {
        DataType::Boolean => Some("boolean"),
        DataType::Date32 | DataType::Date64 => Some("date"),
        DataType::Timestamp(..) => Some("datetime"),
        found if found.is_integer() => Some("integer"),
        found if found.is_numeric() => Some("number"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => Some("category"),
        _ => None,
    };
    reader.schema.fields().iter().map(|field| (field.name().clone(), word(field.data_type()))).collect()
}

fn is_textual(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean => true,
        DataType::Dictionary(_, values) => is_textual(values),
        found => found.is_integer(),
    }
}

/// Whether a column of this Arrow type can hold what the schema says.
fn fits(found: &DataType, kind: &Kind) -> bool {
    let text = match found {
        DataType::Dictionary(_, values) => values.is_string(),
        found => found.is_string(),
    };
    match kind {
        Kind::Number(_) | Kind::Integer(_) => {
            found.is_integer()
                || matches!(
                    found,
                    DataType::Float16
                        | DataType::Float32
                        | DataType::Float64
                        | DataType::Decimal128(..)
                        | DataType::Null
                )
        }
        Kind::Date(_) | Kind::Datetime(_) => {
            matches!(found, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null) || text
        }
        Kind::Boolean => matches!(found, DataType::Boolean | DataType::Null) || found.is_integer() || text,
        Kind::Category(_) => matches!(found, DataType::Null) || is_textual(found),
    }
}

/// An Arrow input that several workers share: each row group of a Parquet file by itself, anything else as one.
pub(crate) struct SharedArrow {
    name: String,
    /// Where each column of the schema is in a batch.
    columns: Vec<usize>,
    user: Option<usize>,
    readers: Vec<Mutex<RowGroup>>,
    parquet: Option<Parquet>,
    /// Bytes of the file per row, for the progress; nothing where only the batches have a size.
    bytes_per_row: Option<f64>,
}

struct Parquet {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    wanted: Vec<usize>,
}

struct RowGroup {
    /// Nothing until the first worker comes.
    rows: Option<Rows>,
    sequence: u64,
}

/// Where the rows of a row group come from.
enum Rows {
    Batches(Batches),
    /// From the file as they lie there, from a row on.
    Plain(Arc<Plain>, usize),
}

/// Some rows of a row group.
enum Taken {
    Batch(RecordBatch),
    Plain(Arc<Plain>, Range<usize>),
}

impl Rows {
    fn next(&mut self) -> Option<Result<Taken, ArrowError>> {
        match self {
            Self::Batches(batches) => Some(batches.next()?.map(Taken::Batch)),
            Self::Plain(plain, at) => {
                let rows = *at..plain.rows().min(*at + IN_PLACE);
                *at = rows.end;
                (!rows.is_empty()).then(|| Ok(Taken::Plain(plain.clone(), rows)))
            }
        }
    }
}

impl SharedArrow {
    /// Opens a row group when its first worker comes.
    fn open(&self, group: usize) -> Result<Rows, Error> {
        let parquet = self.parquet.as_ref().expect("only row groups are opened late");
        // Opened anew: clones of one file share their position, and several threads would move it.
        let file = File::open(&parquet.path).map_err(|error| Error::Read { path: parquet.path.clone(), error })?;
        if self.user.is_none() {
            let columns: Vec<usize> = self.columns.iter().map(|place| parquet.wanted[*place]).collect();
            if let Some(plain) = Plain::find(&file, &parquet.metadata, group, &columns) {
                return Ok(Rows::Plain(Arc::new(plain), 0));
            }
        }
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, parquet.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), parquet.wanted.iter().copied());
        let reader =
            builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(BATCH).build().map_err(
                |error| Error::table(&self.name, format!("this Parquet file cannot be read ({error}); make it again")),
            )?;
        Ok(Rows::Batches(Box::new(reader)))
    }

    /// Puts rows that were read from where they lie in the file.
    fn take_plain(
        &self,
        plain: &Plain,
        rows: Range<usize>,
        numbers: &mut Vec<f64>,
        intake: &mut Intake<'_>,
    ) -> Result<(), Error> {
        let columns = self.columns.len();
        let count = rows.len();
        numbers.resize(columns * IN_PLACE, 0.0);
        for (column, numbers) in numbers.chunks_exact_mut(IN_PLACE).enumerate() {
            plain.read(column, rows.start, &mut numbers[..count]).map_err(|error| {
                Error::table(&self.name, format!("this Parquet file cannot be read ({error}); make it again"))
            })?;
        }
        let mut at = 0;
        while at < count {
            let some = intake.space().min(count - at);
            for (column, numbers) in numbers.chunks_exact(IN_PLACE).enumerate() {
                put_numbers(&numbers[at..at + some], column, intake);
            }
            intake.advance(some);
            at += some;
        }
        Ok(())
    }
}

impl Shared for SharedArrow {
    fn read(&self, intake: &mut Intake<'_>, watch: &dyn Watch) -> Result<(), Error> {
        // Workers start at different row groups and help out in the others when their own is done.
        let count = self.readers.len();
        let first = intake.worker() * count / intake.workers().max(1);
        let mut numbers = Vec::new();
        for step in 0..count {
            let group = (first + step) % count;
            while !watch.stopped() && !intake.should_stop() {
                let (taken, sequence) = {
                    let mut reader = self.readers[group].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if reader.rows.is_none() {
                        reader.rows = Some(self.open(group)?);
                    }
                    match reader.rows.as_mut().and_then(Rows::next) {
                        None => break,
                        Some(taken) => {
                            reader.sequence += 1;
                            (taken.map_err(|error| unreadable(&self.name, &error))?, reader.sequence)
                        }
                    }
                };
                let rows = match &taken {
                    Taken::Batch(batch) => {
                        self.take(batch, intake);
                        batch.num_rows()
                    }
                    Taken::Plain(plain, rows) => {
                        self.take_plain(plain, rows.clone(), &mut numbers, intake)?;
                        rows.len()
                    }
                };
                intake.end_chunk(sequence);
                watch.advance(match (self.bytes_per_row, &taken) {
                    (None, Taken::Batch(batch)) => size(batch),
                    (bytes, _) => (bytes.unwrap_or(0.0) * rows as f64) as u64,
                });
            }
        }
        Ok(())
    }
}

/// The bytes of the rows of a batch, which may be a part of larger buffers.
fn size(batch: &RecordBatch) -> u64 {
    let of = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
    batch.columns().iter().map(of).sum()
}

fn unreadable(name: &str, error: &ArrowError) -> Error {
    if let ArrowError::ExternalError(message) = error {
        return Error::table(name, message.to_string());
    }
    Error::table(name, format!("this file cannot be read ({error}); make it again"))
}

impl SharedArrow {
    fn take(&self, batch: &RecordBatch, intake: &mut Intake<'_>) {
        let texts = |column: usize| Texts::new(batch.column(column));
        let user = self.user.map(texts);
        let mut at = 0;
        while at < batch.num_rows() {
            let count = intake.space().min(batch.num_rows() - at);
            for (column, place) in self.columns.iter().enumerate() {
                put_column(batch.column(*place), column, at, count, intake);
            }
            if let Some(user) = &user {
                for row in at..at + count {
                    intake.put_user(user.at(row).as_deref());
                }
            }
            intake.advance(count);
            at += count;
        }
    }
}

/// Puts `count` values from `at` on into the panel.
fn put_column(array: &ArrayRef, column: usize, at: usize, count: usize, intake: &mut Intake<'_>) {
    match intake.slot(column) {
        Slot::Unit(_) => match numbers(array, &intake.readers[column]) {
            Numbers::Plain(values) if array.null_count() == 0 => {
                put_numbers(&values[at..at + count], column, intake);
            }
            Numbers::Plain(values) => {
                for row in 0..count {
                    let value = if array.is_null(at + row) { f64::NAN } else { values[at + row] };
                    let cell = intake.readers[column].number(value);
                    intake.put_ahead(column, row, cell);
                }
            }
            Numbers::Each(value) => {
                for row in 0..count {
                    let value = if array.is_null(at + row) { f64::NAN } else { value(at + row) };
                    let cell = intake.readers[column].number(value);
                    intake.put_ahead(column, row, cell);
                }
            }
            Numbers::Texts(texts) => put_texts(&texts, column, at, count, intake),
        },
        Slot::Code(_) => put_texts(&Texts::new(array), column, at, count, intake),
    }
}

/// Puts numbers, of which NaN is absent, for the current and the following rows.
fn put_numbers(values: &[f64], column: usize, intake: &mut Intake<'_>) {
    let at_once = match intake.slot(column) {
        Slot::Unit(slot) => intake.readers[column].is_plain_number() && intake.take_numbers(slot, values),
        Slot::Code(_) => false,
    };
    if !at_once {
        for (row, value) in values.iter().enumerate() {
            let cell = intake.readers[column].number(*value);
            intake.put_ahead(column, row, cell);
        }
    }
}

fn put_texts(texts: &Texts<'_>, column: usize, at: usize, count: usize, intake: &mut Intake<'_>) {
    for row in 0..count {
        let cell = match texts.at(at + row) {
            None => intake.readers[column].absent(),
            Some(text) => intake.readers[column].text(&text),
        };
        intake.put_ahead(column, row, cell);
    }
}

/// The numbers of an array, by row; nulls are the caller's to mind.
enum Numbers<'a> {
    Plain(&'a [f64]),
    Each(Box<dyn Fn(usize) -> f64 + 'a>),
    Texts(Texts<'a>),
}

fn numbers<'a>(array: &'a ArrayRef, reader: &CellReader) -> Numbers<'a> {
    macro_rules! each {
        ($type:ty, $convert:expr) => {{
            let values = array.as_primitive::<$type>().values();
            Numbers::Each(Box::new(move |row| $convert(values[row])))
        }};
    }
    let per_day = 1.0 / 86_400.0;
    let day = reader.is_date();
    let seconds = move |seconds: f64| if day { (seconds * per_day).floor() } else { seconds };
    match array.data_type() {
        DataType::Float64 => Numbers::Plain(array.as_primitive::<Float64Type>().values()),
        DataType::Float32 => each!(Float32Type, f64::from),
        DataType::Float16 => each!(Float16Type, |x: <Float16Type as ArrowPrimitiveType>::Native| x.to_f64()),
        DataType::Int8 => each!(Int8Type, f64::from),
        DataType::Int16 => each!(Int16Type, f64::from),
        DataType::Int32 => each!(Int32Type, f64::from),
        DataType::Int64 => each!(Int64Type, |x| x as f64),
        DataType::UInt8 => each!(UInt8Type, f64::from),
        DataType::UInt16 => each!(UInt16Type, f64::from),
        DataType::UInt32 => each!(UInt32Type, f64::from),
        DataType::UInt64 => each!(UInt64Type, |x| x as f64),
        DataType::Decimal128(_, scale) => {
            let factor = 10f64.powi(i32::from(*scale));
            each!(Decimal128Type, move |x: i128| x as f64 / factor)
        }
        DataType::Date32 => each!(Date32Type, move |days: i32| seconds(f64::from(days) * 86_400.0)),
        DataType::Date64 => each!(Date64Type, move |millis: i64| seconds(millis as f64 / 1e3)),
        DataType::Timestamp(TimeUnit::Second, _) => each!(TimestampSecondType, move |x: i64| seconds(x as f64)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each!(TimestampMillisecondType, move |x: i64| seconds(x as f64 / 1e3))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each!(TimestampMicrosecondType, move |x: i64| seconds(x as f64 / 1e6))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            each!(TimestampNanosecondType, move |x: i64| seconds(x as f64 / 1e9))
        }
        _ => Numbers::Texts(Texts::new(array)),
    }
}

/// The texts of an array, by row; nothing for nulls. Whole numbers and booleans have their usual spelling.
struct Texts<'a>(Box<dyn Fn(usize) -> Option<Cow<'a, [u8]>> + 'a>);

impl<'a> Texts<'a> {
    fn at(&self, row: usize) -> Option<Cow<'a, [u8]>> {
        (self.0)(row)
    }

    fn new(array: &'a dyn Array) -> Self {
        macro_rules! plain {
            ($values:expr) => {{
                let values = $values;
                Self(Box::new(move |row| (!values.is_null(row)).then(|| Cow::Borrowed(values.value(row).as_bytes()))))
            }};
        }
        macro_rules! spelled {
            ($values:expr) => {{
                let values = $values;
                Self(Box::new(move |row| {
                    (!values.is_null(row)).then(|| Cow::Owned(values.value(row).to_string().into_bytes()))
                }))
            }};
        }
        downcast_dictionary_array! {
            array => {
                let texts = Self::new(array.values().as_ref());
                let keys = array.keys();
                Self(Box::new(move |row| if keys.is_null(row) { None } else { texts.at(keys.value(row) as usize) }))
            },
            DataType::Utf8 => plain!(array.as_string::<i32>()),
            DataType::LargeUtf8 => plain!(array.as_string::<i64>()),
            DataType::Utf8View => plain!(array.as_string_view()),
            DataType::Boolean => spelled!(array.as_boolean()),
            DataType::Int8 => spelled!(array.as_primitive::<Int8Type>()),
            DataType::Int16 => spelled!(array.as_primitive::<Int16Type>()),
            DataType::Int32 => spelled!(array.as_primitive::<Int32Type>()),
            DataType::Int64 => spelled!(array.as_primitive::<Int64Type>()),
            DataType::UInt8 => spelled!(array.as_primitive::<UInt8Type>()),
            DataType::UInt16 => spelled!(array.as_primitive::<UInt16Type>()),
            DataType::UInt32 => spelled!(array.as_primitive::<UInt32Type>()),
            DataType::UInt64 => spelled!(array.as_primitive::<UInt64Type>()),
            _ => Self(Box::new(|_| None)),
        }
    }
}
