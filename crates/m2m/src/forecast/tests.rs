//! Forecasts: what is read, that more budget and more rows help, and that the ε that is found is the smallest.

use super::*;

const SCHEMA: &str = r#"
[[column]]
name = "age"
type = "integer"
min = 20
max = 100

[[column]]
name = "income"
type = "number"
min = 0
max = 100000
transform = "log1p"
atoms = [0]
nullable = true

[[column]]
name = "height, \"cm\""
type = "number"
min = 100
max = 220

[[column]]
name = "town"
type = "category"
levels = ["north", "south", "west"]
nullable = true
"#;

fn schema() -> Schema {
    Schema::from_toml(SCHEMA).unwrap()
}

fn pure(epsilon: &str) -> Privacy {
    Privacy::new(Budget::pure(epsilon.parse().unwrap()).unwrap())
}

fn want(text: &str) -> Result<Want, Error> {
    Want::parse(text, &schema(), 1000)
}

#[test]
fn wants_are_read() {
    for (text, question, error) in [
        ("mean(age) ± 1%", Question::Mean(0), 0.8),
        ("mean(age) ± 0.5", Question::Mean(0), 0.5),
        (" MEAN ( Age )+-1e-1 ", Question::Mean(0), 0.1),
        ("cdf(income) +/- 0.01", Question::Cdf(1), 0.01),
        ("share(town) ± 2 %", Question::Count(vec![3]), 0.02),
        ("corr(age, \"height, \"\"cm\"\"\") ± 0.05", Question::Correlation([0, 2]), 0.05),
        ("count(age, town) ± 0.5%", Question::Count(vec![0, 3]), 0.005),
        ("count(town, income, age) ± 0.5%", Question::Count(vec![3, 1, 0]), 0.005),
        ("rows ± 5%", Question::Rows, 50.0),
        ("rows() ± 5", Question::Rows, 5.0),
    ] {
        let found = want(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((found.text.as_str(), &found.question), (text.trim(), &question));
        assert!((found.error - error).abs() < 1e-12, "{text}: {}", found.error);
    }
}

#[test]
fn questions_are_read_as_they_are_shown() {
    let schema = schema();
    for question in Question::typical(&schema) {
        let text = format!("{} ± 1", question.show(&schema));
        assert_eq!(want(&text).unwrap().question, question, "{text}");
    }
}

#[test]
fn mistakes_show_their_place() {
    for (text, expected) in [
        ("", "column 1: expected rows, mean"),
        ("men(age) ± 1", "column 1: there is no question `men`, but there is `mean`"),
        ("median(age) ± 1", "column 1: there is no question `median`"),
        ("mean age ± 1", "column 1: there is no question `mean age`"),
        ("mean(age ± 1", "column 10: expected , or ), found `±`; correct it here:\n  mean(age ± 1\n           ^"),
        ("mean() ± 1", "column 6: expected a column, found `)`"),
        ("mean(\"age) ± 1", "column 15: expected \", found the end"),
        ("mean(age) 1", "column 11: expected ±, found `1`"),
        ("mean(age)", "column 10: expected ±, found the end"),
        ("mean(age) ± ", "column 13: expected a number above 0"),
        ("mean(age) ± many", "column 13: expected a number above 0"),
        ("mean(age) ± -1", "column 13: expected a number above 0"),
        ("mean(age) ± nan", "column 13: expected a number above 0"),
        ("mean(age) ± inf", "column 13: expected a number above 0"),
        ("mean(age) ± 1% of it", "column 16: expected the end, found `o`"),
        ("mean(age, income) ± 1", "column 6: this is of one column"),
        ("corr(age) ± 1", "column 6: corr is of two columns"),
        ("corr(age, age) ± 1", "column 6: column `age` is named twice"),
        ("rows(age) ± 1", "column 6: rows has no columns"),
        ("mean(agee) ± 1", "there is no column `agee`; did you mean `age`?"),
        ("mean(town) ± 1", "`town` holds levels, so it has no mean; ask for share(town)"),
        ("corr(age, town) ± 1", "`town` holds levels, so it has no corr"),
    ] {
        let message = want(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

/// Every kind of question, by steps of ten: more budget and more rows both make errors smaller. Fixed maps have an error
/// that no budget takes away, and it wavers a little.
#[test]
fn more_budget_and_more_rows_make_errors_smaller() {
    let schema = schema();
    let questions = Question::typical(&schema);
    let kinds = |rows: u64, epsilon: &str, choice: &Choice| {
        let expected = Forecaster::new(&schema, rows).unwrap().errors(choice, pure(epsilon), &questions).unwrap();
        let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
        for (question, expected) in questions.iter().zip(expected) {
            assert!(expected.std_error > 0.0 && expected.std_error.is_finite(), "{question:?} {expected:?}");
            // An error relative to the rows, so that counts can be compared.
            let scale = if *question == Question::Rows { rows as f64 } else { 1.0 };
            *kinds.entry(question.kind()).or_default() += (expected.std_error / scale).powi(2);
        }
        kinds
    };
    for (choice, slack) in [(Choice::Auto, 1.0), (Choice::Design(Design::default()), 1.05)] {
        for cases in [[(20_000, "0.1"), (20_000, "1"), (20_000, "10")], [(5000, "1"), (50_000, "1"), (500_000, "1")]] {
            let all = cases.map(|(rows, epsilon)| kinds(rows, epsilon, &choice));
            for kind in all[0].keys() {
                let errors = [0, 1, 2].map(|case: usize| all[case][kind].sqrt());
                let falling = slack * errors[0] > errors[1] && slack * errors[1] > errors[2];
                assert!(falling && errors[0] > errors[2], "{choice:?} {cases:?} {kind}: {errors:?}");
            }
        }
    }
}

/// The ε that is found is enough, and four fifths of it are not; of several wants the hardest decides.
#[test]
fn the_epsilon_found_is_the_smallest() {
    let forecaster = Forecaster::new(&schema(), 20_000).unwrap();
    let delta = Budget::new(Some("1".parse().unwrap()), Some("0.000001".parse().unwrap()), None).unwrap();
    for text in ["mean(age) ± 0.5%", "cdf(income) ± 1%", "share(town) ± 0.1%", "count(age, income) ± 1%", "rows ± 10"]
    {
        for privacy in [pure("1"), Privacy::new(delta)] {
            let want = want(text).unwrap();
            let needed = forecaster.smallest_epsilon(&Choice::Auto, privacy, std::slice::from_ref(&want)).unwrap();
            assert_eq!(needed.decisive, Some(0), "{text}");
            let error = |part: f64| {
                let epsilon = Decimal::from_f64((needed.epsilon.to_f64() * part * 1e6).round() / 1e6).unwrap();
                let delta = match privacy.budget {
                    Budget::Approximate { delta, .. } => Some(delta),
                    _ => None,
                };
                let privacy = Privacy { budget: Budget::new(Some(epsilon), delta, None).unwrap(), ..privacy };
                forecaster.errors(&Choice::Auto, privacy, std::slice::from_ref(&want.question)).unwrap()[0].std_error
            };
            assert!(error(1.0) <= want.error, "{text}: {} with {}", error(1.0), needed.epsilon);
            assert!(error(0.8) > want.error, "{text}: {} with 0.8 of {}", error(0.8), needed.epsilon);
        }
    }
    let wants = ["mean(age) ± 5%", "mean(income) ± 0.5%", "share(town) ± 5%"].map(|text| want(text).unwrap());
    let all = forecaster.smallest_epsilon(&Choice::Auto, pure("1"), &wants).unwrap();
    let alone = forecaster.smallest_epsilon(&Choice::Auto, pure("1"), &wants[1..2]).unwrap();
    assert_eq!((all.epsilon, all.decisive), (alone.epsilon, Some(1)));
}

#[test]
fn what_is_out_of_reach_is_said_so() {
    let forecaster = Forecaster::new(&schema(), 2000).unwrap();
    let hist = Choice::Design(Design::parse("hist").unwrap());
    let wants = [want("mean(age) ± 5%").unwrap(), want("corr(age, income) ± 0.01").unwrap()];
    let message = forecaster.smallest_epsilon(&hist, pure("1"), &wants).unwrap_err().to_string();
    assert!(message.starts_with("`corr(age, income) ± 0.01` is out of reach: even with ε = 1000"), "{message}");
    let easy = forecaster.smallest_epsilon(&hist, pure("1"), &[want("mean(age) ± 100%").unwrap()]).unwrap();
    assert_eq!((easy.epsilon.to_string().as_str(), easy.decisive), ("0.0001", None));
    let rho = Privacy::new(Budget::new(None, None, Some("1".parse().unwrap())).unwrap());
    assert!(forecaster.smallest_epsilon(&hist, rho, &wants).is_err());
    assert!(Forecaster::new(&schema(), 0).is_err());
}

/// Histograms alone say nothing of how columns go together.
#[test]
fn guesses_are_told_apart() {
    let forecaster = Forecaster::new(&schema(), 20_000).unwrap();
    let questions = [Question::Mean(0), Question::Correlation([0, 1])];
    let supported = |choice: &Choice| {
        forecaster.errors(choice, pure("1"), &questions).unwrap().iter().map(|e| e.supported).collect::<Vec<_>>()
    };
    assert_eq!(supported(&Choice::Auto), [true, true]);
    assert_eq!(supported(&Choice::Design(Design::parse("hist").unwrap())), [true, false]);
}

/// One column, one row, a public count, rows of users, few and extreme budgets: there is a finite answer for all.
#[test]
fn forecasts_are_total() {
    let one = Schema::from_toml("[[column]]\nname='x'\ntype='number'\nmin=0\nmax=1").unwrap();
    let users = Schema::from_toml(&format!("[privacy]\nunit = 'person'\nmax_rows = 10\n{SCHEMA}")).unwrap();
    for (schema, rows, privacy) in [
        (&one, 1000, pure("1")),
        (&one, 1, pure("0.0001")),
        (&schema(), 1, pure("1")),
        (&schema(), 100, pure("0.0001")),
        (&schema(), 100, pure("1000")),
        (&schema(), 1_000_000_000_000_000, pure("1")),
        (&schema(), 1000, Privacy { neighbours: crate::privatise::Neighbours::Replace, ..pure("1") }),
        (&users, 1000, pure("1")),
    ] {
        let questions = Question::typical(schema);
        let forecaster = Forecaster::new(schema, rows).unwrap();
        for expected in forecaster.errors(&Choice::Auto, privacy, &questions).unwrap() {
            assert!(expected.std_error.is_finite() && expected.std_error >= 0.0, "{rows} {privacy:?} {expected:?}");
        }
    }
}

/// Five standard errors of a variance that is estimated from many draws; the stream is fixed.
#[test]
fn pretended_noise_is_as_large_as_that_of_the_mechanism() {
    let pairs = Schema::from_toml(SCHEMA).unwrap();
    let design = Design::parse("rff:m=4000").unwrap();
    let gaussian = Budget::new(None, None, Some("0.5".parse().unwrap())).unwrap();
    let knorm = Privacy { noise: crate::privatise::NoiseKind::Knorm, ..pure("1") };
    for privacy in [pure("1"), Privacy::new(gaussian), knorm] {
        let mechanism = Plan::new(&pairs, &design, privacy).unwrap().blocks().next().unwrap();
        let noise = pretend(mechanism, 4000, &mut PublicStream::new("test", 0));
        let variance = noise.iter().map(|x| x * x).sum::<f64>() / 4000.0;
        let ratio = variance / mechanism.standard_deviation(4000).powi(2);
        assert!((ratio - 1.0).abs() < 5.0 * (5.0f64 / 4000.0).sqrt(), "{mechanism:?}: {ratio}");
    }
}
