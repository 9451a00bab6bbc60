//! A page about a release that needs nothing else: to be published beside the file.

use std::fmt::Write as _;

use m2m::Release;
use m2m::fit::Fit;
use m2m::sql::ColumnKind;
use m2m::task::Ask;

use crate::commands::{ask, info};
use crate::table;
use crate::view::{self, Column, Correlations, Detail, MOST_CORRELATED};

/// The looks of the explorer, and what a page on paper needs besides.
const STYLE: &str = include_str!("explore/page/style.css");
const OWN_STYLE: &str = "main{max-width:980px}.panel svg{max-width:100%;height:auto;display:block}.facts{max-width:26rem;margin-top:.8rem}\
    nav ol{columns:3;padding-left:1.2rem}@media(max-width:640px){nav ol{columns:1}}nav{margin:0}header.top{position:static;border:0;\
    background:none}section.panel h2{overflow-wrap:anywhere}footer{padding:0}";

/// Columns that are drawn; a page about more is too heavy to be read.
pub const MOST_COLUMNS: usize = 120;

/// The page.
pub fn html(name: &str, release: &Release, fit: &Fit) -> anyhow::Result<String> {
    let asked = Ask::of(fit);
    let schema = release.schema();
    let rows = asked.count()?;
    let mut page = String::new();
    let out = &mut page;
    let title = format!("{} · a differentially private release", escape(name));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{OWN_STYLE}\n</style>\n</head>\n<body>\n<main>\n"
    )?;
    let columns = schema.columns().len();
    writeln!(out, "<header class=\"top\"><h1>{}</h1>", escape(name))?;
    writeln!(
        out,
        "<p class=\"lead\">{} rows and {columns} columns, published once under <strong>{}</strong> {}.</p></header>",
        escape(&table::estimate(&rows, ColumnKind::Plain)),
        escape(&release.statement().budget.to_string()),
        escape(&info::neighbours_in_words(release)),
    )?;
    privacy(out, release)?;
    writeln!(
        out,
        "<section class=\"panel\"><h2>How to read this page</h2><p>Every number is <em>value ± standard error</em>; whiskers \
        and bands are 95% intervals. The error counts the noise that protects people and what the release leaves open. A star \
        marks what the noise swamps or the release says next to nothing about.</p></section>"
    )?;
    usage(out, name, release)?;
    let drawn = &schema.columns()[..columns.min(MOST_COLUMNS)];
    writeln!(out, "<section class=\"panel\"><h2>Columns</h2><nav aria-label=\"Columns\"><ol>")?;
    for (at, column) in drawn.iter().enumerate() {
        writeln!(out, "<li><a href=\"#c{at}\">{}</a></li>", escape(&column.name))?;
    }
    writeln!(out, "</ol></nav>")?;
    if columns > drawn.len() {
        writeln!(out, "<p class=\"note\">{} more columns are in the release.</p>", columns - drawn.len())?;
    }
    writeln!(out, "</section>")?;
    for (at, column) in drawn.iter().enumerate() {
        one_column(out, at, &info::column_in_words(column), &Column::read(&asked, &column.name, Detail::Full)?)?;
    }
    let numeric = view::numeric(schema);
    if numeric.len() > 1 {
        let found = Correlations::read(&asked, &numeric)?;
        writeln!(out, "<section class=\"panel\"><h2>Correlations</h2>")?;
        for warning in ask::warnings(found.0.entries.iter().enumerate().flat_map(|(i, row)| &row[..i])) {
            writeln!(out, "<p class=\"warn\">{}</p>", escape(&warning))?;
        }
        let note = if numeric.len() > MOST_CORRELATED {
            format!(" The first {MOST_CORRELATED} numeric columns.")
        } else {
            String::new()
        };
        writeln!(
            out,
            "<figure>{}<figcaption>Blue goes up together, orange against each other; grey numbers cannot be told from \
            zero.{note}</figcaption></figure></section>",
            found.picture().to_element()
        )?;
    }
    writeln!(
        out,
        "<footer><p>Made by m2m {} from <code>{}</code>, hash <code>{}</code>.</p></footer>\n</main>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION"),
        escape(name),
        release.hash()
    )?;
    Ok(page)
}

fn privacy(out: &mut String, release: &Release) -> anyhow::Result<()> {
    let statement = release.statement();
    writeln!(
        out,
        "<section class=\"panel\"><h2>What is promised</h2><p>This release is differentially private with {}, {}. It {}.</p>",
        escape(&statement.budget.to_string()),
        escape(&info::neighbours_in_words(release)),
        escape(&info::unit_in_words(release.schema().unit()))
    )?;
    writeln!(out, "<p>{}</p>", escape(&info::promise_in_words(&statement.budget)))?;
    if let Some(guess) = info::guess_in_words(release) {
        writeln!(out, "<p>{}</p>", escape(&guess))?;
    }
    writeln!(
        out,
        "<p>Asking it costs nothing more: whatever is computed from the file, this page included, keeps the same promise.</p>"
    )?;
    writeln!(out, "<ul>")?;
    for block in release.blocks() {
        writeln!(out, "<li>{}</li>", escape(&info::block_in_words(block)))?;
    }
    writeln!(out, "</ul></section>")?;
    Ok(())
}

/// How the file is opened, where.
fn usage(out: &mut String, name: &str, release: &Release) -> anyhow::Result<()> {
    let schema = release.schema();
    let number = schema.columns().iter().find(|column| column.kind.range().is_some());
    let column = number.map_or("*", |column| column.name.as_str());
    let identifier = column.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let in_sql = if identifier { column.to_owned() } else { format!("\"{}\"", column.replace('"', "\"\"")) };
    let query = if number.is_some() { format!("SELECT AVG({in_sql}) FROM t") } else { "SELECT COUNT(*) FROM t".into() };
    let shell = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let string = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let command = format!(
        "m2m sql {} {}\nm2m describe {}\nm2m explore {}\nm2m synth {} -n 10000 -o rows.parquet",
        shell(name),
        shell(&query),
        shell(name),
        shell(name),
        shell(name)
    );
    let python =
        format!("import m2m\n\nrelease = m2m.open({})\nrelease.sql({}).to_polars()", string(name), string(&query));
    let r = format!(
        "# with the m2m command on the path\nanswer <- system2(\"m2m\", c(\"sql\", {}, shQuote({}), \"--format\", \"csv\"), stdout = TRUE)\nread.csv(text = answer)\n\n\
         # the file itself is JSON\nrelease <- jsonlite::fromJSON({}, simplifyVector = FALSE)",
        string(name),
        string(&query),
        string(name)
    );
    writeln!(out, "<section class=\"panel\"><h2>How to ask it yourself</h2>")?;
    for (title, text) in [("On the command line", command), ("In Python", python), ("In R", r)] {
        writeln!(out, "<h3>{title}</h3>\n<pre tabindex=\"0\"><code>{}</code></pre>", escape(&text))?;
    }
    writeln!(out, "</section>")?;
    Ok(())
}

fn one_column(out: &mut String, at: usize, words: &str, column: &Column) -> anyhow::Result<()> {
    let plain = ColumnKind::Plain;
    let kind = column.shown_as();
    writeln!(
        out,
        "<section class=\"panel\" id=\"c{at}\"><h2>{}</h2><p class=\"note\">{}</p>",
        escape(&column.name),
        escape(words)
    )?;
    for warning in ask::warnings(column.estimates()) {
        writeln!(out, "<p class=\"warn\">{}</p>", escape(&warning))?;
    }
    writeln!(out, "<figure>{}", column.histogram().to_element())?;
    let tails: Vec<String> = [(&column.below, "below"), (&column.above, "above")]
        .into_iter()
        .filter_map(|(count, place)| {
            count.as_ref().map(|count| format!("{} rows lie {place}", table::estimate(count, plain)))
        })
        .collect();
    if !tails.is_empty() {
        writeln!(out, "<figcaption>{} what is drawn.</figcaption>", escape(&tails.join(", ")))?;
    }
    writeln!(out, "</figure>")?;
    let mut facts = vec![
        ("values".to_owned(), table::estimate(&column.count, plain)),
        ("missing".to_owned(), table::estimate(&column.missing, plain)),
    ];
    for (name, estimate) in &column.moments {
        facts.push(((*name).to_owned(), table::estimate(estimate, if *name == "mean" { kind } else { plain })));
    }
    for (q, estimate) in &column.quantiles {
        facts.push((format!("{:.0}% up to", 100.0 * q), table::estimate(estimate, kind)));
    }
    for (value, count) in &column.atoms {
        facts.push((format!("exactly {}", column.kind.show(*value)), table::estimate(count, plain)));
    }
    writeln!(out, "<dl class=\"facts\">")?;
    for (name, text) in facts {
        writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&text))?;
    }
    writeln!(out, "</dl></section>")?;
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
