//! Rows from files, streams and memory, on their way into sums.
//!
//! Reading is total: a cell that cannot be read is missing, a value out of bounds is clamped, an unlisted level is
//! "other". Nothing a row contains can stop a sketch (unless the curator asks for that) or reach a message. A file that is
//! damaged, or breaks the rules of its own format, is refused as a whole.

mod arrow;
mod cell;
mod csv;
mod intake;
mod plain;

pub use csv::CsvOptions;
pub use intake::{Place, Report};

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};

use crate::Error;
use crate::panel::{Layout, Panel};
use crate::schema::{Schema, Unit};
use crate::sums::{Partial, Sketcher, Sums};
use intake::{Intake, Sink};

/// Hears about progress and may stop the work. `()` hears nothing and never stops.
pub trait Watch: Sync {
    /// So many more bytes of input have been read.
    fn advance(&self, _bytes: u64) {}
    /// Whether to give up.
    fn stopped(&self) -> bool {
        false
    }
}

impl Watch for () {}

/// How much of a pipe is kept in memory where it has to be read twice; what is longer goes to a file without a name.
const MOST_IN_MEMORY: usize = 64 << 20;

/// A table: one or several files, or something in memory, read as one.
pub struct Table {
    parts: Vec<Part>,
    strict: bool,
}

enum Part {
    Csv { input: CsvInput, options: CsvOptions },
    Parquet(PathBuf),
    ArrowFile(PathBuf),
    ArrowStream(PathBuf),
    Batches { batches: Vec<RecordBatch> },
    Stream(Box<OpenStream>),
}

/// Starts to read Arrow batches from the beginning.
pub type OpenStream = dyn Fn() -> Result<Box<dyn RecordBatchReader + Send>, Error> + Send + Sync;

pub(crate) enum CsvInput {
    Path(PathBuf),
    Stdin,
    Bytes {
        bytes: Arc<[u8]>,
        name: String,
    },
    /// A long pipe, under its name.
    Kept {
        file: Arc<File>,
        name: String,
    },
}

/// A copy of what can be read only once.
fn keep(mut once: impl Read, name: String, watch: &dyn Watch) -> Result<CsvInput, Error> {
    let failed = |error: io::Error| Error::Read { path: name.clone().into(), error };
    let on_disk = |error: io::Error| Error::Write { path: std::env::temp_dir(), error };
    let mut bytes = Vec::new();
    let mut block = vec![0; 1 << 20];
    let mut file: Option<File> = None;
    loop {
        if watch.stopped() {
            return Err(Error::Stopped);
        }
        let read = match once.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        watch.advance(read as u64);
        if let Some(file) = &mut file {
            file.write_all(&block[..read]).map_err(on_disk)?;
            continue;
        }
        bytes.extend_from_slice(&block[..read]);
        if bytes.len() > MOST_IN_MEMORY {
            let mut kept = tempfile::tempfile().map_err(on_disk)?;
            kept.write_all(&std::mem::take(&mut bytes)).map_err(on_disk)?;
            file = Some(kept);
        }
    }
    Ok(match file {
        Some(file) => CsvInput::Kept { file: Arc::new(file), name },
        None => CsvInput::Bytes { bytes: bytes.into(), name },
    })
}

/// Reads a file from some place on, whoever else reads it at the same time.
pub(crate) struct FromPlace {
    file: Arc<File>,
    at: u64,
}

impl FromPlace {
    pub fn new(file: &Arc<File>, at: u64) -> Self {
        Self { file: file.clone(), at }
    }
}

impl Read for FromPlace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&*self.file, buffer, self.at)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&*self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Table {
    /// The files as one table. `-` is standard input, as CSV. Formats are recognised by their first bytes: Parquet,
    /// Arrow IPC (file or stream), gzip (of CSV); everything else is CSV.
    pub fn open(paths: &[PathBuf], options: CsvOptions) -> Result<Self, Error> {
        if paths.is_empty() {
            return Err(Error::table("input", "no file is given"));
        }
        if paths.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            return Err(Error::table("stdin", "`-` is given twice; standard input can be read only once"));
        }
        let mut seen = HashSet::new();
        for real in paths.iter().filter_map(|path| path.canonicalize().ok()) {
            if !seen.insert(real.clone()) {
                return Err(Error::table(
                    real.display().to_string(),
                    "this file is given twice, so its rows would count twice; give it once",
                ));
            }
        }
        let parts = paths.iter().map(|path| Part::open(path, options)).collect::<Result<_, _>>()?;
        Ok(Self { parts, strict: false })
    }

    /// A CSV text in memory.
    pub fn from_csv_bytes(bytes: Vec<u8>) -> Self {
        let options = CsvOptions::default();
        Self {
            parts: vec![Part::Csv { input: CsvInput::Bytes { bytes: bytes.into(), name: "memory".into() }, options }],
            strict: false,
        }
    }

    /// Arrow batches in memory.
    pub fn from_batches(batches: Vec<RecordBatch>) -> Self {
        Self { parts: vec![Part::Batches { batches }], strict: false }
    }

    /// Arrow batches from elsewhere, such as another program's memory. They are asked for anew each time that the table is
    /// read, and must be the same then.
    pub fn from_stream(open: Box<OpenStream>) -> Self {
        Self { parts: vec![Part::Stream(open)], strict: false }
    }

    /// The same, fit to be read more than once: of what can be read only once, such as a pipe, a copy is kept, in memory if it is
    /// short, and otherwise in a file without a name, which is gone when the table is, or the process.
    pub fn rereadable(mut self, watch: &dyn Watch) -> Result<Self, Error> {
        for part in &mut self.parts {
            let name = part.name();
            let Part::Csv { input, .. } = part else { continue };
            let once: Box<dyn Read> = match input {
                CsvInput::Stdin => Box::new(io::stdin()),
                CsvInput::Path(path) if !path.is_file() => {
                    Box::new(File::open(&path).map_err(|error| Error::Read { path: path.clone(), error })?)
                }
                _ => continue,
            };
            *input = keep(once, name, watch)?;
        }
        Ok(self)
    }

    /// Whether [`Table::rereadable`] had to keep a copy on disk.
    pub fn is_kept_on_disk(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Csv { input: CsvInput::Kept { .. }, .. }))
    }

    /// Turns a cell that cannot be read, or a row of the wrong length, into an error.
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// The size of the files in bytes, where all of them have one.
    pub fn bytes(&self) -> Option<u64> {
        let size = |part: &Part| match (part, part.path()) {
            (_, Some(path)) => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len()),
            (Part::Csv { input: CsvInput::Bytes { bytes, .. }, .. }, _) => Some(bytes.len() as u64),
            (Part::Csv { input: CsvInput::Kept { file, .. }, .. }, _) => file.metadata().ok().map(|file| file.len()),
            _ => None,
        };
        self.parts.iter().map(size).sum()
    }

    /// Names of the columns and, where the format states them, their types; no value is looked at.
    pub fn fields(&self) -> Result<Vec<(String, Option<&'static str>)>, Error> {
        let Some(part) = self.parts.first() else { return Ok(Vec::new()) };
        match part {
            Part::Csv { input, options } => {
                Ok(csv::header(input, *options)?.into_iter().map(|name| (name, None)).collect())
            }
            _ => Ok(arrow::fields(&calmly(part, || part.arrow())?)),
        }
    }
}

impl Part {
    fn open(path: &Path, mut options: CsvOptions) -> Result<Self, Error> {
        if path.as_os_str() == "-" {
            return Ok(Self::Csv { input: CsvInput::Stdin, options });
        }
        let failed = |error| Error::Read { path: path.to_owned(), error };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::new(
                io::ErrorKind::IsADirectory,
                "this is a directory; give its files, such as 'dir/*.csv'",
            )));
        }
        let name = path.to_string_lossy().to_ascii_lowercase();
        if options.delimiter.is_none() && (name.ends_with(".tsv") || name.ends_with(".tsv.gz")) {
            options.delimiter = Some(b'\t');
        }
        if metadata.is_file() {
            let mut start = Vec::new();
            File::open(path).and_then(|file| file.take(8).read_to_end(&mut start)).map_err(failed)?;
            if start.starts_with(b"PAR1") {
                return Ok(Self::Parquet(path.to_owned()));
            } else if start.starts_with(b"ARROW1") {
                return Ok(Self::ArrowFile(path.to_owned()));
            } else if start.starts_with(&[0xff; 4]) {
                return Ok(Self::ArrowStream(path.to_owned()));
            }
            for (ending, what) in [(".parquet", "a Parquet"), (".arrow", "an Arrow IPC"), (".feather", "an Arrow IPC")]
            {
                if name.ends_with(ending) {
                    return Err(Error::table(
                        path.display().to_string(),
                        format!("this is not {what} file, though its name says so; make it again"),
                    ));
                }
            }
        }
        Ok(Self::Csv { input: CsvInput::Path(path.to_owned()), options })
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Csv { input: CsvInput::Path(path), .. }
            | Self::Parquet(path)
            | Self::ArrowFile(path)
            | Self::ArrowStream(path) => Some(path),
            Self::Csv { .. } | Self::Batches { .. } | Self::Stream(_) => None,
        }
    }

    fn name(&self) -> String {
        match (self, self.path()) {
            (_, Some(path)) => path.display().to_string(),
            (Self::Csv { input: CsvInput::Stdin, .. }, _) => "stdin".into(),
            (Self::Csv { input: CsvInput::Bytes { name, .. } | CsvInput::Kept { name, .. }, .. }, _) => name.clone(),
            _ => "memory".into(),
        }
    }

    fn arrow(&self) -> Result<arrow::Reader, Error> {
        match self {
            Self::Parquet(path) => arrow::Reader::parquet(path),
            Self::ArrowFile(path) => arrow::Reader::file(path),
            Self::ArrowStream(path) => arrow::Reader::stream(path),
            Self::Batches { batches } => Ok(arrow::Reader::memory(batches.clone())),
            Self::Stream(open) => Ok(arrow::Reader::other(open()?)),
            Self::Csv { .. } => unreachable!("CSV is not Arrow"),
        }
    }
}

/// A part that several threads read together, opened and checked against the schema.
trait Shared: Sync {
    /// Reads rows until there are none left for this worker.
    fn read(&self, intake: &mut Intake<'_>, watch: &dyn Watch) -> Result<(), Error>;
}

/// Adds up the features of all rows of a table on `threads` threads. Order, files and threads change nothing.
pub fn sketch(sketcher: &Sketcher, table: &Table, threads: usize, watch: &dyn Watch) -> Result<(Sums, Report), Error> {
    let mut partials: Vec<Partial<'_>> = (0..threads.max(1)).map(|_| sketcher.partial()).collect();
    let sinks = partials.iter_mut().map(|partial| partial as &mut dyn Sink).collect();
    let report = drain(table, sketcher.schema(), sketcher.layout(), sinks, watch)?;
    let mut all = partials.pop().expect("there is at least one worker");
    partials.into_iter().for_each(|partial| all.absorb(partial));
    Ok((all.finish(), report))
}

/// Reads a table whose rows are no secret (public data, or the reader's own) in the order of the file.
///
/// Only the columns of the schema are read; one that the table lacks is an error.
pub fn read(table: &Table, schema: &Schema, watch: &dyn Watch) -> Result<Vec<Panel>, Error> {
    let mut panels = Vec::new();
    drain(table, schema, &Layout::new(schema), vec![&mut panels], watch)?;
    Ok(panels)
}

/// Reads all rows of a table on as many threads as there are sinks.
fn drain(
    table: &Table,
    schema: &Schema,
    layout: &Arc<Layout>,
    sinks: Vec<&mut dyn Sink>,
    watch: &dyn Watch,
) -> Result<Report, Error> {
    // Every part is checked before the first is read, so that hours of work do not end in a missing column.
    for part in &table.parts {
        calmly(part, || check(part, schema))?;
    }
    let threads = sinks.len();
    let mut workers: Vec<Intake<'_>> = sinks
        .into_iter()
        .enumerate()
        .map(|(worker, sink)| Intake::new(schema, layout, sink, table.strict, worker, threads))
        .collect();
    for (index, part) in table.parts.iter().enumerate() {
        let shared: Box<dyn Shared> = match part {
            Part::Csv { input, options } => Box::new(csv::SharedCsv::open(input, *options, schema)?),
            _ => Box::new(calmly(part, || part.arrow()?.shared(schema))?),
        };
        let work = |intake: &mut Intake<'_>| {
            intake.start_part(index);
            shared.read(intake, watch)
        };
        let results: Vec<Result<(), Error>> = match &mut workers[..] {
            // One alone needs no thread of its own.
            [intake] => vec![calmly(part, || work(intake))],
            _ => std::thread::scope(|scope| {
                let running: Vec<_> = workers.iter_mut().map(|intake| scope.spawn(|| work(intake))).collect();
                running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(damaged(&part.name())))).collect()
            }),
        };
        for result in results {
            result?;
        }
        if watch.stopped() {
            return Err(Error::Stopped);
        }
        if table.strict && workers.iter().any(Intake::has_faults) {
            break;
        }
    }
    let names: Vec<String> = table.parts.iter().map(Part::name).collect();
    let mut report = Report::new(schema);
    let mut chunks = Vec::new();
    for worker in workers {
        let (chunk, counts) = worker.finish();
        report.absorb(&counts);
        chunks.extend(chunk);
    }
    report.locate(chunks, &names, schema);
    if table.strict
        && let Some(place) = &report.first
    {
        return Err(Error::table(&place.source, format!("{place} (strict reading); mend it, or leave out --strict")));
    }
    Ok(report)
}

fn check(part: &Part, schema: &Schema) -> Result<(), Error> {
    match part {
        Part::Csv { input: CsvInput::Path(path), options } if path.is_file() => {
            let names = csv::header(&CsvInput::Path(path.clone()), *options)?;
            csv::find_columns(&names, schema, &part.name()).map(|_| ())
        }
        // To look at it may mean to begin it.
        Part::Csv { .. } | Part::Stream(_) => Ok(()),
        _ => part.arrow()?.shared(schema).map(|_| ()),
    }
}

/// The column that identifies users, if there is one.
fn user_column(schema: &Schema) -> Option<&str> {
    match schema.unit() {
        Unit::Row => None,
        Unit::User { column, .. } => Some(column),
    }
}

/// The readers of columnar formats panic on some damaged files.
fn calmly<T>(part: &Part, open: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(open)).unwrap_or_else(|_| Err(damaged(&part.name())))
}

/// What a reader of another's format could not even refuse.
fn damaged(source: &str) -> Error {
    Error::table(source, "this file is damaged; make it again")
}

fn absent(source: &str, column: &str) -> Error {
    Error::table(
        source,
        format!(
            "there is no column `{column}`, which the schema has; check the header and --delimiter, or remove it from the schema"
        ),
    )
}
