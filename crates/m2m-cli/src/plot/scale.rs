//! Axes: which values are shown, where, and which of them are named.

use m2m::schema::time;
use m2m::sql::ColumnKind;

/// What lies along an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    pub label: String,
    pub scale: Scale,
    /// The values that must be seen besides those of the series.
    pub include: Vec<f64>,
}

/// A logarithmic axis shows no more than this ratio; what lies lower is drawn at its low end.
const MOST_DECADES: f64 = 1e5;

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
}

impl Axis {
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, include: Vec::new() }
    }

    /// The same, from and to at least these values.
    pub fn including(self, values: &[f64]) -> Self {
        Self { include: values.to_vec(), ..self }
    }

    /// Chooses the range and the ticks for some values. Values that the scale cannot show are passed over.
    pub fn fit(&self, values: impl IntoIterator<Item = f64>) -> Ruler {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().chain(self.include.iter().copied()).filter(|value| self.scale.shows(*value)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.1, 1.0);
        }
        match self.scale {
            Scale::Linear => {
                if low == high {
                    (low, high) = (low - 0.5, high + 0.5);
                }
                let step = nice_step((high - low) / 5.0);
                let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
                let decimals = (-step.log10().floor()).max(0.0) as usize;
                let major = (first..=last).map(|i| i as f64 * step).map(|x| (x, format!("{x:.decimals$}"))).collect();
                Ruler {
                    scale: self.scale,
                    low: first as f64 * step,
                    high: last as f64 * step,
                    major,
                    minor: Vec::new(),
                }
            }
            Scale::Log => {
                // A little room, then out to the next of 1, 2, 5: whole decades would waste half a panel.
                let low = round_log((low / 1.05).max(high / MOST_DECADES), false);
                let high = round_log(high * 1.05, true);
                let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
                let within = |x: &f64| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(x);
                let grid = |digits: &[i32]| {
                    let values = decades.clone().flat_map(|e| digits.iter().map(move |d| power(*d, e)));
                    values.filter(within).collect::<Vec<_>>()
                };
                let powers = grid(&[1]);
                let every = powers.len().div_ceil(6).max(1) as i32;
                let exponent = |x: &f64| x.log10().round() as i32;
                let plain = powers.iter().all(|x| (-2..=3).contains(&exponent(x)));
                let name = |x: f64| (x, if plain { x.to_string() } else { name_power(exponent(&x)) });
                let spaced = powers.iter().filter(|x| exponent(x).rem_euclid(every) == 0);
                let mut major: Vec<(f64, String)> = spaced.map(|x| name(*x)).collect();
                if major.len() < 2 {
                    major = grid(&[1, 2, 5]).into_iter().map(|x| (x, x.to_string())).collect();
                }
                let minor = if every == 1 { grid(&[1, 2, 3, 4, 5, 6, 7, 8, 9]) } else { powers };
                Ruler { scale: self.scale, low, high, major, minor }
            }
        }
    }
}

impl Scale {
    fn shows(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Linear || value > 0.0)
    }
}

/// An axis with its range and ticks.
pub struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Named values.
    pub major: Vec<(f64, String)>,
    /// Values between them, without a name.
    pub minor: Vec<f64>,
}

impl Ruler {
    /// From one value to another and no farther, with about so many named values between them.
    pub fn between(low: f64, high: f64, kind: ColumnKind, ticks: usize) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let major = match kind {
            ColumnKind::Plain => numbers(low, high, ticks),
            ColumnKind::Date => dates(low, high, ticks),
            ColumnKind::Datetime => {
                dates(low / DAY, high / DAY, ticks).into_iter().map(|(day, name)| (day * DAY, name)).collect()
            }
        };
        Self { scale: Scale::Linear, low, high, major, minor: Vec::new() }
    }

    /// From 0 up to some value, which need not be named itself.
    pub fn up_to(high: f64, ticks: usize) -> Self {
        Self::between(0.0, if high > 0.0 { high } else { 1.0 }, ColumnKind::Plain, ticks)
    }

    /// One step for each of some levels, named in its middle; from the top down.
    pub fn levels(names: &[String]) -> Self {
        let count = names.len().max(1) as f64;
        let major = names.iter().enumerate().map(|(at, name)| (at as f64 + 0.5, name.clone())).collect();
        Self { scale: Scale::Linear, low: 0.0, high: count, major, minor: Vec::new() }
    }

    /// The place of a value, 0 at the low end and 1 at the high one; none where the scale cannot show it.
    pub fn place(&self, value: f64) -> Option<f32> {
        if !self.scale.shows(value) {
            return None;
        }
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        Some(place.clamp(0.0, 1.0) as f32)
    }
}

/// Seconds.
const DAY: f64 = 86400.0;

fn numbers(low: f64, high: f64, ticks: usize) -> Vec<(f64, String)> {
    let step = nice_step((high - low) / ticks.max(1) as f64);
    let (first, last) = ((low / step - 1e-6).ceil() as i64, (high / step + 1e-6).floor() as i64);
    (first..=last).map(|i| i as f64 * step).map(|x| (x, tick_name(x, step))).collect()
}

/// A number to the place of the step, thousands and millions as k and M.
fn tick_name(x: f64, step: f64) -> String {
    let (unit, name) = match step {
        s if s >= 1e5 => (1e6, "M"),
        s if s >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    if x == 0.0 {
        return "0".into();
    }
    if !(1e-6..1e12).contains(&step) {
        return format!("{x:.1e}");
    }
    let decimals = (-(step / unit).log10().floor()).max(0.0) as usize;
    format!("{:.decimals$}{name}", x / unit)
}

/// The first days of years or months, or single days.
fn dates(low: f64, high: f64, ticks: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / ticks.max(1) as f64;
    if rough < 20.0 {
        let step = [1.0, 2.0, 7.0, 14.0].into_iter().find(|step| *step >= rough).unwrap_or(14.0);
        let first = (low / step).ceil() as i64;
        let days = (first..).map(|i| i as f64 * step).take_while(|day| *day <= high);
        return days.map(|day| (day, time::show_date(day))).collect();
    }
    let months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
    let step = months.into_iter().find(|months| f64::from(*months) * 30.44 >= rough).unwrap_or(2400);
    let year = |day: f64| time::show_date(day).split('-').next().and_then(|year| year.parse::<i32>().ok());
    let (Some(from), Some(to)) = (year(low.floor()), year(high.ceil())) else { return numbers(low, high, ticks) };
    let firsts = (from * 12..=to * 12 + 11).filter(|month| month.rem_euclid(step) == 0).filter_map(|month| {
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        let day = time::parse_date(&format!("{year:04}-{month:02}-01"))?;
        Some((day, if step >= 12 { year.to_string() } else { format!("{year}-{month:02}") }))
    });
    firsts.filter(|(day, _)| (low..=high).contains(day)).collect()
}

fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough * 0.999);
    step.unwrap_or(10.0) * power
}

/// Exact where a decimal can be: 10^-3 and not 0.001000…02.
fn power(digit: i32, exponent: i32) -> f64 {
    format!("{digit}e{exponent}").parse().expect("a number")
}

fn round_log(x: f64, up: bool) -> f64 {
    let exponent = x.log10().floor() as i32;
    let candidates = [1, 2, 5].map(|digit| power(digit, exponent));
    if up {
        candidates.into_iter().find(|c| *c >= x).unwrap_or(power(1, exponent + 1))
    } else {
        candidates.into_iter().rev().find(|c| *c <= x).unwrap_or(power(5, exponent - 1))
    }
}

fn name_power(exponent: i32) -> String {
    let raised = |c: char| match c.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    };
    if exponent == 0 {
        "1".into()
    } else {
        format!("10{}", exponent.to_string().chars().map(raised).collect::<String>())
    }
}
