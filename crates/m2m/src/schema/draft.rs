//! A first schema from names and types, for a person to complete.

use std::fmt::Write;

/// A column as its file describes it, without looking at a value.
pub type Field = (String, Option<&'static str>);

/// The text of a draft schema: names and, where the file states them, types. Bounds and levels are left open
/// on purpose, so the draft does not pass `m2m schema check` until a person has filled them in.
pub fn draft(fields: &[Field]) -> String {
    let mut text = String::from(
        "# Draft of a schema. Fill in every line marked FILL IN from what is publicly known about the table:\n\
         # a codebook, a law of nature, the form that people filled in. Do not read bounds or levels off the\n\
         # data: they are published as they are, and an extreme value or a rare level can betray a person.\n\
         # Values outside the bounds are clamped, unlisted levels count as \"other\". Remove columns that\n\
         # need not be released: each one takes its part of the privacy budget.\n\n\
         [privacy]\n\
         unit = \"row\"            # or the column that identifies a person, with max_rows = 4 on a line below\n",
    );
    for (name, kind) in fields {
        let quoted = toml::Value::String(name.clone());
        let _ = write!(text, "\n[[column]]\nname = {quoted}\n");
        match kind {
            Some(kind @ ("number" | "integer")) => {
                let _ = writeln!(
                    text,
                    "type = \"{kind}\"\n# min =                # FILL IN\n# max =                # FILL IN"
                );
            }
            Some(kind @ ("date" | "datetime")) => {
                let _ = writeln!(
                    text,
                    "type = \"{kind}\"\n# min = \"\"             # FILL IN, such as \"2020-01-01\"\n# max = \"\"             # FILL IN"
                );
            }
            Some("boolean") => text.push_str("type = \"boolean\"\n"),
            Some("category") => text.push_str("type = \"category\"\n# levels = []          # FILL IN\n"),
            _ => text.push_str(
                "# type = \"\"            # FILL IN: number | integer | date | datetime | boolean | category\n\
                 # min =                # FILL IN for number, integer, date, datetime\n\
                 # max =                # FILL IN for number, integer, date, datetime\n\
                 # levels = []          # FILL IN for category\n",
            ),
        }
    }
    text
}
