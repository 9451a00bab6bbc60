//! The `m2m` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    m2m_cli::main()
}
