//! One term of a formula, written as an SQL expression.

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};
use sqlparser::tokenizer::TokenWithSpan;

use crate::expr::Expr;
use crate::{Error, sql};

/// A stretch of a formula between separators.
#[derive(Clone, Copy)]
pub(super) struct Stretch<'a> {
    /// The formula.
    pub formula: &'a str,
    /// The separator before it.
    pub before: Option<&'a TokenWithSpan>,
    pub tokens: &'a [TokenWithSpan],
    /// The token behind it.
    pub end: &'a TokenWithSpan,
}

impl Stretch<'_> {
    /// It as it was written.
    pub fn text(&self) -> String {
        self.tokens.iter().map(TokenWithSpan::to_string).collect::<String>().trim().to_owned()
    }

    pub fn is_blank(&self) -> bool {
        self.tokens.iter().all(sql::is_blank)
    }

    /// Says what should stand where its end is.
    pub fn wants(&self, what: &str) -> Error {
        sql::unexpected_in_formula(self.formula, what, self.end)
    }

    /// The expression that it makes up. `I(x)` is `x`, as in R.
    pub fn parse(&self) -> Result<Expr, Error> {
        sql::expression(&sql::term(self.formula, self.tokens, self.end)?, None, &mut as_it_is)
    }
}

/// What `I(x)` stands for; nothing for other parts.
fn as_it_is(tree: &ast::Expr) -> Result<Option<Expr>, Error> {
    let ast::Expr::Function(call) = tree else { return Ok(None) };
    match &call.args {
        FunctionArguments::List(list) if call.name.to_string() == "I" => match &list.args[..] {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] => {
                sql::expression(inner, None, &mut as_it_is).map(Some)
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}
