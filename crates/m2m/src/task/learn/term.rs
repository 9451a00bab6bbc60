//! One term of a formula, written as an SQL expression.

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::expr::Expr;
use crate::{Error, sql};

/// The expression that all of the tokens make up. `I(x)` is `x`, as in R.
pub(super) fn parse(tokens: &[Token]) -> Result<Expr, Error> {
    if tokens.len() > sql::MAX_WORDS {
        return Err(fail("a term of the formula is too long; write a shorter one".into()));
    }
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens(tokens.to_vec());
    let parsed = parser.parse_expr().map_err(|error| {
        let message = error.to_string();
        let message = message.strip_prefix("sql parser error: ").unwrap_or(&message);
        fail(format!(
            "`{}` cannot be read ({message}); write a column, or an expression such as log(income)",
            text(tokens)
        ))
    })?;
    match parser.peek_token().token {
        Token::EOF => sql::expression(&parsed, None, &mut as_it_is),
        extra => Err(fail(format!("`{extra}` is not expected in `{}`; put + between terms", text(tokens)))),
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

/// Tokens as they were written.
pub(super) fn text(tokens: &[Token]) -> String {
    tokens.iter().map(Token::to_string).collect::<String>().trim().to_owned()
}

fn fail(message: String) -> Error {
    Error::Question(message)
}
