//! One term of a formula, written as an SQL expression.

use sqlparser::ast::{self, BinaryOperator, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::Error;
use crate::expr::{Expr, Function, Op};

/// The expression that all of the tokens make up. `I(x)` is `x`, as in R.
pub(super) fn parse(tokens: &[Token]) -> Result<Expr, Error> {
    let mut parser = Parser::new(&GenericDialect {}).with_tokens(tokens.to_vec());
    let parsed = parser.parse_expr().map_err(|error| {
        let message = error.to_string();
        let message = message.strip_prefix("sql parser error: ").unwrap_or(&message);
        fail(format!(
            "`{}` cannot be read ({message}); write a column, or an expression such as log(income)",
            text(tokens)
        ))
    })?;
    match parser.peek_token().token {
        Token::EOF => convert(&parsed),
        extra => Err(fail(format!("`{extra}` is not expected in `{}`; put + between terms", text(tokens)))),
    }
}

/// Tokens as they were written.
pub(super) fn text(tokens: &[Token]) -> String {
    tokens.iter().map(Token::to_string).collect::<String>().trim().to_owned()
}

fn fail(message: String) -> Error {
    Error::Question(message)
}

fn convert(expr: &ast::Expr) -> Result<Expr, Error> {
    let boxed = |expr: &ast::Expr| convert(expr).map(Box::new);
    let negate_if = |negated: bool, expr: Expr| if negated { !expr } else { expr };
    Ok(match expr {
        ast::Expr::Identifier(name) => Expr::Column(name.value.clone()),
        ast::Expr::CompoundIdentifier(names) => {
            Expr::Column(names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join("."))
        }
        ast::Expr::Nested(inner) => convert(inner)?,
        ast::Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                Expr::Number(digits.parse().map_err(|_| fail(format!("`{digits}` is not a number; mend it")))?)
            }
            Value::SingleQuotedString(text) => Expr::Text(text.clone()),
            Value::Boolean(truth) => Expr::Boolean(*truth),
            Value::Null => Expr::Null,
            other => return unknown(other),
        },
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => -convert(expr)?,
        ast::Expr::UnaryOp { op: UnaryOperator::Plus, expr } => convert(expr)?,
        ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => !convert(expr)?,
        // Powers are written as in R.
        ast::Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } => {
            Expr::Call(Function::Power, vec![convert(left)?, convert(right)?])
        }
        ast::Expr::BinaryOp { left, op, right } => {
            let op = match op {
                BinaryOperator::Plus => Op::Add,
                BinaryOperator::Minus => Op::Subtract,
                BinaryOperator::Multiply => Op::Multiply,
                BinaryOperator::Divide => Op::Divide,
                BinaryOperator::Modulo => Op::Remainder,
                BinaryOperator::Eq => Op::Equal,
                BinaryOperator::NotEq => Op::NotEqual,
                BinaryOperator::Lt => Op::Less,
                BinaryOperator::LtEq => Op::LessOrEqual,
                BinaryOperator::Gt => Op::Greater,
                BinaryOperator::GtEq => Op::GreaterOrEqual,
                BinaryOperator::And => Op::And,
                BinaryOperator::Or => Op::Or,
                other => return unknown(other),
            };
            Expr::Binary(op, boxed(left)?, boxed(right)?)
        }
        ast::Expr::IsNull(inner) => convert(inner)?.is_null(),
        ast::Expr::IsNotNull(inner) => convert(inner)?.is_not_null(),
        ast::Expr::Between { expr, negated, low, high } => {
            negate_if(*negated, convert(expr)?.between(convert(low)?, convert(high)?))
        }
        ast::Expr::InList { expr, list, negated } => {
            let values = list.iter().map(convert).collect::<Result<Vec<_>, _>>()?;
            negate_if(*negated, convert(expr)?.one_of(values))
        }
        ast::Expr::Case { operand: None, conditions, else_result, .. } => Expr::Case {
            branches: conditions
                .iter()
                .map(|when| Ok((convert(&when.condition)?, convert(&when.result)?)))
                .collect::<Result<_, Error>>()?,
            otherwise: else_result.as_deref().map(boxed).transpose()?,
        },
        ast::Expr::Floor { expr, .. } => Expr::Call(Function::Floor, vec![convert(expr)?]),
        ast::Expr::Ceil { expr, .. } => Expr::Call(Function::Ceil, vec![convert(expr)?]),
        ast::Expr::Function(call) => return function(call),
        other => return unknown(other),
    })
}

fn function(call: &ast::Function) -> Result<Expr, Error> {
    let FunctionArguments::List(list) = &call.args else { return unknown(call) };
    let mut arguments = Vec::new();
    for argument in &list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else { return unknown(call) };
        arguments.push(convert(argument)?);
    }
    let name = call.name.to_string();
    match (name.as_str(), Function::named(&name)) {
        ("I", _) if arguments.len() == 1 => Ok(arguments.remove(0)),
        (_, Some(function)) => Ok(Expr::Call(function, arguments)),
        _ => Err(fail(format!("there is no function `{name}`; there are log, log10, exp, sqrt, abs, power, round, …"))),
    }
}

fn unknown<T>(what: &impl std::fmt::Display) -> Result<T, Error> {
    Err(fail(format!("`{what}` is not possible in a formula; use columns, arithmetic, comparisons and CASE")))
}
