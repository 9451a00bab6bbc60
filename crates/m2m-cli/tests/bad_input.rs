//! Every mistake in the input has its outcome: a message that says what to do and exit code 2 with nothing written, or,
//! where only records are odd, a release all the same.

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use common::{Desk, Outcome, Random, csv, gzip, mask, people, transcript};
use insta::assert_snapshot;

/// Two columns, for tables small enough to write down.
const SMALL: &str = "[[column]]\nname = 'age'\ntype = 'integer'\nmin = 0\nmax = 120\n\
                     [[column]]\nname = 'town'\ntype = 'category'\nlevels = ['north', 'south']\n";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.put("small.toml", SMALL).put("t.csv", "age,town\n1,north\n2,south\n");
    desk
}

#[test]
fn files_that_cannot_be_opened() {
    let desk = desk();
    std::fs::create_dir(desk.path("folder")).unwrap();
    let cases = [
        "nowhere.csv --schema small.toml",
        "t.csv nowhere.csv --schema small.toml",
        "folder --schema small.toml",
        "nowhere-*.csv --schema small.toml",
        "[a- --schema small.toml",
        "- t.csv - --schema small.toml",
        "t.csv --schema nowhere.toml",
        "t.csv --schema folder",
        "t.csv --schema small.toml --design nowhere.toml",
        "t.csv --schema small.toml --ledger nowhere.toml",
    ];
    let said = transcript(&cases, |case| desk.refused(&format!("sketch {case} --epsilon 1 -o t.m2m")));
    assert_snapshot!(said, @"
    > nowhere.csv --schema small.toml
    error: cannot read nowhere.csv: No such file or directory (os error 2)
    hint: give a file that is there and can be read

    > t.csv nowhere.csv --schema small.toml
    error: cannot read nowhere.csv: No such file or directory (os error 2)
    hint: give a file that is there and can be read

    > folder --schema small.toml
    error: cannot read folder: this is a directory; give its files, such as 'dir/*.csv'
    hint: give a file that is there and can be read

    > nowhere-*.csv --schema small.toml
    error: no file matches `nowhere-*.csv`
    hint: check the pattern

    > [a- --schema small.toml
    error: `[a-` is not a pattern: Pattern syntax error near position 0: invalid range pattern

    > - t.csv - --schema small.toml
    error: stdin: `-` is given twice
    hint: standard input can be read only once

    > t.csv --schema nowhere.toml
    error: cannot read nowhere.toml: No such file or directory (os error 2)
    hint: give a file that is there and can be read

    > t.csv --schema folder
    error: cannot read folder: Is a directory (os error 21)
    hint: give a file that is there and can be read

    > t.csv --schema small.toml --design nowhere.toml
    error: cannot read nowhere.toml: No such file or directory (os error 2)
    hint: give a file that is there and can be read

    > t.csv --schema small.toml --ledger nowhere.toml
    error: ledger: nowhere.toml is not there
    hint: start one with `m2m ledger new`
    ");
    for line in ["info folder", "merge folder -o a.sums", "release folder --epsilon 1 -o t.m2m", "schema draft folder"]
    {
        assert!(desk.refused(line).starts_with("error: "), "{line}");
    }
}

#[test]
fn tables_without_the_columns() {
    let desk = desk();
    let refuse = |table: &[u8]| {
        desk.put("t.csv", table);
        desk.refused("sketch t.csv --schema small.toml --epsilon 1 -o t.m2m")
    };
    let cases = [
        "",
        "\n\n",
        "age,Town\n1,north\n",
        "age;town\n1;north\n",
        "age,town,age\n1,north,2\n",
        "age,town\r1,north\r",
        "\"age,town\n1,north\n",
    ];
    assert_snapshot!(transcript(&cases, |case| refuse(case.as_bytes())), @r#"
    > 
    error: t.csv: it is empty
    hint: a CSV file starts with a header of column names

    > ⏎⏎
    error: t.csv: there is no column `age`, which the schema has
    hint: check the header and --delimiter, or remove it from the schema

    > age,Town⏎1,north⏎
    error: t.csv: there is no column `town`, which the schema has
    hint: check the header and --delimiter, or remove it from the schema

    > age;town⏎1;north⏎
    error: t.csv: there is no column `age`, which the schema has
    hint: check the header and --delimiter, or remove it from the schema

    > age,town,age⏎1,north,2⏎
    error: t.csv: the header has `age` twice
    hint: rename one of them

    > age,town␍1,north␍
    error: t.csv: there is no column `town`, which the schema has
    hint: check the header and --delimiter, or remove it from the schema

    > "age,town⏎1,north⏎
    error: t.csv: there is no column `age`, which the schema has
    hint: check the header and --delimiter, or remove it from the schema
    "#);
    assert_eq!(refuse(&gzip(b"")), refuse(b""));
    assert_eq!(refuse(&vec![b'x'; 3 << 20]), refuse(b"\n"));
    desk.put("t.csv", "age,town\n1,north\n").put("u.csv", "age\n1\n");
    let message = desk.refused("sketch t.csv u.csv --schema small.toml --epsilon 1 -o t.m2m");
    assert!(message.starts_with("error: u.csv: there is no column `town`"), "{message}");
    desk.put("users.toml", format!("[privacy]\nunit = 'person'\nmax_rows = 1\n{SMALL}"));
    let message = desk.refused("sketch t.csv --schema users.toml --epsilon 1 -o t.m2m");
    assert!(message.starts_with("error: t.csv: there is no column `person`"), "{message}");
}

#[test]
fn an_empty_table_has_a_release() {
    let desk = desk();
    for (name, text) in [("newline.csv", "age,town\n"), ("bare.csv", "age,town"), ("blank.csv", "age,town\r\n\r\n")] {
        desk.put(name, text);
        let sketch = format!("sketch {name} --schema small.toml --epsilon 1 --force -o t.m2m");
        assert!(desk.m2m(&sketch).ok().stderr.starts_with("read 0 rows\n"), "{name}");
        desk.m2m("info t.m2m").ok();
    }
}

#[test]
fn budgets_that_make_no_sense() {
    let desk = desk();
    let refuse = |options: &str| desk.refused(&format!("sketch t.csv --schema small.toml -o t.m2m {options}"));
    let cases = [
        "",
        "--epsilon 0",
        "--epsilon=-1",
        "--epsilon nan",
        "--epsilon 1000.5",
        "--epsilon 1e-18",
        "--epsilon 1 --delta 1",
        "--delta 1e-6",
        "--rho 0",
        "--rho 1 --epsilon 1",
        "--epsilon 1 --count-share 0",
        "--epsilon 1 --neighbours both",
    ];
    assert_snapshot!(transcript(&cases, refuse), @"
    > 
    error: no budget is given
    hint: give --epsilon, --epsilon and --delta, or --rho

    > --epsilon 0
    error: epsilon is 0
    hint: give a number above 0 and at most 1000, such as 1.0

    > --epsilon=-1
    error: invalid value '-1' for '--epsilon <ε>': `-1` is not a decimal from 0 to 1000000 with at most 15 significant digits and 18 places, such as 0.98 or 1e-6

    For more information, try '--help'.

    > --epsilon nan
    error: invalid value 'nan' for '--epsilon <ε>': `nan` is not a decimal from 0 to 1000000 with at most 15 significant digits and 18 places, such as 0.98 or 1e-6

    For more information, try '--help'.

    > --epsilon 1000.5
    error: epsilon is 1000.5
    hint: give a number above 0 and at most 1000, such as 1.0

    > --epsilon 1e-18
    error: the budget is so small that the noise overflows
    hint: give a larger one or a smaller map

    > --epsilon 1 --delta 1
    error: delta is 1
    hint: give a number between 0 and 1, far below one over the number of rows, such as 1e-6, or leave it out

    > --delta 1e-6
    error: delta stands alone
    hint: give epsilon beside it

    > --rho 0
    error: rho is 0
    hint: give a number above 0 and at most 1000, such as 1.0

    > --rho 1 --epsilon 1
    error: the argument '--rho <ρ>' cannot be used with '--epsilon <ε>'

    Usage: m2m sketch --schema <FILE> --output <FILE> --rho <ρ> <DATA>...

    For more information, try '--help'.

    > --epsilon 1 --count-share 0
    error: the count's share is 0
    hint: give a number between 0 and 1, such as 0.02

    > --epsilon 1 --neighbours both
    error: invalid value 'both' for '--neighbours <NEIGHBOURS>'
      [possible values: add-remove, replace]

    For more information, try '--help'.
    ");
    for text in ["inf", "-inf", "one", "1,5", "0x1", "1e", "1e-19", "1e999", "0.1234567890123456", "--"] {
        assert!(refuse(&format!("--epsilon={text}")).contains("is not a decimal"), "{text}");
    }
    for text in ["0", "1.5", "1000"] {
        assert!(refuse(&format!("--epsilon 1 --delta {text}")).starts_with(&format!("error: delta is {text}\n")));
    }
    assert!(refuse("--rho 1 --delta 1e-6").contains("cannot be used with"));
    assert!(refuse("--epsilon 1 --count-share 1").starts_with("error: the count's share is 1\n"));
    let cases = ["", "--epsilon 0", "--delta 1e-6", "--epsilon 1 --delta 1", "--epsilon 1 --rho 1"];
    let said = transcript(&cases, |options| desk.refused(&format!("ledger new budget.toml {options}")));
    assert_snapshot!(said, @"
    > 
    error: no budget is given
    hint: give --epsilon, --epsilon and --delta, or --rho

    > --epsilon 0
    error: epsilon is 0
    hint: give a number above 0 and at most 1000, such as 1.0

    > --delta 1e-6
    error: delta stands alone
    hint: give epsilon beside it

    > --epsilon 1 --delta 1
    error: delta is 1
    hint: give a number between 0 and 1, far below one over the number of rows, such as 1e-6, or leave it out

    > --epsilon 1 --rho 1
    error: rho is given with epsilon or delta
    hint: leave those out
    ");
}

#[test]
fn options_that_do_not_go_together() {
    let desk = desk();
    let cases = [
        "--schema small.toml --sums t.sums --epsilon 1",
        "--schema small.toml --sums t.sums -o t.m2m",
        "--schema small.toml",
        "--schema small.toml --sums t.sums --delimiter 5",
        "--schema small.toml --sums t.sums --threads 0",
        "--epsilon 1 -o t.m2m",
    ];
    assert_snapshot!(transcript(&cases, |options| desk.refused(&format!("sketch t.csv {options}"))), @"
    > --schema small.toml --sums t.sums --epsilon 1
    error: --sums spends nothing, so it takes no budget, ledger or noise
    hint: give them to `m2m release`, or -o in place of --sums

    > --schema small.toml --sums t.sums -o t.m2m
    error: the argument '--sums <FILE>' cannot be used with '--output <FILE>'

    Usage: m2m sketch --schema <FILE> --sums <FILE> <DATA>...

    For more information, try '--help'.

    > --schema small.toml
    error: the following required arguments were not provided:
      --output <FILE>

    Usage: m2m sketch --schema <FILE> --output <FILE> <DATA>...

    For more information, try '--help'.

    > --schema small.toml --sums t.sums --delimiter 5
    error: invalid value '5' for '--delimiter <CHAR>': give one character that is not part of a number, such as ; or tab

    For more information, try '--help'.

    > --schema small.toml --sums t.sums --threads 0
    error: invalid value '0' for '--threads <N>': 0 is not in 1..=1024

    For more information, try '--help'.

    > --epsilon 1 -o t.m2m
    error: the following required arguments were not provided:
      --schema <FILE>

    Usage: m2m sketch --epsilon <ε> --output <FILE> --schema <FILE> <DATA>...

    For more information, try '--help'.
    ");
}

#[test]
fn schemas_that_say_too_little_or_too_much() {
    let desk = desk();
    let refuse = |schema: &str| {
        desk.put("small.toml", schema);
        let message = desk.refused("schema check small.toml");
        assert_eq!(desk.refused("sketch t.csv --schema small.toml --epsilon 1 -o t.m2m"), message);
        message
    };
    let cases = [
        "",
        "column = []",
        "[[column]]\nname = 'age'\ntype = 'integer'\nmin = 0",
        "[[column]]\nname = 'age'\ntype = 'integer'\nmin = 9\nmax = 9",
        "[[column]]\nname = 'age'\ntype = 'integer'\nmin = 0\nmax = 9\nbins = 3",
        "[[column]]\nname = 'age'\ntype = 'text'",
        "[[column]]\nname = 'town'\ntype = 'category'\nlevels = ['a', 'b', 'a']",
        "[privacy]\nunit = 'person'\n[[column]]\nname = 'a'\ntype = 'boolean'",
        "[[column",
    ];
    assert_snapshot!(transcript(&cases, refuse), @r#"
    > 
    error: schema: small.toml: there is no column
    hint: add at least one [[column]]

    > column = []
    error: schema: small.toml: there is no column
    hint: add at least one [[column]]

    > [[column]]⏎name = 'age'⏎type = 'integer'⏎min = 0
    error: schema: small.toml: column `age`: it has no max
    hint: fill in a public bound that does not come from the data

    > [[column]]⏎name = 'age'⏎type = 'integer'⏎min = 9⏎max = 9
    error: schema: small.toml: column `age`: min must be below max, and both finite numbers smaller than 1e100 in size

    > [[column]]⏎name = 'age'⏎type = 'integer'⏎min = 0⏎max = 9⏎bins = 3
    error: schema: small.toml: TOML parse error at line 6, column 1
      |
    6 | bins = 3
      | ^^^^
    unknown field `bins`, expected one of `name`, `type`, `min`, `max`, `transform`, `atoms`, `levels`, `nullable`, `missing`

    > [[column]]⏎name = 'age'⏎type = 'text'
    error: schema: small.toml: TOML parse error at line 3, column 8
      |
    3 | type = 'text'
      |        ^^^^^^
    unknown variant `text`, expected one of `number`, `integer`, `date`, `datetime`, `boolean`, `category`

    > [[column]]⏎name = 'town'⏎type = 'category'⏎levels = ['a', 'b', 'a']
    error: schema: small.toml: column `town` lists a level twice

    > [privacy]⏎unit = 'person'⏎[[column]]⏎name = 'a'⏎type = 'boolean'
    error: schema: small.toml: unit = "person" needs max_rows, the number of rows of one user that count

    > [[column
    error: schema: small.toml: TOML parse error at line 1, column 9
      |
    1 | [[column
      |         ^
    unclosed array table, expected `]]`
    "#);
    desk.put("small.toml", b"\xff\xfe");
    assert!(desk.refused("schema check small.toml").contains("valid UTF-8"));
}

#[test]
fn designs_that_cannot_be_built() {
    let desk = desk();
    let refuse = |design: &str| {
        desk.refused(&format!("sketch t.csv --schema small.toml --epsilon 1 -o t.m2m --design {design}"))
    };
    let cases = [
        "fft",
        "rff:q=3",
        "rff:m",
        "rff:m=3",
        "rff:m=many",
        "rff:sigma=0",
        "race:w=80,hash=angular",
        "hist:bins=0",
        "tables:ways=3",
    ];
    assert_snapshot!(transcript(&cases, refuse), @r#"
    > fft
    error: design: there is no map `fft`
    hint: choose rff, race, hist or tables, or give a .toml file with several

    > rff:q=3
    error: design: rff:q=3: unknown field `q`, expected one of `m`, `sigma`, `kernel`, `frequencies`, `precision`, `seed`, `columns`

    > rff:m
    error: design: `m` is not a setting such as m=200

    > rff:m=3
    error: design: rff: m must be an even number from 2 to 16777216

    > rff:m=many
    error: design: rff:m=many: invalid type: string "many", expected usize

    > rff:sigma=0
    error: design: sigma is 0
    hint: give a finite number above 0, such as 1.0

    > race:w=80,hash=angular
    error: design: race: the angular hash needs w to be a power of two

    > hist:bins=0
    error: design: hist: bins is 0
    hint: give a number from 1 to 100000

    > tables:ways=3
    error: design: tables: there is no group of 3 among the columns
    hint: name groups, or take fewer ways
    "#);
    let cases = [
        "[[map]]\nkind = 'hist'\nshare = 0.5\n[[map]]\nkind = 'rff'\nshare = 0.6",
        "[[map]]\nkind = 'hist'\nshare = 1\n[[map]]\nkind = 'rff'\nshare = 0",
        "[[map]]\nkind = 'hist'\nshare = -1",
        "[[map]]\nkind = 'hist'",
        "[[map]]\nkind = 'hist'\nshare = 1.0\nbin = 3",
        "[[map]]\nkind = 'hist'\nshare = 1.0\ncolumns = ['shoe size']",
        "map = []",
    ];
    let said = transcript(&cases, |design| {
        desk.put("design.toml", design);
        refuse("design.toml")
    });
    assert_snapshot!(said, @"
    > [[map]]⏎kind = 'hist'⏎share = 0.5⏎[[map]]⏎kind = 'rff'⏎share = 0.6
    error: design.toml: design: the shares of the maps add up to 1.1
    hint: change them so that they add up to 1

    > [[map]]⏎kind = 'hist'⏎share = 1⏎[[map]]⏎kind = 'rff'⏎share = 0
    error: design.toml: design: a map has no share of the budget
    hint: give it one, or remove it

    > [[map]]⏎kind = 'hist'⏎share = -1
    error: design.toml: design: TOML parse error at line 3, column 9
      |
    3 | share = -1
      |         ^^
    `-1e0` is not a decimal from 0 to 1000000 with at most 15 significant digits and 18 places, such as 0.98 or 1e-6

    > [[map]]⏎kind = 'hist'
    error: design.toml: design: TOML parse error at line 1, column 1
      |
    1 | [[map]]
      | ^^^^^^^
    missing field `share`

    > [[map]]⏎kind = 'hist'⏎share = 1.0⏎bin = 3
    error: design.toml: design: TOML parse error at line 1, column 1
      |
    1 | [[map]]
      | ^^^^^^^
    unknown field `bin`, expected one of `bins`, `whole`, `halved`, `about_zero`, `columns`

    > [[map]]⏎kind = 'hist'⏎share = 1.0⏎columns = ['shoe size']
    error: design: the schema has no column `shoe size`

    > map = []
    error: design.toml: design: give between 1 and 1000 maps
    ");
}

fn sums(desk: &Desk, table: impl AsRef<[u8]>) -> Vec<u8> {
    desk.put("odd.csv", table);
    desk.m2m("sketch odd.csv --schema small.toml --threads 2 --force --sums odd.sums").ok();
    desk.get("odd.sums")
}

/// Not-a-number is missing, infinities and values out of bounds are clamped, unlisted levels are other, fields that are
/// not there are missing and surplus ones are not looked at.
#[test]
fn odd_cells_count_as_something_and_abort_nothing() {
    let desk = desk();
    let same = |odd: &[u8], plain: &[u8]| {
        let table = |rows: &[u8]| [b"age,town\n", rows].concat();
        let text = String::from_utf8_lossy(odd);
        assert!(sums(&desk, table(odd)) == sums(&desk, table(plain)), "{text}");
    };
    same(b"5,\n5,\n5,NULL\n", b"5,NA\n5,null\n5,\"\"\n");
    same(b"nan,north\nNaN,north\nx,north\n", b"NA,north\nNA,north\nNA,north\n");
    same(b"inf,north\nInfinity,south\n", b"120,north\n120,south\n");
    same(b"-inf,north\n-1e308,south\n-0.0,south\n", b"0,north\n0,south\n0,south\n");
    same(b"121,north\n1e400,south\n99999999999999999999,south\n", b"120,north\n120,south\n120,south\n");
    same(b"1,west\n1,NORTH\n1,\xff\xfe\n1,\0\n1,nan\n", b"1,?\n1,?\n1,?\n1,?\n1,?\n");
    same(b"\xff,north\n\0,north\n1\0,north\n", b"NA,north\nNA,north\nNA,north\n");
    same(b"1\n2,north,surplus,\"more\"\n3,\"north\"tail\n", b"1,NA\n2,north\n3,northtail\n");
    same(b"1,\"north\n2,south\n", b"1,other\n2,south\n");
    same(b"1,\"nor\"\"th\"\n2,\"\nsouth\"\n", b"1,other\n2,other\n");
    let outcome = desk.m2m("sketch odd.csv --schema small.toml --strict --force --sums odd.sums");
    assert_eq!(outcome.code, Some(0), "unlisted levels and values out of bounds are no faults: {outcome:?}");
}

#[test]
fn odd_rows_are_reported_by_number() {
    let desk = desk();
    desk.put("odd.csv", "age,town\n1,north\n\n121,west\n4\n5,north,6\nx,\n");
    let sketch = "sketch odd.csv --schema small.toml --epsilon 1 -o odd.m2m";
    assert_snapshot!(desk.m2m(sketch).ok().stderr, @"
    read 5 rows
    note: cells that cannot be read count as missing: age 1, town 1
    note: rows with too few or too many fields: 2
    note: the first is in odd.csv: row 3 has too few or too many fields
    note: levels that the schema does not list count as other: town 1
    note: values outside their bounds were clamped: 1
    note: these counts come from the data itself and are for you alone
    wrote odd.m2m: ε = 1
    ");
    assert_snapshot!(desk.refused(&format!("{} --strict", sketch.replace("odd.m2m", "strict.m2m"))), @"
    error: odd.csv: row 3 has too few or too many fields (strict reading)
    hint: mend it, or leave out --strict
    ");
}

/// A record of more than a mebibyte is one row, cut short; the rows around it are as they were.
#[test]
fn an_endless_line_is_one_row() {
    let desk = desk();
    let endless = "x".repeat(3 << 20);
    let expected = sums(&desk, "age,town\n1,north\n2,other\n3,south\n");
    assert!(sums(&desk, format!("age,town\n1,north\n2,{endless}\n3,south\n")) == expected);
    assert!(sums(&desk, format!("age,town\n1,north\n2,\"{endless}\"\n3,south\n")) == expected);
    assert!(sums(&desk, format!("age,town\n1,north\n3,south\n2,{endless}")) == expected);
    let missing = sums(&desk, "age,town\n1,north\nNA,NA\n3,south\n");
    assert!(sums(&desk, format!("age,town\n1,north\n{endless},south\n3,south\n")) == missing);
    let outcome = desk.m2m("sketch odd.csv --schema small.toml --force --sums odd.sums").ok();
    assert!(outcome.stderr.contains("note: the first is in odd.csv: row 2"), "{outcome:?}");
    let gibberish = vec![0u8; 3 << 20];
    assert!(sums(&desk, [&b"age,town\n1,north\n"[..], &gibberish, b"\n3,south\n"].concat()) == missing);
}

/// A quote that is never closed is an ordinary character: it swallows nothing, however much follows.
#[test]
fn an_open_quote_swallows_no_row() {
    let desk = desk();
    let rows: String = (0..200_000).map(|row| format!("{},north\n", row % 100)).collect();
    let expected = sums(&desk, format!("age,town\n1,other\n{rows}"));
    assert!(sums(&desk, format!("age,town\n1,\"north\n{rows}")) == expected);
    let expected = sums(&desk, format!("age,town\n{rows}1,other\n"));
    assert!(sums(&desk, format!("age,town\n{rows}1,\"north")) == expected);
}

fn batch() -> RecordBatch {
    let people = people(600);
    let ages: ArrayRef = Arc::new(Int64Array::from_iter_values(people.iter().map(|person| person.age)));
    let towns: ArrayRef = Arc::new(StringArray::from_iter(people.iter().map(|person| person.town)));
    RecordBatch::try_from_iter([("age", ages), ("town", towns)]).unwrap()
}

fn parquet_file(batch: &RecordBatch) -> Vec<u8> {
    let properties =
        parquet::file::properties::WriterProperties::builder().set_max_row_group_row_count(Some(250)).build();
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn files_that_end_too_early() {
    let desk = desk();
    let zipped = gzip(b"age,town\n1,north\n2,south\n");
    let long = gzip(csv(&people(9_000)).as_bytes());
    let (parquet, file, stream) = (parquet_file(&batch()), arrow_file(&batch()), arrow_stream(&batch()));
    desk.put("start.csv.gz", &zipped[..12]).put("all-but-one.csv.gz", &zipped[..zipped.len() - 1]);
    desk.put("half.csv.gz", &long[..long.len() / 2]);
    desk.put("nothing.parquet", "").put("start.parquet", &parquet[..4]);
    desk.put("half.parquet", &parquet[..parquet.len() / 2]);
    desk.put("nothing.arrow", "").put("start.arrow", &file[..8]).put("half.arrow", &file[..file.len() / 2]);
    desk.put("start.stream", &stream[..8]).put("half.stream", &stream[..stream.len() / 2]);
    let cases = [
        "start.csv.gz",
        "half.csv.gz",
        "all-but-one.csv.gz",
        "nothing.parquet",
        "start.parquet",
        "half.parquet",
        "nothing.arrow",
        "start.arrow",
        "half.arrow",
        "start.stream",
        "half.stream",
    ];
    let said =
        transcript(&cases, |name| desk.refused(&format!("sketch {name} --schema small.toml --epsilon 1 -o t.m2m")));
    assert_snapshot!(said, @"
    > start.csv.gz
    error: start.csv.gz: the gzip data is damaged or cut off (incomplete deflate stream)
    hint: make the file again

    > half.csv.gz
    error: half.csv.gz: the gzip data is damaged or cut off (incomplete deflate stream)
    hint: make the file again

    > all-but-one.csv.gz
    error: all-but-one.csv.gz: the gzip data is damaged or cut off (unexpected end of file)
    hint: make the file again

    > nothing.parquet
    error: nothing.parquet: this is not a Parquet file, though its name says so
    hint: make it again

    > start.parquet
    error: start.parquet: this Parquet file cannot be read (EOF: Parquet file too small. Size is 4 but need 8)
    hint: make it again

    > half.parquet
    error: half.parquet: this Parquet file cannot be read (Parquet error: Invalid Parquet file. Corrupt footer)
    hint: make it again

    > nothing.arrow
    error: nothing.arrow: this is not an Arrow IPC file, though its name says so
    hint: make it again

    > start.arrow
    error: start.arrow: this file cannot be read (Io error: Invalid argument (os error 22))
    hint: make it again

    > half.arrow
    error: half.arrow: this file cannot be read (Parser error: Arrow file does not contain correct footer)
    hint: make it again

    > start.stream
    error: start.stream: this file cannot be read (Parser error: Unexpected end of stream: expected 184 metadata bytes, got 0)
    hint: make it again

    > half.stream
    error: half.stream: this file cannot be read (Io error: failed to fill whole buffer)
    hint: make it again
    ");
}

/// Bytes changed, cut off, or added at the end.
fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    match random.below(4) {
        0 => damaged.truncate(random.below(bytes.len())),
        1 => damaged.extend((0..=random.below(9)).map(|byte| byte as u8)),
        2 => {
            let at = random.below(bytes.len());
            damaged[at] ^= 1 << random.below(8);
        }
        _ => {
            for _ in 0..8 {
                let at = random.below(bytes.len());
                damaged[at] = random.word() as u8;
            }
        }
    }
    damaged
}

/// Damage may go unnoticed where a format has no checksum, but it is never a crash.
fn damage_is_read_or_refused(files: &[(&str, Vec<u8>)], cases: usize) {
    let desk = desk();
    let mut random = Random(2);
    for (name, bytes) in files {
        for case in 0..cases {
            desk.put(name, damage(bytes, &mut random));
            let outcome = desk.m2m(&format!("sketch {name} --schema small.toml --force --sums t.sums"));
            assert!(matches!(outcome.code, Some(0 | 2)), "{name}, case {case}: {outcome:?}");
        }
    }
}

#[test]
fn a_damaged_text_is_read_or_refused() {
    let text = b"age,town\n1,north\n2,\"so\"\"uth\"\r\n-3.5,\n,\n1e3,x\n".to_vec();
    damage_is_read_or_refused(&[("t.csv.gz", gzip(&text)), ("t.csv", text)], 150);
}

#[test]
fn a_damaged_columnar_file_is_read_or_refused() {
    let (parquet, file, stream) = (parquet_file(&batch()), arrow_file(&batch()), arrow_stream(&batch()));
    damage_is_read_or_refused(&[("t.parquet", parquet), ("t.arrow", file), ("t.stream", stream)], 500);
}

/// Parquet and Arrow promise UTF-8: a file that breaks the promise is refused as a whole, without showing the text.
#[test]
fn a_columnar_file_whose_text_is_not_utf8_is_refused() {
    let desk = desk();
    let towns: ArrayRef = Arc::new(StringArray::from_iter_values((0..2_000).map(|row| format!("town {row:04}"))));
    let ages: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2_000));
    let batch = RecordBatch::try_from_iter([("age", ages), ("town", towns)]).unwrap();
    for (name, mut bytes) in [("t.parquet", parquet_file(&batch)), ("t.arrow", arrow_file(&batch))] {
        let at = bytes.windows(9).position(|window| window == b"town 1234").unwrap();
        bytes[at..at + 4].fill(0xff);
        desk.put(name, bytes);
        let message = desk.refused(&format!("sketch {name} --schema small.toml --epsilon 1 -o {name}.m2m"));
        assert!(message.contains(name) && message.contains("hint: ") && !message.contains("town"), "{message}");
    }
}

/// Sums and releases carry a hash: damage is found wherever it changes anything.
#[test]
fn damaged_sums_and_releases_are_refused() {
    let desk = desk();
    desk.m2m("sketch t.csv --schema small.toml --design hist --sums whole.sums").ok();
    desk.m2m("release whole.sums --epsilon 1 -o whole.m2m").ok();
    desk.m2m("release whole.sums --epsilon 1 -o whole.m2m.gz").ok();
    let mut random = Random(3);
    for (name, commands) in [
        (
            "whole.sums",
            &["merge damaged -o x", "merge whole.sums damaged -o x", "release damaged --epsilon 1 -o x"][..],
        ),
        ("whole.m2m", &["info damaged"]),
    ] {
        let whole = desk.get(name);
        for case in 0..90 {
            let damaged = damage(&whole, &mut random);
            if damaged == whole {
                continue;
            }
            let message = desk.put("damaged", damaged).refused(commands[case % commands.len()]);
            assert!(message.starts_with("error: ") && !message.contains("panicked"), "{name}, case {case}: {message}");
        }
    }
    // Gzip itself has bits that mean nothing.
    let (whole, release) = (desk.m2m("info whole.m2m.gz").ok().stdout, desk.get("whole.m2m.gz"));
    for case in 0..90 {
        let outcome = desk.put("damaged", damage(&release, &mut random)).m2m("info damaged");
        let unchanged = outcome.code == Some(0) && outcome.stdout == whole;
        assert!(unchanged || (outcome.code == Some(2) && outcome.stdout.is_empty()), "case {case}: {outcome:?}");
    }
}

#[test]
fn sums_that_do_not_belong_together() {
    let desk = desk();
    desk.put("other.toml", SMALL.replace("120", "121"));
    desk.m2m("sketch t.csv --schema small.toml --sums a.sums").ok();
    desk.m2m("sketch t.csv --schema other.toml --sums schema.sums").ok();
    desk.m2m("sketch t.csv --schema small.toml --design hist --sums design.sums").ok();
    let map = |at: u32| {
        let share = if at == 1 { "0.9" } else { "0.01" };
        format!("[[map]]\nkind = 'hist'\nbins = {}\nwhole = 28\nshare = {share}\n", 8 * at)
    };
    desk.put("earlier.toml", (1..12).map(map).collect::<String>());
    desk.m2m("sketch t.csv --schema small.toml --design earlier.toml --sums earlier.sums").ok();
    desk.put("cut.sums", &desk.get("a.sums")[..300]).put("foreign.sums", "of something else");
    let cases = [
        "release earlier.sums --rows 9 --epsilon 1 -o x",
        "merge a.sums schema.sums -o x",
        "merge a.sums design.sums -o x",
        "merge a.sums cut.sums -o x",
        "merge a.sums foreign.sums -o x",
        "merge a.sums nowhere.sums -o x",
        "release cut.sums --epsilon 1 -o x",
    ];
    assert_snapshot!(transcript(&cases, |line| desk.refused(line)), @"
    > release earlier.sums --rows 9 --epsilon 1 -o x
    error: design: these are the sums of a first round of another build, which this one cannot go on from
    hint: sketch the table again

    > merge a.sums schema.sums -o x
    error: schema.sums: sums: these parts have another schema or design
    hint: sketch all parts with the same ones

    > merge a.sums design.sums -o x
    error: design.sums: sums: these parts have another schema or design
    hint: sketch all parts with the same ones

    > merge a.sums cut.sums -o x
    error: sums: cut.sums is damaged or incomplete
    hint: sketch that part again

    > merge a.sums foreign.sums -o x
    error: sums: foreign.sums is not a file of sums
    hint: make one with `m2m sketch … --sums FILE`

    > merge a.sums nowhere.sums -o x
    error: cannot read nowhere.sums: No such file or directory (os error 2)
    hint: give a file that is there and can be read

    > release cut.sums --epsilon 1 -o x
    error: sums: cut.sums is damaged or incomplete
    hint: sketch that part again
    ");
}

#[test]
fn files_that_are_no_release_of_ours() {
    let desk = desk();
    desk.m2m("sketch t.csv --schema small.toml --design hist --epsilon 1 -o t.m2m").ok();
    let release = desk.text("t.m2m");
    let count = release.split_once("\"count\":{\"value\":").unwrap().1.split_once(',').unwrap().0;
    desk.put("empty.m2m", "").put("foreign.m2m", "{\"format\":\"geojson\",\"version\":1}");
    desk.put("future.m2m", release.replacen("\"version\":1", "\"version\":2", 1));
    desk.put("prettier.m2m", release.replacen("\"epsilon\":1.0", "\"epsilon\":0.1", 1));
    desk.put("fraction.m2m", release.replacen(&format!("\"value\":{count}"), "\"value\":1.5", 1));
    desk.put("half.m2m", &release[..release.len() / 2]);
    let cases = ["empty.m2m", "foreign.m2m", "future.m2m", "prettier.m2m", "fraction.m2m", "half.m2m"];
    let said = transcript(&cases, |name| desk.refused(&format!("info {name}")));
    assert_snapshot!(mask(&said, "at line 1 column ", "\n"), @"
    > empty.m2m
    error: release: empty.m2m: this is not a release of m2m
    hint: make one with `m2m sketch … -o FILE`

    > foreign.m2m
    error: release: foreign.m2m: this is not a release of m2m
    hint: make one with `m2m sketch … -o FILE`

    > future.m2m
    error: release: future.m2m: it has format version 2, and this m2m reads version 1
    hint: install a newer m2m

    > prettier.m2m
    error: release: prettier.m2m: its content is not what its hash says, so it was changed after it was written
    hint: get the original

    > fraction.m2m
    error: release: fraction.m2m: invalid type: floating point `1.5`, expected i64 at line 1 column …
    hint: get it again

    > half.m2m
    error: release: half.m2m: it is damaged or cut off
    hint: get the file again
    ");
}

/// What cannot be written is found out before a row is read and before anything is spent.
#[test]
fn outputs_that_cannot_be_written_cost_nothing() {
    let desk = desk();
    std::fs::create_dir(desk.path("folder")).unwrap();
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    desk.m2m("sketch t.csv --schema small.toml --sums a.sums").ok();
    for output in ["nowhere/t.m2m", "t.csv/t.m2m", "folder --force", &"x".repeat(250)] {
        for line in [
            "sketch t.csv --schema small.toml --epsilon 1 --ledger budget.toml -o",
            "release a.sums --epsilon 1 --ledger budget.toml -o",
            "sketch t.csv --schema small.toml --sums",
            "merge a.sums -o",
        ] {
            let message = desk.refused(&format!("{line} {output}"));
            assert!(message.starts_with("error: ") && message.contains("\nhint: "), "{line} {output}: {message}");
        }
    }
}

#[test]
fn outputs_that_cannot_be_written_are_not_written() {
    let desk = desk();
    std::fs::create_dir(desk.path("folder")).unwrap();
    let before = desk.contents();
    for output in ["nowhere/t.m2m", "t.csv/t.m2m", "folder", "folder --force"] {
        let outcome = desk.m2m(&format!("sketch t.csv --schema small.toml --epsilon 1 -o {output}"));
        assert!(matches!(outcome.code, Some(1 | 2)) && outcome.stderr.contains("error: "), "{output}: {outcome:?}");
        assert!(desk.contents() == before, "{output}");
    }
}

#[test]
fn a_path_that_leads_through_a_file_is_a_mistake() {
    let desk = desk();
    for line in [
        "sketch t.csv/u.csv --schema small.toml --epsilon 1 -o t.m2m",
        "sketch t.csv --schema small.toml/s.toml --epsilon 1 -o t.m2m",
        "info t.csv/t.m2m",
    ] {
        assert!(desk.refused(line).starts_with("error: cannot read "), "{line}");
    }
}

#[test]
fn a_device_that_fails_is_no_mistake() {
    let desk = desk();
    let sketch = "sketch - --schema small.toml --epsilon 1 -o t.m2m";
    let outcome = Outcome::of(&mut desk.bash(&format!("m2m {sketch} < /proc/self/mem")));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("Input/output error"), "{outcome:?}");
}

#[test]
fn sums_take_no_privacy_option() {
    let desk = desk();
    desk.m2m("ledger new budget.toml --epsilon 1").ok();
    for option in ["--ledger budget.toml", "--noise knorm", "--neighbours replace", "--count-share 0.5"] {
        let message = desk.refused(&format!("sketch t.csv --schema small.toml --sums t.sums {option}"));
        assert!(message.contains("--sums"), "{message}");
    }
}

#[test]
fn a_name_with_a_semicolon_stays_whole() {
    let desk = desk();
    desk.put("small.toml", "[[column]]\nname = 'age; in years'\ntype = 'integer'\nmin = 0\n");
    assert!(desk.refused("schema check small.toml").contains("`age; in years`"));
}
