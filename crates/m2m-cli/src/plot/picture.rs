//! Pictures: shapes and text in order of painting, written as SVG or PNG.
//!
//! In files text is drawn from the outlines of an embedded font, so that a picture looks the same everywhere. Within a page
//! it is text, and colours follow the page's, so that a picture can be dark where the page is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tiny_skia::{FillRule, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Red, green, blue and opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ink(pub u8, pub u8, pub u8, pub f32);

impl Ink {
    pub const WHITE: Self = Self(255, 255, 255, 1.0);

    /// The same colour, more or less transparent.
    pub fn fade(self, opacity: f32) -> Self {
        Self(self.0, self.1, self.2, opacity)
    }

    fn paint(self) -> Paint<'static> {
        let mut paint = Paint::default();
        paint.set_color_rgba8(self.0, self.1, self.2, (self.3 * 255.0).round() as u8);
        paint
    }

    fn svg(self, use_as: &str, style: Style) -> String {
        let hex = format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2);
        let mut text = match (style, super::theme(self)) {
            (Style::Page, Some(name)) => format!("{use_as}=\"var({name},{hex})\""),
            _ => format!("{use_as}=\"{hex}\""),
        };
        if self.3 < 1.0 {
            let _ = write!(text, " {use_as}-opacity=\"{}\"", short(self.3));
        }
        text
    }
}

/// Lines and curves. Coordinates are in points, to the right and down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Move([f32; 2]),
    Line([f32; 2]),
    Quad([f32; 4]),
    Cubic([f32; 6]),
    Close,
}

impl Path {
    /// Straight lines from point to point.
    pub fn lines(points: impl IntoIterator<Item = (f32, f32)>) -> Self {
        let step = |(i, (x, y))| if i == 0 { Step::Move([x, y]) } else { Step::Line([x, y]) };
        Self(points.into_iter().enumerate().map(step).collect())
    }

    /// Lines that do not touch each other.
    pub fn segments(ends: impl IntoIterator<Item = [(f32, f32); 2]>) -> Self {
        let step = |[(a, b), (x, y)]: [(f32, f32); 2]| [Step::Move([a, b]), Step::Line([x, y])];
        Self(ends.into_iter().flat_map(step).collect())
    }

    /// Straight lines back to the first point.
    pub fn polygon(points: impl IntoIterator<Item = (f32, f32)>) -> Self {
        let mut path = Self::lines(points);
        path.0.push(Step::Close);
        path
    }

    /// A rectangle with its sides along the axes.
    pub fn rectangle(x: f32, y: f32, width: f32, height: f32) -> Self {
        Self::polygon([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])
    }

    /// A circle.
    pub fn circle(x: f32, y: f32, radius: f32) -> Self {
        // Four Bézier arcs with this handle are round to one part in four thousand.
        let k = radius * 0.552_285;
        let arc = |dx1, dy1, dx2, dy2, dx, dy| Step::Cubic([x + dx1, y + dy1, x + dx2, y + dy2, x + dx, y + dy]);
        let r = radius;
        Self(vec![
            Step::Move([x + r, y]),
            arc(r, k, k, r, 0.0, r),
            arc(-k, r, -r, k, -r, 0.0),
            arc(-r, -k, -k, -r, 0.0, -r),
            arc(k, -r, r, -k, r, 0.0),
            Step::Close,
        ])
    }

    fn svg(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            let (letter, numbers): (char, &[f32]) = match step {
                Step::Move(p) => ('M', p),
                Step::Line(p) => ('L', p),
                Step::Quad(p) => ('Q', p),
                Step::Cubic(p) => ('C', p),
                Step::Close => ('Z', &[]),
            };
            text.push(letter);
            let numbers: Vec<String> = numbers.iter().map(|x| short(*x)).collect();
            text += &numbers.join(" ");
        }
        text
    }

    fn skia(&self) -> Option<tiny_skia::Path> {
        let mut path = PathBuilder::new();
        for step in &self.0 {
            match *step {
                Step::Move([x, y]) => path.move_to(x, y),
                Step::Line([x, y]) => path.line_to(x, y),
                Step::Quad([a, b, x, y]) => path.quad_to(a, b, x, y),
                Step::Cubic([a, b, c, d, x, y]) => path.cubic_to(a, b, c, d, x, y),
                Step::Close => path.close(),
            }
        }
        path.finish()
    }
}

impl OutlineBuilder for Path {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.push(Step::Move([x, y]));
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.push(Step::Line([x, y]));
    }
    fn quad_to(&mut self, a: f32, b: f32, x: f32, y: f32) {
        self.0.push(Step::Quad([a, b, x, y]));
    }
    fn curve_to(&mut self, a: f32, b: f32, c: f32, d: f32, x: f32, y: f32) {
        self.0.push(Step::Cubic([a, b, c, d, x, y]));
    }
    fn close(&mut self) {
        self.0.push(Step::Close);
    }
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text.
#[derive(Clone, Debug)]
pub struct Text {
    pub text: String,
    /// A point of the baseline.
    pub at: (f32, f32),
    pub size: f32,
    pub anchor: Anchor,
    pub ink: Ink,
    /// Read from bottom to top.
    pub upward: bool,
}

/// Where an SVG is going to stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// In a file of its own.
    File,
    /// Within an HTML page, which has the font and may choose the colours.
    Page,
}

enum Mark {
    Fill(Path, Ink),
    /// What a reader sees who points at the shape.
    Tip(Path, Ink, String),
    Stroke {
        path: Path,
        ink: Ink,
        width: f32,
        dashed: bool,
    },
    Text(Text),
}

/// Shapes and text in order of painting, on white.
pub struct Picture {
    width: f32,
    height: f32,
    /// What the picture is, for those who cannot see it.
    title: String,
    marks: Vec<Mark>,
}

const DASH: [f32; 2] = [5.0, 3.5];

impl Picture {
    /// An empty picture of a size in points.
    pub fn new(width: f32, height: f32, title: impl Into<String>) -> Self {
        Self { width, height, title: title.into(), marks: Vec::new() }
    }

    pub fn fill(&mut self, path: Path, ink: Ink) {
        self.marks.push(Mark::Fill(path, ink));
    }

    /// A shape with a note for the reader who points at it.
    pub fn fill_with_tip(&mut self, path: Path, ink: Ink, tip: impl Into<String>) {
        self.marks.push(Mark::Tip(path, ink, tip.into()));
    }

    pub fn stroke(&mut self, path: Path, ink: Ink, width: f32, dashed: bool) {
        self.marks.push(Mark::Stroke { path, ink, width, dashed });
    }

    pub fn write(&mut self, text: Text) {
        self.marks.push(Mark::Text(text));
    }

    /// The picture as an SVG file.
    pub fn to_svg(&self) -> String {
        self.svg(Style::File)
    }

    /// The picture as an SVG element within a page.
    pub fn to_element(&self) -> String {
        self.svg(Style::Page)
    }

    fn svg(&self, style: Style) -> String {
        let font = Font::new();
        let mut body = String::new();
        let mut glyphs = BTreeMap::new();
        for mark in &self.marks {
            match mark {
                Mark::Fill(path, ink) => {
                    let _ = writeln!(body, "<path d=\"{}\" {}/>", path.svg(), ink.svg("fill", style));
                }
                Mark::Tip(path, ink, tip) => {
                    let (path, ink, tip) = (path.svg(), ink.svg("fill", style), escape(tip));
                    let _ = writeln!(body, "<path d=\"{path}\" {ink}><title>{tip}</title></path>");
                }
                Mark::Stroke { path, ink, width, dashed } => {
                    let dash =
                        if *dashed { format!(" stroke-dasharray=\"{} {}\"", DASH[0], DASH[1]) } else { "".into() };
                    let _ = writeln!(
                        body,
                        "<path d=\"{}\" fill=\"none\" {} stroke-width=\"{}\"{dash}/>",
                        path.svg(),
                        ink.svg("stroke", style),
                        short(*width)
                    );
                }
                Mark::Text(text) if style == Style::Page => {
                    let (x, y) = text.at;
                    let anchor = match text.anchor {
                        Anchor::Start => "start",
                        Anchor::Middle => "middle",
                        Anchor::End => "end",
                    };
                    let turn = if text.upward {
                        format!(" transform=\"rotate(-90 {} {})\"", short(x), short(y))
                    } else {
                        "".into()
                    };
                    let _ = writeln!(
                        body,
                        "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\" {}{turn}>{}</text>",
                        short(x),
                        short(y),
                        short(text.size),
                        text.ink.svg("fill", style),
                        escape(&text.text)
                    );
                }
                Mark::Text(text) => {
                    let (x, y) = text.at;
                    let scale = font.scale(text.size);
                    let turn = if text.upward { " rotate(-90)" } else { "" };
                    let _ = write!(
                        body,
                        "<g role=\"img\" aria-label=\"{}\" {} transform=\"translate({} {}){turn} scale({scale:.5} {:.5})\">",
                        escape(&text.text),
                        text.ink.svg("fill", style),
                        short(x),
                        short(y),
                        -scale
                    );
                    for (glyph, at) in font.layout(text) {
                        glyphs.entry(glyph.0).or_insert_with(|| font.outline(glyph).svg());
                        let _ = write!(body, "<use href=\"#g{}\" x=\"{}\"/>", glyph.0, short(at));
                    }
                    body += "</g>\n";
                }
            }
        }
        let defs: String = glyphs.iter().map(|(id, path)| format!("<path id=\"g{id}\" d=\"{path}\"/>\n")).collect();
        let (width, height) = (self.width, self.height);
        if style == Style::Page {
            let (width, height, title) = (short(width), short(height), escape(&self.title));
            return format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}\" width=\"{width}\" \
                 height=\"{height}\" viewBox=\"0 0 {width} {height}\" stroke-linejoin=\"round\" \
                 stroke-linecap=\"round\">\n{body}</svg>"
            );
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" stroke-linejoin=\"round\" stroke-linecap=\"round\">\n\
             <title>{}</title>\n<defs>\n{defs}</defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
            escape(&self.title)
        )
    }

    /// The picture as a PNG file with so many pixels to a point.
    pub fn to_png(&self, pixels: f32) -> Vec<u8> {
        let font = Font::new();
        let side = |points: f32| ((points * pixels).round() as u32).max(1);
        let mut pixmap = Pixmap::new(side(self.width), side(self.height)).expect("a picture has a sane size");
        pixmap.fill(tiny_skia::Color::WHITE);
        let zoom = Transform::from_scale(pixels, pixels);
        for mark in &self.marks {
            match mark {
                Mark::Fill(path, ink) | Mark::Tip(path, ink, _) => {
                    if let Some(path) = path.skia() {
                        pixmap.fill_path(&path, &ink.paint(), FillRule::Winding, zoom, None);
                    }
                }
                Mark::Stroke { path, ink, width, dashed } => {
                    if let Some(path) = path.skia() {
                        let stroke = Stroke {
                            width: *width,
                            line_cap: LineCap::Round,
                            line_join: LineJoin::Round,
                            dash: dashed.then(|| StrokeDash::new(DASH.to_vec(), 0.0)).flatten(),
                            ..Stroke::default()
                        };
                        pixmap.stroke_path(&path, &ink.paint(), &stroke, zoom, None);
                    }
                }
                Mark::Text(text) => {
                    let scale = font.scale(text.size);
                    let mut place = zoom.pre_translate(text.at.0, text.at.1);
                    if text.upward {
                        place = place.pre_rotate(-90.0);
                    }
                    place = place.pre_scale(scale, -scale);
                    for (glyph, at) in font.layout(text) {
                        if let Some(path) = font.outline(glyph).skia() {
                            let place = place.pre_translate(at, 0.0);
                            pixmap.fill_path(&path, &text.ink.paint(), FillRule::Winding, place, None);
                        }
                    }
                }
            }
        }
        pixmap.encode_png().expect("encoding into memory")
    }
}

/// How wide a text of a size is.
pub fn text_width(text: &str, size: f32) -> f32 {
    let font = Font::new();
    font.scale(size) * text.chars().map(|c| font.advance(font.glyph(c))).sum::<f32>()
}

/// The embedded font.
struct Font(Face<'static>);

impl Font {
    fn new() -> Self {
        Self(Face::parse(dejavu::sans_condensed::regular(), 0).expect("the embedded font is sound"))
    }

    /// Points per unit of the font.
    fn scale(&self, size: f32) -> f32 {
        size / f32::from(self.0.units_per_em())
    }

    fn glyph(&self, c: char) -> GlyphId {
        self.0.glyph_index(c).unwrap_or(GlyphId(0))
    }

    fn advance(&self, glyph: GlyphId) -> f32 {
        f32::from(self.0.glyph_hor_advance(glyph).unwrap_or(0))
    }

    fn outline(&self, glyph: GlyphId) -> Path {
        let mut path = Path::default();
        self.0.outline_glyph(glyph, &mut path);
        path
    }

    /// The glyphs of a text with their places along the baseline, in units of the font.
    fn layout(&self, text: &Text) -> Vec<(GlyphId, f32)> {
        let mut at = 0.0;
        let mut glyphs: Vec<(GlyphId, f32)> = Vec::new();
        for glyph in text.text.chars().map(|c| self.glyph(c)) {
            glyphs.push((glyph, at));
            at += self.advance(glyph);
        }
        let shift = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -at / 2.0,
            Anchor::End => -at,
        };
        glyphs.iter_mut().for_each(|(_, x)| *x += shift);
        glyphs
    }
}

/// Two decimals at most.
fn short(x: f32) -> String {
    let text = format!("{x:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
