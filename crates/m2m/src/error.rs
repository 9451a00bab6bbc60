//! What can go wrong, said so that the reader knows what to do next.

use std::io;
use std::path::PathBuf;

/// Every error of the library. Errors met while reading rows name row and column, never a cell's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A budget or share that is not an exact decimal.
    #[error(
        "`{text}` is not a decimal from 0 to 1000000 with at most 15 significant digits and 18 places, such as 0.98 or 1e-6"
    )]
    Decimal {
        /// What was given.
        text: String,
    },
    /// The budget makes no sense.
    #[error("{0}")]
    Budget(String),
    /// The schema contradicts itself or is incomplete.
    #[error("schema: {0}")]
    Schema(String),
    /// The design asks for something that cannot be built.
    #[error("design: {0}")]
    Design(String),
    /// The rows do not fit the schema.
    #[error("{source_name}: {message}")]
    Table {
        /// The file, or `stdin`.
        source_name: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// Two partial sums that do not belong together, or a damaged file of sums.
    #[error("sums: {0}")]
    Sums(String),
    /// A file that is not a release, or not one that this version can read.
    #[error("release: {0}")]
    Release(String),
    /// A question that cannot be asked of the release.
    #[error("{0}")]
    Question(String),
    /// The ledger refuses, or cannot be read.
    #[error("ledger: {0}")]
    Ledger(String),
    /// A file could not be opened or read.
    #[error("cannot read {path}: {error}; give a file that is there and can be read")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file could not be written; what was there before is untouched.
    #[error("cannot write {path}: {error}; give a file in a directory that is there and has space")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An output that is already there.
    #[error("{path} exists already; give another name, or --force to replace it")]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes ({0}), so nothing was released; try again when it does")]
    Random(String),
    /// Somebody asked to stop.
    #[error("stopped; nothing was written")]
    Stopped,
}

impl Error {
    /// Whether the caller's input is at fault (exit code 2) and not the machine (exit code 1).
    pub fn is_input(&self) -> bool {
        match self {
            Self::Read { error, .. } | Self::Write { error, .. } => matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::InvalidFilename
                    | io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::UnexpectedEof
            ),
            Self::Random(_) | Self::Stopped => false,
            _ => true,
        }
    }

    pub(crate) fn table(source_name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Table { source_name: source_name.into(), message: message.into() }
    }
}
