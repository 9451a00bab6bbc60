//! The numbers that PRIVACY.md states, computed again; and what it says about the source, looked up there.

use std::f64::consts::PI;
use std::path::{Path, PathBuf};

const PRIVACY: &str = include_str!("../../../PRIVACY.md");

/// The document says it, so that a change of either is noticed.
#[track_caller]
fn stated(text: &str) {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(PRIVACY).contains(&flat(text)), "PRIVACY.md does not say: {text}");
}

/// Theorem 3a: η = 2 Σ e^(−4π²k²), and 2κ/m = 6η is less than 2⁻⁵³.
#[test]
fn the_normaliser_of_theorem_3a_is_as_close_to_one_as_stated() {
    let eta: f64 = 2.0 * (1..10).map(|k| (-4.0 * PI * PI * f64::from(k * k)).exp()).sum::<f64>();
    stated("η = 2e^(−39.47)(1 + 10⁻⁵⁰) < 1.5·10⁻¹⁷");
    assert!((4.0 * PI * PI - 39.47).abs() < 0.01 && eta < 1.5e-17);
    assert!(eta <= 2.0 * (-39.47f64).exp() * (1.0 + 1e-9));
    stated("κ = 3ηm < m·2⁻⁵⁴");
    assert!(3.0 * eta < 2f64.powi(-54));
    // The sum itself, at the worst of many places.
    for step in 0..=1000 {
        let a = f64::from(step) / 1000.0;
        let z: f64 = (-60..=60).map(|y| (-(f64::from(y) - a).powi(2) / 4.0).exp()).sum::<f64>() / (4.0 * PI).sqrt();
        assert!((z - 1.0).abs() < 1e-14, "{a}: {z}");
    }
}

/// Lemma 1: A(1 + 6·10⁻¹¹) + √½ + 10⁻⁵ < A + 1, and half of 1.2·10⁻¹⁰ is 6·10⁻¹¹ to first order.
#[test]
fn precise_features_have_room_in_their_disc() {
    stated("|p² + q² − 1| ≤ 1.2·10⁻¹⁰");
    stated("|(c, s)| ≤ A(1 + 6·10⁻¹¹) + √½ + 10⁻⁵ < A + 1");
    assert!((1.0f64 + 1.2e-10).sqrt() - 1.0 <= 6.0e-11 + 1e-16);
    let a = 2f64.powi(30);
    assert!(a * 6e-11 + 0.5f64.sqrt() + 1e-5 < 1.0);
}

/// Clipping. The Gaussian sampler saturates where |y|·b ≥ 2⁶⁴, b ≤ 2³² and σ < 2⁵⁶/b: there |y| ≥ 2⁸σ. The radius of
/// K-norm noise is a sum of m + 1 ≥ 3 geometric variables with mean below 2⁵⁶ in all, and P(sum ≥ x·mean) ≤
/// e^(−(m+1)(x − 1 − ln x)) (Chernoff's bound for exponential variables, which geometric ones rounded down do not exceed).
#[test]
fn clipping_is_as_unlikely_as_stated() {
    stated("below e^(−2¹⁴) (Gaussian)");
    assert!(2f64.powi(64) / 2f64.powi(56) >= 2f64.powi(8));
    assert!(2f64.powi(8).powi(2) / 2.0 - 2f64.ln() > 2f64.powi(14));
    stated("below e^(−170) (K-norm: the mean radius is kept below 2⁵⁶ and the sampler reaches 2⁶²)");
    let x = 2f64.powi(62 - 56);
    assert!(3.0 * (x - 1.0 - x.ln()) > 170.0);
    stated("kept below 2⁵⁵, as a class may have a single coordinate");
    let x = 2f64.powi(62 - 55);
    assert!(2.0 * (x - 1.0 - x.ln()) > 170.0);
}

/// A dozen operations in double precision lose less than the room that is left for them.
#[test]
fn rounding_has_room() {
    stated("multiplied by 1 + 10⁻¹²");
    let lost = (1.0 + 2f64.powi(-53)).powi(12) - 1.0;
    assert!(12.0 * 2f64.powi(-53) < 1e-12 && lost < 1e-12);
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The compiler refuses `unsafe` (a lint of the workspace) but where it is allowed by name: that is one file, and each
/// block there gives its reason.
#[test]
fn unsafe_code_stands_in_one_file() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let root = crates.parent().unwrap();
    let mut files = Vec::new();
    for folder in ["crates/m2m/src", "crates/m2m-cli/src", "crates/m2m-python/src", "bench/src", "xtask/src"] {
        rust_files(&root.join(folder), &mut files);
    }
    assert!(files.len() > 80, "the sources are found");
    let code = |line: &&str| !line.trim_start().starts_with("//");
    files.retain(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().filter(code).any(|line| line.contains("unsafe ") || line.contains("unsafe_code"))
    });
    assert_eq!(files, [crates.join("m2m/src/simd.rs")]);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let blocks = text.lines().filter(code).filter(|line| line.contains("unsafe {")).count();
    assert!(blocks > 0 && text.matches("// SAFETY:").count() >= blocks, "each block gives its reason");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"deny\"") && manifest.contains("undocumented_unsafe_blocks"));
}
