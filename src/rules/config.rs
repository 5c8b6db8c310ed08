//! [`TrainConfig`]: the settings of a run; the same JSON in a file, after `--set`, in the page's link and in the report.
//!
//! Names are PML's argument names. Unknown keys are refused by name, values out of range with the range.

mod choices;
mod layers;
mod matryoshka;
mod ranges;
mod said;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use choices::InitialWeights;
pub use choices::{Split, Standardize};
pub(crate) use layers::Layers;
pub(crate) use matryoshka::{Level, Matryoshka};

use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::{cut, quoted};
use crate::cpu::{Distance, Precision};
use crate::rules::early_stop::EarlyStop;
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;
use crate::rules::mining_rule::MiningRule;
use crate::rules::optimizers::Optimizer;
use crate::rules::samplers::Sampler;
use crate::rules::schedules::Schedule;

/// The version of the schema.
const SCHEMA: u32 = 1;
/// The most rows of a batch to which a miner gives weights: each is compared with all others in one loop.
const MOST_WEIGHED: usize = 8192;
/// The short form of a sampler with `m`, which is read and never written.
const M_PER_CLASS: &str = "m_per_class";
/// Key of the distance by which rows are compared: margins that are not given follow it.
const DISTANCE: &str = "distance";
const MINER_DISTANCE: &str = "miner_distance";
/// Keys of lists of columns: commas separate the columns if the value is no JSON.
const COLUMNS: [&str; 2] = ["features", "ignore"];
/// Key of the column of groups: the split follows it.
const GROUP: &str = "group";
/// Key of the part that keeps the best step: a patience alone turns it on.
const EARLY_STOP: &str = "early_stop";
/// Keys that other settings follow; these are set first, wherever they are given.
const LEADING: [&str; 3] = [DISTANCE, MINER_DISTANCE, GROUP];
/// The most settings of a list that are refused with reasons of their own: each is tried together with all others.
const REFUSED: usize = 100;
/// Keys of the settings that decide which rows train.
const SPLITTING: [&str; 5] = [
    "data_seed",
    GROUP,
    "split",
    "test_fraction",
    "validation_fraction",
];

/// The key of an assignment.
fn key(set: &str) -> &str {
    set.split('=').next().unwrap_or_default()
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The version of these keys: 1.
    pub schema: u32,
    /// Seeds every random choice: the sample, the split, the weights, the batches, the queries.
    pub seed: u64,
    /// Seed of the sample, the split and the choice of scored rows; `seed` if `null`. With it, runs of several seeds answer the
    /// same queries.
    pub data_seed: Option<u64>,
    /// Split of the rows into training, validation and test rows.
    pub split: Split,
    /// The columns of a table that are features: names, patterns (`x_*`) and stretches (`width..mass`); if none is named, all that
    /// can be.
    pub features: Vec<String>,
    /// Columns that are no features: names, patterns and stretches, as in `features`.
    pub ignore: Vec<String>,
    /// The column that groups rows that belong together: of one donor, subject, camera or document. Scores then leave the rows of a
    /// row's own group out of its neighbours. `null` for none.
    pub group: Option<String>,
    /// Fraction of the data that is scored once, at the end, between 0 and 1.
    pub test_fraction: f64,
    /// Fraction of the rest that is scored while training, between 0 and 1.
    pub validation_fraction: f64,
    /// Scaling of features to mean 0 and standard deviation 1 before anything else reads them.
    pub standardize: Standardize,
    /// Precision in which the run holds its scaled features: `f16` halves their bytes. Training, and scores of raw rows, read what was
    /// stored.
    pub feature_precision: Precision,
    /// Precision in which a training step keeps the activations of the hidden layers: `f16` halves their bytes. The next layer and the
    /// backward pass read what was stored. Scores, and the trained head, take none that are rounded.
    pub activation_precision: Precision,
    /// Widths of the hidden layers, none to six; none is a linear head.
    pub hidden_layers: Vec<usize>,
    /// The parts of the hidden layers.
    pub layers: Layers,
    /// The chance of an output of a hidden layer to be dropped in a step, as `torch.nn.Dropout` does after each activation; below 1.
    pub dropout: f64,
    /// Dimensions of an embedding, at least 2.
    pub embedding_size: usize,
    /// The weights before the first step.
    pub initial_weights: InitialWeights,
    /// Rows of a batch, at least 2; or 1 with a memory, or with proxies, to compare it with. Where classes are many and small, larger ones
    /// are better: of 650 classes 32 rows reach precision@1 0.41 without a memory, 128 reach 0.75, 512 reach 0.97 (`docs/measured.md`).
    pub batch_size: usize,
    /// Sampler of the rows of a batch; `m_per_class=4` is short for `m-per-class` with `m` 4, or for `m-per-class-epoch` if that is
    /// chosen already.
    pub sampler: Sampler,
    /// Rows of the cross-batch memory (PML's `CrossBatchMemory`), 0 for none, else at least a batch: `docs/measured.md` has figures.
    pub memory_size: usize,
    /// The first step that uses the memory; until then nothing is stored and the loss sees the batch alone.
    pub memory_start_step: u64,
    /// Precision in which the memory holds its rows: `f16` halves its bytes. What is computed from them is `f32` in any case.
    pub memory_precision: Precision,
    /// Subtracts the mean gradient of a batch, with respect to the unit embeddings, from that of each row while a memory is in use.
    /// The mean moves all embeddings the same way, away from the stored ones, and separates no classes.
    pub center_gradient: bool,
    /// Distance by which rows are compared: margins are differences of it.
    pub distance: Distance,
    /// Distance by which a miner that keeps pairs compares rows; `distance` if `null`.
    pub miner_distance: Option<Distance>,
    /// Miner of the triplets or pairs that the loss reads.
    pub miner: Miner,
    /// Weighs each row, in a loss that looks at all rows (NCA and those with proxies), by the number of times that the miner keeps
    /// it, over the largest such number in the batch. PML's losses do that whenever they are given a miner.
    pub miner_weights: bool,
    /// The loss that is minimized.
    pub loss: Loss,
    /// Sizes to which embeddings are truncated, each with a loss of its own.
    pub matryoshka: Matryoshka,
    /// The rule by which the weights follow the gradient.
    pub optimizer: Optimizer,
    /// Learning rates along the steps.
    pub schedule: Schedule,
    /// The longest gradient of all learned parameters together, as `torch.nn.utils.clip_grad_norm_` shortens it; 0 leaves every
    /// gradient as it is.
    pub clip_grad_norm: f64,
    /// Steps of the run.
    pub steps: u64,
    /// Best step by a score of the validation rows, and the validations without a better one that end the run.
    pub early_stop: EarlyStop,
    /// Steps from one evaluation to the next.
    pub evaluate_every: u64,
    /// Validation rows that the evaluations while training score, and as many training rows, drawn by seed; whole classes if the
    /// split holds classes out. 0 is all.
    pub evaluate_rows: usize,
    /// Number of those rows that are queries, drawn by seed, each against all of those rows; 0 is all.
    pub evaluate_queries: usize,
    /// Number of test rows that are queries at the end, drawn by seed, each against all other test rows; 0 is all.
    pub test_queries: usize,
    /// Limit of the run's device memory, in bytes.
    pub budget_bytes: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            seed: 0,
            data_seed: None,
            split: Split::Random,
            features: Vec::new(),
            ignore: Vec::new(),
            group: None,
            test_fraction: 0.2,
            validation_fraction: 0.2,
            standardize: Standardize::Auto,
            feature_precision: Precision::F32,
            activation_precision: Precision::F32,
            hidden_layers: vec![256],
            layers: Layers::default(),
            dropout: 0.0,
            embedding_size: 64,
            initial_weights: InitialWeights::Random,
            batch_size: 32,
            sampler: Sampler::default(),
            memory_size: 1024,
            memory_start_step: 0,
            memory_precision: Precision::F32,
            center_gradient: false,
            distance: Distance::Cosine,
            miner_distance: None,
            miner: Miner::default(),
            miner_weights: false,
            loss: Loss::default(),
            matryoshka: Matryoshka::default(),
            optimizer: Optimizer::default(),
            schedule: Schedule::default(),
            clip_grad_norm: 0.0,
            steps: 400,
            early_stop: EarlyStop::default(),
            evaluate_every: 20,
            evaluate_rows: 10_000,
            evaluate_queries: 2000,
            test_queries: 10_000,
            budget_bytes: 256 << 20,
        }
    }
}

impl TrainConfig {
    /// Seed of the sample, the split and the choice of scored rows.
    pub fn data_seed(&self) -> u64 {
        self.data_seed.unwrap_or(self.seed)
    }

    /// The columns that settings name, to split by, to keep together or to draw by.
    pub fn columns(&self) -> Vec<String> {
        let split = match &self.split {
            Split::Column(name) => Some(name),
            _ => None,
        };
        let outer = match &self.sampler {
            Sampler::Hierarchical(sampler) => Some(&sampler.outer_label),
            _ => None,
        };
        let all = split.into_iter().chain(&self.group).chain(outer);
        all.cloned().collect()
    }

    /// The settings that decide which rows train, as `key=value`, if they differ from the defaults: the sizes of a batch and a
    /// memory follow them.
    pub fn splitting(&self) -> Vec<String> {
        let own = self.differences(&Self::default()).into_iter();
        // The number of rows in whole groups differs from draw to draw.
        let is_one =
            |key: &str| SPLITTING.contains(&key) || (key == "seed" && self.group.is_some());
        let own = own.filter(|(key, _)| is_one(key));
        own.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Distance by which the miner compares rows.
    pub(crate) fn chosen_by(&self) -> Distance {
        self.miner_distance.unwrap_or(self.distance)
    }

    /// Tells if the miner can weigh the rows of a batch for this loss.
    fn takes_row_weights(&self) -> bool {
        self.miner != Miner::None && !self.loss.is_mined() && self.batch_size <= MOST_WEIGHED
    }

    /// The rule of miner and loss for the kernels.
    pub(crate) fn rule(&self) -> MiningRule {
        let (miner, loss, chosen_by) = (&self.miner, &self.loss, self.chosen_by());
        let rule = MiningRule::new(miner, chosen_by, Some(loss), self.distance);
        match loss.boundary_lr() {
            _ if self.miner_weights => {
                rule.weighing_rows(miner, chosen_by, loss, self.memory() > 0)
            }
            Some(_) => rule.learning_boundary(),
            None => rule,
        }
    }

    /// Rows of the memory that the loss compares with: none if it learns proxies in its place.
    pub fn memory(&self) -> usize {
        match self.loss.proxies() {
            Some(_) => 0,
            None => self.memory_size,
        }
    }

    /// These settings with those of a JSON object over them.
    ///
    /// # Errors
    /// [`Error::Config`] for JSON that is no object, an unknown key, or a value of the wrong type, with the name of the key.
    pub fn with_json(&self, json: &str) -> Result<Self> {
        let over: Value = serde_json::from_str(json)
            .map_err(|error| Error::Config(format!("settings are not JSON: {error}")))?;
        let Value::Object(mut over) = over else {
            return Err(Error::Config("settings must be a JSON object".to_owned()));
        };
        let m_per_class = over.remove(M_PER_CLASS);
        let named = over.contains_key("sampler");
        let mut value = self.to_value();
        // Margins that are not given follow the distance, and the split the group, whatever comes first.
        for key in LEADING {
            if let Some(distance) = over.remove(key) {
                value[key] = distance;
            }
        }
        let config = Self::from_value(value)?.following(self);
        let mut value = config.to_value();
        for (key, part) in over {
            // A part that names another miner or loss starts from that one's defaults.
            match (&mut value[&key], part) {
                (Value::Object(old), Value::Object(new)) => {
                    let name = new
                        .get("name")
                        .filter(|name| Some(*name) != old.get("name"));
                    if let Some(Value::String(name)) = name {
                        *old = config.named_part(&key, name);
                    }
                    if key == EARLY_STOP && new.contains_key("patience") {
                        turn_on(old);
                    }
                    old.extend(new);
                }
                (Value::Object(old), Value::String(name)) => *old = config.named_part(&key, &name),
                (old, new) => *old = new,
            }
        }
        let config = Self::from_value(value)?;
        match m_per_class {
            None => Ok(config),
            Some(m) => {
                let with_m = config.with_m_per_class(&m)?;
                if named && with_m.sampler.name() != config.sampler.name() {
                    return Err(Error::Config(format!(
                        "{M_PER_CLASS} is {m}, and sampler.name is `{}`: leave one of them out",
                        config.sampler.name()
                    )));
                }
                Ok(with_m)
            }
        }
    }

    /// These settings with one changed; a dot leads into a part: `miner.margin=0.1`. A value is JSON, or else plain text; for a
    /// part with a name, the name alone is enough: `sampler=class-balanced`.
    ///
    /// # Errors
    /// As [`TrainConfig::with_json`].
    pub fn with_set(&self, assignment: &str) -> Result<Self> {
        let (path, text) = assignment.split_once('=').ok_or_else(|| {
            Error::Config(format!(
                "{} sets nothing: write key=value",
                quoted(assignment)
            ))
        })?;
        let mut new: Value =
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        // 1e3 is a whole number.
        if let Some(number) = new.as_f64().filter(|_| new.is_f64())
            && number.fract() == 0.0
            && (0.0..u64::MAX as f64).contains(&number)
        {
            new = (number as u64).into();
        }
        // A column may be called 2024.
        if path == "sampler.outer_label" || (path == GROUP && text != "null") {
            new = text.into();
        }
        if COLUMNS.contains(&path) && !new.is_array() {
            new = text.split(',').collect();
        }
        if path == M_PER_CLASS {
            return self.with_m_per_class(&new);
        }
        let mut value = self.to_value();
        if let (Some("patience"), Value::Object(part)) =
            (path.strip_prefix("early_stop."), &mut value[EARLY_STOP])
        {
            turn_on(part);
        }
        let mut place = &mut value;
        for key in path.split('.') {
            place = match place {
                Value::Object(parts) => parts.entry(key).or_insert(Value::Null),
                _ => {
                    let path = cut(path);
                    return Err(Error::Config(format!("there is no setting `{path}`")));
                }
            };
        }
        *place = match (&*place, new) {
            (Value::Object(_), Value::String(name)) => Value::Object(self.named_part(path, &name)),
            (_, new) => new,
        };
        if path.ends_with(".name")
            && let Some((part, _)) = path.rsplit_once('.')
            && let Value::String(name) = value[part]["name"].clone()
        {
            value[part] = Value::Object(self.named_part(part, &name));
        }
        Ok(Self::from_value(value)?.following(self))
    }

    /// These settings after a change from `before`: margins at the default of the distance of `before` go to that of the distance
    /// now, and if the group is new, rows that were to be split one by one stay with their group.
    fn following(mut self, before: &Self) -> Self {
        match (&self.split, self.group.is_some()) {
            _ if self.group == before.group => {}
            (Split::Random | Split::Stratified, true) => self.split = Split::ByGroup,
            (Split::ByGroup, false) => self.split = Split::Random,
            _ => {}
        }
        self.loss = self.loss.following(before.distance, self.distance);
        let chosen_by = self.chosen_by();
        self.miner = self.miner.following(before.chosen_by(), chosen_by);
        self
    }

    /// A part of which only the name is given: its other settings have their defaults, with this distance.
    fn named_part(&self, part: &str, name: &str) -> Map<String, Value> {
        let named = serde_json::json!({ "name": name });
        let text = named.to_string();
        let whole = match part {
            EARLY_STOP => Some(serde_json::json!({ "metric": name }).to_string()),
            "loss" => serde_json::from_str(&text).ok().and_then(|loss: Loss| {
                let loss = loss.following(Distance::default(), self.distance);
                serde_json::to_string(&loss).ok()
            }),
            "miner" => serde_json::from_str(&text).ok().and_then(|miner: Miner| {
                let miner = miner.following(Distance::default(), self.chosen_by());
                serde_json::to_string(&miner).ok()
            }),
            _ => None,
        };
        // An unknown name is refused when the settings are read.
        match serde_json::from_str(&whole.unwrap_or(text)) {
            Ok(Value::Object(part)) => part,
            _ => Map::new(),
        }
    }

    /// These settings with all of `sets`, one after the other, as in [`TrainConfig::with_set`]; but margins that are not given
    /// follow the distance, and the split the group, wherever these are in the list.
    ///
    /// # Errors
    /// That of the first assignment that does not hold.
    pub fn with_all<'a>(&self, sets: impl Iterator<Item = &'a String>) -> Result<Self> {
        let (first, others): (Vec<_>, Vec<_>) = sets.partition(|set| LEADING.contains(&key(set)));
        let mut all = first.into_iter().chain(others);
        all.try_fold(self.clone(), |config, set| config.with_set(set))
    }

    /// These settings with all of `assignments` that hold, together and each in its range; and why the others do not.
    ///
    /// Their order does not matter: distances go before margins, names go before their parts, and an assignment that only holds
    /// beside another one waits for it.
    pub fn with_sets(&self, assignments: &[String]) -> (Self, Vec<Error>) {
        let mut config = self.clone();
        let mut left: Vec<&String> = assignments.iter().collect();
        let known = self.to_value();
        order::sort_by_key(&mut left, |set| match key(set) {
            key if LEADING.contains(&key) => 0,
            key if key.ends_with(".name") => 1,
            key if key == M_PER_CLASS => 2,
            // Known settings come before unknown ones, however many those are.
            key => match known.get(key.split('.').next().unwrap_or_default()) {
                Some(_) => 2,
                None => 3,
            },
        });
        loop {
            let (mut waiting, mut problems) = (Vec::new(), Vec::new());
            for set in &left {
                if problems.len() >= REFUSED {
                    waiting.push(*set);
                    let set = quoted(set);
                    let text = format!("{set} comes after too much that does not hold");
                    problems.push(Error::Config(text));
                    continue;
                }
                let changed = config.with_set(set);
                match changed.and_then(|config| config.check().map(|()| config)) {
                    Ok(changed) => config = changed,
                    Err(error) => {
                        waiting.push(*set);
                        problems.push(error);
                    }
                }
            }
            if waiting.len() == left.len() || waiting.is_empty() {
                return (config, problems);
            }
            left = waiting;
        }
    }

    /// Every setting, as `key` and `value` for [`TrainConfig::with_set`].
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        flatten("", &self.to_value(), &mut settings);
        // Set once more it would turn on what is off.
        settings.retain(|(key, _)| self.early_stop.is_on() || key != "early_stop.patience");
        settings
    }

    /// The settings that differ from `other`, as `key` and `value` for [`TrainConfig::with_set`], names before parts.
    pub fn differences(&self, other: &Self) -> Vec<(String, String)> {
        let (mut own, others) = (self.settings(), other.settings());
        // A split that does not follow from the group is said beside it.
        let kept = |key: &str| key == "split" && self.group != other.group;
        own.retain(|setting| !others.contains(setting) || kept(&setting.0));
        order::sort_by_key(&mut own, |(key, _)| !key.ends_with(".name"));
        own
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// [`Error::Config`] for the first that is out of it, with the range.
    pub fn check(&self) -> Result<()> {
        let rules = self
            .of_the_data()
            .into_iter()
            .chain(self.of_the_head())
            .chain(self.of_a_batch())
            .chain(self.of_the_steps());
        if let Some((_, key, value, range)) = { rules }.find(|(holds, ..)| !holds) {
            return Err(Error::Config(format!(
                "{key} is {}: it must be {range}",
                cut(&value)
            )));
        }
        self.sampler.check(self.batch_size)?;
        self.miner.check()?;
        self.check_miner_distance()?;
        self.optimizer.check()?;
        self.schedule.check(self.steps)?;
        self.loss.check()?;
        self.loss.check_takes(&self.miner, self.distance)
    }

    /// Only miners that choose pairs, by values that they keep none of, may go by another distance than the loss.
    fn check_miner_distance(&self) -> Result<()> {
        match self.miner_distance {
            Some(distance) if distance != self.distance && !self.miner.gives_pairs() => {
                Err(Error::Config(
                    "miner_distance differs from distance, which only miners that keep pairs allow: leave miner_distance out, or \
                     use batch-hard, batch-easy-hard, multi-similarity or pair-margin"
                        .to_owned(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// These settings with the sampler that `m_per_class` is short for.
    fn with_m_per_class(&self, m: &Value) -> Result<Self> {
        let number = m.as_u64().and_then(|m| usize::try_from(m).ok());
        let m = number.ok_or_else(|| Error::Config(said::whole_number(M_PER_CLASS, m)))?;
        let sampler = self.sampler.with_m_per_class(m);
        Ok(Self {
            sampler,
            ..self.clone()
        })
    }

    /// Precision of the rows of the memory; of a batch alone nothing is halved, as it learns.
    pub(crate) fn precision_of_memory(&self) -> Precision {
        match self.memory() {
            0 => Precision::F32,
            _ => self.memory_precision,
        }
    }

    /// Precision of the hidden activations; a linear head has none.
    pub(crate) fn precision_of_activations(&self) -> Precision {
        match self.hidden_layers[..] {
            [] => Precision::F32,
            _ => self.activation_precision,
        }
    }

    /// The settings as JSON that can be looked into.
    pub fn to_value(&self) -> Value {
        // By way of text, here and below: it is read and written elsewhere, and each other way is code for all settings once more.
        let text = serde_json::to_string(self).expect("settings are plain data");
        serde_json::from_str(&text).expect("it was just written")
    }

    fn from_value(value: Value) -> Result<Self> {
        said::read(&value).map_err(|error| Error::Config(said::problem(&value).unwrap_or(error)))
    }
}

/// Removes the metric from an early stop that is off: its patience alone then asks for the usual one.
fn turn_on(early_stop: &mut Map<String, Value>) {
    if early_stop
        .get("metric")
        .is_some_and(|metric| metric == "none")
    {
        early_stop.remove("metric");
    }
}

/// Lists the leaves of a value by their paths.
fn flatten(path: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(parts) => {
            for (key, part) in parts {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                flatten(&path, part, leaves);
            }
        }
        Value::String(text) => leaves.push((path.to_owned(), text.clone())),
        leaf => leaves.push((path.to_owned(), said::text_of(leaf))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::miners::{TripletMarginMiner, TypeOfTriplets};
    use crate::rules::samplers::{MPerClassEpochSampler, MPerClassSampler};

    #[test]
    fn settings_survive_json() {
        let config = TrainConfig {
            split: Split::Column("fold".to_owned()),
            miner: Miner::None,
            ..TrainConfig::default()
        };
        let json = serde_json::to_string(&config).expect("plain data");
        assert_eq!(
            TrainConfig::default().with_json(&json).expect("reads"),
            config
        );
    }

    #[test]
    fn one_setting_can_be_set_by_its_path() {
        let set = |assignment: &str| TrainConfig::default().with_set(assignment);
        assert_eq!(
            set("hidden_layers=[64,32]").expect("sets").hidden_layers,
            [64, 32]
        );
        assert_eq!(set("split=by-class").expect("sets").split, Split::ByClass);
        assert_eq!(set("miner.name=none").expect("sets").miner, Miner::None);
        let miner = TripletMarginMiner {
            margin: 0.1,
            ..TripletMarginMiner::default()
        };
        assert_eq!(
            set("miner.margin=0.1").expect("sets").miner,
            Miner::TripletMargin(miner)
        );
        let hard = TripletMarginMiner {
            type_of_triplets: TypeOfTriplets::Hard,
            ..TripletMarginMiner::default()
        };
        assert_eq!(
            set("miner.type_of_triplets=hard").expect("sets").miner,
            Miner::TripletMargin(hard)
        );
    }

    #[test]
    fn margins_that_are_not_given_follow_the_distance_whatever_comes_first() {
        let set = |sets: &[&str]| {
            let set = |config: TrainConfig, set: &&str| config.with_set(set).expect("sets");
            sets.iter().fold(TrainConfig::default(), set)
        };
        let margins = |config: &TrainConfig| {
            let all = config.to_value();
            let of = |key: &str| all["loss"][key].as_f64();
            (of("pos_margin"), of("neg_margin"), of("margin"), of("beta"))
        };
        for (loss, cosine, l2) in [
            (
                "contrastive",
                (Some(1.0), Some(0.0), None, None),
                (Some(0.0), Some(1.0), None, None),
            ),
            (
                "lifted-structure",
                (Some(1.0), Some(0.0), None, None),
                (Some(0.0), Some(1.0), None, None),
            ),
            (
                "generalized-lifted-structure",
                (Some(1.0), Some(0.0), None, None),
                (Some(0.0), Some(1.0), None, None),
            ),
            (
                "margin",
                (None, None, Some(0.2), Some(0.5)),
                (None, None, Some(0.2), Some(1.2)),
            ),
            (
                "triplet-margin",
                (None, None, Some(0.2), None),
                (None, None, Some(0.05), None),
            ),
        ] {
            let name = format!("loss.name={loss}");
            let json = format!("{{\"loss\": \"{loss}\", \"distance\": \"l2\"}}");
            let later = format!("{{\"distance\": \"l2\", \"loss\": {{\"name\": \"{loss}\"}}}}");
            assert_eq!(margins(&set(&[&name])), cosine, "{loss}");
            for config in [
                set(&[&name, "distance=l2"]),
                set(&["distance=l2", &name]),
                TrainConfig::default().with_json(&json).expect("reads"),
                TrainConfig::default().with_json(&later).expect("reads"),
            ] {
                assert_eq!(margins(&config), l2, "{loss}");
                // Written out and read again they are given.
                let text = config.to_value().to_string();
                assert_eq!(
                    TrainConfig::default().with_json(&text).expect("reads"),
                    config
                );
                let back = config.with_set("distance=cosine").expect("sets");
                assert_eq!(margins(&back), cosine, "{loss}");
            }
        }
        // Given margins stay, the default of the other distance too.
        let given = [
            "distance=l2",
            "loss.name=contrastive",
            "loss.pos_margin=1",
            "loss.neg_margin=0.4",
        ];
        assert_eq!(margins(&set(&given)), (Some(1.0), Some(0.4), None, None));
        let json =
            "{\"loss\": {\"name\": \"contrastive\", \"pos_margin\": 1}, \"distance\": \"l2\"}";
        let config = TrainConfig::default().with_json(json).expect("reads");
        assert_eq!(margins(&config), (Some(1.0), Some(1.0), None, None));
        let (config, problems) = TrainConfig::default().with_sets(&given.map(str::to_owned));
        assert_eq!(
            (margins(&config), problems.len()),
            ((Some(1.0), Some(0.4), None, None), 0)
        );
        // A miner of pairs follows its own distance.
        let of_miner = |sets: &[&str]| set(sets).to_value()["miner"]["pos_margin"].as_f64();
        assert_eq!(of_miner(&["miner.name=pair-margin"]), Some(0.8));
        assert_eq!(
            of_miner(&["miner.name=pair-margin", "distance=l2"]),
            Some(0.2)
        );
        assert_eq!(
            of_miner(&["miner.name=pair-margin", "miner_distance=l2"]),
            Some(0.2)
        );
        assert_eq!(
            of_miner(&[
                "distance=l2",
                "miner_distance=cosine",
                "miner.name=pair-margin"
            ]),
            Some(0.8)
        );
    }

    #[test]
    fn m_per_class_is_short_for_a_sampler_with_m() {
        let m_per_class = |m| Sampler::MPerClass(MPerClassSampler { m });
        let epoch = |m| Sampler::MPerClassEpoch(MPerClassEpochSampler { m });
        let sampler = |sets: &[&str]| {
            let set = |config: TrainConfig, set: &&str| config.with_set(set).expect("sets");
            sets.iter().fold(TrainConfig::default(), set).sampler
        };
        for (sets, expected) in [
            (&["m_per_class=8"][..], m_per_class(8)),
            (&["m_per_class=8", "m_per_class=0"], Sampler::default()),
            (&["sampler=m-per-class"], m_per_class(4)),
            (&["sampler=m-per-class", "sampler.m=2"], m_per_class(2)),
            (
                &["sampler.name=m-per-class-epoch", "m_per_class=8"],
                epoch(8),
            ),
            (
                &["sampler={\"name\":\"m-per-class-epoch\",\"m\":2}"],
                epoch(2),
            ),
        ] {
            assert_eq!(sampler(sets), expected, "{sets:?}");
        }
        let json = |json: &str| {
            let config = TrainConfig::default().with_json(json);
            config
                .map(|config| config.sampler)
                .map_err(|error| error.to_string())
        };
        assert_eq!(json("{\"m_per_class\": 4}"), Ok(m_per_class(4)));
        assert_eq!(json("{\"m_per_class\": 0}"), Ok(Sampler::default()));
        let both = "{\"sampler\": \"m-per-class-epoch\", \"m_per_class\": 8}";
        assert_eq!(json(both), Ok(epoch(8)));
        assert_eq!(
            json("{\"sampler\": \"class-balanced\", \"m_per_class\": 8}"),
            Err(
                "m_per_class is 8, and sampler.name is `class-balanced`: leave one of them out"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_column_of_super_classes_may_have_any_name() {
        for name in ["genus", "2024", "true", ""] {
            let config = TrainConfig::default().with_set("sampler=hierarchical");
            let config = config.and_then(|c| c.with_set(&format!("sampler.outer_label={name}")));
            let Sampler::Hierarchical(sampler) = config.expect("sets").sampler else {
                panic!("another sampler");
            };
            assert_eq!(sampler.outer_label, name);
        }
    }

    #[test]
    fn differences_set_one_by_one_give_the_settings_back() {
        let from = TrainConfig::default();
        assert_eq!(from.differences(&from), []);
        let sets = [
            "hidden_layers=[8,4]",
            "miner.type_of_triplets=hard",
            "optimizer.lr=0.5",
            "split=column:a b",
        ];
        for sets in [
            &sets[..],
            &["miner.name=none", "seed=18446744073709551615"],
            &["sampler=m-per-class-epoch", "sampler.m=8"],
        ] {
            let config = sets.iter().fold(from.clone(), |config, set| {
                config.with_set(set).expect("sets")
            });
            let differences = config.differences(&from);
            assert_eq!(differences.len(), sets.len());
            let again = differences
                .iter()
                .fold(from.clone(), |config, (key, value)| {
                    config.with_set(&format!("{key}={value}")).expect("sets")
                });
            assert_eq!(again, config);
        }
    }

    #[test]
    fn assignments_that_do_not_hold_are_left_out_and_the_others_stay() {
        let sets = [
            "memory_size=16",
            "batch_size=16",
            "miner.margin=0.1",
            "miner.name=triplet-margin",
            "m_per_class=5",
            "stepss=3",
            "steps=0",
            "seed=4",
        ]
        .map(str::to_owned);
        let (config, problems) = TrainConfig::default().with_sets(&sets);
        let expected = [
            "batch_size=16",
            "memory_size=16",
            "miner.margin=0.1",
            "seed=4",
        ];
        let expected = expected.iter().fold(TrainConfig::default(), |config, set| {
            config.with_set(set).expect("sets")
        });
        assert_eq!(config, expected);
        let problems: Vec<String> = problems.iter().map(Error::to_string).collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
        for said in [
            "sampler.m is 5",
            "there is no setting `stepss`",
            "steps is 0",
        ] {
            let is_said = problems.iter().any(|problem| problem.starts_with(said));
            assert!(is_said, "{said}: {problems:?}");
        }
    }

    #[test]
    fn a_list_of_sixty_thousand_settings_is_refused_in_few_words_and_what_holds_of_it_holds() {
        let mut sets: Vec<String> = (0..60_000).map(|i| format!("colour{i}={i}")).collect();
        sets.push("steps=33".to_owned());
        sets.push(format!("hidden_layers=[{}1]", "1,".repeat(2000)));
        let (config, problems) = TrainConfig::default().with_sets(&sets);
        assert_eq!((config.steps, problems.len()), (33, 60_001));
        let said = problems.iter().map(Error::to_string);
        // Each of the first names all settings that there are; a value is cut as a name is.
        assert!(said.clone().all(|said| said.len() < 2000), "{problems:.5?}");
        assert!(said.map(|said| said.len()).sum::<usize>() < 6_000_000);
    }

    #[test]
    fn unknown_keys_and_values_are_refused_by_name() {
        let refused = |assignment: &str| {
            TrainConfig::default()
                .with_set(assignment)
                .expect_err("refused")
                .to_string()
        };
        for (assignment, part) in [
            (
                "batchsize=3",
                "there is no setting `batchsize`: there are `activation_precision`, `batch_size`, ",
            ),
            (
                "miner.marginn=3",
                "there is no setting `miner.marginn`: there are `miner.margin`, ",
            ),
            (
                "miner.name=batch-soft",
                "miner.name is \"batch-soft\": it must be one of `none`, `triplet-margin`, ",
            ),
            (
                "miner.type_of_triplets=soft",
                "miner.type_of_triplets is \"soft\": it must be one of `all`, `easy`, `semihard`, `hard`",
            ),
            (
                "miner.margin=wide",
                "miner.margin is \"wide\": it must be a number",
            ),
            (
                "miner=5",
                "miner is 5: it must be a group of settings, such as {\"name\": \"triplet-margin\"}",
            ),
            (
                "sampler=random",
                "sampler.name is \"random\": it must be one of `shuffled`, `m-per-class`, ",
            ),
            (
                "sampler.m=4",
                "there is no setting `sampler.m`: there are `sampler.name`",
            ),
            (
                "m_per_class=few",
                "m_per_class is \"few\": it must be a whole number, 0 or more",
            ),
            (
                "distance=l1",
                "distance is \"l1\": it must be `cosine` or `l2`",
            ),
            ("distance=2", "distance is 2: it must be `cosine` or `l2`"),
            (
                "split=none",
                "split is \"none\": it must be `random`, `stratified`, `by-class`, `by-class-shuffled`, `by-group` or `column:NAME`",
            ),
            (
                "seed=-1",
                "seed is -1: it must be a whole number, 0 or more",
            ),
            (
                "data_seed=one",
                "data_seed is \"one\": it must be a whole number, 0 or more, or null",
            ),
            ("seed=1e30", "seed is 1e+30: that is too large"),
            (
                "steps=many",
                "steps is \"many\": it must be a whole number, 0 or more",
            ),
            (
                "batch_size=1.5",
                "batch_size is 1.5: it must be a whole number, 0 or more",
            ),
            (
                "hidden_layers=[abc]",
                "hidden_layers is \"[abc]\": it must be a list of whole numbers, such as [256, 64]",
            ),
            (
                "hidden_layers=[0.5]",
                "hidden_layers is [0.5]: it must be a list of whole numbers, such as [256, 64]",
            ),
            (
                "loss.swap=maybe",
                "loss.swap is \"maybe\": it must be true or false",
            ),
            (
                "standardize=maybe",
                "standardize is \"maybe\": it must be false, true or auto",
            ),
            (
                "optimizer.lr=NaN",
                "optimizer.lr is \"NaN\": it must be a number",
            ),
            (
                "optimizer.betas=0.9",
                "optimizer.betas is 0.9: it must be two numbers, such as [0.9,0.999]",
            ),
            (
                "optimizer.momentum=0.9",
                "there is no setting `optimizer.momentum`: there are `optimizer.betas`, ",
            ),
            (
                "optimizer=lion",
                "optimizer.name is \"lion\": it must be one of `adam`, `adamw`, `sgd`",
            ),
            (
                "schedule=cosine",
                "schedule.name is \"cosine\": it must be one of `constant`, `cosine-annealing`, `one-cycle`, `linear`, `step`",
            ),
            ("seed.x=1", "no setting `seed.x`"),
            ("steps", "write key=value"),
        ] {
            let message = refused(assignment);
            assert!(message.contains(part), "{message}");
        }
        let error = TrainConfig::default()
            .with_json("{\"lr\": 1}")
            .expect_err("refused");
        assert!(error.to_string().contains("no setting `lr`"), "{error}");
        let error = TrainConfig::default()
            .with_json("{\"seed\": 1, \"batch_size\": \"abc\"}")
            .expect_err("refused");
        assert_eq!(
            error.to_string(),
            "batch_size is \"abc\": it must be a whole number, 0 or more"
        );
        assert!(TrainConfig::default().with_json("[]").is_err());
        assert!(TrainConfig::default().with_json("{").is_err());
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        for (assignment, message) in [
            ("schema=2", "schema is 2: it must be 1"),
            (
                "batch_size=0",
                "batch_size is 0: it must be between 2 and 32768, or 1 with a memory",
            ),
            (
                "memory_size=8",
                "memory_size is 8: it must be 0, or at least batch_size and at most 16777216",
            ),
            (
                "m_per_class=5",
                "sampler.m is 5: it must be at least 2 and a divisor of batch_size, 32",
            ),
            (
                "test_fraction=1.5",
                "test_fraction is 1.5: it must be between 0 and 1",
            ),
            (
                "hidden_layers=[1,2,3,4,5,6,7]",
                "hidden_layers is [1, 2, 3, 4, 5, 6, 7]: it must be at most six widths",
            ),
            ("dropout=1", "dropout is 1: it must be between 0 and 0.95"),
            (
                "embedding_size=1",
                "embedding_size is 1: it must be between 2 and 65536",
            ),
            (
                "optimizer.lr=0",
                "optimizer.lr is 0: it must be above 0 and at most 10",
            ),
            ("steps=0", "steps is 0: it must be between 1 and 10000000"),
            (
                "steps=1e12",
                "steps is 1000000000000: it must be between 1 and 10000000",
            ),
            (
                "loss.margin=9",
                "loss.margin is 9: it must be between -4 and 4",
            ),
        ] {
            let config = TrainConfig::default()
                .with_set(assignment)
                .expect("has the type");
            assert_eq!(config.check().expect_err("refused").to_string(), message);
        }
        for (sets, message) in [
            (
                &["optimizer.betas=[0.9,1]"][..],
                "optimizer.betas is 1: it must be between 0 and 0.999999",
            ),
            (
                &["optimizer=sgd", "optimizer.nesterov=true"],
                "optimizer.nesterov is true: it needs a momentum, so set optimizer.momentum above 0, such as 0.9",
            ),
            (
                &["schedule=one-cycle", "schedule.pct_start=0.1", "steps=10"],
                "schedule.pct_start is 0.1 of 10 steps: the rate would rise in no step, so raise it or set it to 0",
            ),
            (
                &["clip_grad_norm=-1"],
                "clip_grad_norm is -1: it must be between 0 and 1000000",
            ),
        ] {
            let config = sets.iter().fold(TrainConfig::default(), |config, set| {
                config.with_set(set).expect("has the type")
            });
            assert_eq!(config.check().expect_err("refused").to_string(), message);
        }
        let swap = TrainConfig::default().with_set("miner.name=facenet-semihard");
        let swap = swap.and_then(|config| config.with_set("loss.swap=true"));
        let refused = swap.expect("has the type").check().expect_err("refused");
        assert!(
            refused
                .to_string()
                .ends_with("leave swap out or use another miner")
        );
        TrainConfig::default()
            .check()
            .expect("defaults are in range");
    }

    #[test]
    fn arguments_of_losses_are_refused_by_name_with_their_range() {
        let set = |config: TrainConfig, set: &str| config.with_set(set);
        let mut tried = 0;
        for (name, _) in Loss::ALL {
            let named = set(TrainConfig::default(), &format!("loss.name={name}")).expect("a loss");
            named.check().expect("defaults are in range");
            let unknown = set(named.clone(), "loss.nothing=1").expect_err("refused");
            assert!(
                unknown
                    .to_string()
                    .contains("there is no setting `loss.nothing`")
            );
            let arguments = serde_json::to_value(&named.loss).expect("is JSON");
            let arguments = arguments.as_object().expect("an object").clone();
            for (argument, value) in arguments {
                if !value.is_number() {
                    continue;
                }
                // Far above and far below every range.
                for far in ["1000000000", "-1000000000"] {
                    let refused = set(named.clone(), &format!("loss.{argument}={far}"));
                    let refused = refused.and_then(|config| config.check());
                    let refused = refused.expect_err("refused").to_string();
                    assert!(
                        refused.contains(&format!("loss.{argument} is {far}: it must be ")),
                        "{name}: {refused}"
                    );
                }
                tried += 1;
            }
        }
        assert!(tried > 30, "{tried} arguments");
        for (sets, message) in [
            (
                ["loss.name=circle", "distance=l2"],
                "so set distance to cosine",
            ),
            (
                ["miner.name=distance-weighted", "loss.swap=true"],
                "so leave swap out or use another miner",
            ),
            (
                ["loss.name=sup-con", "miner_weights=true"],
                "and a batch_size of at most 8192",
            ),
            (
                ["loss.name=arc-face", "miner.name=none miner_weights=true"],
                "and a batch_size of at most 8192",
            ),
        ] {
            let all = sets.iter().flat_map(|sets| sets.split(' '));
            let config = all.fold(TrainConfig::default(), |config, one| {
                set(config, one).expect("sets")
            });
            let refused = config.check().expect_err("refused").to_string();
            assert!(refused.ends_with(message), "{refused}");
        }
    }
}
