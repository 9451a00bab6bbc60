//! The curator's file of secret sums.
//!
//! ```text
//! "M2MSUMS\x01" | header length u64 | header JSON {schema, design} | rows i128 | sums i128 … | users u64 | 32 bytes … | SHA-256
//! ```
//! All integers little-endian. Only the owner may read it (mode 0600), and nothing on the analyst's side opens it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Sums;
use crate::file::{Mode, write};
use crate::{Design, Error, Schema};

pub(crate) const MAGIC: &[u8; 8] = b"M2MSUMS\x01";
const MAX_HEADER: u64 = 1 << 28;

#[derive(Serialize, Deserialize)]
struct Header {
    schema: Schema,
    design: Design,
}

/// The public part of a file of sums, read without looking at a sum.
pub struct SumsFile {
    schema: Schema,
    design: Design,
    sizes: Vec<usize>,
    input: Hashing<Box<dyn Read + Send>>,
    name: String,
}

impl Sums {
    /// Writes the secret file.
    pub fn save(&self, path: &Path, replace: bool) -> Result<(), Error> {
        write(path, replace, Mode::Secret, |file| self.write_to(BufWriter::new(file)))
    }

    /// What the secret file holds, to be sent to where sums are merged: as secret as the table.
    pub fn to_secret_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes).expect("memory can be written");
        bytes
    }

    /// Reads what [`Sums::to_secret_bytes`] made.
    pub fn from_secret_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        SumsFile::of(Box::new(io::Cursor::new(bytes)), "this".into())?.read()
    }

    fn write_to(&self, out: impl Write) -> io::Result<()> {
        let header = serde_json::to_vec(&Header { schema: self.schema.clone(), design: self.design.clone() })
            .expect("a header has a JSON form");
        let mut out = Hashing { inner: out, hash: Sha256::new() };
        out.put(MAGIC)?;
        out.put(&(header.len() as u64).to_le_bytes())?;
        out.put(&header)?;
        out.put(&self.rows.to_le_bytes())?;
        for sum in self.blocks.iter().flatten() {
            out.put(&sum.to_le_bytes())?;
        }
        out.put(&(self.users.len() as u64).to_le_bytes())?;
        for user in &self.users {
            out.put(user)?;
        }
        let Hashing { mut inner, hash } = out;
        inner.write_all(&hash.finalize())?;
        inner.flush()
    }

    /// Reads a secret file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        SumsFile::open(path)?.read()
    }
}

impl SumsFile {
    /// Opens a file of sums and reads its public header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
        Self::of(Box::new(BufReader::new(file)), name)
    }

    fn of(inner: Box<dyn Read + Send>, name: String) -> Result<Self, Error> {
        let mut input = Hashing { inner, hash: Sha256::new() };
        let magic: [u8; 8] = input.take().map_err(|_| foreign(&name))?;
        if &magic != MAGIC {
            return Err(foreign(&name));
        }
        let length = u64::from_le_bytes(input.take().map_err(|_| damaged(&name))?);
        if length > MAX_HEADER {
            return Err(damaged(&name));
        }
        let mut header = Vec::new();
        (&mut input.inner).take(length).read_to_end(&mut header).map_err(|_| damaged(&name))?;
        input.hash.update(&header);
        let Header { schema, design } = serde_json::from_slice(&header).map_err(|_| damaged(&name))?;
        let sizes =
            design.blocks().iter().map(|block| Ok(block.map.shape(&schema)?.0)).collect::<Result<_, Error>>()?;
        Ok(Self { schema, design, sizes, input, name })
    }

    /// The schema of the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The design of the features.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// Reads the sums themselves.
    pub fn read(self) -> Result<Sums, Error> {
        let Self { schema, design, sizes, mut input, name } = self;
        let mut body = || -> io::Result<_> {
            let rows = i128::from_le_bytes(input.take()?);
            let mut blocks = Vec::with_capacity(sizes.len());
            for size in &sizes {
                let mut block = Vec::new();
                for _ in 0..*size {
                    block.push(i128::from_le_bytes(input.take()?));
                }
                blocks.push(block);
            }
            let users = u64::from_le_bytes(input.take()?);
            let users = (0..users).map(|_| input.take()).collect::<io::Result<BTreeSet<[u8; 32]>>>()?;
            let expected = input.hash.clone().finalize();
            let mut found = [0; 32];
            input.inner.read_exact(&mut found)?;
            let more = input.inner.read(&mut [0])?;
            if found[..] != expected[..] || more > 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Ok((rows, blocks, users))
        };
        let (rows, blocks, users) = body().map_err(|_| damaged(&name))?;
        Ok(Sums { schema, design, rows, blocks, users })
    }
}

fn foreign(name: &str) -> Error {
    Error::Sums(format!("{name} is not a file of sums; make one with `m2m sketch … --sums FILE`"))
}

fn damaged(name: &str) -> Error {
    Error::Sums(format!("{name} is damaged or incomplete; sketch that part again"))
}

struct Hashing<T> {
    inner: T,
    hash: Sha256,
}

impl<W: Write> Hashing<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Hashing<R> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hash.update(bytes);
        Ok(bytes)
    }
}
