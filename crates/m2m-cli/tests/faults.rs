//! Disks that fill, processes that are killed, races and interruptions: files are whole or not there, and no release is
//! without its debit.
//!
//! `cargo xtask faults` runs these with many more kills and says how many there were.

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{COLUMNS, Desk, Outcome, Random, csv, mask, mode, people, transcript};
use insta::assert_snapshot;
use m2m::privatise::Ledger;

/// The command on a disk that takes no file of more than so many kibibytes.
fn on_a_full_disk(desk: &Desk, kibibytes: u32, line: &str) -> Outcome {
    Outcome::of(&mut desk.bash(&format!("trap '' XFSZ; ulimit -f {kibibytes}; exec \"$M2M\" {line}")))
}

#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --sums a.sums").ok();
    desk.put("old", "of value");
    let before = desk.contents();
    for kibibytes in [0, 1, 2] {
        for line in [
            "sketch people.csv --schema schema.toml --epsilon 1 -o new",
            "sketch people.csv --schema schema.toml --epsilon 1 --force -o old",
            "sketch people.csv --schema schema.toml --sums new",
            "sketch people.csv --schema schema.toml --force --sums old",
            "merge a.sums -o new",
            "release a.sums --epsilon 1 -o new",
        ] {
            let outcome = on_a_full_disk(&desk, kibibytes, line);
            assert_eq!(outcome.code, Some(1), "{line}: {outcome:?}");
            let name = line.rsplit(' ').next().unwrap();
            let message = format!("error: cannot write {name}: File too large (os error 27)\n");
            assert!(outcome.stderr.contains(&message), "{line}: {outcome:?}");
            assert!(desk.contents() == before, "{line}: {:?}", desk.names());
        }
    }
    assert_eq!(on_a_full_disk(&desk, 0, "ledger new budget.toml --epsilon 1").code, Some(1));
    assert!(desk.contents() == before);
}

#[test]
fn a_full_disk_may_cost_a_debit_but_never_hides_it() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 3").ok();
    let sketch = "sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o people.m2m";
    let outcome = on_a_full_disk(&desk, 1, sketch);
    assert_eq!(outcome.code, Some(1));
    assert_snapshot!(outcome.stderr, @"
    read 40 rows
    note: levels that the schema does not list count as other: town 5
    note: values outside their bounds were clamped: 3
    note: these counts come from the data itself and are for you alone
    error: budget.toml was debited ε = 1, but the release was not written: cannot write people.m2m: File too large (os error 27)
    hint: give a file in a directory that is there and has space
    ");
    assert_snapshot!(mask(&desk.m2m("ledger show budget.toml").ok().stdout, "  20", "Z"), @"
    total  ε = 3
    spent  ε = 1  20…Z  people.m2m
    left   ε = 2
    ");
    // Now the ledger itself does not fit.
    let padded = format!("# {}\n{}", "-".repeat(1024), desk.text("budget.toml"));
    for (kibibytes, ledger) in [(0, desk.text("budget.toml")), (1, padded)] {
        desk.put("budget.toml", &ledger);
        let outcome = on_a_full_disk(&desk, kibibytes, sketch);
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.stderr.contains("error: cannot write budget.toml: File too large"), "{outcome:?}");
        assert_eq!(desk.text("budget.toml"), ledger);
    }
    assert_eq!(desk.names(), ["budget.toml", "budget.toml.lock", "people.csv", "schema.toml"]);
    desk.m2m(sketch).ok();
}

/// What must hold at any moment: a ledger that can be read, with a debit for every release, and no file of ours that
/// is not whole, but for hidden temporary ones.
fn check_after_a_kill(desk: &Desk) {
    let ledger = Ledger::open(&desk.path("budget.toml")).unwrap();
    let names = desk.names();
    for name in names.iter().filter(|name| name.ends_with(".m2m")) {
        m2m::Release::open(desk.path(name)).unwrap();
        assert_eq!(ledger.spent().iter().filter(|entry| entry.what == *name).count(), 1, "{name} has one debit");
    }
    let known = ["budget.toml", "budget.toml.lock", "people.csv", "schema.toml", "a.sums", "b.sums", "out.sums"];
    let strange = |name: &&String| {
        !(known.contains(&name.as_str()) || name.ends_with(".m2m") || (name.starts_with('.') && name.ends_with(".tmp")))
    };
    assert_eq!(names.iter().find(strange), None);
}

/// How often a command is killed.
fn kills(usual: usize) -> usize {
    std::env::var("M2M_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(usual)
}

/// For the report of `cargo xtask faults`.
fn tell(what: &str, killed: usize, rounds: usize, outcome: &str) {
    eprintln!("faults: {what}: {killed} of {rounds} killed; {outcome}");
}

/// Kills a command after a random part of the time that it usually takes. Whether that was before its end.
fn kill_at_random(desk: &Desk, line: &str, usual: Duration, random: &mut Random) -> bool {
    let mut child = spawn(desk, line);
    std::thread::sleep(usual.mul_f64(random.below(1000) as f64 / 1000.0));
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

/// How long a command takes that succeeds.
fn time(desk: &Desk, line: &str) -> Duration {
    let start = Instant::now();
    desk.m2m(line).ok();
    start.elapsed()
}

fn spawn(desk: &Desk, line: &str) -> Child {
    desk.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Half of the kills come at any moment of the work, the other half while files are being written. Whether a kill
/// meets a given instant is chance; what is checked holds whatever it meets, so there are no false alarms.
#[test]
fn a_kill_at_any_moment_leaves_whole_files_and_an_honest_ledger() {
    let desk = Desk::new();
    desk.put("people.csv", csv(&people(60_000))).m2m("ledger new budget.toml --epsilon 100").ok();
    let start = Instant::now();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 0.1 --ledger budget.toml -o whole.m2m").ok();
    let usual = start.elapsed();
    let mut random = Random(4);
    let (rounds, mut killed) = (kills(80), 0);
    for round in 0..rounds {
        let line = "sketch people.csv --schema schema.toml --epsilon 0.1 --ledger budget.toml";
        let mut child = spawn(&desk, &format!("{line} -o {round}.m2m"));
        if round % 2 == 0 {
            std::thread::sleep(usual.mul_f64(random.below(900) as f64 / 1000.0));
        } else {
            let traces = || desk.names().iter().filter(|name| name.starts_with(".budget.toml.")).count();
            let (before, debits) = (traces(), desk.get("budget.toml"));
            let untouched = || traces() == before && desk.get("budget.toml") == debits;
            let deadline = Instant::now() + 5 * usual;
            while untouched() && Instant::now() < deadline && child.try_wait().unwrap().is_none() {}
            std::thread::sleep(Duration::from_micros(random.below(2_000) as u64));
        }
        child.kill().unwrap();
        killed += usize::from(child.wait().unwrap().code().is_none());
        check_after_a_kill(&desk);
    }
    assert!(4 * killed >= rounds, "only {killed} of {rounds} were killed");
    let debits = Ledger::open(&desk.path("budget.toml")).unwrap().spent().len();
    let releases = desk.names().iter().filter(|name| name.ends_with(".m2m")).count();
    tell("sketch", killed, rounds, &format!("{debits} debits, {releases} releases, each with its debit"));
    // Nothing that was left behind is in the way.
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 0.1 --ledger budget.toml -o last.m2m").ok();
    check_after_a_kill(&desk);
}

#[test]
fn a_kill_while_a_file_is_replaced_leaves_the_old_or_the_new() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    desk.put("people.csv", csv(&people(2_000))).m2m("sketch people.csv --schema schema.toml --sums a.sums").ok();
    desk.put("people.csv", csv(&people(1_000))).m2m("sketch people.csv --schema schema.toml --sums b.sums").ok();
    let (old, new) = (desk.get("a.sums"), desk.get("b.sums"));
    let mut random = Random(5);
    let (rounds, mut killed, mut replaced) = (kills(60), 0, 0);
    for _ in 0..rounds {
        desk.put("out.sums", &old);
        let before = desk.names().len();
        let mut child = spawn(&desk, "merge b.sums --force -o out.sums");
        let deadline = Instant::now() + Duration::from_secs(5);
        while desk.names().len() == before && Instant::now() < deadline && child.try_wait().unwrap().is_none() {}
        std::thread::sleep(Duration::from_micros(random.below(1_500) as u64));
        child.kill().unwrap();
        killed += usize::from(child.wait().unwrap().code().is_none());
        let found = desk.get("out.sums");
        assert!(found == old || found == new);
        replaced += usize::from(found == new);
        let secrets = desk.names().into_iter().filter(|name| name.ends_with(".tmp"));
        secrets.for_each(|name| assert_eq!(mode(&desk.path(&name)), 0o600));
        check_after_a_kill(&desk);
    }
    tell("merge", killed, rounds, &format!("{replaced} new files and {} old ones, all whole", rounds - replaced));
}

#[test]
fn a_kill_of_release_leaves_whole_files_and_an_honest_ledger() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 1000").ok();
    desk.m2m("sketch people.csv --schema schema.toml --design rff:m=2000 --sums a.sums").ok();
    let line = "release a.sums --epsilon 0.1 --ledger budget.toml";
    let usual = time(&desk, &format!("{line} -o whole.m2m"));
    let (rounds, mut random) = (kills(60), Random(8));
    let killed = (0..rounds)
        .filter(|round| {
            let killed = kill_at_random(&desk, &format!("{line} -o {round}.m2m"), usual, &mut random);
            check_after_a_kill(&desk);
            killed
        })
        .count();
    let debits = Ledger::open(&desk.path("budget.toml")).unwrap().spent().len();
    let releases = desk.names().iter().filter(|name| name.ends_with(".m2m")).count();
    assert!(releases <= debits && debits <= rounds + 1);
    tell("release", killed, rounds, &format!("{debits} debits, {releases} releases, each with its debit"));
}

#[test]
fn a_kill_of_a_sketch_leaves_sums_whole_or_absent() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    desk.put("people.csv", csv(&people(3_000)));
    let line = "sketch people.csv --schema schema.toml --sums out.sums";
    let usual = time(&desk, line);
    let whole = desk.get("out.sums");
    let (rounds, mut random, mut written) = (kills(40), Random(9), 0);
    let killed = (0..rounds)
        .filter(|_| {
            let _ = fs::remove_file(desk.path("out.sums"));
            let killed = kill_at_random(&desk, line, usual, &mut random);
            if desk.has("out.sums") {
                written += 1;
                assert!(desk.get("out.sums") == whole);
            }
            check_after_a_kill(&desk);
            killed
        })
        .count();
    tell("sketch --sums", killed, rounds, &format!("{written} files, all whole"));
}

#[test]
fn a_kill_of_a_new_ledger_leaves_it_whole_or_absent() {
    let desk = Desk::new();
    let line = "ledger new budget.toml --epsilon 3";
    let usual = time(&desk, line);
    let whole = desk.get("budget.toml");
    let (rounds, mut random, mut written) = (kills(40), Random(10), 0);
    let killed = (0..rounds)
        .filter(|_| {
            let _ = fs::remove_file(desk.path("budget.toml"));
            let killed = kill_at_random(&desk, line, usual, &mut random);
            if desk.has("budget.toml") {
                written += 1;
                assert!(desk.get("budget.toml") == whole);
            }
            killed
        })
        .count();
    tell("ledger new", killed, rounds, &format!("{written} ledgers, all whole"));
}

/// Runs a script in a directory `disk` of its own that is a file system of so many kibibytes; nothing where users may not
/// mount any.
fn on_a_small_disk(desk: &Desk, kibibytes: u32, script: &str) -> Option<Outcome> {
    let run = |script: &str| {
        let mount = format!("mkdir -p disk && mount -t tmpfs -o size={kibibytes}k tmpfs disk && {script}");
        desk.bash(&format!("unshare -rm bash -c '{mount}'")).output().unwrap()
    };
    if !run("true").status.success() {
        eprintln!("faults: no file system can be mounted here, so none was filled");
        return None;
    }
    Some(run(script).into())
}

/// A real file system without space: what is there stays, nothing half written is left, and the ledger says what was spent.
#[test]
fn a_file_system_without_space_loses_nothing() {
    let desk = Desk::new();
    let script = "cd disk && cp ../people.csv ../schema.toml . && \
        $M2M ledger new budget.toml --epsilon 3 2> /dev/null && cp budget.toml ../before.toml && \
        ! dd if=/dev/zero of=rest bs=4k 2> /dev/null && \
        ! $M2M sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o people.m2m 2> ../said && \
        ls -A && cmp budget.toml ../before.toml && rm rest && \
        $M2M sketch people.csv --schema schema.toml --design hist --epsilon 1 --ledger budget.toml -o people.m2m 2> ../said && \
        $M2M info people.m2m > ../info && $M2M ledger show budget.toml";
    let Some(outcome) = on_a_small_disk(&desk, 64, script) else { return };
    let outcome = outcome.ok();
    assert!(
        outcome.stdout.starts_with("budget.toml\nbudget.toml.lock\npeople.csv\nrest\nschema.toml\n"),
        "{outcome:?}"
    );
    assert!(outcome.stdout.ends_with("left   ε = 2\n"), "{outcome:?}");
}

/// Whether the output or the ledger lies where nothing can be written, nothing is spent.
#[test]
fn a_read_only_file_system_spends_nothing() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 3").ok();
    let script = "cp budget.toml people.csv schema.toml disk && mount -o remount,ro disk && \
        ! $M2M sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o disk/people.m2m && \
        ! $M2M sketch people.csv --schema schema.toml --epsilon 1 --ledger disk/budget.toml -o people.m2m && \
        cmp budget.toml disk/budget.toml && ls -A . disk";
    let Some(outcome) = on_a_small_disk(&desk, 512, script) else { return };
    let outcome = outcome.ok();
    assert!(!outcome.stdout.contains("m2m") && !outcome.stdout.contains("tmp"), "{outcome:?}");
    assert_eq!(outcome.stderr.matches("Read-only file system").count(), 2, "{outcome:?}");
    assert!(desk.m2m("ledger show budget.toml").ok().stdout.ends_with("left   ε = 3\n"));
}

/// The system's random source fails when a key for noise is drawn (32 bytes): nothing is written and nothing is spent.
#[cfg(target_arch = "x86_64")]
#[test]
fn without_randomness_there_is_no_release() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 3").ok();
    desk.m2m("sketch people.csv --schema schema.toml --design hist --sums a.sums").ok();
    let before = desk.contents();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/without_random.py");
    for line in [
        "sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o out.m2m",
        "sketch people.csv --schema schema.toml --design rff --epsilon 1 --ledger budget.toml -o out.m2m",
        "release a.sums --epsilon 1 --ledger budget.toml -o out.m2m",
    ] {
        let mut command = desk.bash(&format!("exec python3 {script} \"$M2M\" {line}"));
        let outcome = Outcome::of(&mut command);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains("the operating system gave no random bytes"), "{outcome:?}");
        assert!(desk.contents() == before, "{:?}", desk.names());
    }
}

#[test]
fn a_race_for_the_last_of_the_budget_has_as_many_winners_as_it_allows() {
    for (total, winners) in [("0.1", 1), ("0.3", 3)] {
        for _ in 0..4 {
            let desk = Desk::new();
            desk.m2m("sketch people.csv --schema schema.toml --design hist --sums a.sums").ok();
            desk.m2m(&format!("ledger new budget.toml --epsilon {total}")).ok();
            let line = |racer: usize| match racer % 2 {
                0 => format!("release a.sums --epsilon 0.1 --ledger budget.toml -o {racer}.m2m"),
                _ => {
                    format!("sketch people.csv --schema schema.toml --epsilon 0.1 --ledger budget.toml -o {racer}.m2m")
                }
            };
            let racers: Vec<Child> =
                (0..8).map(|racer| desk.command(&line(racer)).stderr(Stdio::piped()).spawn().unwrap()).collect();
            let outcomes: Vec<Outcome> =
                racers.into_iter().map(|racer| racer.wait_with_output().unwrap().into()).collect();
            for (racer, outcome) in outcomes.iter().enumerate() {
                assert_eq!(desk.has(&format!("{racer}.m2m")), outcome.code == Some(0));
                let refused = outcome.code == Some(2)
                    && outcome.stderr.contains("too little for ε = 0.1, so nothing was spent\n");
                assert!(refused || outcome.code == Some(0), "{outcome:?}");
            }
            assert_eq!(outcomes.iter().filter(|outcome| outcome.code == Some(0)).count(), winners);
            assert!(desk.m2m("ledger show budget.toml").ok().stdout.ends_with("left   ε = 0\n"));
            check_after_a_kill(&desk);
        }
    }
}

#[test]
fn a_race_for_one_name_has_one_winner() {
    for _ in 0..5 {
        let desk = Desk::new();
        let line = "sketch people.csv --schema schema.toml --epsilon 1 -o one.m2m";
        let racers: Vec<Child> = (0..8).map(|_| desk.command(line).stderr(Stdio::piped()).spawn().unwrap()).collect();
        let outcomes: Vec<Outcome> = racers.into_iter().map(|racer| racer.wait_with_output().unwrap().into()).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.code == Some(0)).count(), 1);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.code == Some(2)).count(), 7);
        assert_eq!(desk.names(), ["one.m2m", "people.csv", "schema.toml"]);
        desk.m2m("info one.m2m").ok();
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Starts reading standard input and gets as far as a mebibyte into it.
fn reading(desk: &Desk, line: &str) -> Child {
    let mut command = desk.at_keyboard(line);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let rows = csv(&people(20_000));
    assert!(rows.len() > 1 << 20);
    child.stdin.as_mut().unwrap().write_all(rows.as_bytes()).unwrap();
    child
}

#[test]
fn an_interruption_while_reading_writes_nothing_and_says_so() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    let before = desk.contents();
    for name in ["-INT", "-TERM"] {
        for line in [
            "sketch - --schema schema.toml --epsilon 1 --ledger budget.toml -o out.m2m",
            "sketch - people.csv --schema schema.toml --sums out.sums",
        ] {
            let mut child = reading(&desk, line);
            signal(&child, name);
            let stdin = child.stdin.take();
            let outcome = Outcome::from(child.wait_with_output().unwrap());
            drop(stdin);
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", "\nstopped; nothing was written\n"));
            assert!(desk.contents() == before, "{:?}", desk.names());
        }
    }
}

/// Whoever asks a question does not wonder what was written.
#[test]
fn an_interruption_of_a_question_speaks_of_no_files() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m").ok();
    for line in ["shell people.m2m", "sql people.m2m"] {
        let mut command = desk.at_keyboard(line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Until the reader has emptied the pipe, it is surely past its start.
        child.stdin.as_mut().unwrap().write_all("-- nothing\n".repeat(20_000).as_bytes()).unwrap();
        signal(&child, "-INT");
        let stdin = child.stdin.take();
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        drop(stdin);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), "\nstopped\n"), "{line}");
    }
}

/// The first part is a pipe, which is opened only after every part was checked.
#[test]
fn a_file_that_vanishes_after_the_check_is_an_error() {
    let desk = Desk::new();
    assert!(Command::new("mkfifo").arg(desk.path("pipe")).status().unwrap().success());
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    let said = transcript(&["removed", "another header"], |case| {
        desk.put("part.csv", csv(&people(10)));
        let line = "sketch pipe part.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o out.m2m";
        let child = desk.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = OpenOptions::new().write(true).open(desk.path("pipe")).unwrap();
        match case {
            "removed" => fs::remove_file(desk.path("part.csv")).unwrap(),
            _ => fs::write(desk.path("part.csv"), "age\n1\n").unwrap(),
        }
        pipe.write_all(csv(&people(10)).as_bytes()).unwrap();
        drop(pipe);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(!desk.has("out.m2m"));
        outcome.stderr
    });
    assert_snapshot!(said, @"
    > removed
    error: cannot read part.csv: No such file or directory (os error 2)
    hint: give a file that is there and can be read

    > another header
    error: part.csv: there is no column `height`, which the schema has
    hint: check the header and --delimiter, or remove it from the schema
    ");
    assert!(desk.m2m("ledger show budget.toml").ok().stdout.ends_with("left   ε = 1\n"));
}

/// The most memory a process has used so far, in bytes.
fn peak_memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Sends `piece` so many times after a header, and measures before the end of the input.
fn stream(line: &str, piece: &[u8], times: usize) -> (u64, String) {
    let desk = Desk::new();
    let mut command = desk.command(line);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all((COLUMNS.join(",") + "\n").as_bytes()).unwrap();
    for _ in 0..times {
        stdin.write_all(piece).unwrap();
    }
    let peak = peak_memory(&child);
    drop(stdin);
    let outcome = Outcome::from(child.wait_with_output().unwrap()).ok();
    desk.m2m("info out.m2m").ok();
    (peak, outcome.stderr)
}

const BOUND: u64 = 200 << 20;

#[test]
fn memory_stays_bounded_however_long_the_table() {
    let rows = csv(&people(20_000));
    let piece = rows.split_once('\n').unwrap().1.as_bytes();
    let times = BOUND as usize / piece.len() + 1;
    let rows = format!("read {} rows\n", 20_000 * times);
    // In one round, and in two, for which a copy of the pipe is kept in a file.
    for (design, before) in [("rff", ""), ("auto", "note: the data is read twice, so what came through a pipe is kept")]
    {
        let line = format!("sketch - --schema schema.toml --design {design} --threads 2 --epsilon 1 -o out.m2m");
        let (peak, stderr) = stream(&line, piece, times);
        assert!(stderr.starts_with(before) && stderr.contains(&rows), "{stderr}");
        assert!(peak < BOUND, "{peak} bytes");
    }
}

#[test]
fn memory_stays_bounded_however_long_a_line() {
    let line = "sketch - --schema schema.toml --design rff --threads 2 --epsilon 1 -o out.m2m";
    for start in ["", "1,\""] {
        let piece = format!("{start}{}", "x".repeat(1 << 20));
        let (peak, stderr) = stream(line, piece.as_bytes(), 100);
        assert!(stderr.starts_with("read 1 row\n"), "{stderr}");
        assert!(peak < BOUND / 4, "{peak} bytes");
    }
}

/// A lock that another process holds, until it is dropped.
fn hold_ledger(desk: &Desk) -> fs::File {
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(desk.path("budget.toml.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Starts a release that has to wait for the ledger, and waits until it does.
fn waiting_for_the_ledger(desk: &Desk) -> Child {
    let line = "sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o out.m2m";
    let mut child = desk.at_keyboard(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none());
    child
}

#[test]
fn an_interruption_ends_the_wait_for_the_ledger() {
    let desk = Desk::new();
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    let lock = hold_ledger(&desk);
    let before = desk.contents();
    let mut child = waiting_for_the_ledger(&desk);
    signal(&child, "-INT");
    let deadline = Instant::now() + Duration::from_secs(5);
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let stopped = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    let outcome = Outcome::from(child.wait_with_output().unwrap());
    drop(lock);
    assert!(stopped && outcome.code == Some(1), "{outcome:?}");
    assert!(outcome.stderr.ends_with("stopped; nothing was written\n"), "{outcome:?}");
    assert!(desk.contents() == before);
}

/// An interruption that comes while files change waits until they have; then it must not deny them.
#[test]
fn an_interruption_tells_the_truth_about_what_was_written() {
    for _ in 0..10 {
        let desk = Desk::new();
        desk.m2m("ledger new budget.toml --epsilon 1").ok();
        let lock = hold_ledger(&desk);
        let child = waiting_for_the_ledger(&desk);
        signal(&child, "-INT");
        std::thread::sleep(Duration::from_millis(50));
        drop(lock);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        let debited = desk.text("budget.toml").contains("out.m2m");
        let denied = outcome.stderr.contains("nothing was written");
        assert_eq!(desk.has("out.m2m") || debited, !denied, "{outcome:?}");
    }
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let desk = Desk::new();
    for name in ["INT", "HUP"] {
        let script = format!("trap '' {name}; exec \"$M2M\" sketch - --schema schema.toml --force --sums out.sums");
        let mut command = desk.bash(&script);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let rows = csv(&people(20_000));
        child.stdin.as_mut().unwrap().write_all(rows.as_bytes()).unwrap();
        signal(&child, &format!("-{name}"));
        std::thread::sleep(Duration::from_millis(200));
        drop(child.stdin.take());
        Outcome::from(child.wait_with_output().unwrap()).ok();
    }
}

#[test]
fn a_ledger_behind_a_link_is_the_ledger() {
    let desk = Desk::new();
    fs::create_dir(desk.path("shared")).unwrap();
    desk.m2m("ledger new shared/budget.toml --epsilon 1").ok();
    std::os::unix::fs::symlink("shared/budget.toml", desk.path("budget.toml")).unwrap();
    let sketch = "sketch people.csv --schema schema.toml --epsilon 1 --force -o people.m2m";
    desk.m2m(&format!("{sketch} --ledger budget.toml")).ok();
    assert!(desk.refused(&format!("{sketch} --ledger shared/budget.toml")).contains("has ε = 0 left"));
    assert!(desk.refused(&format!("{sketch} --ledger budget.toml")).contains("has ε = 0 left"));
}

#[test]
fn a_ledger_that_cannot_take_a_debit_is_left_as_it_was() {
    let desk = Desk::new();
    desk.put("budget.toml", "spent = []\n[total]\nepsilon = 1\n");
    let outcome = desk.m2m("sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o people.m2m");
    assert_eq!(outcome.code == Some(0), desk.has("people.m2m"));
    desk.m2m("ledger show budget.toml").ok();
}

#[test]
fn a_full_disk_leaves_the_files_of_the_demo_whole() {
    let desk = Desk::new();
    desk.m2m("demo --out there").ok();
    let before = desk.get("there/people.csv");
    let outcome = on_a_full_disk(&desk, 1, "demo --out there --force");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(desk.get("there/people.csv") == before);
    assert_eq!(on_a_full_disk(&desk, 1, "demo --out new").code, Some(1));
    assert!(!desk.has("new/people.csv"));
}

/// A reader that has seen enough is no error; a disk that is full is one, but no crash.
#[test]
fn a_closed_or_full_output_is_no_crash() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m").ok();
    for line in ["info people.m2m", "schema check schema.toml", "schema draft people.csv"] {
        let outcome = Outcome::of(&mut desk.bash(&format!("m2m {line} | true; exit ${{PIPESTATUS[0]}}")));
        assert!(!outcome.stderr.contains("panicked"), "{outcome:?}");
        let outcome = Outcome::of(&mut desk.bash(&format!("m2m {line} > /dev/full")));
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
    }
}

/// Messages are a courtesy: where nobody can hear them, the work goes on.
#[test]
fn messages_that_cannot_be_written_stop_nothing() {
    let desk = Desk::new();
    let line = "sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m";
    Outcome::of(&mut desk.bash(&format!("m2m {line} 2> /dev/full"))).ok();
    desk.m2m("info people.m2m").ok();
    assert_eq!(Outcome::of(&mut desk.bash("m2m info nowhere.m2m 2> /dev/full")).code, Some(2));
}
