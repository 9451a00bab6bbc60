//! A table that nobody could hold in memory, generated on the way into a pipe.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::{Outcome, cargo, run as run_command, target};

const SCHEMA: &str = "[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n\
    [[column]]\nname = 'k'\ntype = 'integer'\nmin = 0\nmax = 99\n\
    [[column]]\nname = 'g'\ntype = 'category'\nlevels = ['a', 'b', 'c']\n";

const DESIGN: &str = "[[map]]\nkind = 'hist'\nshare = 0.25\n[[map]]\nkind = 'tables'\nshare = 0.25\n\
    [[map]]\nkind = 'race'\nr = 8\nw = 8\nshare = 0.25\n[[map]]\nkind = 'rff'\nm = 20\nshare = 0.25\n";

const PARTS: u64 = 10;

/// The sums of all rows at once against those of ten parts, merged, and the memory that the first takes on the way.
pub fn run(rows: u64) -> Outcome {
    cargo(&["build", "--release", "--package", "m2m-cli"])?;
    let program = target().join("release/m2m");
    let folder = target().join("stream");
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(fail)?;
    std::fs::write(folder.join("schema.toml"), SCHEMA).map_err(fail)?;
    std::fs::write(folder.join("design.toml"), DESIGN).map_err(fail)?;

    let start = Instant::now();
    let peaks = sketch(&program, &folder, "whole.sums", 0..rows).map_err(fail)?;
    let seconds = start.elapsed().as_secs_f64();
    let peaks: Vec<String> = peaks.iter().map(|kibibytes| format!("{:.0}", *kibibytes as f64 / 1024.0)).collect();
    println!("{rows} rows in {seconds:.0} s; peak memory after each tenth, in MiB: {}", peaks.join(" "));

    let mut merge = Command::new(&program);
    merge.current_dir(&folder).args(["merge", "--force", "-o", "parts.sums"]);
    for part in 0..PARTS {
        let name = format!("part-{part}.sums");
        sketch(&program, &folder, &name, part * rows / PARTS..(part + 1) * rows / PARTS).map_err(fail)?;
        merge.arg(name);
    }
    run_command(&mut merge)?;
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(fail);
    let (whole, parts) = (read("whole.sums")?, read("parts.sums")?);
    std::fs::remove_dir_all(&folder).map_err(fail)?;
    if whole != parts {
        return Err("the sums of the parts are not those of the whole".into());
    }
    println!("the sums of {PARTS} parts, merged, are those of the whole: {} bytes agree", whole.len());
    Ok(())
}

/// Streams rows into a sketch. The peak memory of the reader after each tenth, in kibibytes.
fn sketch(program: &Path, folder: &Path, sums: &str, rows: std::ops::Range<u64>) -> std::io::Result<Vec<u64>> {
    let mut child = Command::new(program)
        .current_dir(folder)
        .args(["sketch", "-", "--schema", "schema.toml", "--design", "design.toml", "--force", "--sums", sums])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b"x,k,g\n")?;
    let (mut text, mut peaks) = (Vec::with_capacity(1 << 20), Vec::new());
    let tenth = (rows.end - rows.start).div_ceil(10).max(1);
    for row in rows.clone() {
        push(&mut text, row);
        if text.len() > (1 << 20) - 64 {
            input.write_all(&text)?;
            text.clear();
        }
        if (row + 1 - rows.start).is_multiple_of(tenth) || row + 1 == rows.end {
            input.write_all(&text)?;
            text.clear();
            peaks.push(peak(&child)?);
        }
    }
    drop(input);
    if child.wait()?.success() { Ok(peaks) } else { Err(std::io::Error::other("m2m sketch failed")) }
}

/// The row of a number: hashed, so that any part can be made again.
fn push(text: &mut Vec<u8>, row: u64) {
    let mut z = row.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    text.extend_from_slice(b"0.");
    let mut digits = z % 1_000_000;
    let mut places = [b'0'; 6];
    for place in places.iter_mut().rev() {
        *place += (digits % 10) as u8;
        digits /= 10;
    }
    text.extend_from_slice(&places);
    let k = (z >> 20) % 100;
    text.extend_from_slice(&[
        b',',
        b'0' + (k / 10) as u8,
        b'0' + (k % 10) as u8,
        b',',
        b'a' + ((z >> 40) % 4) as u8,
        b'\n',
    ]);
}

fn peak(child: &Child) -> std::io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.ok_or_else(|| std::io::Error::other("the system does not tell the memory of a process"))
}
