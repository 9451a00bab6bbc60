//! The release as one JSON document, gzipped when the name ends in `.gz`.
//!
//! Releases are untrusted input: sizes are capped before anything is allocated for them, every number is checked, and
//! no bytes make the reader panic.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Count, Release, ReleasedBlock, Reserved, Statement};
use crate::file::{Mode, write};
use crate::{Error, Schema};

/// The only version so far.
const VERSION: u32 = 1;
const FORMAT: &str = "m2m-release";
const START: &str = "{\"format\":\"m2m-release\"";
const HASH_PREFIX: &str = "sha256:";
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// A document beyond this is refused before it is parsed.
const MAX_BYTES: u64 = 1 << 29;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u32,
    hash: String,
    privacy: Statement,
    schema: Schema,
    count: Count,
    blocks: Vec<ReleasedBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved: Option<Reserved>,
}

#[derive(Deserialize)]
struct Heading {
    format: String,
    version: u32,
}

impl Release {
    /// The JSON document. Its `hash` is the SHA-256 of the whole text with the hash's own digits replaced by zeros.
    pub fn to_json(&self) -> String {
        let document = Document {
            format: FORMAT.into(),
            version: VERSION,
            hash: format!("{HASH_PREFIX}{NO_HASH}"),
            privacy: self.statement.clone(),
            schema: self.schema.clone(),
            count: self.count.clone(),
            blocks: self.blocks.clone(),
            reserved: self.reserved.clone(),
        };
        let mut text = serde_json::to_string(&document).expect("a release has a JSON form");
        text.push('\n');
        let hash = digest(text.as_bytes());
        text.replacen(NO_HASH, &hash, 1)
    }

    /// Reads a JSON document, plain or gzipped.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.starts_with(crate::sums::MAGIC) {
            return Err(Error::Release(
                "this is a file of secret sums; keep it to yourself, and make a release of it with `m2m release`"
                    .into(),
            ));
        }
        let mut text = Vec::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            GzDecoder::new(bytes)
                .take(MAX_BYTES + 1)
                .read_to_end(&mut text)
                .map_err(|_| Error::Release("the gzip data is damaged or cut off; get the file again".into()))?;
        } else {
            text.extend_from_slice(bytes);
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(Error::Release(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
        }
        let text = String::from_utf8(text).map_err(|_| foreign())?;
        let heading: Heading = serde_json::from_str(&text).map_err(|_| {
            if text.starts_with(START) {
                Error::Release("it is damaged or cut off; get the file again".into())
            } else {
                foreign()
            }
        })?;
        if heading.format != FORMAT {
            return Err(foreign());
        }
        if heading.version != VERSION {
            return Err(Error::Release(format!(
                "it has format version {}, and this m2m reads version {VERSION}; install a newer m2m",
                heading.version
            )));
        }
        let document: Document = serde_json::from_str(&text)
            .map_err(|error| Error::Release(format!("{error}, so the file is damaged; get it again")))?;
        let stated = document.hash.strip_prefix(HASH_PREFIX).unwrap_or("");
        if stated.len() != NO_HASH.len() || digest(text.replacen(stated, NO_HASH, 1).as_bytes()) != stated {
            return Err(Error::Release(
                "its content is not what its hash says, so it was changed after it was written; get the original"
                    .into(),
            ));
        }
        let Document { privacy: statement, schema, count, blocks, reserved, .. } = document;
        let release = Self { schema, statement, count, blocks, reserved };
        release.check()?;
        Ok(release)
    }

    /// Opens a release file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |error| Error::Read { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        BufReader::new(file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        Self::from_bytes(&bytes).map_err(|error| match error {
            Error::Release(message) => Error::Release(format!("{}: {message}", path.display())),
            other => other,
        })
    }

    /// Writes the release, gzipped when the name ends in `.gz`.
    pub fn save(&self, path: impl AsRef<Path>, replace: bool) -> Result<(), Error> {
        let path = path.as_ref();
        let text = self.to_json();
        let gzip = path.extension().is_some_and(|extension| extension == "gz");
        write(path, replace, Mode::Public, |file| {
            if gzip {
                let mut encoder = GzEncoder::new(file, Compression::default());
                encoder.write_all(text.as_bytes())?;
                encoder.finish().map(|_| ())
            } else {
                file.write_all(text.as_bytes())
            }
        })
    }

    /// The SHA-256 of the document, as its `hash` states it.
    pub fn hash(&self) -> String {
        let text = self.to_json();
        let at = text.find(HASH_PREFIX).expect("a document states its hash");
        text[at..at + HASH_PREFIX.len() + NO_HASH.len()].to_owned()
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn foreign() -> Error {
    Error::Release("this is not a release of m2m; make one with `m2m sketch … -o FILE`".into())
}
