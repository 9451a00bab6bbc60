//! Where records and fields begin and end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memchr2, memrchr};

use crate::Error;
use crate::source::csv::CsvOptions;
use crate::source::{CsvInput, FromPlace};

/// What one worker parses at a time.
const BLOCK: usize = 1 << 17;
/// Longer records are not looked at: a quote that is never closed ends here and not at the end of the file.
const MAX_RECORD: usize = 1 << 20;
/// Zeros behind a block, so that a few bytes can be read at any place in it.
pub(super) const PADDING: usize = 16;

/// Whole records in large blocks, from one reader.
pub(super) struct Blocks {
    input: Box<dyn Read + Send>,
    pub source: String,
    pub delimiter: u8,
    /// The beginning of a record whose end has not been read.
    rest: Vec<u8>,
    ended: bool,
    /// Counts the blocks.
    pub sequence: u64,
    /// In the rest of a record that was too long.
    skipping: bool,
}

impl Blocks {
    /// Opens the input and reads its header.
    pub fn open(input: &CsvInput, options: CsvOptions) -> Result<(Self, Vec<String>), Error> {
        let (reader, source): (Box<dyn Read + Send>, String) = match input {
            CsvInput::Path(path) => {
                let file = File::open(path).map_err(|error| Error::Read { path: path.clone(), error })?;
                (Box::new(file), path.display().to_string())
            }
            CsvInput::Stdin => (Box::new(io::stdin()), "stdin".into()),
            CsvInput::Bytes { bytes, name } => (Box::new(io::Cursor::new(bytes.clone())), name.clone()),
            CsvInput::Kept { file, name } => (Box::new(FromPlace::new(file, 0)), name.clone()),
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
    fn fill(&mut self, target: usize) -> Result<(), Error> {
        let wanted = target.saturating_sub(self.rest.len()) as u64;
        match self.input.by_ref().take(wanted).read_to_end(&mut self.rest) {
            Ok(read) => {
                self.ended |= (read as u64) < wanted;
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof) => {
                let message = format!("the gzip data is damaged or cut off ({error}); make the file again");
                Err(Error::table(&self.source, message))
            }
            Err(error) => Err(Error::Read { path: self.source.clone().into(), error }),
        }
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
    pub fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, Error> {
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
                // Cut short, unless this is the end of the input.
                self.skipping = !(self.ended && self.rest.is_empty());
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
pub(super) fn field(bytes: &[u8], at: usize, start: usize, delimiter: u8) -> (Cow<'_, [u8]>, usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
