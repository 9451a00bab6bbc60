//! `m2m report`: a page about a release.

use std::path::PathBuf;

use m2m::Release;

use super::ask;
use crate::{console, report};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  m2m report people.m2m -o people.html")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// Where to write the page
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: ask::Reading,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    m2m::file::check(&args.output, args.force)?;
    let release = Release::open(&args.release)?;
    let fit = args.reading.read(&release, 0)?;
    let name = args.release.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let page = report::html(&name, &release, &fit)?;
    let mut written = console::hold_interrupt();
    m2m::file::save(&args.output, args.force, page.as_bytes())?;
    *written = true;
    console::say!("wrote {} ({} KB)", args.output.display(), page.len().div_ceil(1000));
    Ok(())
}
