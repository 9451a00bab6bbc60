//! Secret sums: exact, mergeable, in any order.

mod bounder;
mod file;

pub(crate) use file::MAGIC;

pub use file::SumsFile;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::feature::{Adder, Body, CustomSpec, FeatureMap, MapSpec, Simd};
use crate::panel::{Layout, PANEL, Panel, Record};
use crate::privatise::Noise;
use crate::release::Release;
use crate::schema::Unit;
use crate::{Design, Error, Schema};
use bounder::Bounder;
pub(crate) use bounder::UserId;

/// The exact sums of all features over a table, and its number of rows.
///
/// Secret: there is no `Debug`, no serialisation but the curator's own file, and no way out except
/// through noise: [`Sums::privatise`] and the two rounds of [`auto`](crate::auto).
pub struct Sums {
    schema: Schema,
    design: Design,
    rows: i128,
    blocks: Vec<Vec<i128>>,
    /// With a user unit, whose rows are in it: a user in two parts would count twice.
    users: BTreeSet<UserId>,
}

impl Sums {
    /// The schema of the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The design of the features.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// Adds the sums of another part of the table, exactly.
    pub fn merge(&mut self, other: Self) -> Result<(), Error> {
        if self.schema != other.schema || self.design != other.design {
            return Err(Error::Sums(
                "these parts have another schema or design; sketch all parts with the same ones".into(),
            ));
        }
        if !self.users.is_disjoint(&other.users) {
            return Err(Error::Sums(
                "a user has rows in two parts, so more than max_rows of them could count; split the table by user, or sketch all files together".into(),
            ));
        }
        // No table is that long, but a file can claim anything.
        let (Some(rows), Some(blocks)) = (self.rows.checked_add(other.rows), added(&self.blocks, &other.blocks)) else {
            return Err(Error::Sums("the parts add up to more than 2¹²⁷, so one is damaged; sketch it again".into()));
        };
        (self.rows, self.blocks) = (rows, blocks);
        self.users.extend(other.users);
        Ok(())
    }

    /// The secret numbers themselves, on their way to the noise: the count, and the sums of each block.
    pub(crate) fn into_parts(self, schema: &Schema, design: &Design) -> Result<(i128, Vec<Vec<i128>>), Error> {
        if &self.schema != schema || &self.design != design {
            return Err(Error::Sums(
                "these sums have another schema or design than the round that they are for".into(),
            ));
        }
        Ok((self.rows, self.blocks))
    }

    /// Adds noise: with the rounds of [`auto`](crate::auto), the only way from secret sums to something public.
    ///
    /// # Privacy
    /// Every coordinate and, unless it is public, the count get the noise of the plan; then they are clipped to 64
    /// bits, which is post-processing. The noise is used up.
    pub fn privatise(self, noise: Noise) -> Result<Release, Error> {
        noise.check_process()?;
        let Noise { plan, count, blocks, .. } = noise;
        if &self.schema != plan.schema() || &self.design != plan.design() {
            return Err(Error::Sums("the noise was drawn for another schema or design".into()));
        }
        assert_eq!((count.is_some(), blocks.len()), (plan.count().is_some(), self.blocks.len()), "noise fits its plan");
        let count = public(self.rows, count.unwrap_or(0));
        let sums = self
            .blocks
            .into_iter()
            .zip(blocks)
            .map(|(sums, noise)| {
                assert_eq!(sums.len(), noise.len(), "every coordinate has its noise");
                sums.into_iter().zip(noise).map(|(sum, noise)| public(sum, noise)).collect()
            })
            .collect();
        Release::new(&plan, count, sums)
    }
}

/// A sum with its noise, clipped to 64 bits.
pub(crate) fn public(sum: i128, noise: i128) -> i64 {
    sum.saturating_add(noise).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The sums of two parts, unless one of them overflows.
fn added(one: &[Vec<i128>], other: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
    let block =
        |(one, other): (&Vec<i128>, &Vec<i128>)| one.iter().zip(other).map(|(a, b)| a.checked_add(*b)).collect();
    one.iter().zip(other).map(block).collect()
}

/// A schema and a design made ready to add up rows.
pub struct Sketcher {
    schema: Schema,
    design: Design,
    layout: Arc<Layout>,
    maps: Vec<Box<dyn FeatureMap>>,
}

impl Sketcher {
    /// For the maps of a design.
    pub fn new(schema: &Schema, design: &Design) -> Result<Self, Error> {
        Self::with_simd(schema, design, Simd::detect())
    }

    /// The same, on narrower instructions than the processor has. The sums are the same.
    pub fn with_simd(schema: &Schema, design: &Design, simd: Simd) -> Result<Self, Error> {
        let maps = design.maps(schema, simd)?;
        Ok(Self { schema: schema.clone(), design: design.clone(), layout: Layout::new(schema), maps })
    }

    /// For a map of the user's own, by which analysts find its code under `name`.
    ///
    /// ```
    /// # use m2m::feature::{Body, FeatureMap};
    /// # use m2m::panel::{Record, Value};
    /// # struct Powers;
    /// # impl FeatureMap for Powers {
    /// #     fn len(&self) -> usize { 1 }
    /// #     fn body(&self) -> Body { Body::Bounded { l1: 1000, l2_squared: 1_000_000 } }
    /// #     fn record(&self, record: Record<'_>, features: &mut [i64]) {
    /// #         if let Value::Unit(u) = record.value(0) { features[0] = (1000.0 * u) as i64; }
    /// #     }
    /// # }
    /// use m2m::{Schema, privatise::{Budget, Plan, Privacy}, source::Table, sums::Sketcher};
    ///
    /// let schema = Schema::from_toml("[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 10")?;
    /// let sketcher = Sketcher::custom(&schema, "powers", serde_json::json!({"grid": 1000}), Box::new(Powers))?;
    /// let plan = Plan::new(&schema, sketcher.design(), Privacy::new(Budget::pure("1".parse()?)?))?;
    /// let noise = plan.draw()?;
    /// let table = Table::from_csv_bytes(b"x\n1\n2\n".to_vec());
    /// let (sums, _) = m2m::source::sketch(&sketcher, &table, 1, &())?;
    /// let release = sums.privatise(noise)?;
    /// assert_eq!(release.blocks()[0].sums().len(), 1);
    /// # Ok::<(), m2m::Error>(())
    /// ```
    pub fn custom(
        schema: &Schema,
        name: &str,
        parameters: serde_json::Value,
        map: Box<dyn FeatureMap>,
    ) -> Result<Self, Error> {
        let spec = CustomSpec { name: name.to_owned(), parameters, features: map.len(), body: map.body() };
        Self::with_maps(schema, &Design::single(MapSpec::Custom(spec)), vec![map])
    }

    /// For a design in which some maps are the user's own: `custom` has one for each of them, in order.
    pub fn with_maps(schema: &Schema, design: &Design, custom: Vec<Box<dyn FeatureMap>>) -> Result<Self, Error> {
        let mut custom = custom.into_iter();
        let maps = design.maps_with(schema, Simd::detect(), |spec| {
            // The wrapper drops any adder of the user's: only the guarded one enforces the bound.
            let map = custom.next().map(|map| UserMap { len: map.len(), body: map.body(), map });
            match map.filter(|map| (map.len, map.body) == (spec.features, spec.body)) {
                Some(map) => Ok(Box::new(map)),
                None => Err(Error::Design(format!(
                    "{}: hand over a map of the size and bound that the design states",
                    spec.name
                ))),
            }
        })?;
        if custom.next().is_some() {
            return Err(Error::Design("more maps are handed over than the design has of the user's own".into()));
        }
        Ok(Self { schema: schema.clone(), design: design.clone(), layout: Layout::new(schema), maps })
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// What one thread adds rows to.
    pub(crate) fn partial(&self) -> Partial<'_> {
        let blocks = self
            .maps
            .iter()
            .map(|map| {
                let limit = (1u64 << 62) / (map.body().largest().max(1) * PANEL as u64);
                PartialBlock {
                    adder: map.adder(),
                    recent: vec![0; map.len()],
                    total: vec![0; map.len()],
                    panels: 0,
                    limit,
                }
            })
            .collect();
        let bounder = match self.schema.unit() {
            Unit::Row => None,
            Unit::User { max_rows, .. } => Some(Bounder::new(*max_rows as usize)),
        };
        Partial { sketcher: self, blocks, rows: 0, bounder }
    }
}

/// A user's map with the size and bound that it had when the plan was made, whatever it answers later.
struct UserMap {
    map: Box<dyn FeatureMap>,
    len: usize,
    body: Body,
}

impl FeatureMap for UserMap {
    fn len(&self) -> usize {
        self.len
    }
    fn body(&self) -> Body {
        self.body
    }
    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        self.map.record(record, features);
    }
}

/// The sums of one thread.
pub(crate) struct Partial<'a> {
    sketcher: &'a Sketcher,
    blocks: Vec<PartialBlock<'a>>,
    rows: i128,
    bounder: Option<Bounder>,
}

struct PartialBlock<'a> {
    adder: Box<dyn Adder + 'a>,
    /// Added in 64 bits, moved to `total` before it can overflow.
    recent: Vec<i64>,
    total: Vec<i128>,
    panels: u64,
    limit: u64,
}

impl PartialBlock<'_> {
    fn settle(&mut self) {
        for (total, recent) in self.total.iter_mut().zip(&mut self.recent) {
            *total += i128::from(std::mem::take(recent));
        }
        self.panels = 0;
    }
}

impl Partial<'_> {
    /// Adds the rows of a panel. With a user unit `users` names the owner of each row; rows without one are left out.
    pub fn add(&mut self, panel: &Panel, users: &[Option<UserId>]) {
        match &mut self.bounder {
            None => self.add_bounded(panel),
            Some(bounder) => {
                for (row, user) in users.iter().enumerate() {
                    if let Some(user) = user {
                        bounder.offer(*user, panel.record(row).to_row());
                    }
                }
            }
        }
    }

    fn add_bounded(&mut self, panel: &Panel) {
        self.rows += panel.len() as i128;
        for block in &mut self.blocks {
            block.adder.add(panel, &mut block.recent);
            block.panels += 1;
            if block.panels >= block.limit {
                block.settle();
            }
        }
    }

    /// Takes over another thread's rows.
    pub fn absorb(&mut self, mut other: Self) {
        self.rows += other.rows;
        for (block, other) in self.blocks.iter_mut().zip(&mut other.blocks) {
            other.settle();
            for (total, part) in block.total.iter_mut().zip(&other.total) {
                *total += part;
            }
        }
        if let (Some(bounder), Some(other)) = (&mut self.bounder, other.bounder) {
            bounder.absorb(other);
        }
    }

    /// The sums of all rows that count.
    pub fn finish(mut self) -> Sums {
        let mut users = BTreeSet::new();
        if let Some(bounder) = self.bounder.take() {
            let mut panel = Panel::new(self.sketcher.layout.clone());
            for (user, rows) in bounder.into_rows() {
                users.insert(user);
                for row in rows {
                    panel.push(&row);
                    if panel.len() == PANEL {
                        self.add_bounded(&panel);
                        panel.clear();
                    }
                }
            }
            self.add_bounded(&panel);
        }
        self.blocks.iter_mut().for_each(PartialBlock::settle);
        Sums {
            schema: self.sketcher.schema.clone(),
            design: self.sketcher.design.clone(),
            rows: self.rows,
            blocks: self.blocks.into_iter().map(|block| block.total).collect(),
            users,
        }
    }
}
