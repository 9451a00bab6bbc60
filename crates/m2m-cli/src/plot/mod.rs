//! Figures: charts with lines, bands and markers on linear or logarithmic axes.

pub mod charts;
mod picture;
mod scale;

pub use picture::{Ink, Picture};
pub use scale::{Axis, Scale};

use picture::{Anchor, Path, Text, text_width};
use scale::Ruler;

/// Colours that stay apart for the colour-blind and on paper; each goes with a marker of its own.
pub const PALETTE: [(Ink, Marker); 6] = [
    (Ink(0x2f, 0x5f, 0xc4, 1.0), Marker::Circle),
    (Ink(0xe4, 0x57, 0x2e, 1.0), Marker::Square),
    (Ink(0x2a, 0x9d, 0x5c, 1.0), Marker::Triangle),
    (Ink(0x8e, 0x4e, 0xc6, 1.0), Marker::Diamond),
    (Ink(0x6b, 0x72, 0x80, 1.0), Marker::None),
    (Ink(0xc0, 0x8a, 0x12, 1.0), Marker::Circle),
];

const TEXT: Ink = Ink(0x1f, 0x29, 0x37, 1.0);
const QUIET: Ink = Ink(0x6b, 0x72, 0x80, 1.0);
const GRID: Ink = Ink(0xe3, 0xe6, 0xea, 1.0);
const FAINT: Ink = Ink(0xf3, 0xf4, 0xf6, 1.0);

/// Several charts under one title, with one legend.
pub struct Figure {
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// Charts in a row.
    pub columns: usize,
    /// The size of a chart in points, labels included.
    pub chart_size: (f32, f32),
    pub charts: Vec<Chart>,
}

/// One pair of axes with what is drawn between them.
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// Points that belong together. Series of the same label look the same in every chart and share a line in the legend.
pub struct Series {
    pub label: String,
    pub ink: Ink,
    pub marker: Marker,
    pub line: Line,
    pub points: Vec<Point>,
}

/// A point of a series; one whose values the axes cannot show interrupts the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The ends of the band around it.
    pub band: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    None,
    Circle,
    Square,
    Triangle,
    Diamond,
    /// A ring, for points that somebody else measured.
    Ring,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    None,
    Solid,
    Dashed,
}

/// The name under which a page may give a colour another shade.
fn theme(ink: Ink) -> Option<&'static str> {
    const NAMES: [&str; 6] = ["--ink0", "--ink1", "--ink2", "--ink3", "--ink4", "--ink5"];
    let same = |other: Ink| (ink.0, ink.1, ink.2) == (other.0, other.1, other.2);
    let fixed = [(TEXT, "--text"), (QUIET, "--quiet"), (GRID, "--grid"), (FAINT, "--faint"), (Ink::WHITE, "--paper")];
    let named = fixed.into_iter().chain(PALETTE.iter().map(|(ink, _)| *ink).zip(NAMES));
    named.into_iter().find(|(other, _)| same(*other)).map(|(_, name)| name)
}

const MARGIN: f32 = 22.0;
const GAP: f32 = 16.0;
const TITLE: f32 = 17.0;
const SMALL: f32 = 11.0;
const LABEL: f32 = 12.0;

impl Figure {
    /// Draws it.
    pub fn draw(&self) -> Picture {
        let columns = self.columns.clamp(1, self.charts.len().max(1));
        let rows = self.charts.len().div_ceil(columns);
        let (chart_width, chart_height) = self.chart_size;
        let head = MARGIN + TITLE + if self.subtitle.is_empty() { 0.0 } else { 20.0 } + 32.0;
        let width = 2.0 * MARGIN + columns as f32 * chart_width + (columns - 1) as f32 * GAP;
        let height = head + rows as f32 * chart_height + (rows.max(1) - 1) as f32 * GAP + MARGIN * 0.6;
        let mut picture = Picture::new(width, height, &self.title);
        let mut write = |text: &str, y: f32, size: f32, ink: Ink| {
            let at = (MARGIN, y);
            picture.write(Text { text: text.into(), at, size, anchor: Anchor::Start, ink, upward: false });
        };
        write(&self.title, MARGIN + TITLE * 0.75, TITLE, TEXT);
        write(&self.subtitle, MARGIN + TITLE * 0.75 + 19.0, LABEL, QUIET);
        self.legend(&mut picture, head - 16.0);
        for (at, chart) in self.charts.iter().enumerate() {
            let x = MARGIN + (at % columns) as f32 * (chart_width + GAP);
            let y = head + (at / columns) as f32 * (chart_height + GAP);
            chart.draw(&mut picture, (x, y), self.chart_size);
        }
        picture
    }

    fn legend(&self, picture: &mut Picture, y: f32) {
        let mut seen: Vec<&str> = Vec::new();
        let mut x = MARGIN;
        for series in self.charts.iter().flat_map(|chart| &chart.series) {
            if seen.contains(&series.label.as_str()) {
                continue;
            }
            seen.push(&series.label);
            series.stroke(picture, [(x, y), (x + 26.0, y)]);
            series.mark(picture, x + 13.0, y);
            let at = (x + 32.0, y + LABEL * 0.36);
            let text = series.label.clone();
            picture.write(Text { text, at, size: LABEL, anchor: Anchor::Start, ink: TEXT, upward: false });
            x += 32.0 + text_width(&series.label, LABEL) + 22.0;
        }
    }
}

/// The rectangle between the axes, and where values are in it.
struct Frame {
    left: f32,
    top: f32,
    width: f32,
    height: f32,
    x: Ruler,
    y: Ruler,
}

impl Frame {
    fn x(&self, value: f64) -> Option<f32> {
        self.x.place(value).map(|place| self.left + place * self.width)
    }

    fn y(&self, value: f64) -> Option<f32> {
        self.y.place(value).map(|place| self.top + (1.0 - place) * self.height)
    }

    fn at(&self, x: f64, y: f64) -> Option<(f32, f32)> {
        Some((self.x(x)?, self.y(y)?))
    }

    /// Draws the axes of a chart, and says where its values go.
    fn draw(
        picture: &mut Picture,
        corner: (f32, f32),
        size: (f32, f32),
        labels: &Labels<'_>,
        x: Ruler,
        y: Ruler,
    ) -> Self {
        let names = y.major.iter().map(|(_, name)| text_width(name, SMALL)).fold(0.0, f32::max);
        let left = names + 8.0 + if labels.y.is_empty() { 0.0 } else { 18.0 };
        let bottom = 18.0 + if labels.x.is_empty() { 0.0 } else { 17.0 };
        let top = if labels.title.is_empty() { 6.0 } else { 22.0 };
        let frame = Self {
            left: corner.0 + left,
            top: corner.1 + top,
            width: size.0 - left - 4.0,
            height: size.1 - top - bottom,
            x,
            y,
        };
        let Self { left, top, width, height, .. } = frame;
        let (right, bottom) = (left + width, top + height);
        let across = |x: &[f64], y: &[f64]| {
            let vertical = x.iter().filter_map(|x| frame.x(*x)).map(|x| [(x, top), (x, bottom)]);
            let horizontal = y.iter().filter_map(|y| frame.y(*y)).map(|y| [(left, y), (right, y)]);
            Path::segments(vertical.chain(horizontal))
        };
        let named = |ruler: &Ruler| ruler.major.iter().map(|(value, _)| *value).collect::<Vec<_>>();
        picture.stroke(across(&frame.x.minor, &frame.y.minor), FAINT, 0.8, false);
        picture.stroke(across(&named(&frame.x), &named(&frame.y)), GRID, 0.8, false);
        picture.stroke(Path::segments([[(left, bottom), (right, bottom)]]), QUIET, 1.0, false);
        let mut write = |text: &str, at, size, anchor, ink, upward| {
            picture.write(Text { text: text.to_owned(), at, size, anchor, ink, upward });
        };
        for (value, name) in &frame.x.major {
            let Some(x) = frame.x(*value) else { continue };
            write(name, (x, bottom + 14.0), SMALL, Anchor::Middle, QUIET, false);
        }
        for (value, name) in &frame.y.major {
            let Some(y) = frame.y(*value) else { continue };
            write(name, (left - 6.0, y + SMALL * 0.35), SMALL, Anchor::End, QUIET, false);
        }
        write(labels.title, (left, top - 8.0), 13.0, Anchor::Start, TEXT, false);
        write(labels.x, (left + width / 2.0, corner.1 + size.1 - 3.0), LABEL, Anchor::Middle, TEXT, false);
        write(labels.y, (corner.0 + 10.0, top + height / 2.0), LABEL, Anchor::Middle, TEXT, true);
        frame
    }
}

/// What is written around a pair of axes.
struct Labels<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
}

impl Chart {
    fn draw(&self, picture: &mut Picture, corner: (f32, f32), size: (f32, f32)) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = self.x.fit(points().map(|point| point.x));
        let y = self.y.fit(points().map(|point| point.y));
        let labels = Labels { title: &self.title, x: &self.x.label, y: &self.y.label };
        let frame = Frame::draw(picture, corner, size, &labels, x, y);
        for series in &self.series {
            series.band(picture, &frame);
        }
        for series in &self.series {
            series.draw(picture, &frame);
        }
    }
}

impl Series {
    /// A series in the style of a place in the palette.
    pub fn new(label: impl Into<String>, style: usize, points: Vec<Point>) -> Self {
        let (ink, marker) = PALETTE[style % PALETTE.len()];
        Self { label: label.into(), ink, marker, line: Line::Solid, points }
    }

    fn band(&self, picture: &mut Picture, frame: &Frame) {
        // A band that a logarithmic axis cannot show ends at the bottom of the frame.
        let edge = |x: f64, y: f64| Some((frame.x(x)?, frame.y(y).unwrap_or(frame.top + frame.height)));
        let banded = || self.points.iter().filter_map(|point| Some((point.x, point.band?)));
        let low = banded().filter_map(|(x, (low, _))| edge(x, low));
        let high: Vec<_> = banded().filter_map(|(x, (_, high))| edge(x, high)).collect();
        if high.len() > 1 {
            picture.fill(Path::polygon(low.chain(high.into_iter().rev())), self.ink.fade(0.14));
        }
    }

    fn draw(&self, picture: &mut Picture, frame: &Frame) {
        let places: Vec<Option<(f32, f32)>> = self.points.iter().map(|point| frame.at(point.x, point.y)).collect();
        for run in places.split(Option::is_none) {
            self.stroke(picture, run.iter().flatten().copied());
        }
        for (x, y) in places.into_iter().flatten() {
            self.mark(picture, x, y);
        }
    }

    fn stroke(&self, picture: &mut Picture, points: impl IntoIterator<Item = (f32, f32)>) {
        if self.line != Line::None {
            picture.stroke(Path::lines(points), self.ink, 1.8, self.line == Line::Dashed);
        }
    }

    fn mark(&self, picture: &mut Picture, x: f32, y: f32) {
        let shape = |radius: f32| match self.marker {
            Marker::Circle | Marker::Ring | Marker::None => Path::circle(x, y, radius),
            Marker::Square => Path::rectangle(x - 0.88 * radius, y - 0.88 * radius, 1.76 * radius, 1.76 * radius),
            Marker::Triangle => {
                let (across, down) = (1.05 * radius, 0.75 * radius);
                Path::polygon([(x, y - 1.2 * radius), (x + across, y + down), (x - across, y + down)])
            }
            Marker::Diamond => {
                let r = 1.2 * radius;
                Path::polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)])
            }
        };
        match self.marker {
            Marker::None => {}
            Marker::Ring => picture.stroke(shape(5.0), self.ink, 1.5, false),
            _ => {
                // A white rim keeps markers apart where lines cross.
                picture.fill(shape(4.2), Ink::WHITE);
                picture.fill(shape(3.2), self.ink);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let x = [0.01, 0.1, 1.0, 10.0];
        let line = |label: &str, style: usize, factor: f64| {
            let point = |x: &f64| {
                let y = factor / x;
                Point { x: *x, y, band: Some((y * 0.7, y * 1.4)) }
            };
            Series::new(label, style, x.iter().map(point).collect())
        };
        let charts = ["first", "second"].map(|title| Chart {
            title: title.into(),
            x: Axis::new("ε", Scale::Log),
            y: Axis::new("error", Scale::Log),
            series: vec![line("RFF", 0, 1e-3), line("HIST <1>", 1, 3e-4)],
        });
        Figure {
            title: "A & B".into(),
            subtitle: "two charts".into(),
            columns: 2,
            chart_size: (300.0, 220.0),
            charts: charts.into(),
        }
    }

    #[test]
    fn an_svg_needs_no_font_and_escapes_its_text() {
        let svg = figure().draw().to_svg();
        assert!(!svg.contains("<text") && !svg.contains("font"));
        assert!(svg.contains("<title>A &amp; B</title>") && svg.contains("HIST &lt;1&gt;"));
        let glyphs: std::collections::BTreeSet<_> =
            svg.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        for glyph in glyphs {
            assert!(svg.contains(&format!("id=\"{glyph}\"")), "{glyph} is used and not defined");
        }
    }

    #[test]
    fn a_png_has_the_size_of_its_picture() {
        let picture = figure().draw();
        let png = picture.to_png(2.0);
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!(
            (side(16), side(20)),
            (2 * 660, (2.0f32 * (22.0 + 17.0 + 20.0 + 32.0 + 220.0 + 13.2)).round() as u32)
        );
    }

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        let log = Axis::new("", Scale::Log).fit([0.013, 70.0]);
        let names = |ruler: &Ruler| ruler.major.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&log), ["0.01", "0.1", "1", "10", "100"]);
        assert_eq!(names(&Axis::new("", Scale::Log).fit([2.1e-6, 0.02])), ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²"]);
        assert_eq!(names(&Axis::new("", Scale::Log).fit([0.23, 0.8])), ["0.2", "0.5", "1"]);
        assert_eq!(names(&Axis::new("", Scale::Linear).fit([0.41, 0.99])), ["0.4", "0.6", "0.8", "1.0"]);
        for ruler in [log, Axis::new("", Scale::Linear).fit([3.0, 3.0]), Axis::new("", Scale::Log).fit([])] {
            assert!(ruler.major.iter().all(|(value, _)| ruler.place(*value).is_some()));
        }
    }

    #[test]
    fn values_that_a_log_axis_cannot_show_have_no_place() {
        let ruler = Axis::new("", Scale::Log).fit([0.1, 1.0, 0.0, f64::NAN, -3.0]);
        assert_eq!(ruler.place(0.0), None);
        assert_eq!(ruler.place(f64::NAN), None);
        assert!(ruler.place(0.3).is_some());
    }
}
