//! `m2m explore`: a page over a release.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use m2m::Release;

use super::ask;
use crate::console::{self, Mistake};
use crate::explore::{self, Explorer, Guard};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m explore people.m2m
  m2m explore people.m2m --port 8000 --no-open

The page asks a JSON API, which is described at /api/openapi.json and open to other programs that send the token.")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// The port [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// The address to listen at; others than this machine's own let everybody in the network ask who has the token
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Print the address and do not open a browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    reading: ask::Reading,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let release = Release::open(&args.release)?;
    let fit = args.reading.read(&release, 0)?;
    let name = args.release.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(async {
        let wanted = SocketAddr::new(args.bind, args.port);
        let listener = tokio::net::TcpListener::bind(wanted).await.map_err(|error| {
            Mistake(format!("cannot listen at {wanted}: {error}; give another --port, or none for one that is free"))
        })?;
        let address = listener.local_addr().context("the listener has no address")?;
        if !explore::is_local(&address) {
            console::say!(
                "warning: {address} can be reached from other machines, in clear text; whoever has the token can ask"
            );
        }
        let explorer = Explorer::new(name, release, fit, Guard::new(address, Guard::random_token()?));
        let link = explorer.link();
        console::show!("{link}");
        console::say!("serving {} until Ctrl-C", args.release.display());
        if !args.no_open && !open(&link) {
            console::say!("note: no browser could be started; open the address above");
        }
        explorer.serve(listener).await.context("the server stopped")
    })
}

/// Starts the system's browser, and does not wait for it.
fn open(link: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = |mut command: Command| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if cfg!(windows) {
        let mut command = Command::new("cmd");
        command.args(["/C", "start", "", link]);
        return quiet(command).is_ok();
    }
    let mut command = Command::new(program);
    command.arg(link);
    quiet(command).is_ok()
}
