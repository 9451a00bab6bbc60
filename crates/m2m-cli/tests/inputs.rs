//! One table in many files: whatever holds the rows, the sums are the same bytes.

mod common;

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_schema::{DataType, TimeUnit};
use common::{COLUMNS, Desk, Outcome, Person, Random, csv, gzip, iso_date, iso_moment, people};
use insta::assert_snapshot;

/// More than two blocks of 256 KiB, and more than one panel in each.
const ROWS: usize = 9_000;

/// The sums of some files, read by one thread and by three.
fn sums(desk: &Desk, data: &str) -> Vec<u8> {
    let both = [1, 3].map(|threads| {
        let line = format!("sketch {data} --schema schema.toml --threads {threads} --force --sums out.sums");
        desk.m2m(&line).ok();
        desk.get("out.sums")
    });
    assert!(both[0] == both[1], "{data}: threads change the sums");
    both.into_iter().next().unwrap()
}

/// The sums of the plainest CSV.
fn reference(desk: &Desk, people: &[Person]) -> Vec<u8> {
    desk.put("plain.csv", csv(people));
    sums(desk, "plain.csv")
}

struct Style {
    delimiter: char,
    quotes: bool,
    newline: &'static str,
    bom: bool,
    order: [usize; 7],
    extra: bool,
    last_newline: bool,
}

const PLAIN: Style = Style {
    delimiter: ',',
    quotes: false,
    newline: "\n",
    bom: false,
    order: [0, 1, 2, 3, 4, 5, 6],
    extra: false,
    last_newline: true,
};

fn styled(people: &[Person], style: &Style) -> String {
    let quote = |field: String| {
        let needed = style.quotes || field.contains([style.delimiter, '"', '\n']);
        if needed { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    let line = |fields: [String; 7], extra: &str| {
        let mut ordered: Vec<String> = style.order.iter().map(|at| quote(fields[*at].clone())).collect();
        if style.extra {
            ordered.insert(3, quote(extra.to_owned()));
        }
        ordered.join(&style.delimiter.to_string())
    };
    let mut lines = vec![line(COLUMNS.map(str::to_owned), "remarks")];
    let remarks = ["", "1", "says \"hello\",\nthen leaves", ";;;,,,\t\t", "é\u{2028}"];
    for (row, person) in people.iter().enumerate() {
        lines.push(line(person.fields().map(Option::unwrap_or_default), remarks[row % remarks.len()]));
    }
    let bom = if style.bom { "\u{feff}" } else { "" };
    let end = if style.last_newline { style.newline } else { "" };
    format!("{bom}{}{end}", lines.join(style.newline))
}

#[test]
fn the_dialect_of_csv_changes_nothing() {
    let desk = Desk::new();
    let order = [6, 3, 0, 5, 1, 4, 2];
    let cases = [
        ("", Style { quotes: true, ..PLAIN }),
        ("", Style { newline: "\r\n", ..PLAIN }),
        ("", Style { quotes: true, newline: "\r\n", ..PLAIN }),
        ("", Style { bom: true, ..PLAIN }),
        ("", Style { bom: true, quotes: true, ..PLAIN }),
        ("", Style { order, ..PLAIN }),
        ("", Style { extra: true, ..PLAIN }),
        ("--delimiter ;", Style { delimiter: ';', ..PLAIN }),
        ("--delimiter tab", Style { delimiter: '\t', ..PLAIN }),
        ("--delimiter |", Style { delimiter: '|', extra: true, order, ..PLAIN }),
    ];
    assert!(csv(&people(ROWS)).len() > 2 << 18);
    for rows in [0, 1, 2, 40, ROWS] {
        let people = people(rows);
        let expected = reference(&desk, &people);
        for (case, (options, style)) in cases.iter().enumerate() {
            desk.put("t.csv", styled(&people, style));
            assert!(sums(&desk, &format!("t.csv {options}")) == expected, "case {case} with {rows} rows");
        }
        desk.put("t.tsv", styled(&people, &Style { delimiter: '\t', ..PLAIN }));
        desk.put("T.TSV.gz", gzip(&desk.get("t.tsv")));
        assert!(sums(&desk, "t.tsv") == expected && sums(&desk, "T.TSV.gz") == expected, "{rows} rows");
    }
}

/// Fifty tables of up to six rows in dialects drawn at random.
#[test]
fn any_small_table_in_any_dialect() {
    let desk = Desk::new();
    let everyone = people(60);
    let mut random = Random(6);
    for case in 0..50 {
        let first = random.below(50);
        let people = &everyone[first..first + random.below(7)];
        let mut order = PLAIN.order;
        (1..7).rev().for_each(|last| order.swap(last, random.below(last + 1)));
        let (delimiter, options) = [(',', ""), (';', "--delimiter ;"), ('\t', "--delimiter tab")][random.below(3)];
        let newline = ["\n", "\r\n"][random.below(2)];
        let mut coin = || random.below(2) == 0;
        let style = Style { delimiter, quotes: coin(), newline, bom: coin(), order, extra: coin(), last_newline: true };
        desk.put("t.csv", styled(people, &style));
        assert!(sums(&desk, &format!("t.csv {options}")) == reference(&desk, people), "case {case}");
    }
}

#[test]
fn the_last_newline_may_be_left_out() {
    let desk = Desk::new();
    for rows in [1, 2, 40, ROWS] {
        let people = people(rows);
        let expected = reference(&desk, &people);
        for newline in ["\n", "\r\n"] {
            let text = styled(&people, &Style { last_newline: false, newline, ..PLAIN });
            desk.put("t.csv", &text).put("t.csv.gz", gzip(text.as_bytes()));
            assert!(sums(&desk, "t.csv") == expected && sums(&desk, "t.csv.gz") == expected, "{rows} rows");
        }
    }
}

#[test]
fn spellings_of_a_value_are_one_value() {
    let desk = Desk::new();
    desk.put(
        "a.csv",
        "age,height,income,town,smoker,born,seen\n\
         7,170.5,0,north,true,2020-02-29,2021-01-01T12:00:00Z\n\
         7,170.5,,,,2020-02-29,2021-01-01T12:00:00Z\n",
    );
    let expected = sums(&desk, "a.csv");
    desk.put(
        "b.csv",
        "age,height,income,town,smoker,born,seen\n\
         \"7\", 1.705e2 ,-0,\"north\",YES,2020-02-29T23:59:59,2021-01-01T13:00:00+01:00\n\n\
         07,+170.50000000000000000,NA,?,null,2020-02-29 00:00,2021-01-01 12:00:00\n",
    );
    assert!(sums(&desk, "b.csv") == expected);
}

#[test]
fn gzip_changes_nothing() {
    let desk = Desk::new();
    let people = people(ROWS);
    let expected = reference(&desk, &people);
    let plain = desk.get("plain.csv");
    desk.put("one.csv.gz", gzip(&plain)).put("unnamed", gzip(&plain));
    let members: Vec<u8> = plain.chunks(100_003).flat_map(gzip).collect();
    desk.put("many.csv.gz", members);
    let first_is_tiny: Vec<u8> = [gzip(&plain[..1]), gzip(&plain[1..])].concat();
    desk.put("tiny.csv.gz", first_is_tiny);
    for name in ["one.csv.gz", "unnamed", "many.csv.gz", "tiny.csv.gz"] {
        assert!(sums(&desk, name) == expected, "{name}");
    }
}

#[test]
fn standard_input_and_pipes_are_files_too() {
    let desk = Desk::new();
    let people = people(ROWS);
    let expected = reference(&desk, &people);
    let plain = desk.get("plain.csv");
    for threads in [1, 3] {
        let line = format!("sketch - --schema schema.toml --threads {threads} --force --sums out.sums");
        for input in [plain.clone(), gzip(&plain)] {
            desk.feed(&line, &input).ok();
            assert!(desk.get("out.sums") == expected);
        }
        let piped = line.replace(" - ", " <(head -n 4000 plain.csv) <(cat header rest | gzip) ");
        desk.put("header", COLUMNS.join(",") + "\n");
        let script = format!("tail -n +4001 plain.csv > rest; m2m {piped}");
        Outcome::of(&mut desk.bash(&script)).ok();
        assert!(desk.get("out.sums") == expected);
    }
}

#[test]
fn several_files_or_a_pattern_are_one_table() {
    let desk = Desk::new();
    let people = people(ROWS);
    let expected = reference(&desk, &people);
    std::fs::create_dir(desk.path("parts")).unwrap();
    let (a, rest) = people.split_at(1_000);
    let (b, c) = rest.split_at(5_000);
    desk.put("parts/a.csv", styled(a, &Style { order: [6, 5, 4, 3, 2, 1, 0], ..PLAIN }));
    desk.put("parts/b.csv", gzip(csv(b).as_bytes())).put("parts/c.csv", csv(c)).put("parts/d.csv", csv(&[]));
    desk.put("parts/other.txt", "not part of it");
    for data in ["parts/c.csv parts/a.csv parts/d.csv parts/b.csv", "parts/*.csv", "parts/[a-c].csv parts/?.csv.none*"]
    {
        if data.contains("none") {
            assert!(
                desk.refused(&format!("sketch {data} --schema schema.toml --sums x.sums")).contains("no file matches")
            );
            continue;
        }
        assert!(sums(&desk, data) == expected, "{data}");
    }
    desk.put("parts/b.csv", parquet_file(&batch(b, 0), 1_000)).put("parts/c.csv", arrow_file(&batch(c, 1)));
    assert!(sums(&desk, "parts/*.csv") == expected);
    desk.put("star*.csv", csv(&people)).put("stars.csv", "not part of it");
    assert!(sums(&desk, "star*.csv") == expected);
}

/// The people as Arrow columns, in several sets of types.
fn batch(people: &[Person], variant: usize) -> RecordBatch {
    fn all<T: Array + 'static>(array: T) -> ArrayRef {
        Arc::new(array)
    }
    let each = |value: fn(&Person) -> i64| people.iter().map(value).collect::<Vec<_>>();
    let (ages, seen) = (each(|p| p.age), each(|p| p.seen));
    let born: Vec<i32> = people.iter().map(|p| p.born).collect();
    let heights = people.iter().map(|p| p.height);
    let cents = people.iter().map(|p| p.cents);
    let towns = || people.iter().map(|p| p.town);
    let smokers = people.iter().map(|p| p.smoker);
    let moment = |unit: TimeUnit, factor: i64| -> ArrayRef {
        let values: Vec<i64> = seen.iter().map(|seconds| seconds * factor).collect();
        match unit {
            TimeUnit::Second => all(TimestampSecondArray::from(values)),
            TimeUnit::Millisecond => all(TimestampMillisecondArray::from(values).with_timezone("+00:00")),
            TimeUnit::Microsecond => all(TimestampMicrosecondArray::from(values).with_timezone("UTC")),
            TimeUnit::Nanosecond => all(TimestampNanosecondArray::from(values)),
        }
    };
    let columns: [ArrayRef; 7] = match variant {
        0 => [
            all(Int32Array::from_iter_values(ages.iter().map(|age| *age as i32))),
            all(Float64Array::from_iter_values(heights)),
            all(Float64Array::from_iter(cents.map(|cents| cents.map(|cents| cents as f64 / 100.0)))),
            all(StringArray::from_iter(towns())),
            all(BooleanArray::from_iter(smokers)),
            all(Date32Array::from(born)),
            moment(TimeUnit::Microsecond, 1_000_000),
        ],
        1 => [
            all(UInt8Array::from_iter_values(ages.iter().map(|age| *age as u8))),
            all(Float32Array::from_iter_values(heights.map(|height| height as f32))),
            all(Decimal128Array::from_iter(cents.map(|cents| cents.map(i128::from)))
                .with_precision_and_scale(12, 2)
                .unwrap()),
            all(DictionaryArray::<Int32Type>::from_iter(towns())),
            all(Int8Array::from_iter(smokers.map(|smoker| smoker.map(i8::from)))),
            all(Date64Array::from_iter_values(born.iter().map(|days| i64::from(*days) * 86_400_000))),
            moment(TimeUnit::Nanosecond, 1_000_000_000),
        ],
        2 => [
            all(Int64Array::from(ages)),
            all(Decimal128Array::from_iter_values(heights.map(|height| (height * 100.0) as i128))
                .with_precision_and_scale(38, 2)
                .unwrap()),
            // A not-a-number is a missing cell.
            all(Float64Array::from_iter_values(
                cents.map(|cents| cents.map_or(f64::NAN, |cents| cents as f64 / 100.0)),
            )),
            all(StringViewArray::from_iter(towns())),
            all(StringArray::from_iter(smokers.map(|smoker| smoker.map(|smoker| if smoker { "Yes" } else { "no" })))),
            all(TimestampMillisecondArray::from_iter_values(
                born.iter().map(|days| i64::from(*days) * 86_400_000 + 86_399_999),
            )),
            moment(TimeUnit::Second, 1),
        ],
        _ => [
            all(Int16Array::from_iter_values(ages.iter().map(|age| *age as i16))),
            all(Float64Array::from_iter_values(heights)),
            all(Decimal128Array::from_iter(cents.map(|cents| cents.map(|cents| i128::from(cents) * 100)))
                .with_precision_and_scale(20, 4)
                .unwrap()),
            all(LargeStringArray::from_iter(towns().map(|town| Some(town.unwrap_or("?"))))),
            all(DictionaryArray::<Int8Type>::from_iter(
                smokers.map(|smoker| smoker.map(|smoker| if smoker { "t" } else { "0" })),
            )),
            all(LargeStringArray::from_iter_values(born.iter().map(|days| iso_date(i64::from(*days))))),
            all(StringArray::from_iter_values(seen.iter().map(|seconds| iso_moment(*seconds)))),
        ],
    };
    // In another order, beside columns that the schema does not have.
    let mut named: Vec<(String, ArrayRef)> = COLUMNS.iter().map(|name| name.to_string()).zip(columns).rev().collect();
    named.insert(2, ("extra".into(), all(BinaryArray::from_iter_values(people.iter().map(|p| p.seen.to_le_bytes())))));
    let nested = StructArray::from(vec![(
        Arc::new(arrow_schema::Field::new("age", DataType::Int64, false)),
        all(Int64Array::from_iter_values(people.iter().map(|_| 5))),
    )]);
    named.insert(4, ("nested".into(), all(nested)));
    RecordBatch::try_from_iter(named).unwrap()
}

fn parquet_file(batch: &RecordBatch, rows_in_group: usize) -> Vec<u8> {
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows_in_group))
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    (0..batch.num_rows()).step_by(1_234).map(|at| batch.slice(at, 1_234.min(batch.num_rows() - at)))
}

fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    pieces(batch).for_each(|piece| writer.write(&piece).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    pieces(batch).for_each(|piece| writer.write(&piece).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn columnar_files_with_any_fitting_types_change_nothing() {
    let desk = Desk::new();
    let people = people(ROWS);
    let expected = reference(&desk, &people);
    for variant in 0..4 {
        let batch = batch(&people, variant);
        for rows_in_group in [700, 4_000, ROWS] {
            desk.put("t.parquet", parquet_file(&batch, rows_in_group));
            assert!(sums(&desk, "t.parquet") == expected, "Parquet, types {variant}, groups of {rows_in_group}");
        }
        desk.put("t.arrow", arrow_file(&batch)).put("t", arrow_stream(&batch));
        assert!(sums(&desk, "t.arrow") == expected, "Arrow file, types {variant}");
        assert!(sums(&desk, "t") == expected, "Arrow stream, types {variant}");
    }
    let nobody = batch(&[], 0);
    desk.put("none.csv", csv(&[]));
    let empty = sums(&desk, "none.csv");
    for (name, bytes) in [("p", parquet_file(&nobody, 9)), ("f", arrow_file(&nobody)), ("s", arrow_stream(&nobody))] {
        desk.put(name, bytes);
        assert!(sums(&desk, name) == empty, "{name}");
    }
}

/// With a user column the sums hold whose rows are in them; that too must not depend on the file.
#[test]
fn users_are_the_same_in_every_format() {
    let desk = Desk::new();
    let schema =
        "[privacy]\nunit = 'person'\nmax_rows = 3\n[[column]]\nname = 'age'\ntype = 'integer'\nmin = 0\nmax = 120\n";
    desk.put("schema.toml", schema);
    let people = people(ROWS);
    let person = |row: usize| (!row.is_multiple_of(11)).then_some((row * row % 1_000) as i64);
    let lines = |rows: std::ops::Range<usize>| {
        let line =
            |row: usize| format!("{},{}\n", people[row].age, person(row).map_or(String::new(), |p| p.to_string()));
        format!("age,person\n{}", rows.map(line).collect::<String>())
    };
    desk.put("plain.csv", lines(0..ROWS)).put("a.csv", lines(4_000..ROWS)).put("b.csv", lines(0..4_000));
    let expected = sums(&desk, "plain.csv");
    assert!(sums(&desk, "a.csv b.csv") == expected);
    let numbers = Int64Array::from_iter((0..ROWS).map(person));
    let names: Vec<Option<String>> = (0..ROWS).map(|row| person(row).map(|p| p.to_string())).collect();
    let names = DictionaryArray::<Int32Type>::from_iter(names.iter().map(Option::as_deref));
    for users in [Arc::new(numbers) as ArrayRef, Arc::new(names)] {
        let ages: ArrayRef = Arc::new(Int64Array::from_iter_values(people.iter().map(|p| p.age)));
        let batch = RecordBatch::try_from_iter([("person", users), ("age", ages)]).unwrap();
        desk.put("t.parquet", parquet_file(&batch, 2_000)).put("t.arrow", arrow_file(&batch));
        assert!(sums(&desk, "t.parquet") == expected);
        assert!(sums(&desk, "t.arrow") == expected);
    }
    let line = "sketch plain.csv --schema schema.toml --epsilon 1 -o t.m2m";
    assert!(desk.m2m(line).ok().stderr.contains("note: rows without a user were left out: 819\n"));
}

#[test]
fn a_type_that_cannot_fit_is_named_with_its_file_and_column() {
    let desk = Desk::new();
    let people = people(10);
    let unfitting: [(&str, ArrayRef); 8] = [
        ("age", Arc::new(StringArray::from(vec!["7"; 10]))),
        ("age", Arc::new(BooleanArray::from(vec![true; 10]))),
        ("height", Arc::new(Date32Array::from(vec![7; 10]))),
        ("town", Arc::new(Float64Array::from(vec![7.0; 10]))),
        ("smoker", Arc::new(Float64Array::from(vec![1.0; 10]))),
        ("born", Arc::new(Int64Array::from(vec![7; 10]))),
        ("seen", Arc::new(Int64Array::from(vec![7; 10]))),
        ("income", Arc::new(BinaryArray::from(vec![&b"7"[..]; 10]))),
    ];
    let mut messages = String::new();
    for (name, array) in unfitting {
        let batch = batch(&people, 0);
        let columns = batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let columns = columns.into_iter().zip(batch.columns().to_vec());
        let columns = columns.map(|(column, old)| if column == name { (column, array.clone()) } else { (column, old) });
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        desk.put("t.parquet", parquet_file(&batch, 5)).put("t.arrow", arrow_file(&batch));
        // The file before it is in order, so nothing but its type can be wrong, and nothing is read before.
        let line = |data: &str| format!("sketch people.csv {data} --schema schema.toml --epsilon 1 -o x.m2m");
        let message = desk.refused(&line("t.parquet"));
        assert_eq!(desk.refused(&line("t.arrow")), message.replace("t.parquet", "t.arrow"));
        messages += &message;
    }
    assert_snapshot!(messages, @"
    error: t.parquet: column `age` has type Utf8, which cannot be read as integer
    hint: change the schema or the file
    error: t.parquet: column `age` has type Boolean, which cannot be read as integer
    hint: change the schema or the file
    error: t.parquet: column `height` has type Date32, which cannot be read as number
    hint: change the schema or the file
    error: t.parquet: column `town` has type Float64, which cannot be read as category
    hint: change the schema or the file
    error: t.parquet: column `smoker` has type Float64, which cannot be read as boolean
    hint: change the schema or the file
    error: t.parquet: column `born` has type Int64, which cannot be read as date
    hint: change the schema or the file
    error: t.parquet: column `seen` has type Int64, which cannot be read as datetime
    hint: change the schema or the file
    error: t.parquet: column `income` has type Binary, which cannot be read as number
    hint: change the schema or the file
    ");
}

const SECRET: &str = "Sekretsund-4711";

/// In each column in turn a cell that cannot be read, with a text by which it would be recognised.
#[test]
fn an_unreadable_cell_is_counted_and_placed_but_never_shown() {
    let desk = Desk::new();
    let readable = people(3_000);
    let show = |outcome: &Outcome| {
        assert!(!outcome.said().contains("ekretsund") && !outcome.said().contains("4711"), "{outcome:?}");
    };
    for (column, name) in COLUMNS.iter().enumerate() {
        let mut rows: Vec<_> = readable.iter().map(|person| person.fields().map(Option::unwrap_or_default)).collect();
        for row in [1_233, 1_234, 2_500] {
            rows[row][column] = SECRET.into();
        }
        let quoted = |fields: &[String; 7]| fields.each_ref().map(|field| format!("\"{field}\"")).join(",");
        let text: Vec<String> = rows.iter().map(quoted).collect();
        desk.put("t.csv", format!("{}\n{}\n", COLUMNS.join(","), text.join("\n")));
        let sketch = "sketch people.csv t.csv --schema schema.toml --threads 2";
        let outcome = desk.m2m(&format!("{sketch} --epsilon 1 --force -o t.m2m")).ok();
        show(&outcome);
        assert!(!desk.text("t.m2m").contains("ekretsund"));
        if *name == "town" {
            let others = readable.iter().enumerate().filter(|(row, _)| ![1_233, 1_234, 2_500].contains(row));
            let others = others.filter(|(_, person)| person.town == Some("elsewhere")).count();
            // The first 40 people are in both files.
            let others = others + people(40).iter().filter(|person| person.town == Some("elsewhere")).count() + 3;
            let note = format!("note: levels that the schema does not list count as other: town {others}\n");
            assert!(outcome.stderr.contains(&note), "{outcome:?}");
            desk.m2m(&format!("{sketch} --strict --sums strict.sums")).ok();
            continue;
        }
        let notes = format!(
            "read 3040 rows\nnote: cells that cannot be read count as missing: {name} 3\n\
             note: the first is in t.csv: row 1234, column `{name}` cannot be read\n"
        );
        assert!(outcome.stderr.starts_with(&notes), "{outcome:?}");
        let strict = desk.m2m(&format!("{sketch} --strict --epsilon 1 -o strict.m2m"));
        show(&strict);
        assert_eq!(strict.code, Some(2));
        let refusal = format!(
            "error: t.csv: row 1234, column `{name}` cannot be read (strict reading)\n\
             hint: mend it, or leave out --strict\n"
        );
        assert_eq!(strict.stderr, refusal);
        assert!(!desk.has("strict.m2m"));
    }
}

#[test]
fn an_unreadable_cell_is_a_missing_cell() {
    let desk = Desk::new();
    let header = COLUMNS.join(",");
    desk.put("a.csv", format!("{header}\n,,,,,,\n1,2,3,,true,,\n"))
        .put("b.csv", format!("{header}\nx,1e,--,,maybe,2020-02-30,noon\n1,2,3,,true,1.5,2020\n"));
    assert!(sums(&desk, "a.csv") == sums(&desk, "b.csv"));
}

#[test]
fn texts_in_columns_of_dates_stay_hidden_too() {
    let desk = Desk::new();
    desk.put("schema.toml", "[[column]]\nname = 'born'\ntype = 'date'\nmin = '1900-01-01'\nmax = '2025-12-31'\n");
    let texts: Vec<&str> =
        (0..5_000).map(|row| if row == 4_321 || row == 4_900 { SECRET } else { "2000-01-01" }).collect();
    let batch = RecordBatch::try_from_iter([("born", Arc::new(StringArray::from(texts)) as ArrayRef)]).unwrap();
    desk.put("t.parquet", parquet_file(&batch, 1_000))
        .put("t.arrow", arrow_file(&batch))
        .put("t", arrow_stream(&batch));
    for name in ["t.parquet", "t.arrow", "t"] {
        for threads in [1, 3] {
            let sketch = format!("sketch {name} --schema schema.toml --threads {threads} --force --sums t.sums");
            let outcome = desk.m2m(&sketch).ok();
            let place = format!("note: the first is in {name}: row 4322, column `born` cannot be read\n");
            assert!(outcome.stderr.contains(&place) && outcome.stderr.contains("as missing: born 2\n"), "{outcome:?}");
            let strict = desk.m2m(&format!("{sketch} --strict"));
            assert_eq!(strict.code, Some(2));
            assert!(strict.stderr.starts_with(&format!("error: {name}: row 4322, column `born` ")), "{strict:?}");
            assert!(!(outcome.said() + &strict.said()).contains("ekretsund"));
        }
    }
}

/// Rows are counted right across blocks of 256 KiB and threads, also when records span lines.
#[test]
fn the_first_bad_row_is_found_in_any_block() {
    let desk = Desk::new();
    desk.put("schema.toml", "[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n");
    for (newlines, bad) in
        [(false, vec![60_000, 60_001, 89_999]), (true, vec![59_999, 60_002]), (false, vec![89_999]), (true, vec![0])]
    {
        let note = if newlines { "\"two\nlines\"" } else { "one line" };
        let line = |row: usize| match bad.contains(&row) {
            true => format!("{note},{SECRET}\n"),
            false => format!("{note},0.{row:06}\n"),
        };
        desk.put("t.csv", format!("note,x\n{}", (0..90_000).map(line).collect::<String>()));
        let (first, count) = (bad[0] + 1, bad.len());
        for threads in [1, 2, 7] {
            let sketch = format!("sketch t.csv --schema schema.toml --design hist --threads {threads} --force");
            let outcome = desk.m2m(&format!("{sketch} --sums t.sums")).ok();
            let notes = format!(
                "read 90000 rows\nnote: cells that cannot be read count as missing: x {count}\n\
                 note: the first is in t.csv: row {first}, column `x` cannot be read\n"
            );
            assert!(outcome.stderr.starts_with(&notes), "{threads} threads: {outcome:?}");
            let strict = desk.m2m(&format!("{sketch} --strict --sums t.sums"));
            assert_eq!(strict.code, Some(2));
            assert!(strict.stderr.starts_with(&format!("error: t.csv: row {first}, column `x` ")), "{strict:?}");
            assert!(!(outcome.said() + &strict.said()).contains("ekretsund"));
        }
    }
}
