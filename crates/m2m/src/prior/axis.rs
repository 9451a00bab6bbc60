//! One column of a product prior: a short list of places with masses, on which functions of the column are tabulated.
//!
//! A function is held as its mean on each place and, on intervals, its slope: the first two Legendre coefficients. For a
//! smooth function the product of two such tables is exact to the fourth order in the width of the intervals, and a step
//! anywhere within one is placed exactly.

use crate::feature::Cells;
use crate::panel::Value;
use crate::schema::{Column, Kind, Schema};
use crate::stream::PublicStream;

/// Whole numbers up to this many get a place each.
const LATTICE: f64 = 4096.0;
/// Intervals that a continuous column is cut into, at least.
const INTERVALS: usize = 128;
/// Heavy cells are cut so many times towards either end, each time at a quarter of what is left: far enough to tell values
/// at the end itself from all others.
const CUTS: i32 = 20;

/// The masses that the uniform prior gives to what lies outside the plain domain.
const ATOM: f64 = 1.0 / 32.0;
const OTHER: f64 = 0.01;
const MISSING: f64 = 0.05;

pub(crate) struct Axis {
    column: usize,
    places: Vec<Place>,
    /// Where those of them that are intervals begin. These come first, each with its slope.
    lows: Vec<f64>,
    /// The cell of the partition that each place is in.
    cell: Vec<u32>,
    cells: usize,
    /// What a place has of its cell.
    part: Vec<f64>,
    /// What a place of a heavy cell may have of it, beside others; 0 elsewhere.
    doubt: Vec<f64>,
    mass: Vec<f64>,
    weight: Vec<f64>,
}

/// What is known of the rows within a bin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inside {
    /// They are spread about evenly.
    Level,
    /// There are many, and nothing says where in the bin they are: it is cut finely towards its ends, where thresholds would
    /// otherwise be taken to matter to next to no row.
    Heavy,
    /// How they are shared out to pieces of the bin, which follow each other from end to end.
    Pieces(Vec<Piece>),
}

impl Inside {
    fn pieces(&self) -> &[Piece] {
        if let Self::Pieces(pieces) = self { pieces } else { &[] }
    }
}

/// A piece of a bin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub low: f64,
    pub high: f64,
    /// What it has of the bin's rows.
    pub share: f64,
    /// The one place where most of them seem to be.
    pub atom: Option<f64>,
}

/// The numbers of a cell: from where to where they are, and what they have of all rows and of the cell's.
#[derive(Clone)]
struct Inner {
    low: f64,
    high: f64,
    mass: f64,
    part: f64,
}

impl Default for Inner {
    fn default() -> Self {
        Self { low: 1.0, high: 0.0, mass: 0.0, part: 0.0 }
    }
}

/// The part of the rows of a piece that are taken to be at its atom.
const AT_ATOM: f64 = 0.95;

/// One entry of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// The mean over an interval of [0, 1].
    Interval { low: f64, high: f64 },
    /// The slope over the interval before it.
    Slope,
    /// The value at a point.
    Point(Value),
}

impl Place {
    fn low(&self) -> Option<f64> {
        if let Self::Interval { low, .. } = self { Some(*low) } else { None }
    }

    /// Where along the column it is on the whole; nothing for slopes, levels and missing numbers.
    pub fn middle(&self) -> Option<f64> {
        match self {
            Self::Interval { low, high } => Some(0.5 * (low + high)),
            Self::Point(Value::Unit(unit)) => Some(*unit),
            _ => None,
        }
    }
}

impl Axis {
    /// The places of a column that respect a partition, with the masses of the uniform prior.
    pub fn new(schema: &Schema, column: usize, partition: Option<&Cells>) -> Self {
        Self::with_insides(schema, column, partition, &[])
    }

    /// The same where more is known, or less, of what is within bins of the partition, given for all of them.
    pub fn with_insides(schema: &Schema, column: usize, partition: Option<&Cells>, insides: &[Inside]) -> Self {
        let inside = |cell: usize| insides.get(cell).unwrap_or(&Inside::Level);
        let heavy = |cell: usize| *inside(cell) == Inside::Heavy;
        let Column { kind, nullable, .. } = &schema.columns()[column];
        let mut places = Vec::new();
        let mut mass = Vec::new();
        let mut point = |value, weight, places: &mut Vec<Place>| {
            places.push(Place::Point(value));
            mass.push(weight);
        };
        match kind.range() {
            None => {
                let codes = kind.codes().expect("a column has a range or codes");
                let levels = codes - if *kind == Kind::Boolean { 1 } else { 2 };
                for code in 0..codes {
                    let missing = code == codes - 1;
                    let weight = match code {
                        code if code < levels => 1.0 / f64::from(levels),
                        _ if !missing => OTHER,
                        _ if *nullable => MISSING,
                        _ => 0.0,
                    };
                    point(Value::Code(code), weight, &mut places);
                }
            }
            Some(range) => {
                let span = range.max() - range.min();
                if kind.is_whole() && span < LATTICE {
                    for step in 0..=span as u32 {
                        let unit = range.unit(range.min() + f64::from(step));
                        point(Value::Unit(unit), 1.0 / (span + 1.0), &mut places);
                    }
                } else {
                    let edges = partition.and_then(Cells::edges).unwrap_or_else(|| vec![0.0, 1.0]);
                    let cuts = INTERVALS.div_ceil(edges.len() - 1);
                    let even: Vec<f64> = (0..=cuts).map(|i| i as f64 / cuts as f64).collect();
                    let up = (1..=CUTS).rev().map(|power| 0.25f64.powi(power));
                    let down = (1..=CUTS).map(|power| 1.0 - 0.25f64.powi(power));
                    let to_ends: Vec<f64> =
                        std::iter::once(0.0).chain(up).chain([0.5]).chain(down).chain([1.0]).collect();
                    for (bin, pair) in edges.windows(2).enumerate().filter(|(_, pair)| pair[0] < pair[1]) {
                        let at = |part: &f64| pair[0] + (pair[1] - pair[0]) * part;
                        let ends: Vec<f64> = match inside(bin) {
                            Inside::Level => even.iter().map(at).collect(),
                            Inside::Heavy => to_ends.iter().map(at).collect(),
                            Inside::Pieces(pieces) => pieces
                                .iter()
                                .map(|piece| piece.low)
                                .chain(pieces.last().map(|last| last.high))
                                .collect(),
                        };
                        for cut in ends.windows(2) {
                            let (low, high) = (cut[0], cut[1]);
                            if low >= high {
                                // Nearer to the end than numbers go.
                                continue;
                            }
                            places.extend([Place::Interval { low, high }, Place::Slope]);
                            mass.extend([high - low, 0.0]);
                        }
                    }
                    let found = insides.iter().flat_map(Inside::pieces).filter_map(|piece| piece.atom);
                    let mut atoms: Vec<f64> = range.atoms().iter().map(|atom| range.unit(*atom)).chain(found).collect();
                    atoms.sort_by(f64::total_cmp);
                    for unit in atoms {
                        places.push(Place::Point(Value::Unit(unit)));
                        mass.push(ATOM);
                    }
                }
                places.push(Place::Point(Value::Missing));
                mass.push(if *nullable { MISSING } else { 0.0 });
            }
        }
        let total: f64 = mass.iter().sum();
        mass.iter_mut().for_each(|mass| *mass /= total);
        let mut cell = Vec::with_capacity(places.len());
        for place in &places {
            cell.push(match (partition, place) {
                (None, _) => 0,
                (Some(_), Place::Slope) => *cell.last().expect("a slope follows its interval"),
                (Some(cells), Place::Interval { low, high }) => cells.of(Value::Unit(0.5 * (low + high))),
                (Some(cells), Place::Point(value)) => cells.of(*value),
            });
        }
        // All scales count the same, and as much as the ends.
        let mut doubt = vec![0.0; places.len()];
        for i in (0..places.len()).filter(|i| heavy(cell[*i] as usize) && places[*i] != Place::Slope) {
            let alone = |other: Option<&u32>| other != Some(&cell[i]);
            let is_end = alone(i.checked_sub(1).map(|before| &cell[before])) || alone(cell.get(i + 2));
            doubt[i] = if is_end { f64::from(CUTS) } else { 1.0 };
        }
        let mut axis = Self {
            column,
            cells: partition.map_or(1, Cells::len),
            lows: places.iter().filter_map(Place::low).collect(),
            part: vec![0.0; places.len()],
            doubt,
            weight: vec![0.0; places.len()],
            mass,
            places,
            cell,
        };
        axis.part = axis.parts();
        for (cell, pieces) in insides.iter().map(Inside::pieces).enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
            axis.share_out(cell, pieces);
        }
        axis.weigh();
        axis
    }

    /// Gives the places of a cell their parts of it, by the pieces that they are in.
    fn share_out(&mut self, cell: usize, pieces: &[Piece]) {
        let mut inside: Vec<Vec<(usize, bool)>> = vec![Vec::new(); pieces.len()];
        for (at, place) in self.places.iter().enumerate().filter(|(at, _)| self.cell[*at] as usize == cell) {
            let Some(middle) = place.middle() else { continue };
            let piece = pieces.partition_point(|piece| piece.high <= middle).min(pieces.len() - 1);
            inside[piece].push((at, matches!(place, Place::Point(_)) && pieces[piece].atom == Some(middle)));
        }
        // A piece without any place, as between whole numbers, leaves what it has to the others.
        let shared: f64 =
            pieces.iter().zip(&inside).filter(|(_, at)| !at.is_empty()).map(|(piece, _)| piece.share).sum();
        for (piece, inside) in pieces.iter().zip(inside).filter(|_| shared > 0.0) {
            let others = inside.iter().filter(|(_, atom)| !atom).count();
            let at_atom = match inside.len() - others {
                0 => 0.0,
                _ if others == 0 => 1.0,
                _ => AT_ATOM,
            };
            for (at, atom) in inside {
                let part = if atom { at_atom } else { (1.0 - at_atom) / others as f64 };
                self.part[at] = piece.share / shared * part;
            }
        }
    }

    /// What each place has of its cell: equal parts of points, the rest by width.
    fn parts(&self) -> Vec<f64> {
        let size = |place: &Place| match place {
            Place::Interval { low, high } => high - low,
            Place::Slope => 0.0,
            Place::Point(_) => 1.0,
        };
        let mut totals = vec![0.0; self.cells];
        for (place, cell) in self.places.iter().zip(&self.cell) {
            totals[*cell as usize] += size(place);
        }
        self.places.iter().zip(&self.cell).map(|(place, cell)| size(place) / totals[*cell as usize]).collect()
    }

    fn weigh(&mut self) {
        for i in 0..self.places.len() {
            self.weight[i] = match self.places[i] {
                Place::Slope => self.mass[i - 1] / 3.0,
                _ => self.mass[i],
            };
        }
    }

    /// Gives every cell of the partition a probability.
    pub fn set_cells(&mut self, probabilities: &[f64]) {
        for (i, cell) in self.cell.iter().enumerate() {
            self.mass[i] = probabilities[*cell as usize] * self.part[i];
        }
        self.weigh();
    }

    /// Lets the density lean within each cell: it becomes 1 + lean·t times what it was, where t runs from -1 to 1 along the
    /// cell.
    pub fn lean(&mut self, leans: &[f64]) {
        let span = |place: &Place| match place {
            Place::Interval { low, high } => Some((*low, *high)),
            Place::Point(Value::Unit(unit)) => Some((*unit, *unit)),
            _ => None,
        };
        let mut cells = vec![Inner::default(); self.cells];
        for (i, cell) in self.cell.iter().enumerate() {
            let inner = &mut cells[*cell as usize];
            if let Some((low, high)) = span(&self.places[i]) {
                *inner = Inner {
                    low: inner.low.min(low),
                    high: inner.high.max(high),
                    mass: inner.mass + self.mass[i],
                    ..*inner
                };
            }
        }
        let leaning = |cell: u32, inner: &Inner| leans[cell as usize] != 0.0 && inner.low < inner.high;
        for (i, cell) in self.cell.iter().enumerate() {
            let inner = &mut cells[*cell as usize];
            if let Some((low, high)) = span(&self.places[i]).filter(|_| leaning(*cell, inner)) {
                self.part[i] *=
                    1.0 + leans[*cell as usize] * (low + high - inner.low - inner.high) / (inner.high - inner.low);
                inner.part += self.part[i];
            }
        }
        for (i, cell) in self.cell.iter().enumerate() {
            let inner = &cells[*cell as usize];
            if span(&self.places[i]).is_some() && leaning(*cell, inner) {
                self.part[i] /= inner.part;
                self.mass[i] = inner.mass * self.part[i];
            }
        }
        self.weigh();
    }

    pub fn column(&self) -> usize {
        self.column
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Whether the column is one of levels.
    pub fn is_levels(&self) -> bool {
        self.places.iter().all(|place| matches!(place, Place::Point(Value::Code(_))))
    }

    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The cell of each place.
    pub fn partition(&self) -> &[u32] {
        &self.cell
    }

    /// The probability of each place; 0 for slopes.
    pub fn mass(&self) -> &[f64] {
        &self.mass
    }

    /// The weights of the inner product of two tables.
    pub fn weight(&self) -> &[f64] {
        &self.weight
    }

    /// Whether the prior of the column is the uniform law on [0, 1] and nothing else.
    pub fn is_uniform(&self) -> bool {
        self.places.iter().zip(&self.mass).all(|(place, mass)| match place {
            Place::Interval { low, high } => (mass - (high - low)).abs() < 1e-12,
            Place::Slope => true,
            Place::Point(_) => *mass == 0.0,
        })
    }

    pub fn mean(&self, table: &[f64]) -> f64 {
        self.mass.iter().zip(table).map(|(mass, value)| mass * value).sum()
    }

    pub fn inner(&self, a: &[f64], b: &[f64]) -> f64 {
        self.weight.iter().zip(a).zip(b).map(|((weight, a), b)| weight * a * b).sum()
    }

    /// The table of a function that may jump at the given places of [0, 1].
    pub fn tabulate(&self, jumps: &[f64], function: impl Fn(Value) -> f64) -> Vec<f64> {
        let piece = |low: f64, high: f64| legendre(&|u| function(Value::Unit(u)), low, high);
        self.tabulate_pieces(jumps, &function, piece)
    }

    /// The same of a function that does not change between its jumps, and need not be looked at closely but so near to them.
    pub fn tabulate_steps(&self, jumps: &[f64], near: f64, function: impl Fn(Value) -> f64) -> Vec<f64> {
        let piece = |low: f64, high: f64| {
            if jumps.iter().any(|jump| low - near < *jump && *jump < high + near) {
                return legendre(&|u| function(Value::Unit(u)), low, high);
            }
            (function(Value::Unit(0.5 * (low + high))), 0.0)
        };
        self.tabulate_pieces(jumps, &function, piece)
    }

    /// `piece` gives the mean and the slope over an interval.
    fn tabulate_pieces(
        &self,
        jumps: &[f64],
        function: impl Fn(Value) -> f64,
        piece: impl Fn(f64, f64) -> (f64, f64),
    ) -> Vec<f64> {
        let mut table = vec![0.0; self.places.len()];
        for (i, place) in self.places.iter().enumerate() {
            match place {
                Place::Point(value) => table[i] = function(*value),
                Place::Interval { low, high } if !jumps.iter().any(|jump| low < jump && jump < high) => {
                    (table[i], table[i + 1]) = piece(*low, *high);
                }
                Place::Interval { low, high } => {
                    let mut cuts = vec![*low];
                    cuts.extend(jumps.iter().filter(|jump| *low < **jump && **jump < *high));
                    cuts.push(*high);
                    cuts.sort_by(f64::total_cmp);
                    for pair in cuts.windows(2).filter(|pair| pair[0] < pair[1]) {
                        let (mean, slope) = piece(pair[0], pair[1]);
                        // The piece in the coordinate of the whole interval, which runs from -1 to 1.
                        let share = (pair[1] - pair[0]) / (high - low);
                        let centre = (pair[0] + pair[1] - low - high) / (high - low);
                        table[i] += share * mean;
                        table[i + 1] += share * (3.0 * centre * mean + share * slope);
                    }
                }
                Place::Slope => {}
            }
        }
        table
    }

    /// For each cell, the linear function of the place that has mean 0 and variance 1 within it: its centre and its scale,
    /// nothing for cells of a single point; and the table that is each of these functions in its own cell.
    pub fn tilts(&self) -> (Vec<Option<(f64, f64)>>, Vec<f64>) {
        let mut centres = vec![Some(0.0); self.cells];
        let inside =
            || self.places.iter().zip(&self.cell).enumerate().filter(|(_, (place, _))| **place != Place::Slope);
        for (i, (place, cell)) in inside() {
            let centre = &mut centres[*cell as usize];
            *centre = centre.zip(place.middle()).map(|(sum, middle)| sum + self.part[i] * middle);
        }
        let mut table = vec![0.0; self.places.len()];
        for (i, (place, cell)) in inside() {
            let Some((centre, middle)) = centres[*cell as usize].zip(place.middle()) else { continue };
            table[i] = middle - centre;
            if let Place::Interval { low, high } = place {
                table[i + 1] = 0.5 * (high - low);
            }
        }
        let variances = self.cell_covariances(&table, &table);
        let wide =
            |(centre, variance): (Option<f64>, f64)| Some((centre.filter(|_| variance >= 1e-20)?, variance.sqrt()));
        let tilts: Vec<_> = centres.into_iter().zip(variances).map(wide).collect();
        for (x, cell) in table.iter_mut().zip(&self.cell) {
            *x = tilts[*cell as usize].map_or(0.0, |(_, scale)| *x / scale);
        }
        (tilts, table)
    }

    /// The mean of the product of two tables over each cell.
    pub fn cell_products(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.cells];
        for (i, place) in self.places.iter().enumerate() {
            let part = if *place == Place::Slope { self.part[i - 1] / 3.0 } else { self.part[i] };
            means[self.cell[i] as usize] += part * a[i] * b[i];
        }
        means
    }

    /// What each place has of a cell.
    pub fn parts_of(&self, cell: usize) -> Vec<f64> {
        let part = |(part, other): (&f64, &u32)| if *other as usize == cell { *part } else { 0.0 };
        self.part.iter().zip(&self.cell).map(part).collect()
    }

    /// The mean of a table over each cell, under the prior (or by width where a cell has no mass).
    pub fn cell_means(&self, table: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.cells];
        for ((part, cell), value) in self.part.iter().zip(&self.cell).zip(table) {
            means[*cell as usize] += part * value;
        }
        means
    }

    /// The probability of each cell.
    pub fn cell_masses(&self) -> Vec<f64> {
        let mut masses = vec![0.0; self.cells];
        for (mass, cell) in self.mass.iter().zip(&self.cell) {
            masses[*cell as usize] += mass;
        }
        masses
    }

    /// The covariance of two tables within each cell. In a heavy cell rows may be anywhere: at its ends, near them on any
    /// scale, or between.
    pub fn cell_covariances(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0, 0.0, 0.0); self.cells];
        let mut last = 0.0;
        for i in 0..self.places.len() {
            let cell = self.cell[i] as usize;
            let (product, one, two, all) = &mut sums[cell];
            if self.places[i] == Place::Slope {
                *product += last / 3.0 * a[i] * b[i];
                continue;
            }
            last = if self.doubt[i] > 0.0 { self.doubt[i] } else { self.part[i] };
            *product += last * a[i] * b[i];
            *one += last * a[i];
            *two += last * b[i];
            *all += last;
        }
        // Where whole numbers are far apart a bin may have no place.
        let covariance = |(product, one, two, all): (f64, f64, f64, f64)| {
            if all > 0.0 { (product - one * two / all) / all } else { 0.0 }
        };
        sums.into_iter().map(covariance).collect()
    }

    /// The place that a value is in, and where in it, from -1 to 1.
    pub fn locate(&self, value: Value) -> (u32, f32) {
        match value {
            Value::Code(code) => (code, 0.0),
            Value::Missing => (self.places.len() as u32 - 1, 0.0),
            Value::Unit(unit) => {
                if let Some(Place::Interval { .. }) = self.places.first() {
                    // Then come atoms, from low to high, and missing.
                    let intervals = self.lows.len();
                    let below = |place: &Place| matches!(place, Place::Point(Value::Unit(atom)) if *atom < unit);
                    let at = 2 * intervals + self.places[2 * intervals..].partition_point(below);
                    if self.places[at] == Place::Point(Value::Unit(unit)) {
                        return (at as u32, 0.0);
                    }
                    let at = self.lows.partition_point(|low| *low <= unit).saturating_sub(1);
                    let Place::Interval { low, high } = self.places[2 * at] else {
                        unreachable!("intervals come first")
                    };
                    return (2 * at as u32, ((2.0 * unit - low - high) / (high - low)).clamp(-1.0, 1.0) as f32);
                }
                // Whole numbers, in equal steps of their own before any transform.
                let at = self.places[..self.places.len() - 1].partition_point(|place| match place {
                    Place::Point(Value::Unit(other)) => *other < unit,
                    _ => false,
                });
                (at.min(self.places.len() - 2) as u32, 0.0)
            }
        }
    }

    /// Cumulative masses, for [`Axis::draw`].
    pub fn cumulated(&self) -> Vec<f64> {
        cumulated(self.mass.iter().copied())
    }

    /// The same where the cells have these probabilities, up to a factor.
    pub fn cumulated_given(&self, cells: &[f64]) -> Vec<f64> {
        cumulated(self.part.iter().zip(&self.cell).map(|(part, cell)| cells[*cell as usize] * part))
    }

    /// A random value of the column, given `uniform` in (0, 1) to choose a place by. The place is looked for from `at` on,
    /// where that for a smaller number was found.
    pub fn draw(
        &self,
        cumulated: &[f64],
        at: &mut usize,
        uniform: f64,
        kind: &Kind,
        stream: &mut PublicStream,
    ) -> Value {
        let total = cumulated.last().copied().unwrap_or(1.0);
        while *at + 1 < self.places.len() && cumulated[*at] < uniform * total {
            *at += 1;
        }
        self.draw_in(*at, kind, stream)
    }

    /// A random value in the place where this one is.
    pub fn redraw(&self, value: Value, kind: &Kind, stream: &mut PublicStream) -> Value {
        match value {
            Value::Unit(_) => self.draw_in(self.locate(value).0 as usize, kind, stream),
            value => value,
        }
    }

    fn draw_in(&self, place: usize, kind: &Kind, stream: &mut PublicStream) -> Value {
        match self.places[place] {
            Place::Point(value) => value,
            Place::Interval { low, high } => {
                let unit = low + (high - low) * stream.uniform();
                match kind.range() {
                    Some(range) if kind.is_whole() => Value::Unit(range.unit(range.value(unit).round())),
                    _ => Value::Unit(unit),
                }
            }
            Place::Slope => unreachable!("a slope has no mass of its own"),
        }
    }
}

fn cumulated(masses: impl Iterator<Item = f64>) -> Vec<f64> {
    let add = |sum: &mut f64, mass: f64| {
        *sum += mass;
        Some(*sum)
    };
    masses.scan(0.0, add).collect()
}

/// How often an interval is halved to find a step.
const HALVINGS: u32 = 14;

/// The mean of a function over an interval, and its slope: the coefficients of 1 and of t, where t runs from -1 to 1.
fn legendre(function: &dyn Fn(f64) -> f64, low: f64, high: f64) -> (f64, f64) {
    let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
    // The ends are looked at from inside: a step that sits on one of them is the neighbour's affair.
    let at = |t: f64| (t, function(middle + half * t * (1.0 - 1e-9)));
    let nodes = [-1.0, -0.5, 0.0, 0.5, 1.0].map(at);
    let size = nodes.iter().fold(0.0f64, |size, (_, value)| size.max(value.abs()));
    let (mean, moment) = refine(&at, nodes, 1e-7 * size, HALVINGS);
    (0.5 * mean, 1.5 * moment)
}

/// The integrals of f and of t·f by Boole's rule, halving where that and Simpson's disagree.
fn refine(at: &dyn Fn(f64) -> (f64, f64), nodes: [(f64, f64); 5], tolerance: f64, halvings: u32) -> (f64, f64) {
    let width = nodes[4].0 - nodes[0].0;
    let rules = |g: &dyn Fn((f64, f64)) -> f64| {
        let [a, b, c, d, e] = nodes.map(g);
        let coarse = (a + 4.0 * c + e) * width / 6.0;
        let fine = (a + 4.0 * b + 2.0 * c + 4.0 * d + e) * width / 12.0;
        (coarse, fine)
    };
    let (coarse, fine) = rules(&|(_, f)| f);
    let (coarse_moment, fine_moment) = rules(&|(t, f)| t * f);
    if halvings == 0 || ((fine - coarse).abs() <= tolerance && (fine_moment - coarse_moment).abs() <= tolerance) {
        return (fine + (fine - coarse) / 15.0, fine_moment + (fine_moment - coarse_moment) / 15.0);
    }
    let [a, b, c, d, e] = nodes;
    let between = |x: (f64, f64), y: (f64, f64)| at(0.5 * (x.0 + y.0));
    let left = refine(at, [a, between(a, b), b, between(b, c), c], tolerance, halvings - 1);
    let right = refine(at, [c, between(c, d), d, between(d, e), e], tolerance, halvings - 1);
    (left.0 + right.0, left.1 + right.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis() -> Axis {
        let schema = Schema::from_toml("[[column]]\nname='x'\ntype='number'\nmin=0\nmax=1").unwrap();
        Axis::new(&schema, 0, None)
    }

    fn unit(value: Value) -> f64 {
        if let Value::Unit(u) = value { u } else { 0.0 }
    }

    #[test]
    fn integrals_are_those_of_calculus() {
        let axis = axis();
        let square = axis.tabulate(&[], |value| unit(value).powi(2));
        let wave = axis.tabulate(&[], |value| (7.0 * unit(value)).cos());
        let step = axis.tabulate(&[], |value| f64::from(unit(value) < 0.3712));
        assert!((axis.mean(&square) - 1.0 / 3.0).abs() < 1e-12);
        assert!((axis.mean(&wave) - 7f64.sin() / 7.0).abs() < 1e-10);
        assert!((axis.mean(&step) - 0.3712).abs() < 1e-6);
        // ∫ x² cos 7x and ∫ cos 7x up to the step, by parts.
        let exact = 7f64.sin() / 7.0 + 2.0 * 7f64.cos() / 49.0 - 2.0 * 7f64.sin() / 343.0;
        assert!((axis.inner(&square, &wave) - exact).abs() < 1e-7, "{}", axis.inner(&square, &wave) - exact);
        assert!((axis.inner(&step, &wave) - (7.0 * 0.3712f64).sin() / 7.0).abs() < 2e-6);
    }

    /// In each cell the tilt has mean 0 and variance 1, and is the linear function of the place that its centre and scale say;
    /// there is none in cells of a single place. Densities that lean keep the masses of all cells.
    #[test]
    fn tilts_are_standard_in_their_cells() {
        for (kind, single) in [("type='number'\natoms=[0]", 2), ("type='integer'", 5), ("type='boolean'", 4)] {
            let numbers = if kind.contains("boolean") { "" } else { "min=0\nmax=9" };
            let schema = Schema::from_toml(&format!("[[column]]\nname='x'\n{kind}\n{numbers}\nnullable=true")).unwrap();
            let cells = crate::feature::MapSpec::Hist(crate::feature::HistSpec::with_bins(4));
            let cells = cells.tables(&schema).unwrap().remove(0).1.remove(0);
            let mut axis = Axis::new(&schema, 0, Some(&cells));
            let probabilities: Vec<f64> = (1..=cells.len()).map(|at| at as f64).collect();
            let total: f64 = probabilities.iter().sum();
            axis.set_cells(&probabilities.iter().map(|p| p / total).collect::<Vec<_>>());
            for _ in 0..2 {
                let (tilts, table) = axis.tilts();
                let (means, squares) = (axis.cell_means(&table), axis.cell_products(&table, &table));
                for (cell, tilt) in tilts.iter().enumerate() {
                    let expected = f64::from(tilt.is_some());
                    assert!(means[cell].abs() < 1e-12 && (squares[cell] - expected).abs() < 1e-12, "{kind} {cell}");
                }
                for (at, place) in axis.places().iter().enumerate() {
                    let (Some((centre, scale)), Some(middle)) = (tilts[axis.partition()[at] as usize], place.middle())
                    else {
                        continue;
                    };
                    assert!((table[at] - (middle - centre) / scale).abs() < 1e-12, "{kind} {place:?}");
                }
                assert!(tilts.iter().filter(|tilt| tilt.is_none()).count() <= single, "{kind}");
                let before = axis.cell_masses();
                axis.lean(&vec![0.7; cells.len()]);
                axis.cell_masses()
                    .iter()
                    .zip(before)
                    .for_each(|(after, before)| assert!((after - before).abs() < 1e-12));
            }
        }
    }

    /// A step, asked once for each stretch, has the table of any other function.
    #[test]
    fn steps_are_tabulated_as_other_functions_are() {
        let axis = axis();
        for jumps in [vec![0.3712], vec![0.25, 0.25 + 1e-9], vec![0.0, 1.0], vec![]] {
            let function = |value: Value| jumps.iter().filter(|jump| **jump <= unit(value)).count() as f64;
            assert_eq!(axis.tabulate_steps(&jumps, 1e-4, function), axis.tabulate(&jumps, function));
        }
    }

    /// Pieces of a bin have what they are given, whether they are intervals, atoms or whole numbers.
    #[test]
    fn pieces_share_out_their_bin() {
        let piece = |low: f64, high: f64, share: f64, atom| Piece { low, high, share, atom };
        for (kind, atom) in [("type='number'", Some(0.375)), ("type='integer'", None)] {
            let schema = Schema::from_toml(&format!("[[column]]\nname='x'\n{kind}\nmin=0\nmax=255")).unwrap();
            let cells = crate::feature::MapSpec::Hist(crate::feature::HistSpec::with_bins(4));
            let cells = cells.tables(&schema).unwrap().remove(0).1.remove(0);
            let edges = cells.edges().unwrap();
            let pieces =
                vec![piece(edges[1], 0.3, 0.1, None), piece(0.3, 0.4, 0.7, atom), piece(0.4, edges[2], 0.2, None)];
            let insides = [Inside::Level, Inside::Pieces(pieces), Inside::Heavy, Inside::Level];
            let mut axis = Axis::with_insides(&schema, 0, Some(&cells), &insides);
            axis.set_cells(&[0.1, 0.6, 0.2, 0.1, 0.0]);
            let below = |end: f64| axis.mean(&axis.tabulate(&[end], |value| f64::from(unit(value) < end)));
            for (end, expected) in [(0.3, 0.16), (0.4, 0.58), (edges[2], 0.7), (1.1, 1.0)] {
                assert!((below(end) - expected).abs() < 1e-6, "{kind} {end}: {}", below(end));
            }
            if let Some(atom) = atom {
                let (before, after) = (below(atom), below(atom + 1e-9));
                assert!((after - before - 0.6 * 0.7 * AT_ATOM).abs() < 1e-6, "{before} {after}");
                let (place, _) = axis.locate(Value::Unit(atom));
                assert_eq!(axis.places()[place as usize], Place::Point(Value::Unit(atom)));
            }
        }
    }

    #[test]
    fn uniform_is_recognised() {
        assert!(axis().is_uniform());
        let schema = Schema::from_toml("[[column]]\nname='x'\ntype='integer'\nmin=0\nmax=9\nnullable=true").unwrap();
        let axis = Axis::new(&schema, 0, None);
        assert!(!axis.is_uniform());
        assert!((axis.mass().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(axis.len(), 11);
    }
}
