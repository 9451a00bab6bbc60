//! From text to sqlparser's tree, and from that to expressions.

use sqlparser::ast::{self, BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, UnaryOperator, Value};
use sqlparser::dialect::{GenericDialect, PostgreSqlDialect};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

use super::names;
use crate::expr::{Expr, Function, Op, Type, find_column};
use crate::schema::Kind;
use crate::{Error, Schema};

/// Chains such as `a + b + c` nest without end in sqlparser's tree: longer texts could exhaust the stack.
pub(crate) const MAX_WORDS: usize = 2000;
const MAX_BYTES: usize = 1 << 20;
/// Nesting of parentheses and the like.
const MAX_DEPTH: usize = 40;
/// Parts of an expression that are written out more than once, as that of `x BETWEEN 1 AND 2`.
const MAX_COPIED: usize = 50_000;

/// A parser of a text that is short enough to be parsed; `what` is what messages call it.
fn parser(what: &str, text: &str) -> Result<Parser<'static>, Error> {
    if text.len() > MAX_BYTES {
        return fail(format!("the {what} is longer than 1 MB; ask a shorter one"));
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| mark(what, text, &error.to_string()))?;
    let counts = |token: &Token| {
        !matches!(token, Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_))
    };
    if tokens.iter().filter(|token| counts(&token.token)).count() > MAX_WORDS {
        return fail(format!("the {what} has more than {MAX_WORDS} words; ask a shorter one, with IN for long lists"));
    }
    Ok(Parser::new(&PostgreSqlDialect {}).with_recursion_limit(MAX_DEPTH).with_tokens_with_locations(tokens))
}

/// What the parser complains about.
fn complaint(what: &str, text: &str, error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => too_deep(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => mark(what, text, &message),
    }
}

/// A text without the mark that some editors put at the start of a file.
pub(crate) fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A condition that is all of a text.
pub(super) fn alone(text: &str) -> Result<ast::Expr, Error> {
    let text = without_bom(text);
    let mut parser = parser("condition", text)?;
    let tree = parser.parse_expr().map_err(|error| complaint("condition", text, error))?;
    behind("condition", text, &parser, "the end").map(|()| tree)
}

/// Nothing may be left; if something is, `wanted` could have stood there.
fn behind(what: &str, text: &str, parser: &Parser<'_>, wanted: &str) -> Result<(), Error> {
    match parser.peek_token() {
        TokenWithSpan { token: Token::EOF, .. } => Ok(()),
        more => Err(unexpected(what, text, wanted, &more)),
    }
}

/// The tokens of a formula, the last of which marks the end.
pub(crate) fn formula_tokens(text: &str) -> Result<Vec<TokenWithSpan>, Error> {
    if text.len() > MAX_BYTES {
        return fail("the formula is longer than 1 MB; write a shorter one");
    }
    let mut tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| mark(FORMULA, text, &error.to_string()))?;
    let end = tokens.iter().rfind(|token| !is_blank(token)).map_or_else(Span::empty, |last| last.span);
    tokens.push(TokenWithSpan { token: Token::EOF, span: Span::new(end.end, end.end) });
    Ok(tokens)
}

/// The expression that some tokens of a formula make up; `end` is the token behind them.
pub(crate) fn term(text: &str, tokens: &[TokenWithSpan], end: &TokenWithSpan) -> Result<ast::Expr, Error> {
    if tokens.len() > MAX_WORDS {
        return fail("a term of the formula is too long; write a shorter one");
    }
    let last = TokenWithSpan { token: Token::EOF, span: end.span };
    let tokens = tokens.iter().cloned().chain([last]).collect();
    let mut parser =
        Parser::new(&PostgreSqlDialect {}).with_recursion_limit(MAX_DEPTH).with_tokens_with_locations(tokens);
    let tree = parser.parse_expr().map_err(|error| match error {
        // The term ends where the next token of the formula stands.
        ParserError::ParserError(message) => mark(FORMULA, text, &message.replace("EOF", &end.to_string())),
        other => complaint(FORMULA, text, other),
    })?;
    behind(FORMULA, text, &parser, "+ between terms").map(|()| tree)
}

pub(crate) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

const FORMULA: &str = "formula";

/// Says what a formula should have where another token stands.
pub(crate) fn unexpected_in_formula(text: &str, wanted: &str, found: &TokenWithSpan) -> Error {
    unexpected(FORMULA, text, wanted, found)
}

fn unexpected(what: &str, text: &str, wanted: &str, found: &TokenWithSpan) -> Error {
    let at = found.span.start;
    mark(what, text, &format!("expected {wanted}, found {found} at Line: {}, Column: {}", at.line, at.column))
}

/// The one SELECT of a text.
pub(super) fn select(text: &str) -> Result<ast::Query, Error> {
    let text = without_bom(text);
    let mut statements = parser("query", text)?.parse_statements().map_err(|error| complaint("query", text, error))?;
    match (statements.pop(), statements.len()) {
        (None, _) => fail("there is no query; ask for instance SELECT COUNT(*)"),
        (Some(ast::Statement::Query(query)), 0) => Ok(*query),
        (Some(_), 0) => fail("a release can only be read; write a SELECT"),
        (Some(_), others) => fail(format!("there are {} statements; ask one at a time", others + 1)),
    }
}

fn too_deep() -> Error {
    Error::Question("the query is nested too deeply; write it flatter".into())
}

/// sqlparser's complaint with the line and a caret under the place.
fn mark(what: &str, text: &str, complaint: &str) -> Error {
    let (wrong, place) = match complaint.rsplit_once(" at Line: ") {
        Some((wrong, place)) => (wrong, place.split_once(", Column: ")),
        None => (complaint, None),
    };
    let place = place.and_then(|(line, column)| Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?)));
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let end = (lines.len().max(1), lines.last().map_or(0, |line| line.chars().count()) + 1);
    let (line, column) = place.filter(|(line, column)| (1..=lines.len()).contains(line) && *column > 0).unwrap_or(end);
    let wrong = wrong.replace("Expected: ", "expected ").replace("found: ", "found ").replace("EOF", "the end");
    // A window of the line around the place, so that the caret stays on the screen.
    let from = column.saturating_sub(60);
    let shown: String = lines.get(line - 1).unwrap_or(&"").chars().skip(from).take(100).collect();
    let before = shown.chars().take(column - 1 - from.min(column - 1));
    let space: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    Error::Question(format!(
        "the {what} cannot be read at line {line}, column {column}: {wrong}; correct it here:\n  {shown}\n  {space}^"
    ))
}

/// What stands for a part of a tree instead of its literal translation.
pub(crate) type Leaf<'a> = dyn FnMut(&ast::Expr) -> Result<Option<Expr>, Error> + 'a;

/// A tree as an expression. Every part is first shown to `leaf`, which may take it over. The schema, where the
/// expression is one over rows, tells conditions from numbers.
pub(crate) fn expression(tree: &ast::Expr, schema: Option<&Schema>, leaf: &mut Leaf<'_>) -> Result<Expr, Error> {
    Reader { schema, leaf, depth: 0, copied: 0 }.read(tree)
}

struct Reader<'a, 'b> {
    schema: Option<&'a Schema>,
    leaf: &'a mut Leaf<'b>,
    depth: usize,
    /// How many parts were written out more than once: nested, they could double at every level.
    copied: usize,
}

impl Reader<'_, '_> {
    fn read(&mut self, tree: &ast::Expr) -> Result<Expr, Error> {
        if let Some(expr) = (self.leaf)(tree)? {
            return Ok(expr);
        }
        // Chains of operators nest beyond the parser's own limit.
        self.depth += 1;
        if self.depth > 4 * MAX_DEPTH {
            return Err(too_deep());
        }
        let expr = self.read_parts(tree);
        self.depth -= 1;
        expr
    }

    fn read_parts(&mut self, tree: &ast::Expr) -> Result<Expr, Error> {
        use ast::Expr as Tree;
        Ok(match tree {
            Tree::Identifier(name) => Expr::Column(name.value.clone()),
            Tree::CompoundIdentifier(names) => Expr::Column(names.last().map_or_else(String::new, |n| n.value.clone())),
            Tree::Nested(inner) => self.read(inner)?,
            Tree::Value(value) => constant(&value.value)?,
            Tree::TypedString(typed) => constant(&typed.value.value)?,
            Tree::UnaryOp { op: UnaryOperator::Minus, expr } => match self.read(expr)? {
                Expr::Number(x) => Expr::Number(-x),
                inner => -inner,
            },
            Tree::UnaryOp { op: UnaryOperator::Plus, expr } => self.read(expr)?,
            Tree::UnaryOp { op: UnaryOperator::Not, expr } => !self.read(expr)?,
            Tree::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => self.chain(tree, op)?,
            Tree::BinaryOp { left, op, right } => self.binary(left, op, right)?,
            Tree::IsNull(inner) | Tree::IsUnknown(inner) => self.read(inner)?.is_null(),
            Tree::IsNotNull(inner) | Tree::IsNotUnknown(inner) => self.read(inner)?.is_not_null(),
            Tree::IsTrue(inner) => or_false(self.read(inner)?),
            Tree::IsNotTrue(inner) => !or_false(self.read(inner)?),
            Tree::IsFalse(inner) => or_false(!self.read(inner)?),
            Tree::IsNotFalse(inner) => !or_false(!self.read(inner)?),
            Tree::IsNotDistinctFrom(a, b) => self.same(a, b)?,
            Tree::IsDistinctFrom(a, b) => !self.same(a, b)?,
            Tree::Between { expr, negated, low, high } => {
                let expr = self.read(expr)?;
                self.charge(&expr, 1)?;
                let (low, high) = (self.read(low)?, self.read(high)?);
                self.no_number_for_a_date(&expr, &low)?;
                self.no_number_for_a_date(&expr, &high)?;
                not_if(*negated, expr.between(low, high))
            }
            Tree::InList { expr, list, negated } => {
                let expr = self.read(expr)?;
                let values = list.iter().map(|value| self.read(value)).collect::<Result<Vec<_>, _>>()?;
                self.charge(&expr, values.len())?;
                values.iter().try_for_each(|value| self.no_number_for_a_date(&expr, value))?;
                not_if(*negated, expr.one_of(values))
            }
            Tree::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(expr, pattern, *negated, false)?
            }
            Tree::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(expr, pattern, *negated, true)?
            }
            Tree::Case { operand, conditions, else_result, .. } => {
                let operand = operand.as_ref().map(|operand| self.read(operand)).transpose()?;
                if let Some(operand) = &operand {
                    self.charge(operand, conditions.len())?;
                }
                let mut branches = Vec::new();
                for when in conditions {
                    let condition = self.read(&when.condition)?;
                    let condition = match &operand {
                        Some(operand) => operand.clone().eq(condition),
                        None => condition,
                    };
                    branches.push((condition, self.read(&when.result)?));
                }
                let otherwise = else_result.as_ref().map(|value| self.read(value).map(Box::new)).transpose()?;
                Expr::Case { branches, otherwise }
            }
            Tree::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
                let inner = self.read(expr)?;
                let is_truth = |schema| inner.check(schema).is_ok_and(|checked| checked.kind() == Type::Boolean);
                match cast(data_type) {
                    Cast::Nothing => {
                        return fail(format!("nothing can be turned into {data_type}; leave out the CAST"));
                    }
                    Cast::Number if self.schema.is_some_and(is_truth) => {
                        self.charge(&inner, 1)?;
                        number(inner)
                    }
                    _ => inner,
                }
            }
            Tree::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                Expr::Call(Function::Ceil, vec![self.read(expr)?])
            }
            Tree::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                Expr::Call(Function::Floor, vec![self.read(expr)?])
            }
            Tree::Function(function) => self.call(function)?,
            Tree::InSubquery { .. }
            | Tree::Exists { .. }
            | Tree::Subquery(_)
            | Tree::AnyOp { .. }
            | Tree::AllOp { .. } => {
                return fail("subqueries are not possible; ask each part as a query of its own");
            }
            Tree::Extract { .. } | Tree::Interval(_) | Tree::AtTimeZone { .. } => {
                return fail(
                    "parts of dates and intervals are not possible; compare dates, as in born >= '1990-01-01', or group by bin(born, 10)",
                );
            }
            Tree::Wildcard(_) | Tree::QualifiedWildcard(..) => return Err(single_rows()),
            _ => {
                return fail(
                    "a part of the query is not possible here; use arithmetic, comparisons, IN, LIKE, CASE and functions of numbers",
                );
            }
        })
    }

    /// `a AND b AND c` as a tree of little depth.
    fn chain(&mut self, tree: &ast::Expr, op: &BinaryOperator) -> Result<Expr, Error> {
        let mut parts = Vec::new();
        let mut rest = tree;
        while let ast::Expr::BinaryOp { left, op: this, right } = rest
            && this == op
        {
            parts.push(self.read(right)?);
            rest = left;
        }
        parts.push(self.read(rest)?);
        parts.reverse();
        let op = if *op == BinaryOperator::And { Op::And } else { Op::Or };
        Ok(Expr::balanced(op, parts).expect("a chain has parts"))
    }

    fn binary(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Result<Expr, Error> {
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
            BinaryOperator::PGExp => {
                return Ok(Expr::Call(Function::Power, vec![self.read(left)?, self.read(right)?]));
            }
            other => return fail(format!("the operator `{other}` is not possible; use + - * / % ^ and comparisons")),
        };
        let (left, right) = (self.read(left)?, self.read(right)?);
        if !op.is_arithmetic() {
            self.no_number_for_a_date(&left, &right)?;
            self.no_number_for_a_date(&right, &left)?;
        }
        Ok(Expr::Binary(op, Box::new(left), Box::new(right)))
    }

    /// Days are counted from 1970, which nobody means who compares a date with 2015.
    fn no_number_for_a_date(&self, column: &Expr, number: &Expr) -> Result<(), Error> {
        let (Some(schema), Expr::Column(name), Expr::Number(x)) = (self.schema, column, number) else { return Ok(()) };
        let (word, example) = match find_column(schema, name).map(|at| &schema.columns()[at].kind) {
            Ok(Kind::Date(_)) => ("date", "'2015-12-31'"),
            Ok(Kind::Datetime(_)) => ("moment", "'2015-12-31T23:59:59Z'"),
            _ => return Ok(()),
        };
        fail(format!(
            "`{name}` is a {word} and cannot be compared with {x}; write a {word} in quotes, such as {example}"
        ))
    }

    fn same(&mut self, a: &ast::Expr, b: &ast::Expr) -> Result<Expr, Error> {
        let (a, b) = (self.read(a)?, self.read(b)?);
        self.charge(&a, 1)?;
        self.charge(&b, 1)?;
        let both_null = a.clone().is_null().and(b.clone().is_null());
        Ok(Expr::Call(Function::Coalesce, vec![a.eq(b), both_null]))
    }

    fn like(&mut self, text: &ast::Expr, pattern: &ast::Expr, negated: bool, ignore_case: bool) -> Result<Expr, Error> {
        let Expr::Text(pattern) = self.read(pattern)? else {
            return fail("LIKE needs a pattern in single quotes; write for instance education LIKE 'B%'");
        };
        Ok(not_if(negated, Expr::Like { text: Box::new(self.read(text)?), pattern, ignore_case }))
    }

    fn call(&mut self, function: &ast::Function) -> Result<Expr, Error> {
        let name = function.name.to_string();
        if function.over.is_some() {
            return fail("window functions are not possible; group by the columns instead");
        }
        let others = ["nullif", "ifnull", "mod"];
        if Function::named(&name).is_none() && !others.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            return Err(names::unknown(&name));
        }
        let arguments = arguments(function)?;
        let mut values = arguments.iter().map(|argument| self.read(argument)).collect::<Result<Vec<_>, _>>()?;
        if let Some(function) = Function::named(&name) {
            return Ok(Expr::Call(function, values));
        }
        match (name.to_ascii_lowercase().as_str(), &mut values[..]) {
            ("nullif", [a, b]) => {
                self.charge(a, 1)?;
                let (a, b) = (a.clone(), b.clone());
                Ok(Expr::Case { branches: vec![(a.clone().eq(b), Expr::Null)], otherwise: Some(Box::new(a)) })
            }
            ("ifnull", [_, _]) => Ok(Expr::Call(Function::Coalesce, values)),
            ("mod", [a, b]) => Ok(a.clone() % b.clone()),
            _ => fail(format!("{name} takes two arguments; write for instance {name}(a, b)")),
        }
    }

    /// Accounts for copies of a part.
    fn charge(&mut self, expr: &Expr, times: usize) -> Result<(), Error> {
        self.copied = self.copied.saturating_add(expr.size().saturating_mul(times));
        if self.copied > MAX_COPIED {
            return fail("the query is too long once it is written out; ask a shorter one");
        }
        Ok(())
    }
}

/// The arguments of a function, which must be plain.
pub(super) fn arguments(function: &ast::Function) -> Result<Vec<&ast::Expr>, Error> {
    let list = match &function.args {
        ast::FunctionArguments::None => return Ok(Vec::new()),
        ast::FunctionArguments::Subquery(_) => {
            return fail("subqueries are not possible; ask each part as a query of its own");
        }
        ast::FunctionArguments::List(list) => list,
    };
    let plain = |argument| match argument {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref expr)) => Ok(expr),
        _ => fail(format!("{} takes plain expressions; write them separated by commas", function.name)),
    };
    list.args.iter().map(plain).collect()
}

pub(super) fn single_rows() -> Error {
    Error::Question("a release holds no single rows; ask for COUNT(*) or AVG(...), with GROUP BY for parts".into())
}

pub(super) fn fail<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Question(message.into()))
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    if negated { !expr } else { expr }
}

fn or_false(expr: Expr) -> Expr {
    Expr::Call(Function::Coalesce, vec![expr, Expr::Boolean(false)])
}

fn constant(value: &Value) -> Result<Expr, Error> {
    Ok(match value {
        Value::Number(digits, _) => match digits.parse::<f64>() {
            Ok(x) if x.is_finite() => Expr::Number(x),
            _ => return fail(format!("`{digits}` is not a number that can be held; write a smaller one")),
        },
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) | Value::NationalStringLiteral(text) => {
            Expr::Text(text.clone())
        }
        Value::Boolean(truth) => Expr::Boolean(*truth),
        Value::Null => Expr::Null,
        other => {
            return fail(format!("the constant {other} is not possible; write numbers, or texts in single quotes"));
        }
    })
}

/// Truth as 1 and 0.
pub(super) fn number(condition: Expr) -> Expr {
    let (yes, no) = ((condition.clone(), Expr::Number(1.0)), (!condition, Expr::Number(0.0)));
    Expr::Case { branches: vec![yes, no], otherwise: None }
}

/// What a cast to a type does.
enum Cast {
    /// Truth becomes 1 or 0, the rest stays as it is.
    Number,
    /// Texts become dates where they are compared with one, without a cast.
    Date,
    /// It is not possible.
    Nothing,
}

fn cast(to: &DataType) -> Cast {
    let name = to.to_string().to_ascii_lowercase();
    let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    if is(&["int", "bigint", "smallint", "tinyint", "real", "float", "double", "numeric", "dec"]) && !is(&["interval"])
    {
        Cast::Number
    } else if is(&["date", "timestamp"]) {
        Cast::Date
    } else {
        Cast::Nothing
    }
}
