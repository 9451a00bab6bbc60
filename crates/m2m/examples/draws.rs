//! Prints draws of exact noise, one per line, for other programs to compare with theirs.
//!
//! `cargo run --release -p m2m --example draws -- laplace|gaussian NUMERATOR DENOMINATOR COUNT`

use std::io::{BufWriter, Write};

use m2m::privatise::{NoiseSource, Scale};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, numerator, denominator, count] = &arguments[..] else {
        return Err("give laplace or gaussian, a numerator, a denominator and a count".into());
    };
    let scale = Scale::new(numerator.parse()?, denominator.parse()?).ok_or("the scale is out of range")?;
    let draw = match kind.as_str() {
        "laplace" => NoiseSource::laplace,
        "gaussian" => NoiseSource::gaussian,
        _ => return Err("the kinds are laplace and gaussian".into()),
    };
    let mut source = NoiseSource::from_os()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for _ in 0..count.parse::<u64>()? {
        writeln!(out, "{}", draw(&mut source, scale))?;
    }
    Ok(out.flush()?)
}
