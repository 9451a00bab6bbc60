//! What runs the bodies without a fuzzer: small damage to a corpus, with an eye on time and memory.

use std::time::{Duration, Instant};

/// Longer than any input may take, on a machine that does other things too.
const TOO_LONG: Duration = Duration::from_secs(2);
/// More memory than all of it may take, in kB.
const TOO_MUCH: u64 = 1 << 20;

/// How many inputs are tried.
pub fn cases(usual: usize) -> usize {
    std::env::var("M2M_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// For the report of `cargo xtask fuzz`.
pub fn tell(target: &str, executions: usize, read: usize) {
    eprintln!("fuzz: {target}: {executions} executions, {read} of them on input that could be read");
}

/// The time that this thread has spent on a processor or, where the system does not tell, that has passed.
pub fn busy() -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = schedule.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(passed, Duration::from_nanos)
}

/// The time that all threads of this process have spent on processors or, where the system does not tell, that has passed.
pub fn busy_together() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").ok();
    // User and system time, in hundredths of a second, are the twelfth and thirteenth words behind the name.
    let ticks = stat.and_then(|text| {
        let words = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
        words.map(|word| word.parse::<u64>().ok()).sum::<Option<u64>>()
    });
    ticks.map_or_else(passed, |ticks| Duration::from_millis(10 * ticks))
}

/// The time that has passed.
fn passed() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

/// Runs a body on an input, by some clock; says which input it was where that fails.
pub fn run<T: std::fmt::Debug + ?Sized>(
    input: &T,
    clock: fn() -> Duration,
    body: impl Fn() -> bool + std::panic::RefUnwindSafe,
) -> bool {
    let timed = || {
        let started = clock();
        let read = std::panic::catch_unwind(&body).unwrap_or_else(|_| panic!("it panics: {input:?}"));
        (read, clock() - started)
    };
    let (read, took) = timed();
    // The machine may have been busy with something else: only what is slow twice is slow.
    assert!(took < TOO_LONG || timed().1 < TOO_LONG, "it takes {took:?}: {input:?}");
    read
}

/// Fails if the process has had more memory than it may.
pub fn memory_is_bounded() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    assert!(peak.unwrap_or(0u64) < TOO_MUCH, "{peak:?} kB");
}

/// One to four small changes: bits, bytes, cuts, and pieces that are doubled or come from another input. `below` gives
/// random numbers under a bound.
pub fn damage(corpus: &[&[u8]], below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut bytes = corpus[below(corpus.len())].to_vec();
    for _ in 0..=below(3) {
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
        let at = below(bytes.len());
        match below(7) {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes.truncate(at),
            2 => bytes[at] = below(256) as u8,
            3 => drop(bytes.remove(at)),
            4 => bytes.insert(at, b"0123456789-.eE\"{}[],:=\n'"[below(24)]),
            5 => {
                let piece = bytes[at..(at + 1 + below(40)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let other = corpus[below(corpus.len())];
                let from = below(other.len());
                bytes.splice(at..at, other[from..(from + 1 + below(40)).min(other.len())].iter().copied());
            }
        }
    }
    bytes
}
