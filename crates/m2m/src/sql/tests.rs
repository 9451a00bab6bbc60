//! Queries against a model that is the table itself, compared with plain loops over its rows.

use std::time::Instant;

use proptest::prelude::*;

use super::dual::{Dual, Inputs};
use super::*;
use crate::estimate::{Caution, Covariance, Entry, Totals};
use crate::expr::{Function, Op, Scalar};

const SCHEMA: &str = r#"
[[column]]
name = "age"
type = "integer"
min = 17
max = 90

[[column]]
name = "income"
type = "number"
min = 0
max = 1000
nullable = true

[[column]]
name = "sex"
type = "category"
levels = ["Female", "Male"]

[[column]]
name = "education"
type = "category"
levels = ["Bachelors", "HS-grad", "Masters"]
nullable = true

[[column]]
name = "smoker"
type = "boolean"
nullable = true

[[column]]
name = "born"
type = "date"
min = "1930-01-01"
max = "2010-12-31"
"#;

#[derive(Clone, Copy)]
struct Person {
    age: f64,
    income: Option<f64>,
    sex: &'static str,
    education: Option<&'static str>,
    smoker: Option<bool>,
    born: f64,
}

/// The table itself: exact totals, with the same made-up covariance for every pair of functions.
struct Rows {
    schema: Schema,
    people: Vec<Person>,
    variance: f64,
    /// The error, and the error under ignorance, of what reads a column.
    blind: f64,
}

impl Rows {
    fn new(variance: f64) -> Self {
        let mut people = Vec::new();
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..400 {
            let age = 17.0 + draw(74) as f64;
            people.push(Person {
                age,
                income: (draw(10) > 0).then_some(age * 5.0 + draw(3000) as f64 / 7.0),
                sex: ["Female", "Male"][draw(2) as usize],
                education: [Some("Bachelors"), Some("HS-grad"), Some("Masters"), None][draw(4) as usize],
                smoker: [Some(true), Some(false), None][draw(3) as usize],
                born: -14610.0 + draw(29000) as f64,
            });
        }
        Self { schema: Schema::from_toml(SCHEMA).unwrap(), people, variance, blind: 0.0 }
    }

    fn ask(&self, text: &str) -> Table {
        Query::parse(text, &self.schema)
            .and_then(|query| query.run(self))
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refusal(&self, text: &str) -> String {
        match Query::parse(text, &self.schema).and_then(|query| query.run(self)) {
            Ok(table) => panic!("{text} gave {table:?}"),
            Err(error) => error.to_string(),
        }
    }

    fn one(&self, text: &str) -> f64 {
        number(&self.ask(text).rows[0][0])
    }

    fn incomes(&self, keep: impl Fn(&Person) -> bool) -> Vec<f64> {
        self.people.iter().filter(|person| keep(person)).filter_map(|person| person.income).collect()
    }

    fn count(&self, keep: impl Fn(&Person) -> bool) -> f64 {
        self.people.iter().filter(|person| keep(person)).count() as f64
    }
}

impl Model for Rows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn totals(&self, functions: &[Checked]) -> Totals {
        let mut values = vec![0.0; functions.len()];
        for person in &self.people {
            let cell = |column: usize| match column {
                0 => Scalar::Number(person.age),
                1 => person.income.map_or(Scalar::Null, Scalar::Number),
                2 => Scalar::Text(person.sex),
                3 => person.education.map_or(Scalar::Null, Scalar::Text),
                4 => person.smoker.map_or(Scalar::Null, Scalar::Boolean),
                _ => Scalar::Number(person.born),
            };
            for (value, function) in values.iter_mut().zip(functions) {
                *value += function.value(&cell).weight();
            }
        }
        let n = functions.len();
        let mut covariance = Covariance::zeros(n);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let unknown = if i == j && !functions[i].columns().is_empty() { self.blind } else { 0.0 };
            let privacy = self.variance * if i == j { 1.0 } else { 0.5 };
            covariance[(i, j)] = Entry { privacy, sampling: 0.0, approximation: unknown, ignorance: unknown };
        }
        Totals { count: vec![0.0; n], values, covariance }
    }
}

#[test]
fn a_restricted_query_counts_the_rows_that_meet_both_conditions() {
    let rows = Rows::new(1.0);
    let old = condition("age >= 60", &rows.schema).unwrap();
    for (text, expected) in [
        ("SELECT COUNT(*)", rows.count(|p| p.age >= 60.0)),
        ("SELECT COUNT(*) FROM t WHERE sex = 'Male'", rows.count(|p| p.age >= 60.0 && p.sex == "Male")),
        ("SELECT COUNT(*) FROM t WHERE age < 60", 0.0),
    ] {
        let query = Query::parse(text, &rows.schema).unwrap().restrict(&old).unwrap();
        assert_eq!(number(&query.run(&rows).unwrap().rows[0][0]), expected, "{text}");
    }
    let sum = crate::expr::col("age") + crate::expr::lit(1.0);
    assert!(Query::parse("SELECT COUNT(*)", &rows.schema).unwrap().restrict(&sum).is_err());
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Estimate(estimate) => estimate.value,
        Cell::Number(x) => *x,
        other => panic!("not a number: {other:?}"),
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Null => "NULL".into(),
        Cell::Boolean(truth) => truth.to_string(),
        other => number(other).to_string(),
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn moment(values: &[f64], power: i32) -> f64 {
    let m = mean(values);
    values.iter().map(|x| (x - m).powi(power)).sum::<f64>() / values.len() as f64
}

#[test]
fn aggregates_equal_loops_over_the_rows() {
    let rows = Rows::new(0.0);
    let incomes = rows.incomes(|_| true);
    let n = incomes.len() as f64;
    let pairs: Vec<(f64, f64)> = rows.people.iter().filter_map(|p| Some((p.income?, p.age))).collect();
    let (ys, xs): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let covariance = pairs.iter().map(|(y, x)| (y - mean(&ys)) * (x - mean(&xs))).sum::<f64>() / n;
    let slope = covariance / moment(&xs, 2);
    for (query, expected) in [
        ("SELECT COUNT(*)", 400.0),
        ("SELECT COUNT(income) FROM people", n),
        ("SELECT COUNT(*) FILTER (WHERE age >= 40) FROM people", rows.count(|p| p.age >= 40.0)),
        ("SELECT SUM(income) FROM people", incomes.iter().sum()),
        ("SELECT AVG(income) FROM people", mean(&incomes)),
        ("SELECT AVG(income * 2 + 1) FROM people", mean(&incomes) * 2.0 + 1.0),
        ("SELECT AVG(p.income) FROM people p WHERE p.sex = 'Male'", mean(&rows.incomes(|p| p.sex == "Male"))),
        ("SELECT VAR_POP(income) FROM people", moment(&incomes, 2)),
        ("SELECT VAR_SAMP(income) FROM people", moment(&incomes, 2) * n / (n - 1.0)),
        ("SELECT VARIANCE(income) FROM people", moment(&incomes, 2) * n / (n - 1.0)),
        ("SELECT STDDEV_POP(income) FROM people", moment(&incomes, 2).sqrt()),
        ("SELECT STDDEV(income) FROM people", (moment(&incomes, 2) * n / (n - 1.0)).sqrt()),
        ("SELECT SQRT(VAR_POP(income)) FROM people", moment(&incomes, 2).sqrt()),
        ("SELECT SKEWNESS(income) FROM people", moment(&incomes, 3) / moment(&incomes, 2).powf(1.5)),
        ("SELECT COVAR_POP(income, age) FROM people", covariance),
        ("SELECT COVAR_SAMP(income, age) FROM people", covariance * n / (n - 1.0)),
        ("SELECT CORR(income, age) FROM people", covariance / (moment(&ys, 2) * moment(&xs, 2)).sqrt()),
        ("SELECT REGR_SLOPE(income, age) FROM people", slope),
        ("SELECT REGR_INTERCEPT(income, age) FROM people", mean(&ys) - slope * mean(&xs)),
        ("SELECT SUM(income) / COUNT(*) FROM people", incomes.iter().sum::<f64>() / 400.0),
        ("SELECT AVG(smoker) FROM people", rows.count(|p| p.smoker == Some(true)) / rows.count(|p| p.smoker.is_some())),
        ("SELECT AVG(CAST(sex = 'Male' AS INT)) FROM people", rows.count(|p| p.sex == "Male") / 400.0),
        ("SELECT SUM(smoker::int) FROM people", rows.count(|p| p.smoker == Some(true))),
        ("SELECT ROUND(100.0 * COUNT(*) FILTER (WHERE smoker) / COUNT(*), 1)", {
            (1000.0 * rows.count(|p| p.smoker == Some(true)) / 400.0).round() / 10.0
        }),
        ("SELECT 2 * 3 + ABS(-1)", 7.0),
        ("SELECT POWER(COUNT(*), 2) + EXP(0) + LN(1) + 2 ^ 3 - 7 % 4", 160000.0 + 1.0 + 8.0 - 3.0),
        ("SELECT GREATEST(COUNT(*), 5) - LEAST(COUNT(*), 5)", 395.0),
        ("SELECT COALESCE(AVG(income), 0) FROM people WHERE age > 1000", 0.0),
        ("SELECT COUNT(*) / NULLIF(COUNT(*) - 399, 0)", 400.0),
        ("SELECT CASE WHEN COUNT(*) > 10 THEN 1 ELSE 0 END", 1.0),
    ] {
        let got = rows.one(query);
        assert!(close(got, expected), "{query}: {got} instead of {expected}");
    }
    assert_eq!(rows.ask("SELECT AVG(income), VAR_SAMP(age) FROM p WHERE age > 1000").rows, [[Cell::Null, Cell::Null]]);
    assert_eq!(rows.ask("SELECT COUNT(*) > 3 AS many, 'x'").rows, [[Cell::Boolean(true), Cell::Text("x".into())]]);
}

#[test]
fn conditions_know_three_values() {
    let rows = Rows::new(0.0);
    let smoker = |p: &Person| p.smoker;
    for (condition, expected) in [
        ("smoker", rows.count(|p| smoker(p) == Some(true))),
        ("NOT smoker", rows.count(|p| smoker(p) == Some(false))),
        ("smoker IS NOT TRUE", rows.count(|p| smoker(p) != Some(true))),
        ("smoker IS NOT NULL", rows.count(|p| smoker(p).is_some())),
        ("smoker OR income IS NULL", rows.count(|p| smoker(p) == Some(true) || p.income.is_none())),
        ("income > 300", rows.count(|p| p.income.is_some_and(|x| x > 300.0))),
        ("NOT income > 300", rows.count(|p| p.income.is_some_and(|x| x <= 300.0))),
        ("education IN ('Masters', 'HS-grad')", rows.count(|p| matches!(p.education, Some("Masters" | "HS-grad")))),
        ("education NOT IN ('Masters')", rows.count(|p| p.education.is_some_and(|e| e != "Masters"))),
        ("education NOT IN ('Masters', NULL)", 0.0),
        ("education IS DISTINCT FROM 'Masters'", rows.count(|p| p.education != Some("Masters"))),
        ("education LIKE '%a%s'", rows.count(|p| matches!(p.education, Some("Bachelors" | "Masters")))),
        ("education NOT ILIKE 'hs%'", rows.count(|p| p.education.is_some_and(|e| e != "HS-grad"))),
        ("age BETWEEN 30 AND 40", rows.count(|p| (30.0..=40.0).contains(&p.age))),
        ("age NOT BETWEEN 30 AND 40", rows.count(|p| !(30.0..=40.0).contains(&p.age))),
        ("CASE sex WHEN 'Male' THEN age > 50 ELSE age > 30 END", {
            rows.count(|p| p.age > if p.sex == "Male" { 50.0 } else { 30.0 })
        }),
        ("born < '1970-01-01' AND born >= DATE '1960-01-01'", rows.count(|p| (-3653.0..0.0).contains(&p.born))),
        ("floor(age / 10) = 3", rows.count(|p| (30.0..40.0).contains(&p.age))),
        ("COALESCE(income, 0) = 0", rows.count(|p| p.income.unwrap_or(0.0) == 0.0)),
        ("TRUE", 400.0),
        ("NULL", 0.0),
    ] {
        assert_eq!(rows.one(&format!("SELECT COUNT(*) FROM t WHERE {condition}")), expected, "{condition}");
    }
}

#[test]
fn groups_equal_loops_over_the_rows() {
    let rows = Rows::new(0.0);
    let table = rows.ask("SELECT education, COUNT(*) AS n, AVG(income) FROM t GROUP BY education");
    assert_eq!(table.columns, ["education", "n", "AVG(income)"]);
    assert_eq!(
        table.rows.iter().map(|row| text(&row[0])).collect::<Vec<_>>(),
        ["Bachelors", "HS-grad", "Masters", "NULL"]
    );
    for (row, level) in table.rows.iter().zip([Some("Bachelors"), Some("HS-grad"), Some("Masters"), None]) {
        assert_eq!(number(&row[1]), rows.count(|p| p.education == level));
        assert!(close(number(&row[2]), mean(&rows.incomes(|p| p.education == level))));
    }

    let table = rows.ask("SELECT sex, smoker, COUNT(*) FROM t WHERE age > 30 GROUP BY 1, 2");
    assert_eq!(table.rows.len(), 6);
    assert_eq!(table.rows.iter().map(|row| number(&row[2])).sum::<f64>(), rows.count(|p| p.age > 30.0));
    assert_eq!((text(&table.rows[2][0]), text(&table.rows[2][1])), ("Female".into(), "NULL".into()));

    let table = rows.ask("SELECT floor(age / 10) * 10 AS decade, COUNT(*) FROM t GROUP BY decade ORDER BY decade DESC");
    assert_eq!(number(&table.rows[0][0]), 90.0);
    for row in &table.rows {
        let decade = number(&row[0]);
        assert_eq!(number(&row[1]), rows.count(|p| (p.age / 10.0).floor() * 10.0 == decade));
    }

    let table = rows.ask("SELECT bin(income, 4), COUNT(*) FROM t GROUP BY bin(income, 4)");
    let labels: Vec<_> = table.rows.iter().map(|row| text(&row[0])).collect();
    assert_eq!(labels, ["0", "250", "500", "750", "NULL"]);
    assert_eq!(table.rows.iter().map(|row| number(&row[1])).sum::<f64>(), 400.0);
    assert_eq!(number(&table.rows[1][1]), rows.count(|p| p.income.is_some_and(|x| (250.0..500.0).contains(&x))));

    let table = rows.ask("SELECT income > 300 AS rich, COUNT(*) FROM t GROUP BY rich");
    assert_eq!(table.rows.iter().map(|row| text(&row[0])).collect::<Vec<_>>(), ["false", "true", "NULL"]);
    let table =
        rows.ask("SELECT CASE WHEN income > 300 THEN 'rich' ELSE 'other' END, COUNT(*) FROM t GROUP BY 1 ORDER BY 2");
    assert_eq!(table.rows.len(), 2);

    // Groups that WHERE rules out are known to be empty.
    assert_eq!(rows.ask("SELECT sex, COUNT(*) FROM t WHERE sex = 'Male' GROUP BY sex").rows.len(), 1);
    assert_eq!(rows.ask("SELECT DISTINCT sex, smoker FROM t").rows.len(), 6);
    assert_eq!(rows.ask("SELECT age, COUNT(*) FROM t GROUP BY ALL").rows.len(), {
        let mut ages: Vec<_> = rows.people.iter().map(|p| p.age as u32).collect();
        ages.sort_unstable();
        ages.dedup();
        ages.len()
    });
}

#[test]
fn lines_are_chosen_and_sorted() {
    let rows = Rows::new(0.0);
    let names = |query: &str| rows.ask(query).rows.iter().map(|row| text(&row[0])).collect::<Vec<_>>();
    let mut by_size: Vec<(f64, &str)> =
        [(Some("Bachelors"), "Bachelors"), (Some("HS-grad"), "HS-grad"), (Some("Masters"), "Masters"), (None, "NULL")]
            .map(|(level, name)| (rows.count(|p| p.education == level), name))
            .to_vec();
    by_size.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sorted: Vec<_> = by_size.iter().map(|(_, name)| *name).collect();
    assert_eq!(names("SELECT education FROM t GROUP BY education ORDER BY COUNT(*)"), sorted);
    assert_eq!(names("SELECT education, COUNT(*) n FROM t GROUP BY education ORDER BY n"), sorted);
    assert_eq!(
        names("SELECT education, COUNT(*) n FROM t GROUP BY education ORDER BY 2 LIMIT 2 OFFSET 1"),
        sorted[1..3]
    );
    assert_eq!(
        names("SELECT education FROM t GROUP BY education ORDER BY education DESC"),
        ["Masters", "HS-grad", "Bachelors", "NULL"]
    );
    assert_eq!(names("SELECT education FROM t GROUP BY education ORDER BY 1 NULLS FIRST LIMIT 1"), ["NULL"]);
    let half = by_size[2].0;
    let having = format!("SELECT education, COUNT(*) AS n FROM t GROUP BY education HAVING n >= {half} ORDER BY n");
    assert_eq!(names(&having), sorted[2..]);
    assert_eq!(names("SELECT education FROM t GROUP BY education HAVING education IN ('Masters')"), ["Masters"]);
    assert_eq!(names("SELECT sex FROM t GROUP BY sex LIMIT 0"), Vec::<String>::new());
    assert_eq!(rows.ask("SELECT AVG(born) FROM t HAVING AVG(born) > '1950-01-01'").kinds, [ColumnKind::Date]);
}

#[test]
fn medians_lie_near_the_true_ones() {
    let rows = Rows::new(0.0);
    let mut ages: Vec<f64> = rows.people.iter().map(|p| p.age).collect();
    ages.sort_by(f64::total_cmp);
    for (query, share) in [
        ("SELECT MEDIAN(age) FROM t", 0.5),
        ("SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FROM t", 0.25),
        ("SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age DESC) FROM t", 0.75),
        ("SELECT APPROX_QUANTILE(age, 0.9) FROM t", 0.9),
        ("SELECT QUANTILE_CONT(age, 0.9) + 0 FROM t", 0.9),
    ] {
        let (got, expected) = (rows.one(query), ages[(share * 400.0) as usize]);
        assert!((got - expected).abs() < 2.0, "{query}: {got} instead of {expected}");
    }
}

#[test]
fn errors_follow_from_the_covariance() {
    let rows = Rows::new(100.0);
    let estimate = |query: &str| match rows.ask(query).rows[0][0] {
        Cell::Estimate(estimate) => estimate,
        ref other => panic!("{other:?}"),
    };
    assert!(close(estimate("SELECT COUNT(*) FROM t").std_error, 10.0));
    assert!(close(estimate("SELECT 3 * COUNT(*) FROM t").std_error, 30.0));
    // Numerator and denominator share half of their noise.
    let share = estimate("SELECT COUNT(*) FILTER (WHERE smoker) / COUNT(*) FROM t");
    let (a, b) = (rows.count(|p| p.smoker == Some(true)), 400.0);
    let (da, db) = (1.0 / b, -a / (b * b));
    assert!(close(share.std_error, (100.0 * (da * da + db * db + da * db)).sqrt()));
    assert!(estimate("SELECT COUNT(*) - COUNT(*) FROM t").std_error == 0.0);

    let none = estimate("SELECT COUNT(*) FROM t WHERE age > 1000");
    assert_eq!((none.value, none.low), (0.0, 0.0));
    assert!(none.caution.is_none() && none.high > 0.0);

    let table = rows.ask("SELECT AVG(income), CORR(age, income) FROM t WHERE age = 20 GROUP BY sex");
    for row in &table.rows {
        let Cell::Estimate(average) = row[0] else { panic!("{row:?}") };
        assert_eq!(average.caution, Some(Caution::Swamped));
        assert_eq!((average.low, average.high), (0.0, 1000.0));
    }
    // The ages do not vary, so that nothing can go together with them.
    assert_eq!(table.warnings.len(), 2);
    assert!(
        table.warnings[0].starts_with("in 2 of 4 cells the noise is larger than the group"),
        "{:?}",
        table.warnings
    );
    assert!(table.warnings[1].starts_with("2 of 4 cells have no value"), "{:?}", table.warnings);
    assert!(rows.ask("SELECT AVG(income) FROM t").warnings.is_empty());
    // Groups that WHERE rules out are not shown, however noisy.
    let table = rows.ask(
        "SELECT sex, age, COUNT(*) FROM t WHERE age < 20 AND (sex = 'Male' OR age = 19 AND income > 3) GROUP BY 1, 2",
    );
    assert_eq!(table.rows.len(), 4);
    // Unlisted levels are shown only if they can be told from none.
    assert_eq!(rows.ask("SELECT sex, COUNT(*) FROM t GROUP BY sex").rows.len(), 2);

    let blind = Rows { blind: 1.0, ..Rows::new(1.0) };
    let table = blind.ask("SELECT COUNT(*), AVG(age) FROM t");
    assert!(table.warnings[0].starts_with("the release says next to nothing about age in 1 of 2 cells"));
    let Cell::Estimate(count) = table.rows[0][0] else { panic!() };
    assert_eq!(count.caution, None);
}

#[test]
fn answers_have_one_json_form() {
    let rows = Rows::new(0.0);
    let table = rows.ask("SELECT sex, COUNT(*) AS n, AVG(born) AS born FROM t GROUP BY sex ORDER BY 1 LIMIT 1");
    let n = rows.count(|p| p.sex == "Female");
    let born: Vec<f64> = rows.people.iter().filter(|p| p.sex == "Female").map(|p| p.born).collect();
    let day = crate::schema::time::show_date(mean(&born).round());
    let json = table.to_json();
    assert_eq!(
        json,
        serde_json::json!({
            "columns": ["sex", "n", "born"],
            "rows": [["Female", {"value": n, "std_error": 0.0, "low": n, "high": n}, {"value": day, "std_error": 0.0, "low": day, "high": day}]],
            "warnings": [],
        })
    );
    assert_eq!(
        table.to_csv(),
        format!(
            "sex,n,n_std_error,n_low,n_high,born,born_std_error,born_low,born_high\nFemale,{n},0,{n},{n},{day},0,{day},{day}\n"
        )
    );
    let dates = rows.ask("SELECT bin(born, 81) AS year, COUNT(*) FROM t GROUP BY year LIMIT 1").to_json();
    assert_eq!(dates["rows"][0][0], "1930-01-01");
    let quoted = rows.ask("SELECT 'a,\"b\"' AS x, NULL AS y");
    assert_eq!(quoted.to_csv(), "x,y\n\"a,\"\"b\"\"\",\n");
}

#[test]
fn refusals_say_what_to_do() {
    let rows = Rows::new(0.0);
    for (query, expected) in [
        ("", "there is no query"),
        ("SELECT", "cannot be read"),
        ("DELETE FROM t", "write a SELECT"),
        ("SELECT COUNT(*); SELECT COUNT(*)", "one at a time"),
        ("SELECT * FROM t", "no single rows"),
        ("SELECT age FROM t", "no single rows"),
        ("SELECT age, COUNT(*) FROM t", "add it to GROUP BY, or write AVG(age)"),
        ("SELECT MIN(age) FROM t", "ask for APPROX_QUANTILE(age, 0.01)"),
        ("SELECT max(income) FROM t", "ask for APPROX_QUANTILE(income, 0.99)"),
        ("SELECT COUNT(DISTINCT sex) FROM t", "group by the column and count"),
        ("SELECT COUNT(*) OVER (PARTITION BY sex) FROM t", "window functions"),
        ("SELECT ROW_NUMBER() OVER (ORDER BY age) FROM t", "window functions"),
        ("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x", "joins"),
        ("SELECT COUNT(*) FROM a, b", "joins"),
        ("SELECT COUNT(*) FROM (SELECT 1) x", "subqueries"),
        ("SELECT COUNT(*) FROM t WHERE age IN (SELECT 1)", "subqueries"),
        ("SELECT COUNT(*) FROM t WHERE age > (SELECT AVG(age) FROM t)", "subqueries"),
        ("SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t", "UNION"),
        ("WITH x AS (SELECT 1) SELECT COUNT(*) FROM x", "WITH"),
        ("SELECT AVG(agee) FROM t", "did you mean `age`?"),
        ("SELECT COUNT(*) AS total FROM t ORDER BY totl", "did you mean `total`?"),
        ("SELECT COUNT(*) FROM t WHERE sex = 'Femal'", "did you mean 'Female'?"),
        ("SELECT sex FROM t GROUP BY sex HAVING sex = 'Femal'", "did you mean 'Female'?"),
        ("SELECT COUNT(*) FROM t WHERE sex = \"Female\"", "single quotes"),
        ("SELECT STDEV(age) FROM t", "did you mean stddev?"),
        ("SELECT FROBNICATE(age) FROM t", "there are abs"),
        ("SELECT AVG(sex) FROM t", "AVG needs numbers"),
        ("SELECT AVG(AVG(age)) FROM t", "HAVING"),
        ("SELECT COUNT(*) FROM t WHERE COUNT(*) > 3", "HAVING"),
        ("SELECT COUNT(*) FROM t WHERE age", "condition is needed"),
        ("SELECT income, COUNT(*) FROM t GROUP BY income", "bin(income, 10)"),
        ("SELECT COUNT(*) FROM t GROUP BY age, bin(born, 200)", "groups, and at most 10000"),
        ("SELECT bin(age, 3), COUNT(*) FROM t GROUP BY bin(age, 4)", "add it to GROUP BY"),
        ("SELECT bin(sex, 3) FROM t GROUP BY 1", "bin needs"),
        ("SELECT COUNT(*) FROM t GROUP BY 7", "from 1 to 1"),
        ("SELECT COUNT(*) FROM t GROUP BY ROLLUP (sex)", "each grouping by itself"),
        ("SELECT COUNT(*) FROM t LIMIT -1", "LIMIT"),
        ("SELECT MEDIAN(age, 2) FROM t", "MEDIAN(age)"),
        ("SELECT APPROX_QUANTILE(age, 2) FROM t", "from 0 to 1"),
        ("SELECT SUM(age) || 'x' FROM t", "operator"),
        ("SELECT CAST(COUNT(*) AS TEXT) FROM t", "CAST"),
        ("SELECT EXTRACT(YEAR FROM born) FROM t", "bin(born, 10)"),
        ("SELECT COUNT(*) FROM t WHERE born > 1950", "cannot be compared with 1950; write a date in quotes"),
        ("SELECT COUNT(*) FROM t WHERE born BETWEEN '1950-01-01' AND 1960", "cannot be compared with 1960"),
        ("SELECT COUNT(*) FILTER (WHERE 7 = born) FROM t", "cannot be compared with 7"),
        ("SELECT COUNT(*) FROM t WHERE born IN (1950)", "cannot be compared with 1950"),
        ("SELECT COUNT(*) FROM t FETCH FIRST 3 ROWS ONLY", "leave the rest out"),
    ] {
        let message = rows.refusal(query);
        assert!(message.contains(expected), "{query}: {message}");
    }
}

#[test]
fn syntax_errors_show_the_place() {
    let rows = Rows::new(0.0);
    let message = rows.refusal("SELECT COUNT(*)\nFROM t WHRE age > 3");
    assert!(message.starts_with("the query cannot be read at line 2, column 13: expected"), "{message}");
    assert!(message.ends_with("\n  FROM t WHRE age > 3\n              ^"), "{message}");
    let message = rows.refusal("SELECT COUNT(*) FROM t WHERE");
    assert!(message.contains("column 29") && message.ends_with(&format!("\n  {}^", " ".repeat(28))), "{message}");
    assert!(rows.refusal("SELECT 'abc").contains("cannot be read at line 1, column 8"));
}

#[test]
fn nesting_is_bounded() {
    let rows = Rows::new(0.0);
    let deep = |n: usize| format!("SELECT COUNT(*) FROM t WHERE {}age > 3{}", "(".repeat(n), ")".repeat(n));
    assert!(close(rows.one(&deep(5)), rows.count(|p| p.age > 3.0)));
    for n in [60, 1000, 100_000] {
        let started = Instant::now();
        rows.refusal(&deep(n));
        assert!(started.elapsed().as_secs() < 20);
    }
    for part in [" + 1", " AND TRUE", " IS NULL", "::int", "!", " UNION SELECT 1", "[1]", ".a", " - 1"] {
        for n in [100, 1999, 100_000] {
            let _ = Query::parse(&format!("SELECT 1{}", part.repeat(n)), &rows.schema);
            let _ = Query::parse(&format!("SELECT age{}", part.repeat(n)), &rows.schema);
        }
    }
    for part in ["NOT ", "- ", "abs(", "CASE WHEN ", "age IN (", "(SELECT ", "CAST("] {
        let _ = Query::parse(&format!("SELECT {}", part.repeat(10_000)), &rows.schema);
        let _ = Query::parse(&format!("SELECT {}", part.repeat(38)), &rows.schema);
    }
    // What is written out twice does not double at every level.
    for (open, close) in [
        ("NULLIF(", ", 1)"),
        ("", " IS DISTINCT FROM TRUE"),
        ("(", " BETWEEN 1 AND 2)"),
        ("CAST((", " = 1) AS INT)"),
        ("CASE ", " WHEN 1 THEN 2 END"),
        ("", "::int"),
    ] {
        for n in [15, 30, 140, 900] {
            let text = format!(
                "SELECT AVG({}age{}) FROM t WHERE {}smoker{}",
                open.repeat(n),
                close.repeat(n),
                open.repeat(n),
                close.repeat(n)
            );
            let _ = Query::parse(&text, &rows.schema).and_then(|query| query.run(&rows));
        }
    }
    // Long lists are no nesting.
    let ages: Vec<String> = (0..5000).map(|i| i.to_string()).collect();
    assert_eq!(rows.one(&format!("SELECT COUNT(*) FROM t WHERE age IN ({})", ages.join(","))), 400.0);
    let either: Vec<String> = (0..400).map(|i| format!("age = {i}")).collect();
    assert_eq!(rows.one(&format!("SELECT COUNT(*) FROM t WHERE {}", either.join(" OR "))), 400.0);
}

#[test]
fn derivatives_equal_differences() {
    type Case = (&'static str, Box<dyn Fn(&[Dual], &Inputs<'_>) -> Option<Dual>>);
    let functions: Vec<Case> = vec![
        ("add", Box::new(|x, i| Dual::binary(Op::Add, &x[0], &x[1], i))),
        ("subtract", Box::new(|x, i| Dual::binary(Op::Subtract, &x[0], &x[1], i))),
        ("multiply", Box::new(|x, i| Dual::binary(Op::Multiply, &x[0], &x[1], i))),
        ("divide", Box::new(|x, i| Dual::binary(Op::Divide, &x[0], &x[1], i))),
        ("remainder", Box::new(|x, i| Dual::binary(Op::Remainder, &x[0], &x[1], i))),
        ("power", Box::new(|x, i| Dual::call(Function::Power, &[x[0].clone(), x[1].clone()], i))),
        ("sqrt", Box::new(|x, i| Dual::call(Function::Sqrt, &x[..1], i))),
        ("exp", Box::new(|x, i| Dual::call(Function::Exp, &x[..1], i))),
        ("ln", Box::new(|x, i| Dual::call(Function::Ln, &x[..1], i))),
        ("log10", Box::new(|x, i| Dual::call(Function::Log10, &x[..1], i))),
        ("abs", Box::new(|x, i| Dual::call(Function::Abs, &[x[0].negate()], i))),
        ("greatest", Box::new(|x, i| Dual::call(Function::Greatest, &[x[0].clone(), x[1].clone()], i))),
        ("correlation", Box::new(|x, i| moments(aggregate::Law::Correlation, x, i))),
        ("intercept", Box::new(|x, i| moments(aggregate::Law::Intercept, x, i))),
        ("sample covariance", Box::new(|x, i| moments(aggregate::Law::Covariance { sample: true }, x, i))),
        ("skewness", Box::new(|x, i| moments(aggregate::Law::Skewness, x, i))),
        ("deviation", Box::new(|x, i| moments(aggregate::Law::Variance { sample: true, root: true }, x, i))),
    ];
    let at = [7.5, 3.2, 2.1, 6.3, 3.4, 2.8];
    for (name, function) in &functions {
        let value = |values: &[f64]| {
            let totals = Totals::exact(values.to_vec());
            let inputs = Inputs { totals: &totals, first: 0, count: 6, others: &[] };
            let duals: Vec<Dual> = (0..6).map(|i| inputs.total(i)).collect();
            function(&duals, &inputs).unwrap_or_else(|| panic!("{name}"))
        };
        let slope = value(&at).slope;
        for (i, slope) in slope.iter().enumerate() {
            let step = 1e-6;
            let (mut up, mut down) = (at, at);
            up[i] += step;
            down[i] -= step;
            let difference = (value(&up).value - value(&down).value) / (2.0 * step);
            assert!((slope - difference).abs() < 1e-5 * (1.0 + slope.abs()), "{name} {i}: {slope} {difference}");
        }
    }
}

fn moments(law: aggregate::Law, _: &[Dual], inputs: &Inputs<'_>) -> Option<Dual> {
    let aggregate = aggregate::Aggregate { law, centres: [1.5, 2.5], ..aggregate::Aggregate::of((0..6).collect()) };
    aggregate.value(inputs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is typed, there is an answer or an error.
    #[test]
    fn no_text_panics(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..30), other in "\\PC{0,12}") {
        let rows = Rows { people: Vec::new(), ..Rows::new(1.0) };
        for text in [words.join(" "), format!("SELECT {}", words.join(" ")), format!("{} {other}", words.join(" ")), other.clone()] {
            if let Ok(query) = Query::parse(&text, &rows.schema) {
                let _ = query.run(&rows).map(|table| (table.to_json(), table.to_csv()));
            }
        }
    }

    /// The same for texts that are nearly queries.
    #[test]
    fn no_expression_panics(
        words in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 1..6),
        ops in prop::collection::vec(prop::sample::select(OPS.to_vec()), 6),
        clause in prop::sample::select(CLAUSES.to_vec()),
    ) {
        let rows = Rows { people: Rows::new(1.0).people[..5].to_vec(), ..Rows::new(1.0) };
        let expr: String = words.iter().zip(&ops).map(|(word, op)| format!("{word} {op} ")).collect::<String>() + "1";
        let text = clause.replace('?', &expr);
        if let Ok(query) = Query::parse(&text, &rows.schema) {
            let _ = query.run(&rows).map(|table| (table.to_json(), table.to_csv()));
        }
    }
}

const WORDS: &[&str] = &[
    "SELECT", "FROM", "t", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET", "COUNT(*)", "AVG(", "age",
    ")", "(", ",", "income", "sex", "'Male'", "'", "\"", "1", "0", "-", "+", "*", "/", "%", "=", "<", "AND", "OR",
    "NOT", "NULL", "IS", "IN", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "bin(", "MEDIAN(", "FILTER",
    "AS", "x", ";", "1e308", "::", "int", "DISTINCT", "WITHIN", "JOIN", "UNION", "WITH", "$1", "@", "[", "]", "{", "}",
    "?", "--", "/*", "\n", "CAST(", "INTERVAL", "DATE", "EXISTS", "OVER", "ALL", "ANY", ".", ":", "!", "~", "^", "|",
    "&", "#", "\\",
];
const PARTS: &[&str] = &[
    "COUNT(*)",
    "age",
    "AVG(income)",
    "SUM(age)",
    "1e300",
    "0",
    "-1",
    "sex",
    "'Male'",
    "smoker",
    "NULL",
    "born",
    "'1970-01-01'",
    "STDDEV(age)",
    "CORR(age, income)",
    "MEDIAN(age)",
    "bin(age, 3)",
    "SQRT(COUNT(*))",
    "LN(age)",
    "ROUND(AVG(age), -400)",
    "POWER(COUNT(*), 1e9)",
    "education",
    "TRUE",
    "SKEWNESS(age)",
    "CASE WHEN smoker THEN 1 END",
    "VAR_SAMP(income) FILTER (WHERE age > 80)",
    "REGR_SLOPE(age, age)",
    "ABS(SUM(income))",
    "floor(age / 10)",
];
const OPS: &[&str] = &["+", "-", "*", "/", "%", "=", "<", ">=", "AND", "OR", "IS NULL =", ",", "^", "IN (1, 2) ="];
const CLAUSES: &[&str] = &[
    "SELECT ?",
    "SELECT COUNT(*) FROM t WHERE ?",
    "SELECT ? FROM t GROUP BY sex",
    "SELECT ? FROM t GROUP BY ALL",
    "SELECT COUNT(*) FROM t GROUP BY ?",
    "SELECT sex FROM t GROUP BY sex HAVING ?",
    "SELECT sex FROM t GROUP BY sex ORDER BY ?",
    "SELECT DISTINCT ? FROM t",
    "SELECT AVG(?) FROM t",
];
