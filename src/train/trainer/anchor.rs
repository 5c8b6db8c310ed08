//! One anchor of the last step, before the step and after it: what its miner keeps and how strongly each reference pulls.

use serde::{Deserialize, Serialize};

use super::{LastStep, Trainer};
use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::order;
use crate::base::plan::MemoryPlan;
use crate::base::rng;
use crate::engine::DeviceVec;
use crate::kernels;
use crate::kernels::similarities::Distance;
use crate::kernels::triplet_margin::{Kind, Rule};
use crate::mining::scene::{OnEngine, Scene, Seen};
use crate::model::unit_rows::UnitRows;
use crate::rules::miners::Miner;

const EMBEDDED: &str = "anchor.embedded";
const ADVICE: &str = "raise the budget, or lower batch_size";

/// The anchor that is looked at, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnchorAsked {
    /// Place of the anchor in the batch of the last step; `None`: the first of which the miner keeps a negative, or else the first
    /// that has a positive.
    pub anchor: Option<usize>,
    /// Place among the references of the positive whose triplets are looked at; `None`, or a place of no positive: the positive that
    /// weighs most.
    pub positive: Option<u32>,
    /// The references are the batch alone, although the run has a memory.
    pub alone: bool,
    /// The most references that are listed: of either side an eighth are those that weigh most, and the rest are spread evenly over the
    /// others, from the nearest to the farthest.
    pub most: usize,
}

/// An anchor of the last step with its references, and what miner and loss make of them.
///
/// `before` the step is what was trained on; `after` it the batch is embedded by the changed head, as in scoring (without dropout,
/// with the running statistics of batch norm), and stored rows stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneAnchor {
    /// The step.
    pub step: u64,
    /// Numbers in the data of the batch's rows.
    pub batch: Vec<u32>,
    /// Place of the anchor in the batch.
    pub anchor: usize,
    /// Its class.
    pub class: String,
    /// Distance by which the miner compares: values are cosines, or minus the distances.
    pub distance: Distance,
    /// Margin of the miner's band, if it has one; and that of the triplet loss, if it is one.
    pub margins: [Option<f32>; 2],
    /// The references are the batch alone.
    pub alone: bool,
    /// Number of its positives, and of its negatives.
    pub references: [usize; 2],
    /// Of these the listed ones, as [`AnchorAsked::most`] says; positives first.
    pub listed: Vec<AnchorReference>,
    /// The positive whose triplets were looked at, in the list; `None` if the anchor has no positive.
    pub positive: Option<usize>,
    /// In the list the negative that weighs most of those that are kept with that positive, before and after the step.
    pub negative: [Option<usize>; 2],
    /// Number of kept positives and of kept negatives, before and after the step.
    pub kept: [[usize; 2]; 2],
    /// Number of all negatives that are easy, semi-hard and hard, before and after the step; of each kind all, and those that are
    /// kept with the positive.
    pub kinds: [[[usize; 2]; 3]; 2],
    /// Sum of the slopes of all positives and of all negatives, without their signs, before and after the step.
    pub slopes: [[f32; 2]; 2],
}

/// A reference of an anchor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnchorReference {
    /// Its number in the data.
    pub row: u32,
    /// Its place among the references: a slot of the memory, or a place in the batch.
    pub place: u32,
    /// Its class.
    pub class: String,
    /// It is of the anchor's class.
    pub positive: bool,
    /// Steps since it was stored; `None` without a memory.
    pub age: Option<u32>,
    /// Before the step, and after it.
    pub stands: [AnchorStand; 2],
}

/// A reference as miner and loss see it from an anchor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnchorStand {
    /// Its similarity to the anchor, or minus its distance.
    pub value: f32,
    /// Number of triplets that the miner keeps with it; of a miner of pairs, 1 if it keeps the pair.
    pub kept: u32,
    /// A negative that is kept with the positive that was looked at.
    pub with: bool,
    /// `dL/d(similarity)`: the loss pulls a positive that is below 0, and pushes a negative that is above.
    pub slope: f32,
    /// Kind of the triplet of a negative with the positive that was looked at.
    pub kind: AnchorKind,
}

/// Kind of a triplet by `gap = v_ap - v_an`. Without a margin there are no semi-hard ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnchorKind {
    /// `gap > margin`.
    #[default]
    Easy,
    /// `0 < gap <= margin`.
    Semihard,
    /// `gap <= 0`.
    Hard,
}

/// The references of the last step, by place.
struct Among {
    /// Places of the batch's rows; `None` if the batch is its own references.
    places: Option<Vec<u32>>,
    labels: Vec<u32>,
    rows: Vec<u32>,
    ages: Option<Vec<u32>>,
}

/// An anchor before or after the step, with the references that are kept with the chosen positive.
struct Side {
    seen: Seen,
    with: Vec<bool>,
}

impl Trainer {
    /// Looks at one anchor of the last step: its similarities, what the miner keeps, and the slope of the loss at each reference.
    /// `None` before the first step, or after [`Trainer::reset_memory`] until the next.
    ///
    /// The batch is mined once more, in memory of its own that [`Trainer::plan_anchor`] tells, and freed again.
    ///
    /// # Errors
    /// [`Error::Data`] for an anchor that the batch does not have; [`Error::Config`] for a loss that compares rows with proxies, and
    /// for more references than can be looked at one by one; [`Error::Refused`]; [`Error::Device`]; [`Error::Stopped`].
    pub async fn anchor(&mut self, asked: &AnchorAsked) -> Result<Option<OneAnchor>> {
        let Some(last) = self.last else {
            return Ok(None);
        };
        let batch = self.setup.sizes.batch;
        if let Some(anchor) = asked.anchor.filter(|anchor| *anchor >= batch) {
            return Err(Error::Data(format!(
                "anchor {anchor} was asked for, and the batch has {batch} rows: ask for 0 to {}",
                batch - 1
            )));
        }
        let rows = self.rows_of(last);
        let among = self.among(last, asked.alone, &rows);
        let scene = self.scene(&rows, &among)?;
        let files = [
            "draw",
            "pair_gradient",
            "row_loss",
            "select",
            "similarities",
            "triplet_loss",
        ];
        let precisions = self.setup.sizes.precisions();
        let used = kernels::used_of(self.engine.info(), &files, precisions);
        self.engine.prepare(used).await?;
        let mut look = scene.buffers(&self.engine).await?;
        let embedded = self.embed_again(&rows).await?;
        let at = match asked.anchor {
            Some(anchor) => anchor,
            None => {
                let on_engine = self.on_engine(&self.train.embedded.unit, &among);
                look.first(&scene, on_engine).await?
            }
        };
        let mut positive = asked.positive.filter(|place| among.is_positive(at, *place));
        let mut sides = Vec::with_capacity(2);
        for anchors in [&self.train.embedded.unit, &embedded] {
            let on_engine = self.on_engine(anchors, &among);
            let seen = look.at(&scene, on_engine, at).await?;
            positive = positive.or_else(|| among.heaviest_positive(at, &seen));
            let with = match positive {
                Some(positive) => {
                    let anchor = (at, &seen);
                    look.with(&scene, on_engine, anchor, positive).await?
                }
                None => vec![false; among.labels.len()],
            };
            sides.push(Side { seen, with });
        }
        Ok(Some(self.one_anchor(
            (at, asked.most),
            &among,
            &sides,
            positive,
        )))
    }

    /// Bytes of device memory that [`Trainer::anchor`] takes for a while; 0 before the first step.
    ///
    /// # Errors
    /// As [`Trainer::anchor`] for the loss, and for the number of references.
    pub fn plan_anchor(&self, alone: bool) -> Result<u64> {
        let Some(last) = self.last else {
            return Ok(0);
        };
        let rows = self.rows_of(last);
        let scene = self.scene(&rows, &self.among(last, alone, &rows))?;
        let plans = scene.plans();
        let looks: u64 = plans.iter().map(MemoryPlan::total_bytes).sum();
        Ok(looks + self.plan_embedded().total_bytes())
    }

    fn plan_embedded(&self) -> MemoryPlan {
        let floats = self.setup.sizes.batch * self.setup.sizes.stride();
        MemoryPlan::default().with::<f32>(Purpose::Activations, EMBEDDED, floats as u64)
    }

    /// Numbers in the data of the rows of the last step.
    fn rows_of(&self, last: LastStep) -> Vec<u32> {
        let ids = last.slots.first_id..;
        let rows = ids.take(self.setup.sizes.batch);
        rows.map(|id| self.memory.row(id)).collect()
    }

    /// The references of the last step.
    fn among(&self, last: LastStep, alone: bool, rows: &[u32]) -> Among {
        if last.alone || alone {
            return Among {
                places: None,
                labels: self.dataset.labels_of(rows),
                rows: rows.to_vec(),
                ages: None,
            };
        }
        let slots = last.slots;
        let slot = |i: usize| ((slots.cursor + i) % slots.capacity) as u32;
        Among {
            places: Some((0..rows.len()).map(slot).collect()),
            labels: self.memory.labels().to_vec(),
            rows: self.memory.rows().to_vec(),
            ages: Some(self.memory.ages()),
        }
    }

    fn scene(&self, rows: &[u32], among: &Among) -> Result<Scene> {
        let config = &self.config;
        if config.loss.learns_proxies() {
            return Err(Error::Config(
                "loss.name: this loss compares rows with proxies of the classes, not with each other, so there are no pairs or \
                 triplets of an anchor: use a loss without proxies"
                    .to_owned(),
            ));
        }
        Scene::new(
            self.rule,
            (&config.miner, &config.loss),
            [config.chosen_by(), config.distance],
            &self.dataset.labels_of(rows),
            among.places.as_deref(),
            &among.labels,
            config.embedding_size,
            rng::key(config.seed, "draws", self.step),
        )
    }

    /// Embeds the batch by the head as it is now.
    async fn embed_again(&mut self, rows: &[u32]) -> Result<DeviceVec<f32>> {
        let engine = self.engine.clone();
        let plan = self.plan_embedded();
        let mut workspace = engine.workspace("one anchor", &plan, ADVICE).await?;
        let mut embedded = workspace.take(EMBEDDED);
        let mut unit = UnitRows::Embedded {
            features: &mut self.features,
            dataset: &self.dataset,
            model: Some(&self.model),
            tile: &mut self.tile,
            chosen: rows,
        };
        let places = 0..rows.len() as u32;
        unit.bring(&engine, places, &mut embedded, 0).await?;
        Ok(embedded)
    }

    /// Rows to look at, of which the batch is at `anchors`.
    fn on_engine<'a>(&'a self, anchors: &'a DeviceVec<f32>, among: &Among) -> OnEngine<'a> {
        let weights = self.train.row_weights.as_ref();
        let boundary = self.train.boundary.as_ref();
        OnEngine {
            engine: &self.engine,
            anchors,
            references: match among.places {
                None => anchors.into(),
                Some(_) => self.memory.bank.rows.read(),
            },
            given: weights
                .map(|weights| &weights.weights)
                .or(boundary.map(|boundary| &boundary.moved)),
        }
    }

    /// The answer, from both looks.
    fn one_anchor(
        &self,
        (anchor, most): (usize, usize),
        among: &Among,
        sides: &[Side],
        positive: Option<u32>,
    ) -> OneAnchor {
        let own = among.labels[among.place(anchor) as usize];
        let listed = among.listed((anchor, most), &sides[0], positive);
        let in_list = |place: u32| listed.iter().position(|listed| *listed == place);
        let heaviest = |side: &Side| in_list(among.heaviest_negative(anchor, side)?);
        let both = among.sides(anchor);
        let stand = |side: &Side, place: u32| self.stand(side, positive, place, among, own);
        let kept = |side: &Side, places: &[u32]| {
            let kept = places.iter().map(|place| stand(side, *place).kept);
            kept.filter(|kept| *kept > 0).count()
        };
        let slopes = |side: &Side, places: &[u32]| {
            let slopes = places.iter().map(|place| stand(side, *place).slope.abs());
            slopes.sum()
        };
        let kinds = |side: &Side| {
            let mut kinds = [[0; 2]; 3];
            for place in &both[1] {
                let stand = stand(side, *place);
                let [all, with] = &mut kinds[stand.kind as usize];
                (*all, *with) = (*all + 1, *with + usize::from(stand.with));
            }
            kinds
        };
        let (before, after) = (&sides[0], &sides[1]);
        OneAnchor {
            step: self.step,
            batch: self.last.map_or_else(Vec::new, |last| self.rows_of(last)),
            anchor,
            class: self.dataset.class_names[own as usize].clone(),
            distance: self.config.chosen_by(),
            margins: self.margins(),
            alone: among.places.is_none(),
            references: both.each_ref().map(Vec::len),
            positive: positive.and_then(in_list),
            negative: [heaviest(before), heaviest(after)],
            kept: [before, after].map(|side| both.each_ref().map(|of| kept(side, of))),
            kinds: [before, after].map(kinds),
            slopes: [before, after].map(|side| both.each_ref().map(|of| slopes(side, of))),
            listed: listed
                .iter()
                .map(|place| {
                    let stands = [before, after].map(|side| stand(side, *place));
                    self.reference(among, own, *place, stands)
                })
                .collect(),
        }
    }

    /// A reference of an anchor of the class `own`.
    fn reference(
        &self,
        among: &Among,
        own: u32,
        place: u32,
        stands: [AnchorStand; 2],
    ) -> AnchorReference {
        let at = place as usize;
        let label = among.labels[at];
        AnchorReference {
            row: among.rows[at],
            place,
            class: self.dataset.class_names[label as usize].clone(),
            positive: label == own,
            age: among.ages.as_ref().map(|ages| ages[at]),
            stands,
        }
    }

    /// A reference as one look found it, from an anchor of the class `own`.
    fn stand(
        &self,
        side: &Side,
        positive: Option<u32>,
        place: u32,
        among: &Among,
        own: u32,
    ) -> AnchorStand {
        let margins = self.margins();
        let margin = margins[0].or(margins[1]).unwrap_or(0.0);
        let at = place as usize;
        let value = side.seen.values[at];
        let gap = positive.map_or(0.0, |p| side.seen.values[p as usize] - value);
        AnchorStand {
            value,
            kept: side.seen.kept[at],
            with: side.with[at],
            slope: side.seen.slopes[at],
            kind: match among.labels[at] == own {
                true => AnchorKind::default(),
                false => AnchorKind::of(gap, margin),
            },
        }
    }

    /// Margin of the miner's band, and of the triplet loss.
    fn margins(&self) -> [Option<f32>; 2] {
        let miner = match &self.config.miner {
            Miner::TripletMargin(miner) => Some(miner.margin as f32),
            _ => None,
        };
        let loss = self.config.loss.triplet_margin();
        [miner, loss.map(|loss| loss.margin as f32)]
    }
}

impl OneAnchor {
    /// Rows of the triplet with the chosen positive that weighs most, before the step (0) or after it (1): anchor, positive, negative.
    pub fn triplet(&self, side: usize) -> Option<[u32; 3]> {
        let (positive, negative) = self.positive.zip(self.negative[side])?;
        let row = |at: usize| self.listed[at].row;
        Some([self.batch[self.anchor], row(positive), row(negative)])
    }
}

impl AnchorKind {
    /// The kind of a triplet, as the kernels count it.
    fn of(gap: f32, margin: f32) -> Self {
        let rule = Rule {
            distance: Distance::default(),
            kind: Kind::Unmined,
            miner_margin: margin,
            loss_margin: margin,
        };
        match rule.mined(gap) {
            (_, false, _) => Self::Easy,
            (_, true, false) => Self::Semihard,
            (_, true, true) => Self::Hard,
        }
    }
}

impl Among {
    /// Place of a row of the batch.
    fn place(&self, anchor: usize) -> u32 {
        let places = self.places.as_ref();
        places.map_or(anchor as u32, |places| places[anchor])
    }

    fn is_positive(&self, anchor: usize, place: u32) -> bool {
        let own = self.place(anchor);
        let label = |place: u32| self.labels.get(place as usize);
        place != own && label(place) == label(own)
    }

    /// Places of the positives and of the negatives of an anchor.
    fn sides(&self, anchor: usize) -> [Vec<u32>; 2] {
        let own = self.place(anchor);
        let label = self.labels[own as usize];
        let others = (0..self.labels.len() as u32).filter(|place| *place != own);
        let (positives, negatives) =
            others.partition(|place| self.labels[*place as usize] == label);
        [positives, negatives]
    }

    /// The positive with the steepest slope; of equal ones a kept one, then the farthest.
    fn heaviest_positive(&self, anchor: usize, seen: &Seen) -> Option<u32> {
        let [mut positives, _] = self.sides(anchor);
        seen.sort(&mut positives, -1.0);
        positives.first().copied()
    }

    /// The negative with the steepest slope of those that are kept with the chosen positive; of equal ones the nearest.
    fn heaviest_negative(&self, anchor: usize, side: &Side) -> Option<u32> {
        let [_, mut negatives] = self.sides(anchor);
        negatives.retain(|place| side.with[*place as usize]);
        side.seen.sort(&mut negatives, 1.0);
        negatives.first().copied()
    }

    /// Places that are listed: positives, then negatives, the chosen positive and the heaviest negative with it first of each.
    fn listed(
        &self,
        (anchor, most): (usize, usize),
        before: &Side,
        positive: Option<u32>,
    ) -> Vec<u32> {
        let [mut positives, mut negatives] = self.sides(anchor);
        before.seen.sort(&mut positives, -1.0);
        before.seen.sort(&mut negatives, 1.0);
        let first = |places: &mut Vec<u32>, place: Option<u32>| {
            let at = places.iter().position(|other| Some(*other) == place);
            if let Some(at) = at {
                places[..=at].rotate_right(1);
            }
        };
        first(&mut positives, positive);
        first(&mut negatives, self.heaviest_negative(anchor, before));
        let half = most.div_ceil(2);
        before.seen.thin(
            &mut positives,
            half.max(most.saturating_sub(negatives.len())),
        );
        before
            .seen
            .thin(&mut negatives, most.saturating_sub(positives.len()));
        [positives, negatives].concat()
    }
}

impl Seen {
    /// Leaves `most` of these places: the first eighth as they are, and of the others as many of every value as there are.
    fn thin(&self, places: &mut Vec<u32>, most: usize) {
        if places.len() <= most {
            return;
        }
        let mut others = places.split_off(most.div_ceil(8));
        order::sort_by(&mut others, |a, b| {
            let value = |place: &u32| self.values[*place as usize];
            value(b).total_cmp(&value(a)).then(a.cmp(b))
        });
        let (left, all) = (most - places.len(), others.len());
        places.extend((0..left).map(|at| others[at * all / left]));
    }

    /// Sorts places by slope, the steepest first, then kept ones, then the nearest (`sign` 1) or the farthest (-1).
    fn sort(&self, places: &mut Vec<u32>, sign: f32) {
        order::sort_by(places, |a, b| {
            let key = |place: &u32| {
                let at = *place as usize;
                let is_kept = if self.kept[at] > 0 { 1.0 } else { 0.0 };
                [self.slopes[at].abs(), is_kept, sign * self.values[at]]
            };
            let (a_key, b_key) = (key(a), key(b));
            let pairs = a_key.iter().zip(&b_key);
            let by_key = pairs.fold(std::cmp::Ordering::Equal, |all, (a, b)| {
                all.then(b.total_cmp(a))
            });
            by_key.then(a.cmp(b))
        });
    }
}
