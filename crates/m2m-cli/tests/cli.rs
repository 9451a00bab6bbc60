//! What each command does, and what it says to people.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int32Array, RecordBatch, StringArray};
use common::{Desk, Outcome, Person, SCHEMA, csv, gzip, mask, mode, people, transcript, trim};
use insta::assert_snapshot;
use serde_json::Value;

#[test]
fn help_says_what_there_is() {
    let desk = Desk::new();
    let help = |command: &str| {
        let outcome = desk.m2m(&format!("{command} --help")).ok();
        assert_eq!(outcome.stderr, "");
        trim(&outcome.stdout)
    };
    assert_snapshot!(help(""), @"
    One differentially private release of a table, published once and questioned forever

    Usage: m2m <COMMAND>

    Commands:
      demo       Publish a release of an artificial population and question it
      plan       Predict the errors of a release from its schema, before anything is read or spent
      sketch     Read a table and write a release, or secret sums to be merged
      merge      Add up secret sums of parts of one table
      release    Turn secret sums into a release
      info       Explain a release
      describe   Describe every column of the table behind a release
      corr       Show how the columns of the table behind a release go together
      plot       Draw a chart of a release, with error bands
      density    Show how dense the rows behind a release are, at points or on a grid
      fit        Fit a model to the rows behind a release
      cluster    Find groups among the rows behind a release
      pca        Find the directions in which the rows behind a release differ most
      explore    Explore a release on a page in the browser
      report     Write a page about a release, to publish beside it
      synth      Draw synthetic rows from a release
      sql        Ask a release a question in SQL
      shell      Ask a release one question after the other
      schema     Draft or check a schema
      ledger     Keep account of what a table has spent
      audit      Try to catch a release breaking its promise
      reproduce  Repeat the experiments of the M²M paper
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Start with `m2m demo`, then `m2m schema draft DATA`.
    ");
    for command in ["sql", "shell", "describe", "corr", "density", "fit", "cluster", "pca"] {
        let text = help(command);
        let (own, shared) = text.split_once("How the release is read:").expect(command);
        let (shared, examples) = shared.split_once("\nExamples:\n").expect(command);
        assert!(own.contains("--format") && !shared.contains("--format") && !shared.contains("QUERY"), "{text}");
        assert!(examples.starts_with(&format!("  m2m {command} ")), "{text}");
    }
    assert_snapshot!(help("demo"), @r#"
    Publish a release of an artificial population and question it

    Usage: m2m demo [OPTIONS]

    Options:
          --out <DIR>    Keep people.csv, schema.toml and people.m2m in this directory
          --epsilon <ε>  Privacy loss of the release [default: 1]
          --force        Replace existing files
      -h, --help         Print help

    Example:
      m2m demo --out demo && m2m sql demo/people.m2m "SELECT region, AVG(income) FROM people GROUP BY
      region"
    "#);
    assert_snapshot!(help("sketch"), @"
    Read a table and write a release, or secret sums to be merged

    Usage: m2m sketch [OPTIONS] <DATA>...

    Arguments:
      <DATA>...
              Files of one table: CSV (also gzipped), Parquet or Arrow; a pattern; or - for CSV on
              standard input

    Options:
          --schema <FILE>
              What is public about the table

          --design <DESIGN>
              Feature maps: auto, which reads the data twice and fits tables of columns to their
              histograms; or rff, race, hist, tables, with settings as in rff:m=200,sigma=1; or a .toml
              file with several maps and their shares [default: auto; with --sums, so that one round is
              enough, histograms and Fourier features with half the budget each]

          --rows <N>
              About how many rows there are, if that is public; otherwise the design auto goes by the
              noisy count

          --weight <COLUMNS=W>
              How much tables of some columns matter to the design auto, besides 1 for all others:
              `age=2`, `age*income=4`, or `name=0` for no tables with that column

          --after <FIRST>
              The second of two rounds, after what `m2m release` made of the sums of the first

      -o, --output <FILE>
              Where the release goes; gzipped when the name ends in .gz

          --sums <FILE>
              Write secret sums instead, to be merged and released later; spends nothing

          --delimiter <CHAR>
              What stands between the fields of a CSV file: one character, or `tab`

          --strict
              Stop at a cell that cannot be read, or a row with too few or too many fields

          --threads <N>
              How many threads [default: all cores]

          --force
              Replace an existing output

      -h, --help
              Print help (see a summary with '-h')

    Privacy:
          --epsilon <ε>
              Privacy loss; with it alone the release is purely ε-private

          --delta <δ>
              Failure probability of (ε, δ)-privacy, far below one over the number of rows

          --rho <ρ>
              Zero-concentrated privacy loss, in place of epsilon

          --neighbours <NEIGHBOURS>
              Which tables must look alike [default: add-remove]

              Possible values:
              - add-remove: One row or user more or less; the number of rows is protected
              - replace:    One row replaced by another; the number of rows is published as it is

          --count-share <SHARE>
              Part of the budget for the number of rows [default: 0.02]

          --noise <NOISE>
              Noise under pure ε: knorm, the default, is taken where it is smaller than laplace (half
              for Fourier features)

              [possible values: laplace, knorm]

          --ledger <FILE>
              Debit this ledger before noise is added, and refuse to overspend it

    Examples:
      m2m sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m
      m2m sketch 'part-*.parquet' --schema schema.toml --design rff:m=200,sigma=0.5 --epsilon 1 -o
      table.m2m
      zcat big.csv.gz | m2m sketch - --schema schema.toml --sums part.sums

    Two rounds over parts of a table, on as many machines as there are parts:
      m2m sketch part1.csv --schema schema.toml --design auto --sums a1.sums    (and a2, a3, …)
      m2m merge a*.sums -o a.sums
      m2m release a.sums --epsilon 1 -o first.m2m
      m2m sketch part1.csv --after first.m2m --sums b1.sums                     (and b2, b3, …)
      m2m merge b*.sums -o b.sums
      m2m release b.sums --after first.m2m -o table.m2m
    ");
    assert_snapshot!(help("merge"), @"
    Add up secret sums of parts of one table

    Usage: m2m merge [OPTIONS] --output <FILE> <SUMS>...

    Arguments:
      <SUMS>...  Secret sums of parts of one table, made with the same schema and design

    Options:
      -o, --output <FILE>  Where the secret total goes
          --force          Replace an existing output
      -h, --help           Print help

    Example:
      m2m merge monday.sums tuesday.sums -o all.sums
    ");
    assert_snapshot!(help("release"), @"
    Turn secret sums into a release

    Usage: m2m release [OPTIONS] --output <FILE> <SUMS>

    Arguments:
      <SUMS>
              Secret sums from `m2m sketch --sums` or `m2m merge`

    Options:
      -o, --output <FILE>
              Where the release goes; gzipped when the name ends in .gz

          --after <FIRST>
              The first round, if the sums are those of a second

          --rows <N>
              About how many rows there are, if that is public; otherwise a first round goes by the
              noisy count

          --force
              Replace an existing output

      -h, --help
              Print help (see a summary with '-h')

    Privacy:
          --epsilon <ε>
              Privacy loss; with it alone the release is purely ε-private

          --delta <δ>
              Failure probability of (ε, δ)-privacy, far below one over the number of rows

          --rho <ρ>
              Zero-concentrated privacy loss, in place of epsilon

          --neighbours <NEIGHBOURS>
              Which tables must look alike [default: add-remove]

              Possible values:
              - add-remove: One row or user more or less; the number of rows is protected
              - replace:    One row replaced by another; the number of rows is published as it is

          --count-share <SHARE>
              Part of the budget for the number of rows [default: 0.02]

          --noise <NOISE>
              Noise under pure ε: knorm, the default, is taken where it is smaller than laplace (half
              for Fourier features)

              [possible values: laplace, knorm]

          --ledger <FILE>
              Debit this ledger before noise is added, and refuse to overspend it

    Examples:
      m2m release all.sums --epsilon 1 --ledger budget.toml -o table.m2m
      m2m release second.sums --after first.m2m --ledger budget.toml -o table.m2m
    ");
    assert_snapshot!(help("info"), @"
    Explain a release

    Usage: m2m info [OPTIONS] <RELEASE>

    Arguments:
      <RELEASE>
              The release

    Options:
          --format <FORMAT>
              How it is printed

              Possible values:
              - table: For people
              - json:  For programs

              [default: table]

      -h, --help
              Print help (see a summary with '-h')

    Example:
      m2m info people.m2m --format json
    ");
    assert_snapshot!(help("schema"), @"
    Draft or check a schema

    Usage: m2m schema <COMMAND>

    Commands:
      draft  Write a draft from the names and types in a file's header; bounds and levels are yours to
             fill in
      check  Check a schema and show what it says
      help   Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Examples:
      m2m schema draft people.csv > schema.toml
      m2m schema check schema.toml
    ");
    assert_snapshot!(help("schema draft"), @"
    Write a draft from the names and types in a file's header; bounds and levels are yours to fill in

    Usage: m2m schema draft [OPTIONS] <DATA>

    Arguments:
      <DATA>  A file of the table

    Options:
          --delimiter <CHAR>  What stands between the fields of a CSV file: one character, or `tab`
      -h, --help              Print help

    Example:
      m2m schema draft people.csv > schema.toml
    ");
    assert_snapshot!(help("schema check"), @"
    Check a schema and show what it says

    Usage: m2m schema check [OPTIONS] <SCHEMA>

    Arguments:
      <SCHEMA>
              The schema

    Options:
          --format <FORMAT>
              How it is printed

              Possible values:
              - table: For people
              - json:  For programs

              [default: table]

      -h, --help
              Print help (see a summary with '-h')

    Example:
      m2m schema check schema.toml
    ");
    assert_snapshot!(help("ledger"), @"
    Keep account of what a table has spent

    Usage: m2m ledger <COMMAND>

    Commands:
      new   Start a ledger with a total
      show  Show what was spent and what is left
      help  Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Examples:
      m2m ledger new budget.toml --epsilon 3
      m2m ledger show budget.toml
    ");
    assert_snapshot!(help("ledger new"), @"
    Start a ledger with a total

    Usage: m2m ledger new [OPTIONS] <LEDGER>

    Arguments:
      <LEDGER>  The ledger

    Options:
          --epsilon <ε>  Total ε
          --delta <δ>    Total δ
          --rho <ρ>      Total ρ
      -h, --help         Print help

    Example:
      m2m ledger new budget.toml --epsilon 3
    ");
    assert_snapshot!(help("ledger show"), @"
    Show what was spent and what is left

    Usage: m2m ledger show [OPTIONS] <LEDGER>

    Arguments:
      <LEDGER>
              The ledger

    Options:
          --format <FORMAT>
              How it is printed

              Possible values:
              - table: For people
              - json:  For programs

              [default: table]

      -h, --help
              Print help (see a summary with '-h')

    Example:
      m2m ledger show budget.toml
    ");
}

#[test]
fn no_command_is_a_mistake_that_shows_help() {
    let desk = Desk::new();
    let message = desk.refused("");
    assert_eq!(message, desk.m2m("--help").stdout);
    assert_snapshot!(desk.refused("skecth"), @"
    error: unrecognized subcommand 'skecth'

      tip: some similar subcommands exist: 'synth', 'sketch'

    Usage: m2m <COMMAND>

    For more information, try '--help'.
    ");
    assert_eq!(desk.m2m("--version").ok().stdout, concat!("m2m ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Six counts of levels have discrete Laplace noise of scale below 19, and the number of rows one of scale 50: off by more
/// than 1500 with probability below 10⁻¹².
#[test]
fn demo_answers_near_the_truth() {
    let desk = Desk::new();
    let before = desk.names();
    let outcome = desk.m2m("demo").ok();
    assert_eq!(outcome.stderr, "");
    assert_eq!(desk.names(), before);
    let (explanation, counts) = outcome.stdout.split_once("\nSELECT").unwrap();
    let explanation = mask(&mask(explanation, "Rows: about ", " (noise"), "sha256:", "\n");
    assert!(
        explanation.contains("  values: means of 5 columns, each within an interval; 5 sums, share 0.1, "),
        "{explanation}"
    );
    let explanation = masked_tables(&explanation);
    assert_snapshot!(trim(&explanation), @"
    50000 people who do not exist, 9 columns, one release.

    Privacy: ε = 1, for adding or removing one row
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719.
    Rows: about … (noise of standard deviation 70.7)
    Columns:
      age: integer from 18 to 95
      sex: category of 2 levels (female, male)
      education: category of 6 levels (none, school, apprenticeship, bachelor, master, doctorate)
      region: category of 4 levels (north, east, south, west)
      height: number from 120 to 220
      hours: integer from 0 to 99, with atoms at 0
      income: number from 0 to 1000000, on a log1p scale, with atoms at 0, may be missing
      smoker: boolean, may be missing
      registered: date from 2010-01-01 to 2019-12-31
    Contents:
      hist: histograms of 47 bins; 377 sums, share 0.43, discrete Laplace noise of standard deviation 30.2 rows each
      merged: 12 tables of up to 3 columns, in groups of cells; … sums, share … rows each
      signs: products of the signs of … pairs of columns; … sums, share … rows each
    Hash: sha256:…
    ");
    // Once in a hundred runs the noise makes it look as if a level that is not listed were there.
    let answers: Vec<&str> = counts.lines().filter(|line| line.contains('±') && !line.contains("(other)")).collect();
    assert_eq!(answers.len(), 20, "{counts}");
    for line in answers.iter().filter(|line| line.contains(" people ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "people", released, "±", _, truth] = words[..] else { panic!("{line}") };
        let (released, truth): (f64, f64) = (released.parse().unwrap(), truth.parse().unwrap());
        assert!((released - truth).abs() < 1500.0, "{line}");
    }
}

#[test]
fn demo_keeps_three_files_and_replaces_them_only_by_force() {
    let desk = Desk::new();
    let outcome = desk.m2m("demo --out there").ok();
    assert_eq!(outcome.stderr, "\nwrote there/people.csv, there/schema.toml and there/people.m2m\n");
    let release = desk.get("there/people.m2m");
    assert_snapshot!(desk.refused("demo --out there"), @"
    error: there/people.csv exists already
    hint: give another name, or --force to replace it
    ");
    assert!(desk.get("there/people.m2m") == release);
    fs::remove_file(desk.path("there/people.csv")).unwrap();
    assert!(desk.refused("demo --out there").starts_with("error: there/schema.toml exists"));
    assert!(!desk.has("there/people.csv"));
    desk.m2m("demo --out there --force --epsilon 0.5").ok();
    assert!(desk.m2m("info there/people.m2m").ok().stdout.starts_with("Privacy: ε = 0.5, "));
    desk.m2m("schema check there/schema.toml").ok();
    let read = desk.m2m("sketch there/people.csv --schema there/schema.toml --strict --sums people.sums").ok();
    assert!(read.stderr.starts_with("read 50000 rows\n"));
}

fn batch() -> RecordBatch {
    let columns: [(&str, ArrayRef); 6] = [
        ("age", Arc::new(Int32Array::from(vec![71_717]))),
        ("height", Arc::new(Float64Array::from(vec![71_717.5]))),
        ("town", Arc::new(StringArray::from(vec!["Sekretsund"]))),
        ("smoker", Arc::new(BooleanArray::from(vec![true]))),
        ("born", Arc::new(Date32Array::from(vec![-40_000]))),
        ("tags \"x\"", Arc::new(arrow_array::BinaryArray::from(vec![&b"Sekretsund"[..]]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_draft_holds_names_and_types_and_no_value() {
    let desk = Desk::new();
    desk.put("t.csv", "age, town ,\"a \"\"b\"\"\"\n71717,Sekretsund,Sekretsund\n");
    desk.put("t.parquet", parquet_file(&batch())).put("t.arrow", arrow_file(&batch()));
    let draft = |name: &str| {
        let outcome = desk.m2m(&format!("schema draft {name}")).ok();
        assert_eq!(
            outcome.stderr,
            "took the names from the header; fill in what is marked, then run `m2m schema check`\n"
        );
        for secret in ["71717", "Sekretsund", "true", "1860"] {
            assert!(!outcome.stdout.contains(secret), "{name} shows {secret}");
        }
        outcome.stdout
    };
    assert_snapshot!(draft("t.csv"), @r#"
    # Draft of a schema. Fill in every line marked FILL IN from what is publicly known about the table:
    # a codebook, a law of nature, the form that people filled in. Do not read bounds or levels off the
    # data: they are published as they are, and an extreme value or a rare level can betray a person.
    # Values outside the bounds are clamped, unlisted levels count as "other". Remove columns that
    # need not be released: each one takes its part of the privacy budget.

    [privacy]
    unit = "row"            # or the column that identifies a person, with max_rows = 4 on a line below

    [[column]]
    name = "age"
    # type = ""            # FILL IN: number | integer | date | datetime | boolean | category
    # min =                # FILL IN for number, integer, date, datetime
    # max =                # FILL IN for number, integer, date, datetime
    # levels = []          # FILL IN for category

    [[column]]
    name = "town"
    # type = ""            # FILL IN: number | integer | date | datetime | boolean | category
    # min =                # FILL IN for number, integer, date, datetime
    # max =                # FILL IN for number, integer, date, datetime
    # levels = []          # FILL IN for category

    [[column]]
    name = 'a "b"'
    # type = ""            # FILL IN: number | integer | date | datetime | boolean | category
    # min =                # FILL IN for number, integer, date, datetime
    # max =                # FILL IN for number, integer, date, datetime
    # levels = []          # FILL IN for category
    "#);
    assert_snapshot!(draft("t.parquet"), @r#"
    # Draft of a schema. Fill in every line marked FILL IN from what is publicly known about the table:
    # a codebook, a law of nature, the form that people filled in. Do not read bounds or levels off the
    # data: they are published as they are, and an extreme value or a rare level can betray a person.
    # Values outside the bounds are clamped, unlisted levels count as "other". Remove columns that
    # need not be released: each one takes its part of the privacy budget.

    [privacy]
    unit = "row"            # or the column that identifies a person, with max_rows = 4 on a line below

    [[column]]
    name = "age"
    type = "integer"
    # min =                # FILL IN
    # max =                # FILL IN

    [[column]]
    name = "height"
    type = "number"
    # min =                # FILL IN
    # max =                # FILL IN

    [[column]]
    name = "town"
    type = "category"
    # levels = []          # FILL IN

    [[column]]
    name = "smoker"
    type = "boolean"

    [[column]]
    name = "born"
    type = "date"
    # min = ""             # FILL IN, such as "2020-01-01"
    # max = ""             # FILL IN

    [[column]]
    name = 'tags "x"'
    # type = ""            # FILL IN: number | integer | date | datetime | boolean | category
    # min =                # FILL IN for number, integer, date, datetime
    # max =                # FILL IN for number, integer, date, datetime
    # levels = []          # FILL IN for category
    "#);
    assert_eq!(draft("t.arrow"), draft("t.parquet"));
    assert_eq!(desk.feed("schema draft -", &gzip(&desk.get("t.csv"))).ok().stdout, draft("t.csv"));
}

#[test]
fn a_draft_passes_when_a_person_has_filled_it_in() {
    let desk = Desk::new();
    desk.put("t.csv", "age,town\n1,north\n").put("t.parquet", parquet_file(&batch()));
    for name in ["t.csv", "t.parquet"] {
        desk.put("draft.toml", desk.m2m(&format!("schema draft {name}")).ok().stdout);
        desk.refused("schema check draft.toml");
    }
    assert_snapshot!(desk.refused("schema check draft.toml"), @"
    error: schema: draft.toml: column `age`: it has no min
    hint: fill in a public bound that does not come from the data
    ");
    let draft = desk.m2m("schema draft t.csv").ok().stdout;
    let (first, second) = draft.split_once("name = \"town\"").unwrap();
    let filled = first.replace("# type = \"\" ", "type = \"integer\" ").replace("# min = ", "min = 0 ");
    let filled = filled.replace("# max = ", "max = 120 ").to_owned() + "name = \"town\"";
    let filled =
        filled + &second.replace("# type = \"\" ", "type = \"category\" ").replace("# levels = []", "levels = ['x']");
    desk.put("filled.toml", filled);
    assert_snapshot!(desk.m2m("schema check filled.toml").ok().stdout, @"
    protects each row
    age: integer from 0 to 120
    town: category of 1 levels (x)
    ");
}

#[test]
fn schema_check_says_what_a_schema_says() {
    let desk = Desk::new();
    let outcome = desk.m2m("schema check schema.toml").ok();
    assert_eq!(outcome.stderr, "");
    assert_snapshot!(outcome.stdout, @"
    protects each row
    age: integer from 0 to 120
    height: number from 100 to 230
    income: number from 0 to 1000000, on a log1p scale, with atoms at 0, may be missing
    town: category of 3 levels (north, south, in, between), may be missing
    smoker: boolean, may be missing
    born: date from 1900-01-01 to 2025-12-31
    seen: datetime from 2020-01-01T00:00:00Z to 2026-01-01T00:00:00Z
    ");
    let json: Value = serde_json::from_str(&desk.m2m("schema check schema.toml --format json").ok().stdout).unwrap();
    assert_eq!(
        json["column"][5],
        serde_json::json!({"name": "born", "type": "date", "min": "1900-01-01", "max": "2025-12-31"})
    );
    let by_user = format!("[privacy]\nunit = \"person\"\nmax_rows = 3\n{SCHEMA}");
    desk.put("users.toml", by_user);
    let stdout = desk.m2m("schema check users.toml").ok().stdout;
    assert!(stdout.starts_with("protects each `person`, using at most 3 rows of it\n"), "{stdout}");
}

/// An explanation without the sizes of tables, the pairs that have signs, whether columns have values or are looked into, all
/// of which follows
/// the noise of the first round, nor the shares and the noise that follow from them.
fn masked_tables(text: &str) -> String {
    let line = |line: &str| {
        let line = match line.trim_start().split(':').next() {
            Some("merged") => mask(line, "in groups of cells; ", " sums"),
            Some("signs") => mask(&mask(line, "the signs of ", " pairs"), "columns; ", " sums"),
            _ => return line.to_owned(),
        };
        mask(&line, "share ", " rows each")
    };
    let is_sure = |line: &&str| {
        !line.trim_start().starts_with("values:") && !line.trim_start().starts_with("merged: parts of crowded bins")
    };
    text.split('\n').filter(is_sure).map(line).collect::<Vec<_>>().join("\n")
}

/// The explanation of a release, without what noise decides.
fn info(desk: &Desk, name: &str) -> String {
    let outcome = desk.m2m(&format!("info {name}")).ok();
    assert_eq!(outcome.stderr, "");
    let masked = masked_tables(&outcome.stdout);
    trim(&mask(&mask(&masked, "Rows: about ", " (noise"), "sha256:", "\n"))
}

fn info_json(desk: &Desk, name: &str) -> Value {
    let mut json: Value = serde_json::from_str(&desk.m2m(&format!("info {name} --format json")).ok().stdout).unwrap();
    assert!(json["count"]["value"].is_i64());
    assert_eq!(json["hash"].as_str().map(str::len), Some("sha256:".len() + 64));
    json["count"]["value"] = "…".into();
    json["hash"] = "…".into();
    json
}

#[test]
fn a_release_explains_itself() {
    let desk = Desk::new();
    let outcome = desk.m2m("sketch people.csv --schema schema.toml --epsilon 1 --rows 40 -o people.m2m").ok();
    assert_eq!(outcome.stdout, "");
    assert_snapshot!(outcome.stderr, @"
    read 40 rows
    note: levels that the schema does not list count as other: town 5
    note: values outside their bounds were clamped: 3
    note: these counts come from the data itself and are for you alone
    wrote people.m2m: ε = 1
    ");
    assert_snapshot!(info(&desk, "people.m2m"), @"
    Privacy: ε = 1, for adding or removing one row
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719.
    Rows: about … (noise of standard deviation 70.7)
    Columns:
      age: integer from 0 to 120
      height: number from 100 to 230
      income: number from 0 to 1000000, on a log1p scale, with atoms at 0, may be missing
      town: category of 3 levels (north, south, in, between), may be missing
      smoker: boolean, may be missing
      born: date from 1900-01-01 to 2025-12-31
      seen: datetime from 2020-01-01T00:00:00Z to 2026-01-01T00:00:00Z
    Contents:
      hist: histograms of 7 bins; 107 sums, share 0.5, one-hot K-norm noise of standard deviation 19.8 rows each
      merged: 7 tables of up to 3 columns, in groups of cells; … sums, share … rows each
      signs: products of the signs of … pairs of columns; … sums, share … rows each
    Hash: sha256:…
    ");
    desk.put("small.toml", "[[column]]\nname = 'smoker'\ntype = 'boolean'\nnullable = true\n");
    desk.m2m("sketch people.csv --schema small.toml --design hist --rho 0.5 -o small.m2m").ok();
    assert_snapshot!(format!("{:#}", info_json(&desk, "small.m2m")), @r#"
    {
      "blocks": [
        {
          "body": {
            "groups": 1,
            "shape": "one-hot"
          },
          "features": 3,
          "grid": 1,
          "map": {
            "bins": 32,
            "kind": "hist"
          },
          "noise": {
            "kind": "discrete-gaussian",
            "sigma": {
              "denominator": 1073741824,
              "numerator": 1084643036
            }
          },
          "noise_std": 1.0101525448262691,
          "sensitivity": {
            "l1": 1.0,
            "l2": 1.0
          },
          "share": 1.0
        }
      ],
      "count": {
        "noise": {
          "kind": "discrete-gaussian",
          "sigma": {
            "denominator": 1073741824,
            "numerator": 7592501250
          }
        },
        "noise_std": 7.071067811921239,
        "value": "…"
      },
      "hash": "…",
      "privacy": {
        "budget": {
          "rho": 0.5
        },
        "count_share": 0.02,
        "max_rows": 1,
        "neighbours": "add-remove",
        "unit": "row"
      },
      "reserved": null,
      "schema": {
        "column": [
          {
            "name": "smoker",
            "nullable": true,
            "type": "boolean"
          }
        ],
        "privacy": {
          "unit": "row"
        }
      }
    }
    "#);
}

#[test]
fn a_name_that_ends_in_gz_is_gzipped() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m.gz").ok();
    assert!(desk.get("people.m2m.gz").starts_with(&[0x1f, 0x8b]));
    assert!(info(&desk, "people.m2m.gz").starts_with("Privacy: ε = 1, "));
}

#[test]
fn two_releases_of_one_table_differ() {
    let desk = Desk::new();
    for name in ["a.m2m", "b.m2m"] {
        desk.m2m(&format!("sketch people.csv --schema schema.toml --design hist --epsilon 1 -o {name}")).ok();
    }
    assert!(desk.get("a.m2m") != desk.get("b.m2m"));
    assert_eq!(info_json(&desk, "a.m2m"), info_json(&desk, "b.m2m"));
}

/// The design auto reads a pipe and a file alike, twice, and spends a ledger once.
#[test]
fn two_rounds_are_one_release() {
    let desk = Desk::new();
    desk.put("people.csv", csv(&people(3000)));
    desk.m2m("ledger new budget.toml --epsilon 2").ok();
    let line = "--schema schema.toml --epsilon 1 --ledger budget.toml";
    desk.m2m(&format!("sketch people.csv {line} -o file.m2m")).ok();
    Outcome::of(&mut desk.bash(&format!("cat people.csv | m2m sketch - {line} --rows 3000 -o pipe.m2m"))).ok();
    for name in ["file.m2m", "pipe.m2m"] {
        let release: Value = serde_json::from_str(&desk.text(name)).unwrap();
        assert_eq!(release["blocks"][0]["map"]["kind"], "hist");
        assert_eq!(release["blocks"][1]["map"]["kind"], "merged");
        assert_eq!(release["privacy"]["budget"]["epsilon"], 1.0);
        let answer = desk.feed(&format!("sql {name} --format json"), b"SELECT AVG(age), CORR(age, height) FROM t").ok();
        assert!(answer.stdout.contains("std_error"), "{}", answer.stdout);
    }
    assert!(desk.refused(&format!("sketch people.csv {line} -o third.m2m")).contains("left"));
    assert!(
        desk.refused("sketch people.csv --schema schema.toml --design hist --rows 9 --epsilon 1 -o x").contains("auto")
    );
}

/// The same by sums of parts: each round is sketched in parts, merged and released, and the ledger pays once for both.
#[test]
fn two_rounds_go_through_files() {
    let desk = Desk::new();
    let all = people(3000);
    desk.put("a.csv", csv(&all[..1000])).put("b.csv", csv(&all[1000..]));
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    for part in ["a", "b"] {
        desk.m2m(&format!("sketch {part}.csv --schema schema.toml --design auto --sums {part}1.sums")).ok();
    }
    desk.m2m("merge a1.sums b1.sums -o all1.sums").ok();
    let outcome = desk.m2m("release all1.sums --epsilon 1 --ledger budget.toml -o first.m2m").ok();
    assert!(outcome.stderr.contains("first of two rounds"), "{}", outcome.stderr);
    assert!(desk.m2m("info first.m2m").ok().stdout.contains("0.6 of the budget for sums is left"));
    for part in ["a", "b"] {
        desk.m2m(&format!("sketch {part}.csv --after first.m2m --weight town=2 --sums {part}2.sums")).ok();
    }
    desk.m2m("merge a2.sums b2.sums -o all2.sums").ok();
    assert!(desk.refused("merge a1.sums b2.sums -o x.sums").contains("another schema or design"));
    assert!(desk.refused("release all2.sums --epsilon 1 -o x.m2m").contains("--after"));
    assert!(desk.refused("release all1.sums --after first.m2m -o x.m2m").contains("leave out --after"));
    assert!(desk.refused("release all2.sums --after first.m2m -o x.m2m").contains("--ledger"));
    let line = "release all2.sums --after first.m2m --ledger budget.toml";
    assert!(desk.refused(&format!("{line} --epsilon 1 -o x.m2m")).contains("leave them out"));
    desk.m2m(&format!("{line} -o table.m2m")).ok();
    assert!(desk.refused(&format!("{line} -o again.m2m")).contains("was made"));
    assert!(desk.m2m("ledger show budget.toml").ok().stdout.ends_with("left   ε = 0\n"));
    let release: Value = serde_json::from_str(&desk.text("table.m2m")).unwrap();
    assert_eq!(release["privacy"]["budget"]["epsilon"], 1.0);
    assert!(release.get("reserved").is_none());
    assert!(desk.refused("sketch a.csv --after table.m2m --sums x.sums").contains("follows a first"));
    desk.feed("sql table.m2m", b"SELECT AVG(age), CORR(age, height) FROM t").ok();
}

/// At ε = 1000 noise of scale 1/250 is other than 0 with probability below 10⁻¹⁰⁰: the release shows what was added up.
#[test]
fn a_huge_budget_shows_the_exact_counts() {
    let desk = Desk::new();
    let people = people(3000);
    desk.put("people.csv", csv(&people));
    desk.put("design.toml", "[[map]]\nkind = 'hist'\ncolumns = ['town', 'smoker']\nshare = 1.0\n");
    let line =
        "sketch people.csv --schema schema.toml --design design.toml --epsilon 1000 --count-share 0.5 -o people.m2m";
    desk.m2m(line).ok();
    let release: Value = serde_json::from_str(&desk.text("people.m2m")).unwrap();
    let count = |is: &dyn Fn(&Person) -> bool| people.iter().filter(|person| is(person)).count();
    let towns = [Some("north"), Some("south"), Some("in, between"), Some("elsewhere"), None];
    let towns = towns.map(|town| count(&|person| person.town == town));
    let smokers = [Some(false), Some(true), None].map(|smoker| count(&|person| person.smoker == smoker));
    assert_eq!(release["blocks"][0]["sums"], serde_json::json!([&towns[..], &smokers[..]].concat()));
    assert_eq!(release["count"]["value"], 3000);
}

#[test]
fn parts_merged_are_the_table_in_one_go() {
    let desk = Desk::new();
    let all = people(2000);
    desk.put("all.csv", csv(&all)).put("a.csv", csv(&all[..700])).put("b.csv", csv(&all[700..])).put("c.csv", csv(&[]));
    for name in ["all", "a", "b", "c"] {
        let outcome = desk.m2m(&format!("sketch {name}.csv --schema schema.toml --design rff --sums {name}.sums")).ok();
        assert!(outcome.stderr.ends_with(&format!("wrote {name}.sums: secret sums, not for publication\n")));
    }
    let outcome = desk.m2m("merge b.sums c.sums a.sums -o merged.sums").ok();
    assert_eq!(outcome.stderr, "wrote merged.sums: secret sums of 3 parts, not for publication\n");
    assert!(desk.get("merged.sums") == desk.get("all.sums"));
    let outcome = desk.m2m("release merged.sums --epsilon 1 -o parts.m2m").ok();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", "wrote parts.m2m: ε = 1\n"));
    desk.m2m("sketch all.csv --schema schema.toml --design rff --epsilon 1 -o whole.m2m").ok();
    assert_eq!(info_json(&desk, "parts.m2m"), info_json(&desk, "whole.m2m"));
}

#[test]
fn sums_are_for_the_owner_alone_and_no_release() {
    let desk = Desk::new();
    desk.put("people.sums", "world-readable");
    desk.m2m("sketch people.csv --schema schema.toml --force --sums people.sums").ok();
    desk.m2m("merge people.sums -o merged.sums").ok();
    assert_eq!((mode(&desk.path("people.sums")), mode(&desk.path("merged.sums"))), (0o600, 0o600));
    assert_snapshot!(desk.refused("info people.sums"), @"
    error: release: people.sums: this is a file of secret sums
    hint: keep it to yourself, and make a release of it with `m2m release`
    ");
    desk.m2m("release people.sums --epsilon 1 -o people.m2m").ok();
    assert_snapshot!(desk.refused("merge people.sums people.m2m -o all.sums"), @"
    error: sums: people.m2m is not a file of sums
    hint: make one with `m2m sketch … --sums FILE`
    ");
    assert_eq!(desk.refused("release people.m2m --epsilon 1 -o again.m2m").lines().count(), 2);
    assert_eq!(mode(&desk.path("people.m2m")), mode(&desk.path("people.csv")));
}

#[test]
fn what_exists_is_kept_without_force() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --sums a.sums").ok();
    desk.put("there", "of value").m2m("ledger new budget.toml --epsilon 1").ok();
    let lines = [
        "sketch people.csv --schema schema.toml --sums there",
        "sketch people.csv --schema schema.toml --epsilon 1 -o there",
        "sketch people.csv --schema schema.toml --epsilon 1 --ledger budget.toml -o there",
        "merge a.sums -o there",
        "release a.sums --epsilon 1 --ledger budget.toml -o there",
    ];
    for line in lines {
        let message = desk.refused(line);
        assert_eq!(
            message, "error: there exists already\nhint: give another name, or --force to replace it\n",
            "{line}"
        );
    }
    assert!(desk.refused("ledger new there --epsilon 1").starts_with("error: ledger: there is there already"));
    for line in lines {
        desk.put("there", "of value").m2m(&format!("{line} --force")).ok();
        assert!(desk.get("there") != b"of value", "{line}");
        fs::remove_file(desk.path("budget.toml")).unwrap();
        desk.m2m("ledger new budget.toml --epsilon 1").ok();
    }
}

#[test]
fn designs_have_short_and_long_forms() {
    let desk = Desk::new();
    let contents = |design: &str| {
        let line = format!("sketch people.csv --schema schema.toml --design {design} --epsilon 1 --force -o x.m2m");
        desk.m2m(&line).ok();
        let text = info(&desk, "x.m2m");
        let (_, contents) = text.split_once("Contents:\n").unwrap();
        contents.split_once("\nHash").unwrap().0.trim_start().to_owned()
    };
    desk.put(
        "design.toml",
        "[[map]]\nkind = 'tables'\ngroups = [['town', 'smoker']]\nshare = 0.125\n\
         [[map]]\nkind = 'rff'\nm = 20\ncolumns = ['age', 'height']\nshare = 0.375\n\
         [[map]]\nkind = 'hist'\nshare = 0.5\n",
    );
    let cases = [
        "rff",
        "rff:m=50,sigma=0.5,kernel=matern32,frequencies=iid,precision=precise,seed=7",
        "race",
        "race:r=10,w=16,hash=angular",
        "hist:bins=5",
        "tables",
        "tables:ways=3,bins=2",
        "design.toml",
    ];
    assert_snapshot!(transcript(&cases, contents), @"
    > rff
    rff: 200 Fourier features, kernel gaussian with sigma 1; 200 sums, share 1, disc K-norm noise of standard deviation 102.8 rows each

    > rff:m=50,sigma=0.5,kernel=matern32,frequencies=iid,precision=precise,seed=7
    rff: 50 Fourier features, kernel matern32 with sigma 0.5; 50 sums, share 1, disc K-norm noise of standard deviation 26.3 rows each

    > race
    race: 80 euclidean hashes into 80 buckets; 6400 sums, share 1, one-hot K-norm noise of standard deviation 113.4 rows each

    > race:r=10,w=16,hash=angular
    race: 10 angular hashes into 16 buckets; 160 sums, share 1, one-hot K-norm noise of standard deviation 13.3 rows each

    > hist:bins=5
    hist: histograms of 5 bins; 39 sums, share 1, one-hot K-norm noise of standard deviation 9.3 rows each

    > tables
    tables: 21 contingency tables; 1229 sums, share 1, one-hot K-norm noise of standard deviation 29.8 rows each

    > tables:ways=3,bins=2
    tables: 35 contingency tables; 1380 sums, share 1, one-hot K-norm noise of standard deviation 48.8 rows each

    > design.toml
    tables: 1 contingency tables; 15 sums, share 0.125, discrete Laplace noise of standard deviation 11.5 rows each
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 0.375, disc K-norm noise of standard deviation 29.2 rows each
      hist: histograms of 32 bins; 173 sums, share 0.5, one-hot K-norm noise of standard deviation 20.0 rows each
    ");
}

#[test]
fn every_kind_of_budget_states_its_promise() {
    let desk = Desk::new();
    let by_user = format!("[privacy]\nunit = \"person\"\nmax_rows = 2\n{SCHEMA}");
    let rows: Vec<String> = csv(&people(40))
        .lines()
        .enumerate()
        .map(|(i, line)| match i {
            0 => format!("person,{line}\n"),
            i => format!("{},{line}\n", i % 10),
        })
        .collect();
    desk.put("users.toml", by_user).put("users.csv", rows.concat());
    let privacy = |data: &str, options: &str| {
        desk.m2m(&format!("sketch {data} --design rff:m=20 --force -o x.m2m {options}")).ok();
        let text = info(&desk, "x.m2m");
        let kept =
            text.lines().filter(|line| !line.starts_with("  ") || line.contains(" sums, ") || line.ends_with('.'));
        kept.filter(|line| !line.starts_with("Columns") && !line.starts_with("Hash")).collect::<Vec<_>>().join("\n")
    };
    let cases = [
        "--epsilon 0.1",
        "--epsilon 1 --count-share 0.5",
        "--epsilon 1 --noise laplace",
        "--epsilon 1 --delta 1e-6",
        "--rho 0.125",
        "--epsilon 1 --neighbours replace",
    ];
    assert_snapshot!(transcript(&cases, |options| privacy("people.csv --schema schema.toml", options)), @"
    > --epsilon 0.1
    Privacy: ε = 0.1, for adding or removing one row
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 1.106.
    Rows: about … (noise of standard deviation 707.1)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, disc K-norm noise of standard deviation 109.7 rows each

    > --epsilon 1 --count-share 0.5
    Privacy: ε = 1, for adding or removing one row
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719.
    Rows: about … (noise of standard deviation 2.8)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, disc K-norm noise of standard deviation 21.5 rows each

    > --epsilon 1 --noise laplace
    Privacy: ε = 1, for adding or removing one row
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719.
    Rows: about … (noise of standard deviation 70.7)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, discrete Laplace noise of standard deviation 20.4 rows each

    > --epsilon 1 --delta 1e-6
    Privacy: ε = 1, δ = 0.000001, for adding or removing one row
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719, but for a probability of 0.000001.
    Rows: about … (noise of standard deviation 29.9)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, discrete Gaussian noise of standard deviation 13.5 rows each

    > --rho 0.125
    Privacy: ρ = 0.125, for adding or removing one row
      The privacy loss of one of them is below that of a normal variable with mean 0.125 and variance 0.25.
    Rows: about … (noise of standard deviation 14.1)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, discrete Gaussian noise of standard deviation 6.4 rows each

    > --epsilon 1 --neighbours replace
    Privacy: ε = 1, for replacing one row by another; the number of rows is public
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719.
    Rows: 40 (public)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, disc K-norm noise of standard deviation 21.5 rows each
    ");
    assert_snapshot!(privacy("users.csv --schema users.toml", "--epsilon 1"), @"
    Privacy: ε = 1, for adding or removing all rows of one `person`, of which at most 2 were used
      Whatever is done with this file, the odds of any guess about one of them change by a factor of at most 2.719.
    Rows: about … (noise of standard deviation 141.4)
    Contents:
      rff: 20 Fourier features, kernel gaussian with sigma 1; 20 sums, share 1, disc K-norm noise of standard deviation 21.9 rows each
    ");
    let message = desk.refused("sketch users.csv --schema users.toml --epsilon 1 --neighbours replace -o y.m2m");
    assert_snapshot!(message, @r#"
    error: replace-one neighbours are for the unit "row", as a user's number of rows can change
    hint: use add-remove
    "#);
}

#[test]
fn a_user_counts_in_one_part_only() {
    let desk = Desk::new();
    let schema =
        "[privacy]\nunit = 'person'\nmax_rows = 2\n[[column]]\nname = 'age'\ntype = 'integer'\nmin = 0\nmax = 9\n";
    desk.put("users.toml", schema);
    for (name, rows) in [("a", "ann,1\nbob,2\n"), ("b", "cid,1\n"), ("c", "dan,1\nbob,3\n")] {
        desk.put("t.csv", format!("person,age\n{rows}"));
        desk.m2m(&format!("sketch t.csv --schema users.toml --sums {name}.sums")).ok();
    }
    desk.m2m("merge a.sums b.sums -o ab.sums").ok();
    let message = desk.refused("merge ab.sums c.sums -o abc.sums");
    assert_snapshot!(message, @"
    error: c.sums: sums: a user has rows in two parts, so more than max_rows of them could count
    hint: split the table by user, or sketch all files together
    ");
}

#[test]
fn a_ledger_counts_down_and_refuses() {
    let desk = Desk::new();
    assert_eq!(desk.m2m("ledger new budget.toml --epsilon 1").ok().said(), "wrote budget.toml: ε = 1 in all\n");
    desk.put("budget.toml", format!("# Approved in May.\n{}", desk.text("budget.toml")));
    fs::set_permissions(desk.path("budget.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    desk.m2m("sketch people.csv --schema schema.toml --sums a.sums").ok();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 0.3 --ledger budget.toml -o first.m2m").ok();
    desk.m2m("release a.sums --epsilon 0.6 --ledger budget.toml -o second.m2m").ok();
    let show = |options: &str| desk.m2m(&format!("ledger show budget.toml {options}")).ok().stdout;
    assert_snapshot!(mask(&show(""), "  20", "Z"), @"
    total  ε = 1
    spent  ε = 0.3  20…Z  first.m2m
    spent  ε = 0.6  20…Z  second.m2m
    left   ε = 0.1
    ");
    let json: Value = serde_json::from_str(&show("--format json")).unwrap();
    assert_snapshot!(mask(&format!("{json:#}"), "\"20", "\""), @r#"
    {
      "left": {
        "epsilon": 0.1
      },
      "spent": [
        {
          "at": "20…",
          "epsilon": 0.3,
          "neighbours": "add-remove",
          "unit": "row",
          "what": "first.m2m"
        },
        {
          "at": "20…",
          "epsilon": 0.6,
          "neighbours": "add-remove",
          "unit": "row",
          "what": "second.m2m"
        }
      ],
      "total": {
        "epsilon": 1.0
      }
    }
    "#);
    assert!(desk.text("budget.toml").starts_with("# Approved in May.\n[total]\nepsilon = 1.0\n"));
    assert_eq!(mode(&desk.path("budget.toml")), 0o640);
    let too_much = "--schema schema.toml --epsilon 0.11 --ledger budget.toml -o third.m2m";
    assert_snapshot!(desk.refused(&format!("sketch people.csv {too_much}")), @"
    error: ledger: budget.toml has ε = 0.1 left of ε = 1, too little for ε = 0.11, so nothing was spent
    hint: ask for no more than is left
    ");
    assert!(
        desk.refused("release a.sums --epsilon 0.11 --ledger budget.toml -o third.m2m").contains("has ε = 0.1 left")
    );
    desk.m2m("release a.sums --epsilon 0.1 --ledger budget.toml -o third.m2m").ok();
    assert!(show("").ends_with("left   ε = 0\n"));
    assert!(desk.refused("release a.sums --epsilon 1e-18 --ledger budget.toml -o fourth.m2m").contains("overflows"));
}

#[test]
fn a_ledger_pays_in_its_own_kind() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --design hist --sums a.sums").ok();
    let show = |name: &str| mask(&desk.m2m(&format!("ledger show {name}")).ok().stdout, "  20", "Z");
    let release = |budget: &str| format!("release a.sums {budget} --force -o a.m2m");
    desk.m2m("ledger new approximate.toml --epsilon 2 --delta 1e-6").ok();
    desk.m2m(&release("--epsilon 0.5 --delta 0.0000004 --ledger approximate.toml")).ok();
    desk.m2m(&release("--epsilon 0.5 --ledger approximate.toml")).ok();
    assert_snapshot!(show("approximate.toml"), @"
    total  ε = 2, δ = 0.000001
    spent  ε = 0.5, δ = 0.0000004  20…Z  a.m2m
    spent  ε = 0.5  20…Z  a.m2m
    left   ε = 1, δ = 0.0000006
    ");
    assert_snapshot!(desk.refused(&release("--epsilon 0.5 --delta 1e-6 --ledger approximate.toml")), @"
    error: ledger: approximate.toml has ε = 1, δ = 0.0000006 left of ε = 2, δ = 0.000001, too little for ε = 0.5, δ = 0.000001, so nothing was spent
    hint: ask for no more than is left
    ");
    desk.m2m("ledger new rho.toml --rho 0.6").ok();
    desk.m2m(&release("--rho 0.1 --ledger rho.toml")).ok();
    desk.m2m(&release("--epsilon 1 --ledger rho.toml")).ok();
    assert_snapshot!(show("rho.toml"), @"
    total  ρ = 0.6
    spent  ρ = 0.1  20…Z  a.m2m
    spent  ε = 1  20…Z  a.m2m
    left   ρ = 0
    ");
    assert_snapshot!(desk.refused(&release("--epsilon 1 --delta 1e-6 --ledger rho.toml")), @"
    error: ledger: rho.toml: a total of ρ = 0.6 cannot pay for ε = 1, δ = 0.000001
    hint: keep a ledger whose total is of the same kind
    ");
}

/// Results go to standard output, everything else to standard error, so that output can be redirected safely.
#[test]
fn data_and_messages_go_apart() {
    let desk = Desk::new();
    desk.put("odd.csv", "age,height,income,town,smoker,born,seen\n1\n999,x,,,,,\n");
    let sketch = desk.m2m("sketch odd.csv --schema schema.toml --epsilon 1 -o odd.m2m").ok();
    assert_eq!(sketch.stdout, "");
    for line in ["info odd.m2m", "info odd.m2m --format json", "schema check schema.toml", "schema draft odd.csv"] {
        let outcome = desk.m2m(line).ok();
        assert!(!outcome.stdout.is_empty() && !outcome.stdout.contains("note:"), "{line}");
    }
    for line in
        ["info nowhere.m2m", "ledger show nowhere.toml", "schema check nowhere.toml", "schema draft nowhere.csv"]
    {
        let message = desk.refused(line);
        assert!(message.starts_with("error: ") && message.contains("nowhere."), "{line}");
    }
}
