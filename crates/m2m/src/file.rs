//! Writing files whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Who may read what is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As the process's mask says.
    Public,
    /// The owner alone.
    Secret,
    /// As the file that is replaced.
    Keep,
}

/// Writes some bytes.
pub fn save(path: &Path, replace: bool, bytes: &[u8]) -> Result<(), Error> {
    write(path, replace, Mode::Public, |file| io::Write::write_all(file, bytes))
}

/// Finds out whether a file could be written here, before anything is spent on its contents.
pub fn check(path: &Path, replace: bool) -> Result<(), Error> {
    if path.is_dir() {
        let error = io::Error::new(io::ErrorKind::IsADirectory, "this is a directory; give the name of a file");
        return Err(Error::Write { path: path.to_owned(), error });
    }
    if !replace && path.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: path.to_owned() });
    }
    let temporary = Temporary::beside(path)?;
    create(&temporary.0, Mode::Secret).map_err(|error| Error::Write { path: path.to_owned(), error })?;
    Ok(())
}

/// Writes through a temporary file beside `path`: written, fsynced, then renamed. Until the rename nothing changes;
/// after an error the temporary file is removed. Without `replace` an existing file is left alone.
pub(crate) fn write(
    path: &Path,
    replace: bool,
    mode: Mode,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), Error> {
    if !replace && path.exists() {
        return Err(Error::Exists { path: path.to_owned() });
    }
    let failed = |error| Error::Write { path: path.to_owned(), error };
    let temporary = Temporary::beside(path)?;
    let parent = parent(path);
    let written = (|| {
        let mut file = create(&temporary.0, mode)?;
        if mode == Mode::Keep
            && let Ok(old) = fs::metadata(path)
        {
            file.set_permissions(old.permissions())?;
        }
        fill(&mut file)?;
        file.sync_all()
    })();
    written.map_err(failed)?;
    if replace {
        fs::rename(&temporary.0, path).map_err(failed)?;
    } else {
        // A link fails where a rename would replace what another process has just put there.
        match fs::hard_link(&temporary.0, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists { path: path.to_owned() });
            }
            Err(_) => fs::rename(&temporary.0, path).map_err(failed)?,
        }
    }
    drop(temporary);
    // The name itself must survive a power cut. Some file systems cannot sync a directory, and say so.
    match File::open(parent).and_then(|directory| directory.sync_all()) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Err(failed(error))
        }
        _ => Ok(()),
    }
}

fn create(path: &Path, mode: Mode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if mode == Mode::Secret {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)
}

struct Temporary(PathBuf);

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Temporary {
    fn beside(path: &Path) -> Result<Self, Error> {
        let Some(name) = path.file_name() else {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "this is not the name of a file");
            return Err(Error::Write { path: path.to_owned(), error });
        };
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| Error::Random(error.to_string()))?;
        let suffix = format!(".{:016x}.tmp", u64::from_le_bytes(random));
        Ok(Self(parent(path).join([".", &name.to_string_lossy(), &suffix].concat())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
