//! Numbers of a Parquet file that lie in it as they are: uncompressed pages of plain double-precision numbers, none of
//! them missing. They are read from where they lie, a few thousand rows at a time, so that they stay in the nearest caches
//! on their way; a general reader takes them through three copies in memory.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::source::FromPlace;

/// The columns of one row group.
pub(crate) struct Plain {
    file: Arc<File>,
    columns: Vec<Vec<Run>>,
    rows: usize,
}

/// Rows of a column that follow one another in the file.
struct Run {
    first: usize,
    rows: usize,
    at: u64,
}

const BYTES: usize = size_of::<f64>();

impl Plain {
    /// Where the numbers of some columns lie in a row group; nothing unless all of them lie there as they are.
    pub fn find(file: &File, metadata: &ArrowReaderMetadata, group: usize, columns: &[usize]) -> Option<Self> {
        if cfg!(target_endian = "big") {
            return None;
        }
        let file = Arc::new(file.try_clone().ok()?);
        let group = metadata.metadata().row_group(group);
        let rows = usize::try_from(group.num_rows()).ok()?;
        // A nested column would have several leaves, and those after it another place.
        if group.num_columns() != metadata.schema().fields().len() {
            return None;
        }
        let columns = columns
            .iter()
            .map(|column| {
                let chunk = group.column(*column);
                let kind = chunk.column_descr();
                // What a number means is the other reader's to say, so that both must take it for the same.
                let plain = *metadata.schema().field(*column).data_type() == DataType::Float64
                    && chunk.column_type() == Type::DOUBLE
                    && chunk.compression() == Compression::UNCOMPRESSED
                    && kind.max_rep_level() == 0
                    && kind.max_def_level() <= 1;
                if !plain {
                    return None;
                }
                let headers = Arc::new(Headers { file: file.clone(), body: Mutex::new(None) });
                let mut pages = SerializedPageReader::new(headers.clone(), chunk, rows, None).ok()?;
                let mut runs = Vec::new();
                let mut first = 0;
                while let Some(page) = pages.get_next_page().ok()? {
                    let (start, length) = headers.body.lock().unwrap_or_else(PoisonError::into_inner).take()?;
                    let (count, before) = values(&page, kind.max_def_level() == 1, &file, start)?;
                    if length.checked_sub(before)? != count as u64 * BYTES as u64 {
                        return None;
                    }
                    runs.push(Run { first, rows: count, at: start + before });
                    first += count;
                }
                (first == rows).then_some(runs)
            })
            .collect::<Option<_>>()?;
        Some(Self { file, columns, rows })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of a column from a row on, as many as there is space for.
    pub fn read(&self, column: usize, first: usize, numbers: &mut [f64]) -> io::Result<()> {
        let runs = &self.columns[column];
        let mut run = runs.partition_point(|run| run.first + run.rows <= first);
        let mut done = 0;
        while done < numbers.len() {
            let found = runs.get(run).ok_or(io::ErrorKind::UnexpectedEof)?;
            let within = first + done - found.first;
            let count = (found.rows - within).min(numbers.len() - done);
            let bytes = bytemuck::cast_slice_mut(&mut numbers[done..done + count]);
            FromPlace::new(&self.file, found.at + (within * BYTES) as u64).read_exact(bytes)?;
            done += count;
            run += 1;
        }
        Ok(())
    }
}

/// How many numbers a page has and how many bytes stand before them; nothing if they are not plain or one is missing.
fn values(page: &Page, nullable: bool, file: &Arc<File>, start: u64) -> Option<(usize, u64)> {
    match page {
        Page::DataPage { num_values, encoding: Encoding::PLAIN, def_level_encoding: Encoding::RLE, .. } => {
            let mut length = [0; 4];
            if nullable {
                FromPlace::new(file, start).read_exact(&mut length).ok()?;
            }
            let length = u32::from_le_bytes(length);
            let before = if nullable { 4 + u64::from(length) } else { 0 };
            all_present(file, start + 4, length, nullable, *num_values).then_some((*num_values as usize, before))
        }
        Page::DataPageV2 {
            num_values,
            encoding: Encoding::PLAIN,
            num_nulls: 0,
            def_levels_byte_len,
            rep_levels_byte_len: 0,
            ..
        } => {
            let length = *def_levels_byte_len;
            all_present(file, start, length, nullable, *num_values).then_some((*num_values as usize, u64::from(length)))
        }
        _ => None,
    }
}

/// Whether the bytes that say which values of a page are present say that all are; there are none in a column where all
/// have to be. They are runs, each with twice its length as a variable-length number and the level.
fn all_present(file: &Arc<File>, start: u64, length: u32, nullable: bool, values: u32) -> bool {
    /// Enough for a few runs, and few where there are no missing values.
    const MOST: u32 = 256;
    if !nullable || length > MOST {
        return !nullable && length == 0;
    }
    let mut levels = vec![0; length as usize];
    if FromPlace::new(file, start).read_exact(&mut levels).is_err() {
        return false;
    }
    let mut levels = levels.into_iter();
    let mut next_run = || {
        let mut run = 0u64;
        for place in 0..5 {
            let byte = levels.next()?;
            run |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                // An odd number announces levels bit by bit.
                let whole = run.is_multiple_of(2) && (1..=i32::MAX as u64).contains(&(run / 2)) && levels.next()? == 1;
                return whole.then_some(run / 2);
            }
        }
        None
    };
    let mut present = 0;
    while present < u64::from(values) {
        match next_run() {
            Some(run) => present += run,
            None => return false,
        }
    }
    true
}

/// A file of which only the headers of pages are read. What a page holds is noted by its place, and zeros stand for it.
struct Headers {
    file: Arc<File>,
    /// The first byte of the page after the last header, and its length.
    body: Mutex<Option<(u64, u64)>>,
}

impl Length for Headers {
    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }
}

impl ChunkReader for Headers {
    type T = BufReader<FromPlace>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(512, FromPlace::new(&self.file, start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF("a page ends after its file".into()));
        }
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = Some((start, length as u64));
        Ok(vec![0; length].into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Table, sketch};
    use crate::sums::Sketcher;
    use crate::{Design, Schema};
    use arrow_array::{ArrayRef, Float64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderOptions;
    use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};

    const ROWS: usize = 5_000;

    /// A column of numbers that are all there and one whose `missing` is not.
    fn batch(missing: Option<usize>, nullable: bool, odd: f64) -> RecordBatch {
        let number = |row: usize| if row == 3_210 { odd } else { (row * 7_919 % 1_009) as f64 / 1_009.0 };
        let a: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(number)));
        let b: ArrayRef = match nullable {
            true => Arc::new(Float64Array::from_iter(
                (0..ROWS).map(|row| (Some(row) != missing).then(|| 1.0 - row as f64 / ROWS as f64)),
            )),
            false => Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| 1.0 - row as f64 / ROWS as f64))),
        };
        RecordBatch::try_from_iter_with_nullable([("a", a, false), ("b", b, nullable)]).unwrap()
    }

    fn plain() -> WriterPropertiesBuilder {
        // Pages of one column end in the middle of pages of the other, and row groups within both.
        WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(700)
            .set_write_batch_size(100)
            .set_max_row_group_row_count(Some(2_300))
    }

    /// Whether all row groups can be read where they lie, once the sums were found to be those of the same rows in memory.
    fn in_place(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let mut writer =
            ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();

        let schema = Schema::from_toml(
            "[[column]]\nname='b'\ntype='number'\nmin=0\nmax=1\n[[column]]\nname='a'\ntype='number'\nmin=0\nmax=0.9",
        )
        .unwrap();
        let sketcher = Sketcher::new(&schema, &Design::parse("rff:m=20").unwrap()).unwrap();
        let sums = |table: Table, threads| {
            let (sums, report) = sketch(&sketcher, &table, threads, &()).unwrap();
            (sums.to_secret_bytes(), report.rows, report.outside, report.unreadable)
        };
        let expected = sums(Table::from_batches(vec![batch.clone()]), 1);
        for threads in 1..4 {
            let table = Table::open(std::slice::from_ref(&path), Default::default()).unwrap();
            assert!(sums(table, threads) == expected, "{threads} threads");
        }

        let file = File::open(&path).unwrap();
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).unwrap();
        let found =
            (0..metadata.metadata().num_row_groups()).map(|group| Plain::find(&file, &metadata, group, &[1, 0]));
        found.fold(true, |all, plain| all & plain.is_some())
    }

    #[test]
    fn plain_pages_are_read_where_they_lie() {
        for nullable in [false, true] {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                for odd in [0.5, f64::NAN, f64::INFINITY] {
                    let properties = plain().set_writer_version(version).set_encoding(Encoding::PLAIN);
                    assert!(in_place(&batch(None, nullable, odd), properties));
                }
            }
        }
    }

    /// A type that says that nothing is known of a column makes all of it missing, numbers or not.
    #[test]
    fn a_column_of_unknown_type_is_missing() {
        use parquet::data_type::DoubleType;
        use parquet::file::writer::SerializedFileWriter;
        let message = "message t { optional double x (UNKNOWN); }";
        let kind = Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let properties = Arc::new(plain().build());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), kind, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[0.5; 16], Some(&[1; 16]), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let schema = Schema::from_toml("[[column]]\nname='x'\ntype='number'\nmin=0\nmax=1").unwrap();
        let sketcher = Sketcher::new(&schema, &Design::parse("hist").unwrap()).unwrap();
        let table = Table::open(&[path], Default::default()).unwrap();
        let (_, report) = sketch(&sketcher, &table, 1, &()).unwrap();
        assert_eq!((report.rows, report.unreadable_cells()), (16, 16));
    }

    #[test]
    fn levels_must_say_that_all_are_present() {
        let said = |levels: &[u8], values: u32| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), levels).unwrap();
            let file = Arc::new(file.reopen().unwrap());
            all_present(&file, 0, levels.len() as u32, true, values)
        };
        assert!(said(&[32, 1], 16) && said(&[0xa0, 0x00, 1], 16) && said(&[16, 1, 16, 1], 16) && said(&[], 0));
        // One level short, missing ones, bit by bit, a run of none, one without an end, one too long.
        assert!(
            !said(&[30, 1], 16) && !said(&[32, 0], 16) && !said(&[16, 1, 16, 0], 16) && !said(&[5, 0xff, 0xff], 16)
        );
        assert!(!said(&[0, 1, 32, 1], 16) && !said(&[0xa0, 0x80, 0x80, 0x80, 0x80, 1, 1], 16));
        assert!(!said(&[0xfe, 0xff, 0xff, 0xff, 0x1f, 1], 16) && !said(&[32], 16) && !said(&[], 16));
    }

    #[test]
    fn all_other_pages_are_left_to_the_general_reader() {
        let full = batch(None, true, 0.5);
        assert!(!in_place(&batch(Some(4_321), true, 0.5), plain()));
        assert!(!in_place(&full, plain().set_compression(Compression::SNAPPY)));
        assert!(!in_place(&full, plain().set_dictionary_enabled(true)));
        assert!(!in_place(&full, plain().set_encoding(Encoding::BYTE_STREAM_SPLIT)));
    }
}
