//! Charts of answers: every value with its 95% interval.

use m2m::Estimate;
use m2m::sql::ColumnKind;

use super::picture::{Anchor, Path, Text, text_width};
use super::scale::Ruler;
use super::{Frame, Ink, LABEL, Labels, Line, Marker, PALETTE, Picture, Point, QUIET, SMALL, Series, TEXT};

const BLUE: Ink = PALETTE[0].0;
const ORANGE: Ink = PALETTE[1].0;
const WIDTH: f32 = 640.0;
const PAD: f32 = 8.0;
/// Room for half of the last name along an axis.
const EDGE: f32 = 12.0;

/// A value with its place along an axis.
pub struct At<'a> {
    /// Where it begins and ends.
    pub low: f64,
    pub high: f64,
    pub value: &'a Estimate,
    /// What a reader sees who points at it.
    pub tip: String,
}

/// A named value.
pub struct Named<'a> {
    pub name: String,
    pub value: &'a Estimate,
    /// The value and its error in words.
    pub words: String,
}

fn write(picture: &mut Picture, text: &str, at: (f32, f32), size: f32, anchor: Anchor, ink: Ink) {
    picture.write(Text { text: text.to_owned(), at, size, anchor, ink, upward: false });
}

/// A text that is at most so wide, with an ellipsis where something was left out.
fn shortened(text: &str, size: f32, width: f32) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut short: String = text.to_owned();
    while short.pop().is_some() && text_width(&short, size) + size > width {}
    short.trim_end().to_owned() + "…"
}

/// The largest upper end that a chart has to show: intervals of what is not known do not flatten what is.
fn top<'a>(values: impl Iterator<Item = &'a Estimate> + Clone) -> f64 {
    let largest = values.clone().map(|value| value.value).fold(0.0, f64::max);
    let known = values.filter(|value| value.caution.is_none()).map(|value| value.high).fold(largest, f64::max);
    known.min(3.0 * largest.max(f64::MIN_POSITIVE))
}

/// Bars over intervals of a numeric column.
pub fn histogram(title: &str, column: &str, kind: ColumnKind, bars: &[At<'_>]) -> Picture {
    let (width, height) = (WIDTH, 280.0);
    let mut picture = Picture::new(width, height, title);
    let low = bars.first().map_or(0.0, |bar| bar.low);
    let high = bars.last().map_or(1.0, |bar| bar.high);
    let x = Ruler::between(low, high, kind, 7);
    let y = Ruler::up_to(1.05 * top(bars.iter().map(|bar| bar.value)), 5);
    let labels = Labels { title: "", x: column, y: "rows" };
    let size = (width - 2.0 * PAD - EDGE, height - 2.0 * PAD);
    let frame = Frame::draw(&mut picture, (PAD, PAD), size, &labels, x, y);
    for bar in bars {
        let (Some(left), Some(right)) = (frame.x(bar.low), frame.x(bar.high)) else { continue };
        let (Some(base), Some(tip)) = (frame.y(0.0), frame.y(bar.value.value)) else { continue };
        let gap = if right - left > 4.0 { 0.5 } else { 0.0 };
        let ink = BLUE.fade(if bar.value.caution.is_some() { 0.3 } else { 0.75 });
        picture.fill_with_tip(Path::rectangle(left + gap, tip, right - left - 2.0 * gap, base - tip), ink, &bar.tip);
        let middle = 0.5 * (left + right);
        whisker(&mut picture, &frame, middle, bar.value, ((right - left) * 0.25).min(4.0));
    }
    picture
}

/// An upright interval.
fn whisker(picture: &mut Picture, frame: &Frame, x: f32, value: &Estimate, cap: f32) {
    let (Some(low), Some(high)) = (frame.y(value.low), frame.y(value.high)) else { return };
    let mut lines = vec![[(x, low), (x, high)]];
    if cap > 1.0 {
        lines.push([(x - cap, low), (x + cap, low)]);
        lines.push([(x - cap, high), (x + cap, high)]);
    }
    picture.stroke(Path::segments(lines), TEXT.fade(0.75), 1.1, false);
}

/// A bar for each level, from left to right, with the number behind it.
pub fn levels(title: &str, bars: &[Named<'_>]) -> Picture {
    const ROW: f32 = 24.0;
    let height = 2.0 * PAD + ROW * bars.len().max(1) as f32;
    let mut picture = Picture::new(WIDTH, height, title);
    let names = bars.iter().map(|bar| text_width(&bar.name, LABEL) * 1.08).fold(0.0, f32::max).min(0.34 * WIDTH);
    let words = bars.iter().map(|bar| text_width(&bar.words, SMALL) * 1.12).fold(0.0, f32::max);
    let left = PAD + names + 8.0;
    let room = WIDTH - PAD - words - 10.0 - left;
    let most = top(bars.iter().map(|bar| bar.value)).max(f64::MIN_POSITIVE);
    let at = |value: f64| left + room * (value / most).clamp(0.0, 1.0) as f32;
    for (row, bar) in bars.iter().enumerate() {
        let y = PAD + ROW * row as f32;
        let middle = y + 0.5 * ROW;
        let name = shortened(&bar.name, LABEL, names);
        write(&mut picture, &name, (left - 8.0, middle + 4.0), LABEL, Anchor::End, TEXT);
        let ink = BLUE.fade(if bar.value.caution.is_some() { 0.3 } else { 0.75 });
        let tip = format!("{}: {}", bar.name, bar.words);
        let length = (at(bar.value.value) - left).max(0.5);
        picture.fill_with_tip(Path::rectangle(left, y + 4.0, length, ROW - 8.0), ink, tip);
        let (low, high) = (at(bar.value.low), at(bar.value.high));
        let caps = [low, high].map(|x| [(x, middle - 3.0), (x, middle + 3.0)]);
        let lines = [[(low, middle), (high, middle)]].into_iter().chain(caps);
        picture.stroke(Path::segments(lines), TEXT.fade(0.75), 1.1, false);
        write(&mut picture, &bar.words, (WIDTH - PAD, middle + 4.0), SMALL, Anchor::End, QUIET);
    }
    picture
}

/// A line through values with the band of their intervals. Where a value is missing, the line is interrupted.
pub fn band(
    title: &str,
    labels: [&str; 2],
    x: (f64, f64, ColumnKind),
    y: Option<(f64, f64)>,
    points: &[(f64, Option<Estimate>)],
    marked: bool,
) -> Picture {
    let (width, height) = (WIDTH, 280.0);
    let mut picture = Picture::new(width, height, title);
    let known: Vec<&Estimate> = points.iter().filter_map(|(_, value)| value.as_ref()).collect();
    let ends = || known.iter().flat_map(|value| [value.low, value.high]).filter(|end| end.is_finite());
    let (low, high) = y.unwrap_or_else(|| {
        let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max));
        if low < high { (low - 0.04 * (high - low), high + 0.04 * (high - low)) } else { (low - 0.5, low + 0.5) }
    });
    let (low, high) = if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) };
    let rulers = (Ruler::between(x.0, x.1, x.2, 7), Ruler::between(low, high, ColumnKind::Plain, 5));
    let names = Labels { title: "", x: labels[0], y: labels[1] };
    let size = (width - 2.0 * PAD - EDGE, height - 2.0 * PAD);
    let frame = Frame::draw(&mut picture, (PAD, PAD), size, &names, rulers.0, rulers.1);
    for run in points.split(|(_, value)| value.is_none()) {
        let points = run.iter().filter_map(|(x, value)| value.as_ref().map(|value| (*x, value)));
        let points =
            points.map(|(x, value)| Point { x, y: value.value, band: Some((value.low, value.high)) }).collect();
        let marker = if marked || run.len() == 1 { Marker::Circle } else { Marker::None };
        let series = Series { label: String::new(), ink: BLUE, marker, line: Line::Solid, points };
        series.band(&mut picture, &frame);
        series.draw(&mut picture, &frame);
        for point in &series.points {
            let Some((px, py)) = frame.at(point.x, point.y) else { continue };
            let ends =
                point.band.map_or(String::new(), |(low, high)| format!(" (95%: {} to {})", short(low), short(high)));
            let tip = format!("{}: {}{ends}", x.2.show(point.x).unwrap_or_else(|| short(point.x)), short(point.y));
            picture.fill_with_tip(Path::rectangle(px - 5.0, py - 12.0, 10.0, 24.0), Ink::WHITE.fade(0.0), tip);
        }
    }
    picture
}

/// Points with their intervals, one under the other, beside a line at zero.
pub fn intervals(title: &str, label: &str, all: &[Named<'_>], zero: bool) -> Picture {
    const ROW: f32 = 24.0;
    let (foot, names) = (36.0, all.iter().map(|one| text_width(&one.name, LABEL) * 1.08).fold(0.0, f32::max));
    let names = names.min(0.34 * WIDTH);
    let words = all.iter().map(|one| text_width(&one.words, SMALL) * 1.12).fold(0.0, f32::max);
    let height = 2.0 * PAD + ROW * all.len().max(1) as f32 + foot;
    let mut picture = Picture::new(WIDTH, height, title);
    let ends = || all.iter().flat_map(|one| [one.value.low, one.value.high]).filter(|end| end.is_finite());
    let start = if zero { 0.0 } else { f64::INFINITY };
    let (low, high) = (ends().fold(start, f64::min), ends().fold(if zero { 0.0 } else { -start }, f64::max));
    let (low, high) = if low < high { (low, high) } else { (-1.0, 1.0) };
    let room = 0.03 * (high - low);
    let ruler = Ruler::between(low - room, high + room, ColumnKind::Plain, 6);
    let left = PAD + names + 10.0;
    let right = WIDTH - PAD - words - 12.0;
    let bottom = PAD + ROW * all.len() as f32;
    let at = |value: f64| ruler.place(value).map(|place| left + place * (right - left));
    for (value, name) in &ruler.major {
        let Some(x) = at(*value) else { continue };
        picture.stroke(Path::segments([[(x, PAD), (x, bottom)]]), super::GRID, 0.8, false);
        write(&mut picture, name, (x, bottom + 14.0), SMALL, Anchor::Middle, QUIET);
    }
    if let (true, Some(x)) = (zero, at(0.0)) {
        picture.stroke(Path::segments([[(x, PAD), (x, bottom)]]), QUIET, 1.2, true);
    }
    write(&mut picture, label, (0.5 * (left + right), bottom + 31.0), LABEL, Anchor::Middle, TEXT);
    for (row, one) in all.iter().enumerate() {
        let y = PAD + ROW * (row as f32 + 0.5);
        write(&mut picture, &shortened(&one.name, LABEL, names), (left - 10.0, y + 4.0), LABEL, Anchor::End, TEXT);
        write(&mut picture, &one.words, (WIDTH - PAD, y + 4.0), SMALL, Anchor::End, QUIET);
        let (Some(low), Some(high), Some(x)) = (at(one.value.low), at(one.value.high), at(one.value.value)) else {
            continue;
        };
        picture.stroke(Path::segments([[(low, y), (high, y)]]), BLUE.fade(0.55), 3.0, false);
        picture.fill_with_tip(Path::circle(x, y, 4.2), BLUE, format!("{}: {}", one.name, one.words));
    }
    picture
}

/// A matrix of correlations, its lower triangle.
pub fn correlations(title: &str, names: &[String], entry: impl Fn(usize, usize) -> (Estimate, String)) -> Picture {
    let count = names.len();
    let labels = names.iter().map(|name| text_width(name, LABEL) * 1.08).fold(0.0, f32::max).min(150.0);
    let side = ((900.0 - labels) / count.max(1) as f32).clamp(14.0, 62.0);
    let (left, top) = (PAD + labels + 8.0, PAD);
    // The last name, written to the right of its corner, must have room.
    let width = left + side * count as f32 + 0.75 * labels + PAD;
    let height = top + side * count as f32 + 2.0 * PAD;
    let mut picture = Picture::new(width, height, title);
    for i in 0..count {
        let y = top + side * i as f32;
        let name = shortened(&names[i], LABEL, labels);
        write(&mut picture, &name, (left - 8.0, y + 0.5 * side + 4.0), LABEL, Anchor::End, TEXT);
        for j in 0..i {
            let x = left + side * j as f32;
            let (value, words) = entry(i, j);
            let ink = if value.value < 0.0 { ORANGE } else { BLUE };
            let tip = format!("{}, {}: {words}", names[i], names[j]);
            let cell = Path::rectangle(x + 0.75, y + 0.75, side - 1.5, side - 1.5);
            picture.fill_with_tip(cell, ink.fade(0.05 + 0.75 * value.value.abs().min(1.0) as f32), tip);
            if side >= 34.0 {
                let told = value.low > 0.0 || value.high < 0.0;
                let shown = unsigned(format!("{:.2}", value.value));
                let ink = if told { TEXT } else { QUIET };
                write(&mut picture, &shown, (x + 0.5 * side, y + 0.5 * side), LABEL, Anchor::Middle, ink);
                let error = format!("±{:.2}", value.std_error);
                write(&mut picture, &error, (x + 0.5 * side, y + 0.5 * side + 12.0), 9.0, Anchor::Middle, QUIET);
            }
        }
        let x = left + side * i as f32;
        write(&mut picture, &name, (x + 6.0, y + 0.5 * side + 4.0), LABEL, Anchor::Start, QUIET);
    }
    picture
}

/// One axis of a grid: a numeric column, or levels.
pub enum Side {
    Numbers { edges: Vec<f64>, kind: ColumnKind },
    Levels(Vec<String>),
}

impl Side {
    fn ruler(&self) -> Ruler {
        match self {
            Self::Numbers { edges, kind } => Ruler::between(edges[0], edges[edges.len() - 1], *kind, 6),
            Self::Levels(names) => {
                Ruler::levels(&names.iter().map(|name| shortened(name, SMALL, 90.0)).collect::<Vec<_>>())
            }
        }
    }

    fn cell(&self, at: usize) -> (f64, f64) {
        match self {
            Self::Numbers { edges, .. } => (edges[at], edges[at + 1]),
            Self::Levels(_) => (at as f64, at as f64 + 1.0),
        }
    }
}

/// Counts over the cells of two columns: `cells[x][y]` with a tip each. Cells that cannot be told from empty are left blank.
pub fn grid(title: &str, labels: [&str; 2], sides: [&Side; 2], cells: &[Vec<(Estimate, String)>]) -> Picture {
    let (width, height) = (WIDTH, 420.0);
    let mut picture = Picture::new(width, height, title);
    let names = Labels { title: "", x: labels[0], y: labels[1] };
    let size = (width - 2.0 * PAD - EDGE, height - 2.0 * PAD);
    let frame = Frame::draw(&mut picture, (PAD, PAD), size, &names, sides[0].ruler(), sides[1].ruler());
    // Cells of different sizes are compared by how dense they are.
    let area = |x: usize, y: usize| {
        let ((a, b), (c, d)) = (sides[0].cell(x), sides[1].cell(y));
        ((b - a) * (d - c)).max(f64::MIN_POSITIVE)
    };
    let density = |x: usize, y: usize| cells[x][y].0.value / area(x, y);
    let all = || cells.iter().enumerate().flat_map(|(x, column)| (0..column.len()).map(move |y| (x, y)));
    let most = all().map(|(x, y)| density(x, y)).fold(f64::MIN_POSITIVE, f64::max);
    for (x, y) in all() {
        let ((a, b), (c, d)) = (sides[0].cell(x), sides[1].cell(y));
        let corners = (frame.x(a), frame.x(b), frame.y(c), frame.y(d));
        let (Some(left), Some(right), Some(bottom), Some(top)) = corners else { continue };
        let (count, tip) = &cells[x][y];
        let shade = if count.low > 0.0 { 0.04 + 0.86 * (density(x, y) / most).sqrt() as f32 } else { 0.0 };
        let cell = Path::rectangle(left, top, right - left, bottom - top);
        picture.fill_with_tip(cell, BLUE.fade(shade), tip);
    }
    picture
}

/// A small histogram without axes, for a card.
pub fn spark(title: &str, bars: &[&Estimate]) -> Picture {
    let (width, height) = (220.0, 56.0);
    let mut picture = Picture::new(width, height, title);
    let step = (width - 4.0) / bars.len().max(1) as f32;
    let most = top(bars.iter().copied()).max(f64::MIN_POSITIVE);
    let at = |value: f64| height - 3.0 - (height - 8.0) * (value / most).clamp(0.0, 1.0) as f32;
    for (place, bar) in bars.iter().enumerate() {
        let x = 2.0 + step * place as f32;
        let gap = (0.12 * step).min(2.0);
        let ink = BLUE.fade(if bar.caution.is_some() { 0.3 } else { 0.7 });
        let y = at(bar.value);
        picture.fill(Path::rectangle(x + gap, y, step - 2.0 * gap, height - 3.0 - y), ink);
        let middle = x + 0.5 * step;
        picture.stroke(Path::segments([[(middle, at(bar.low)), (middle, at(bar.high))]]), TEXT.fade(0.6), 1.0, false);
    }
    picture.stroke(Path::segments([[(2.0, height - 3.0), (width - 2.0, height - 3.0)]]), QUIET, 1.0, false);
    picture
}

/// About four digits.
fn short(x: f64) -> String {
    crate::table::number(x)
}

fn unsigned(text: String) -> String {
    if text == "-0.00" { "0.00".into() } else { text }
}
