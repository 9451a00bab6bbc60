//! CSV: quotes, gzip, any column order, any delimiter, in blocks that several threads parse at once.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Mutex;

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memchr2, memrchr};

use crate::panel::Slot;
use crate::source::cell::Cell;
use crate::source::intake::Intake;
use crate::source::{CsvInput, Shared, Watch, absent, user_column};
use crate::{Error, Schema};

/// How a CSV file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CsvOptions {
    /// What stands between fields: a comma, or a tab when the name ends in `.tsv`, unless given.
    pub delimiter: Option<u8>,
}

impl CsvOptions {
    fn delimiter(self) -> u8 {
        self.delimiter.unwrap_or(b',')
    }
}

/// What one worker parses at a time.
const BLOCK: usize = 1 << 18;
/// Longer records are not looked at: a quote that is never closed ends here and not at the end of the file.
const MAX_RECORD: usize = 1 << 20;
/// Zeros behind a block, so that eight bytes can be read at any place in it.
const PADDING: usize = 16;

/// The names in the header.
pub(crate) fn header(input: &CsvInput, options: CsvOptions) -> Result<Vec<String>, Error> {
    Blocks::open(input, options).map(|(_, names)| names)
}

/// Which field holds which column.
pub(crate) fn find_columns(names: &[String], schema: &Schema, source: &str) -> Result<Vec<Field>, Error> {
    let mut fields: Vec<Field> = names.iter().map(|_| Field::Ignored).collect();
    let mut place = |name: &str, field: Field| {
        let mut found = names.iter().enumerate().filter(|(_, other)| *other == name);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => {
                fields[at] = field;
                Ok(())
            }
            (Some(_), Some(_)) => Err(Error::table(source, format!("the header has `{name}` twice"))),
            (None, _) => Err(absent(source, name)),
        }
    };
    for (index, column) in schema.columns().iter().enumerate() {
        place(&column.name, Field::Column(index))?;
    }
    if let Some(user) = user_column(schema) {
        place(user, Field::User)?;
    }
    Ok(fields)
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Field {
    Ignored,
    Column(usize),
    User,
}

/// Whole records in large blocks, from one reader.
struct Blocks {
    input: Box<dyn Read + Send>,
    source: String,
    delimiter: u8,
    /// The beginning of a record whose end has not been read.
    rest: Vec<u8>,
    ended: bool,
    sequence: u64,
    /// In the rest of a record that was too long.
    skipping: bool,
}

impl Blocks {
    /// Opens the input and reads its header.
    fn open(input: &CsvInput, options: CsvOptions) -> Result<(Self, Vec<String>), Error> {
        let (reader, source): (Box<dyn Read + Send>, String) = match input {
            CsvInput::Path(path) => {
                let file = File::open(path).map_err(|error| Error::Read { path: path.clone(), error })?;
                (Box::new(file), path.display().to_string())
            }
            CsvInput::Stdin => (Box::new(io::stdin()), "stdin".into()),
            CsvInput::Bytes(bytes) => (Box::new(io::Cursor::new(bytes.clone())), "memory".into()),
        };
        let mut blocks = Self {
            input: reader,
            source,
            delimiter: options.delimiter(),
            rest: Vec::new(),
            ended: false,
            sequence: 0,
            skipping: false,
        };
        let mut block = Vec::new();
        // Enough to tell whether it is gzip; a header may need more.
        blocks.fill(4)?;
        if blocks.rest.starts_with(&[0x1f, 0x8b]) {
            let start = io::Cursor::new(std::mem::take(&mut blocks.rest));
            let input = std::mem::replace(&mut blocks.input, Box::new(io::empty()));
            blocks.input = Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(start.chain(input))));
            blocks.ended = false;
            blocks.fill(4)?;
        }
        if blocks.rest.starts_with(b"\xef\xbb\xbf") {
            blocks.rest.drain(..3);
        }
        if !blocks.next(&mut block)? {
            return Err(Error::table(&blocks.source, "it is empty; a CSV file starts with a header of column names"));
        }
        let end = first_record(&block, blocks.delimiter);
        let names =
            split(&block[..end], blocks.delimiter).map(|field| String::from_utf8_lossy(&field).into_owned()).collect();
        let text_end = block.len() - PADDING;
        let mut rest = block[end.min(text_end)..text_end].to_vec();
        rest.append(&mut blocks.rest);
        blocks.rest = rest;
        blocks.sequence = 0;
        Ok((blocks, names))
    }

    /// Reads until `rest` holds so many bytes or the input ends.
    fn fill(&mut self, target: usize) -> Result<u64, Error> {
        let before = self.rest.len();
        self.rest.resize(target.max(before), 0);
        let mut at = before;
        while at < target {
            match self.input.read(&mut self.rest[at..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let hint = if error.kind() == io::ErrorKind::InvalidInput
                        || error.kind() == io::ErrorKind::UnexpectedEof
                    {
                        "; the gzip data is damaged or cut off"
                    } else {
                        ""
                    };
                    return Err(Error::table(&self.source, format!("reading failed: {error}{hint}")));
                }
            }
        }
        self.rest.truncate(at);
        Ok((at - before) as u64)
    }

    /// Drops what is left of a record that was cut, so that it counts as one row.
    fn skip_long_record(&mut self) -> Result<(), Error> {
        while self.skipping {
            match memchr(b'\n', &self.rest) {
                Some(newline) => {
                    self.rest.drain(..=newline);
                    self.skipping = false;
                }
                None => {
                    self.rest.clear();
                    self.skipping = !self.ended;
                    if self.skipping {
                        self.fill(BLOCK)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts whole records into `block`, each ended by a newline, followed by [`PADDING`] zeros. False at the end.
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, Error> {
        self.skip_long_record()?;
        let mut target = BLOCK;
        loop {
            if !self.ended && self.rest.len() < target {
                self.fill(target)?;
            }
            let end = match last_record(&self.rest, self.delimiter, self.ended) {
                Some(end) => end,
                None => {
                    target = self.rest.len() + BLOCK;
                    continue;
                }
            };
            block.clear();
            if end == 0 {
                return Ok(false);
            }
            std::mem::swap(block, &mut self.rest);
            self.rest.clear();
            self.rest.extend_from_slice(&block[end..]);
            block.truncate(end);
            if block.last() != Some(&b'\n') {
                self.skipping = true;
                block.push(b'\n');
            }
            block.extend_from_slice(&[0; PADDING]);
            self.sequence += 1;
            return Ok(true);
        }
    }
}

/// The end of the last whole record, or nothing when more must be read to know one.
///
/// A newline ends a record unless it stands in a quoted field. A quote opens one only at the start of a field, and
/// only if it is closed within [`MAX_RECORD`] bytes of the record's start. A record that long is cut there.
fn last_record(bytes: &[u8], delimiter: u8, ended: bool) -> Option<usize> {
    if bytes.len() < MAX_RECORD && memchr(b'"', bytes).is_none() {
        return if ended { Some(bytes.len()) } else { memrchr(b'\n', bytes).map(|newline| newline + 1) };
    }
    let (mut start, mut at) = (0, 0);
    loop {
        let window = bytes.len().min(start + MAX_RECORD);
        let Some(found) = memchr2(b'"', b'\n', &bytes[at..window]).map(|found| at + found) else { break };
        at = found + 1;
        if bytes[found] == b'\n' {
            start = at;
        } else if opens(bytes, found, start, delimiter) {
            match closing_quote(bytes, found, start) {
                // Only the byte after a quote tells whether it closes.
                Some(close) if close + 1 < bytes.len() || ended => at = close + 1,
                None if ended || window == start + MAX_RECORD => {}
                _ => break,
            }
        }
    }
    match bytes.len() - start {
        left if left < MAX_RECORD && ended => Some(bytes.len()),
        _ if start > 0 => Some(start),
        left if left >= MAX_RECORD => Some(MAX_RECORD),
        _ => None,
    }
}

/// The end of the first record of a block of whole records.
fn first_record(block: &[u8], delimiter: u8) -> usize {
    let mut at = 0;
    while let Some(found) = memchr2(b'"', b'\n', &block[at..]).map(|found| at + found) {
        if found >= MAX_RECORD {
            return MAX_RECORD;
        }
        at = found + 1;
        if block[found] == b'\n' {
            return at;
        }
        if opens(block, found, 0, delimiter)
            && let Some(close) = closing_quote(block, found, 0)
        {
            at = close + 1;
        }
    }
    block.len()
}

fn opens(bytes: &[u8], quote: usize, start: usize, delimiter: u8) -> bool {
    quote == start || bytes[quote - 1] == delimiter
}

/// Where the field that a quote opens is closed, within the limit of a record. Two quotes stand for one.
fn closing_quote(bytes: &[u8], open: usize, start: usize) -> Option<usize> {
    let limit = bytes.len().min(start + MAX_RECORD);
    let mut at = open + 1;
    while at < limit {
        let close = at + memchr(b'"', &bytes[at..limit])?;
        if bytes.get(close + 1) == Some(&b'"') && close + 1 < limit {
            at = close + 2;
        } else {
            return Some(close);
        }
    }
    None
}

/// The field that starts at `at`, without quotes and surrounding blanks, and where its delimiter or newline is.
fn field(bytes: &[u8], at: usize, start: usize, delimiter: u8) -> (Cow<'_, [u8]>, usize) {
    if bytes[at] == b'"'
        && let Some(close) = closing_quote(bytes, at, start)
    {
        let end = close + 1 + memchr2(delimiter, b'\n', &bytes[close + 1..]).unwrap_or(bytes.len() - close - 1);
        let quoted = &bytes[at + 1..close];
        let tail = bytes[close + 1..end].trim_ascii();
        if memchr(b'"', quoted).is_none() && tail.is_empty() {
            return (quoted.into(), end);
        }
        let mut text = Vec::with_capacity(quoted.len());
        let mut pairs = quoted.iter().peekable();
        while let Some(byte) = pairs.next() {
            text.push(*byte);
            if *byte == b'"' {
                pairs.next_if_eq(&&b'"');
            }
        }
        text.extend_from_slice(tail);
        return (text.into(), end);
    }
    let end = at + memchr2(delimiter, b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
    (bytes[at..end].trim_ascii().into(), end)
}

/// The fields of one record.
fn split(record: &[u8], delimiter: u8) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let start = at?;
        if start >= record.len() {
            at = None;
            return Some(Cow::Borrowed(&b""[..]));
        }
        let (text, end) = field(record, start, 0, delimiter);
        at = if end < record.len() { Some(end + 1) } else { None };
        Some(text)
    })
}

/// A CSV input that several workers share.
pub(crate) struct SharedCsv {
    blocks: Mutex<Blocks>,
    fields: Vec<Field>,
    delimiter: u8,
}

impl SharedCsv {
    pub fn open(input: &CsvInput, options: CsvOptions, schema: &Schema) -> Result<Self, Error> {
        let (blocks, names) = Blocks::open(input, options)?;
        let fields = find_columns(&names, schema, &blocks.source)?;
        Ok(Self { delimiter: blocks.delimiter, blocks: Mutex::new(blocks), fields })
    }
}

impl Shared for SharedCsv {
    fn read(&self, intake: &mut Intake<'_>, watch: &dyn Watch) -> Result<(), Error> {
        let plan: Vec<Action> = self.fields.iter().map(|field| Action::new(*field, intake)).collect();
        let mut block = Vec::new();
        while !watch.stopped() && !intake.should_stop() {
            let sequence = {
                let mut blocks = self.blocks.lock().expect("no reader panics");
                if !blocks.next(&mut block)? {
                    break;
                }
                blocks.sequence
            };
            self.parse(&plan, &block, intake);
            intake.end_chunk(sequence);
            watch.advance((block.len() - PADDING) as u64);
        }
        Ok(())
    }
}

/// What is done with a field.
#[derive(Clone, Copy)]
enum Action {
    Skip,
    /// A number with nothing special about it, into this slot.
    Number {
        slot: usize,
        column: usize,
    },
    Cell {
        column: usize,
    },
    User,
}

impl Action {
    fn new(field: Field, intake: &Intake<'_>) -> Self {
        match field {
            Field::Ignored => Self::Skip,
            Field::User => Self::User,
            Field::Column(column) => match intake.slot(column) {
                Slot::Unit(slot) if intake.readers[column].is_plain_number() => Self::Number { slot, column },
                _ => Self::Cell { column },
            },
        }
    }
}

impl SharedCsv {
    /// Parses a block of whole records, each ended by a newline, with padding behind the last.
    fn parse(&self, plan: &[Action], padded: &[u8], intake: &mut Intake<'_>) {
        let delimiter = self.delimiter;
        let block = &padded[..padded.len() - PADDING];
        let mut at = 0;
        while at < block.len() {
            let start = at;
            if plan.len() > 1 && is_blank(block, start) {
                at = end_of_line(block, start) + 1;
                continue;
            }
            let mut filled = 0;
            // Whether a delimiter follows the fields read so far.
            let mut more = true;
            for action in plan {
                at = match *action {
                    Action::Number { slot, column } => match plain_number(padded, at, delimiter) {
                        Some((value, end)) => {
                            intake.put_number(slot, value);
                            end
                        }
                        None => put_cell(intake, column, field(block, at, start, delimiter)),
                    },
                    Action::Cell { column } => put_cell(intake, column, field(block, at, start, delimiter)),
                    Action::Skip => field(block, at, start, delimiter).1,
                    Action::User => {
                        let (text, end) = field(block, at, start, delimiter);
                        intake.put_user(if text.is_empty() { None } else { Some(&text) });
                        end
                    }
                };
                filled += 1;
                more = padded[at] == delimiter;
                if !more {
                    break;
                }
                at += 1;
            }
            if filled < plan.len() {
                fill_short_row(&plan[filled..], intake);
            }
            if more {
                intake.ragged();
                while padded[at.min(block.len())] != b'\n' && at < block.len() {
                    at = field(block, at, start, delimiter).1;
                    at += usize::from(padded[at] == delimiter);
                }
            }
            intake.advance(1);
            at += 1;
        }
    }
}

fn fill_short_row(absent: &[Action], intake: &mut Intake<'_>) {
    for action in absent {
        match *action {
            Action::Number { column, .. } | Action::Cell { column } => intake.put(column, Cell::Missing),
            Action::User => intake.put_user(None),
            Action::Skip => {}
        }
    }
    intake.ragged();
}

fn put_cell(intake: &mut Intake<'_>, column: usize, (text, end): (Cow<'_, [u8]>, usize)) -> usize {
    let cell = intake.readers[column].text(&text);
    intake.put(column, cell);
    end
}

/// Whether nothing but the end of the line stands here.
fn is_blank(block: &[u8], at: usize) -> bool {
    match block[at] {
        b'\n' => true,
        b'\r' => block.get(at + 1) == Some(&b'\n'),
        _ => false,
    }
}

fn end_of_line(block: &[u8], at: usize) -> usize {
    memchr(b'\n', &block[at..]).map_or(block.len(), |newline| at + newline)
}

/// A number of the form `-123.456` that fills its field, and where the field's delimiter or newline is. Anything else,
/// also a longer number, is left to the general path.
///
/// At most 19 digits whose value is below 2⁵³ divided by a power of ten up to 10²²: both are exact, so the one division
/// rounds correctly.
#[inline(always)]
fn plain_number(padded: &[u8], start: usize, delimiter: u8) -> Option<(f64, usize)> {
    const POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22,
    ];
    let negative = padded[start] == b'-';
    let mut at = start + usize::from(negative);
    let first = at;
    let mut mantissa = 0u64;
    while padded[at].is_ascii_digit() {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(padded[at] - b'0'));
        at += 1;
    }
    let mut digits = at - first;
    let mut places = 0;
    if padded[at] == b'.' {
        at += 1;
        loop {
            let word: [u8; 8] = padded.get(at..at + 8)?.try_into().ok()?;
            let (value, count) = leading_digits(u64::from_le_bytes(word));
            const TENS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
            mantissa = mantissa.wrapping_mul(TENS[count]).wrapping_add(value);
            places += count;
            at += count;
            if count < 8 || places > 16 {
                break;
            }
        }
        digits += places;
    }
    if padded[at] == b'\r' {
        at += 1;
    }
    let ended = padded[at] == b'\n' || (padded[at] == delimiter && padded[at - 1] != b'\r');
    if !ended || digits == 0 || digits > 19 || mantissa >= 1 << 53 {
        return None;
    }
    let value = mantissa as i64 as f64 / POWERS[places];
    Some((if negative { -value } else { value }, at))
}

/// The number that the leading ASCII digits of eight bytes spell, and how many there are.
#[inline(always)]
fn leading_digits(word: u64) -> (u64, usize) {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let values = word ^ ZEROS;
    // The top bit of each byte that is no digit: 0x76 carries from 10 on.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // Move the digits to the end and put zeros before them.
    let shift = 8 * (8 - count as u32);
    let digits = if shift == 0 { values } else { values << shift };
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    (low.wrapping_add(high) >> 32, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(text: &str) -> Vec<u8> {
        [text.as_bytes(), &[0; PADDING]].concat()
    }

    #[test]
    fn plain_numbers() {
        for text in [
            "0",
            "-0.5",
            "12345.678901",
            "0.000001",
            "123456789012345",
            "-0.12345678901234567",
            "9007199254740991",
            "1.",
        ] {
            let (value, end) = plain_number(&padded(&format!("{text},")), 0, b',').unwrap();
            assert_eq!((value, end), (text.parse().unwrap(), text.len()), "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "1e5",
            "+1",
            "nan",
            "inf",
            "12a",
            " 1",
            "1 ",
            "\"1\"",
            "9007199254740993",
            "1.2.3",
            "1\r",
            "\r",
        ] {
            assert_eq!(plain_number(&padded(&format!("{text},")), 0, b','), None, "{text}");
        }
    }

    proptest! {
        /// Where the quick path answers, it answers what the standard library answers.
        #[test]
        fn plain_numbers_round_correctly(text in "-?[0-9]{0,12}(\\.[0-9]{0,12})?") {
            if let Some((value, end)) = plain_number(&padded(&format!("{text}\n")), 0, b',') {
                prop_assert_eq!(end, text.len());
                prop_assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits());
            }
        }

        /// However the input is cut into reads, the records are the same.
        #[test]
        fn cutting_changes_nothing(text in "([a-c,\"\n]|\r\n){0,60}", cut in 1usize..20) {
            let bytes = text.as_bytes();
            let mut whole = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let end = at + first_record(&bytes[at..], b',');
                whole.push(bytes[at..end].to_vec());
                at = end;
            }
            let mut pieces = Vec::new();
            let mut rest: Vec<u8> = Vec::new();
            let mut read = 0;
            loop {
                let next = (read + cut).min(bytes.len());
                rest.extend_from_slice(&bytes[read..next]);
                read = next;
                let ended = read == bytes.len();
                if let Some(end) = last_record(&rest, b',', ended) {
                    let block: Vec<u8> = rest.drain(..end).collect();
                    let mut at = 0;
                    while at < block.len() {
                        let end = at + first_record(&block[at..], b',');
                        pieces.push(block[at..end].to_vec());
                        at = end;
                    }
                }
                if ended && rest.is_empty() { break; }
            }
            prop_assert_eq!(pieces, whole);
        }
    }

    #[test]
    fn fields_follow_the_quotes() {
        let fields = |text: &str| {
            split(text.as_bytes(), b',').map(|field| String::from_utf8(field.into_owned()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(fields("a, b ,\"c,\n\"\"d\",e\"f\r\n"), ["a", "b", "c,\n\"d", "e\"f"]);
        assert_eq!(fields("a,"), ["a", ""]);
        assert_eq!(fields(""), [""]);
        assert_eq!(fields("\"never closed,x"), ["\"never closed", "x"]);
        assert_eq!(fields("\"a\"b,c"), ["ab", "c"]);
    }
}
