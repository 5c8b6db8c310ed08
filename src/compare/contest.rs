//! [`Contest`]: the entries of a comparison. Takes the knobs, recipes or preset that were asked for, gives the settings of every
//! entry.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::quoted;
use crate::compare::recipes::{Recipe, with_rows_of_few_classes};
use crate::compare::rungs::{self, Rung};
use crate::compare::search::Search;
use crate::data::{Dataset, Side, Sides};
use crate::rules::config::{Split, TrainConfig};
use crate::rules::losses::Loss;
use crate::rules::samplers::Sampler;

/// The most entries.
const MOST_ENTRIES: usize = 256;
/// The most seeds, and the most folds.
const MOST_SEEDS: u64 = 100;
const MOST_FOLDS: u64 = 20;
/// Entries beside the recipe for such data, if nothing else is asked for: a memory, a class sampler, weighted pairs, and proxies.
const DEFAULT_RECIPES: [&str; 4] = [
    "memory-triplet",
    "class-sampler-triplet",
    "multi-similarity",
    "arc-face",
];
/// Name of the entry that is always there.
const LINEAR_HEAD: &str = "linear head";
/// Settings that all entries have in common, so that all answer the same queries: set for all or for none.
const HELD: [&str; 10] = [
    "seed",
    "data_seed",
    "split",
    "group",
    "features",
    "ignore",
    "test_fraction",
    "validation_fraction",
    "test_queries",
    "budget_bytes",
];

/// Request of a comparison. Recipes and the preset's entries are taken side by side; each value of a grid multiplies them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompareConfig {
    /// Grids, `key=value,value,..`: a setting and the values that are tried.
    pub grids: Vec<String>,
    /// Names of recipes.
    pub recipes: Vec<String>,
    /// A preset: entries that answer a common question.
    pub preset: Option<Preset>,
    /// Settings of all entries, `key=value` each, which override a recipe's.
    pub sets: Vec<String>,
    /// Number of seeds that each entry is trained with: the seed of the settings, and those that follow it.
    pub seeds: u64,
    /// Parts of all rows that are not tested, each of which is scored by heads that trained on the others; 0 scores the validation side.
    pub folds: u64,
    /// After each fold, stops training what is clearly worse than the best; needs folds, and two seeds or more.
    pub race: bool,
    /// Seconds that the comparison may take: it is then a search for the settings that do best within them and the budget. All recipes
    /// are tried if none is named, and the test side is not scored.
    pub seconds: Option<u64>,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            grids: Vec::new(),
            recipes: Vec::new(),
            preset: None,
            sets: Vec::new(),
            seeds: 3,
            folds: 0,
            race: false,
            seconds: None,
        }
    }
}

impl CompareConfig {
    /// Sets for all entries the settings of `config` that differ from `suited`, those that suit the data; except the settings that
    /// are compared, of the grids and of the preset. A recipe keeps its own settings: beside recipes only the data's part, the
    /// steps and the budget are taken over.
    #[must_use]
    pub fn with_settings(mut self, config: &TrainConfig, suited: &TrainConfig) -> Self {
        let has_recipes =
            !self.recipes.is_empty() || (self.grids.is_empty() && self.preset.is_none());
        let grids = self.grids.iter().filter_map(|grid| grid.split('=').next());
        let compared: Vec<String> = grids.map(compared_by).collect();
        let is_taken = |key: &str| {
            let is_compared =
                |compared: &String| key == compared || key.starts_with(&format!("{compared}."));
            (!has_recipes || key == "steps" || HELD.contains(&key))
                && !compared.iter().any(is_compared)
                && !self.preset.is_some_and(|preset| preset.sets(key))
        };
        let differences = config.differences(suited).into_iter();
        let taken = differences.filter(|(key, _)| is_taken(key));
        let mut sets: Vec<String> = taken.map(|(key, value)| format!("{key}={value}")).collect();
        // Arguments can be set only after their loss, miner or sampler.
        order::sort_by_key(&mut sets, |set| {
            !set.split('=')
                .next()
                .is_some_and(|key| key.ends_with(".name"))
        });
        self.sets = [sets, self.sets].concat();
        self
    }

    /// Settings that the data and the engine depend on: seeds and budget.
    ///
    /// # Errors
    /// [`Error::Config`] for values that cannot be read.
    pub fn of_data(&self) -> Result<TrainConfig> {
        let of_data = |set: &&String| {
            let keys = ["sampler", "sampler.name", "sampler.outer_label"];
            let key = set.split('=').next().unwrap_or_default();
            HELD.contains(&key) || keys.contains(&key)
        };
        TrainConfig::default().with_all(self.sets.iter().filter(of_data))
    }
}

/// Settings that a grid of this one compares: with the name of a loss, miner or sampler all arguments of it.
fn compared_by(key: &str) -> String {
    key.strip_suffix(".name").unwrap_or(key).to_owned()
}

/// Entries that answer a common question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// With and without a memory, and with several rows of each class instead.
    Memory,
    /// Every loss over the same batches: several rows of each class, no miner, no memory.
    Losses,
    /// Every sampler that needs no column, without a memory.
    Samplers,
}

impl Preset {
    /// Names in options, titles in lists, and presets.
    pub const ALL: [(&str, &str, Self); 3] = [
        ("memory", "with and without memory", Self::Memory),
        ("losses", "loss by loss", Self::Losses),
        ("samplers", "which sampler", Self::Samplers),
    ];

    /// Preset of this name.
    ///
    /// # Errors
    /// [`Error::Config`], with the names that there are.
    pub fn named(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().find(|(known, ..)| *known == name);
        known.map(|(.., preset)| *preset).ok_or_else(|| {
            Error::Config(format!(
                "there is no preset {}: there are {}",
                quoted(name),
                Self::ALL.map(|(name, ..)| name).join(", ")
            ))
        })
    }

    /// Tells if the entries of the preset set this setting, or the one that it is an argument of.
    fn sets(self, key: &str) -> bool {
        let group = |key: &str| key.split(['.', '=']).next().unwrap_or("").to_owned();
        let entries = self.entries();
        let mut sets = entries.iter().flat_map(|(_, sets)| sets);
        sets.any(|set| group(set) == group(key))
    }

    /// Name and settings of each entry.
    fn entries(self) -> Vec<(String, Vec<String>)> {
        let entry = |name: &str, sets: &[&str]| {
            let sets = sets.iter().map(|set| (*set).to_owned());
            (name.to_owned(), sets.collect())
        };
        match self {
            Self::Memory => vec![
                entry("no memory", &["memory_size=0"]),
                entry("memory of 1,024 rows", &["memory_size=1024"]),
                entry(
                    "no memory, several rows of each class",
                    &["memory_size=0", "sampler=m-per-class"],
                ),
            ],
            Self::Losses => Loss::ALL
                .iter()
                .map(|(name, _)| {
                    let loss = format!("loss.name={name}");
                    let batches = ["miner.name=none", "memory_size=0", "sampler=m-per-class"];
                    entry(name, &[&[loss.as_str()], &batches[..]].concat())
                })
                .collect(),
            Self::Samplers => Sampler::ALL
                .iter()
                .filter(|(name, _)| *name != "hierarchical")
                .map(|(name, _)| entry(name, &["memory_size=0", &format!("sampler={name}")]))
                .collect(),
        }
    }
}

/// Settings that take part in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Differences from the other entries, in words or as settings.
    pub name: String,
    /// All settings, with the first seed.
    pub config: TrainConfig,
}

/// A comparison with all settings resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// Settings of raw features and the linear map: those that suit the data, with those that are set for all.
    pub base: TrainConfig,
    /// All entries; the last is a linear head with the settings of `base`, unless another is one already.
    pub entries: Vec<Entry>,
    /// Seeds of each entry; the data and its split are the same for all, by [`TrainConfig::data_seed`].
    pub seeds: Vec<u64>,
    pub(super) rungs: Vec<Rung>,
    /// Number of folds; 0 if the validation side is scored.
    pub(super) folds: usize,
    /// Clearly worse rows are not trained on the folds that follow.
    pub(super) race: bool,
    /// The search that it is, if its time is limited.
    pub(super) search: Option<Search>,
}

impl Contest {
    /// Resolves a request on this data.
    ///
    /// # Errors
    /// [`Error::Config`] for invalid settings, with the entry; for settings that must not differ between entries; for two equal
    /// entries; and if no validation row can be judged.
    pub fn new(dataset: &Dataset, asked: &CompareConfig) -> Result<Self> {
        let suited = dataset.default_config_for(&asked.of_data()?.splitting());
        let set_all = |config: TrainConfig| config.with_all(asked.sets.iter());
        let mut base = set_all(suited.clone())?;
        base.check()?;
        base.data_seed = Some(base.data_seed());
        let seeds = seeds(base.seed, asked.seeds)?;
        let mut search = asked.seconds.map(|seconds| Search {
            limit_ms: 1e3 * seconds as f64,
            ..Search::default()
        });
        let mut entries = Vec::new();
        for (name, config) in starts(dataset, &suited, asked)? {
            match (set_all(config), &mut search) {
                (Ok(config), _) => entries.push(Entry { name, config }),
                // A setting of other losses than the recipe's.
                (Err(error), Some(search)) => search.left_out.push((name, error.to_string())),
                (Err(error), None) => return Err(of_entry(&name)(error)),
            }
        }
        for grid in &asked.grids {
            entries = multiplied(entries, grid)?;
        }
        for entry in &mut entries {
            // A recipe's settings of the split are overridden.
            hold(&mut entry.config, &base);
            let checked = entry.config.check();
            if search.is_none() {
                checked.map_err(of_entry(&entry.name))?;
            }
        }
        let mut contest = Self {
            rungs: Vec::new(),
            folds: folds(asked)?,
            race: asked.race,
            base,
            entries,
            seeds,
            search,
        };
        if contest.search.is_none() && contest.linear_head().is_none() {
            contest.entries.push(Entry {
                name: LINEAR_HEAD.to_owned(),
                config: linear(&contest.base),
            });
        }
        if contest.search.is_none() {
            check_distinct(&contest.entries)?;
        }
        contest.rungs = rungs::of(contest.entries.len(), contest.seeds.len());
        match contest.folds {
            0 => check_judged(dataset, &contest.base)?,
            _ => contest.fold_sides(dataset).map(drop)?,
        }
        Ok(contest)
    }

    /// Tells if clearly worse entries are not trained on the folds that follow.
    pub fn race(&self) -> bool {
        self.race
    }

    /// Tells if entries may differ in this setting: the settings that decide on the queries are the same for all.
    pub fn may_differ(key: &str) -> bool {
        !HELD.contains(&key)
    }

    /// Number of the entry that is a linear head with the settings of `base`.
    pub(super) fn linear_head(&self) -> Option<usize> {
        let linear = linear(&self.base);
        self.entries.iter().position(|entry| entry.config == linear)
    }
}

/// Number of folds, 0 for none.
fn folds(asked: &CompareConfig) -> Result<usize> {
    if asked.race && asked.folds == 0 {
        return Err(Error::Config(
            "a race is judged after each fold: ask for folds, such as 5".to_owned(),
        ));
    }
    match (asked.folds, asked.seconds) {
        (0, _) | (2..=MOST_FOLDS, None) => Ok(asked.folds as usize),
        (folds, _) => Err(Error::Config(format!(
            "folds is {folds}: it must be between 2 and {MOST_FOLDS}, or 0 for the validation rows; where seconds are given it must be 0"
        ))),
    }
}

/// The settings with a head that has no hidden layer.
fn linear(base: &TrainConfig) -> TrainConfig {
    TrainConfig {
        hidden_layers: Vec::new(),
        ..base.clone()
    }
}

/// `count` seeds from the first on.
fn seeds(first: u64, count: u64) -> Result<Vec<u64>> {
    if !(1..=MOST_SEEDS).contains(&count) {
        return Err(Error::Config(format!(
            "seeds is {count}: it must be between 1 and {MOST_SEEDS}"
        )));
    }
    Ok((0..count).map(|i| first.wrapping_add(i)).collect())
}

/// Entries before grids: recipes, the preset's entries, or else one without a name. Without any grid the default recipes.
fn starts(
    dataset: &Dataset,
    suited: &TrainConfig,
    asked: &CompareConfig,
) -> Result<Vec<(String, TrainConfig)>> {
    let CompareConfig {
        grids,
        recipes,
        preset,
        ..
    } = asked;
    let mut starts = Vec::new();
    let is_open = recipes.is_empty() && preset.is_none();
    if is_open && !grids.is_empty() {
        starts.push((String::new(), suited.clone()));
    }
    let train = dataset.rows_to_train(suited, &asked.of_data()?.splitting());
    let (train, classes) = (train.unwrap_or(dataset.rows()), dataset.class_names.len());
    let every = asked.seconds.is_some() && is_open && grids.is_empty();
    let every = Recipe::ALL
        .iter()
        .map(|recipe| recipe.name)
        .filter(|_| every);
    let named = recipes.iter().map(String::as_str).chain(every);
    // The recipe that the data starts from is among them.
    let of_shape = Recipe::proposed("", dataset.shape()).name;
    let default = std::iter::once(of_shape)
        .filter(|name| !DEFAULT_RECIPES.contains(name))
        .chain(DEFAULT_RECIPES)
        .filter(|_| is_open && grids.is_empty() && asked.seconds.is_none());
    for name in named.chain(default) {
        let config = Recipe::named(name)?.apply(suited.clone(), train, classes)?;
        let config = TrainConfig {
            split: suited.split.clone(),
            ..config
        };
        let config = with_rows_of_few_classes(config, classes);
        starts.push((name.to_owned(), config));
    }
    for (name, sets) in preset.iter().flat_map(|preset| preset.entries()) {
        let mut sets = sets.iter();
        let config = sets.try_fold(suited.clone(), |config, set| config.with_set(set));
        starts.push((name, with_rows_of_few_classes(config?, classes)));
    }
    Ok(starts)
}

/// Combines each entry with each value of a grid.
fn multiplied(entries: Vec<Entry>, grid: &str) -> Result<Vec<Entry>> {
    let Some((key, values)) = grid.split_once('=') else {
        return Err(Error::Config(format!(
            "{} tries nothing: write key=value,value",
            quoted(grid)
        )));
    };
    if !Contest::may_differ(key) {
        let how = match key {
            "seed" => "give the number of seeds".to_owned(),
            _ => "set it for all of them".to_owned(),
        };
        return Err(Error::Config(format!(
            "{key} is the same for all entries, so that they answer the same queries: {how}"
        )));
    }
    if key.starts_with("early_stop") {
        return Err(Error::Config(
            "early_stop changes nothing in a comparison, which trains every entry for all its steps: leave it out"
                .to_owned(),
        ));
    }
    let values = parts(values);
    if entries.len().saturating_mul(values.len()) > MOST_ENTRIES {
        return Err(Error::Config(format!(
            "{} entries are too many: compare at most {MOST_ENTRIES}",
            entries.len().saturating_mul(values.len())
        )));
    }
    let mut all = Vec::new();
    for entry in &entries {
        for value in &values {
            let set = format!("{key}={value}");
            let name = match entry.name.as_str() {
                "" => set.clone(),
                name => format!("{name}, {set}"),
            };
            let config = entry.config.with_set(&set).map_err(of_entry(&name))?;
            all.push(Entry { name, config });
        }
    }
    Ok(all)
}

/// Splits at commas, except those within a list or a group of settings.
fn parts(values: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_comma = |c: char| {
        depth += match c {
            '[' | '{' => 1,
            ']' | '}' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    };
    values.split(is_comma).map(str::trim).collect()
}

/// Sets the settings that all entries have in common.
fn hold(config: &mut TrainConfig, base: &TrainConfig) {
    config.seed = base.seed;
    config.data_seed = base.data_seed;
    config.split.clone_from(&base.split);
    config.group.clone_from(&base.group);
    config.features.clone_from(&base.features);
    config.ignore.clone_from(&base.ignore);
    config.test_fraction = base.test_fraction;
    config.validation_fraction = base.validation_fraction;
    config.test_queries = base.test_queries;
    config.budget_bytes = base.budget_bytes;
}

/// Adds the name of the entry to an error of its settings.
pub(super) fn of_entry(name: &str) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Config(_) | Error::Refused { .. } | Error::TooLarge { .. } if !name.is_empty() => {
            Error::Config(format!("{name}: {error}"))
        }
        error => error,
    }
}

fn check_distinct(entries: &[Entry]) -> Result<()> {
    for (i, entry) in entries.iter().enumerate() {
        let same = entries[..i]
            .iter()
            .find(|other| other.config == entry.config);
        if let Some(other) = same {
            return Err(Error::Config(format!(
                "{} and {} are the same settings: leave one of them out",
                quoted(&other.name),
                quoted(&entry.name)
            )));
        }
    }
    Ok(())
}

/// Entries are ranked on the validation side: checks that some row of it has another of its class there.
fn check_judged(dataset: &Dataset, base: &TrainConfig) -> Result<()> {
    let sides = Sides::new(dataset, base)?;
    let rows = sides.of(Side::Validation);
    let labels = dataset.labels_of(rows);
    let groups = dataset.groups(base)?;
    let group = |row: &u32| groups.as_ref().map_or(*row, |groups| groups[*row as usize]);
    let mut known: Vec<(u32, u32)> = labels.iter().copied().zip(rows.iter().map(group)).collect();
    order::sort_by(&mut known, Ord::cmp);
    if known
        .windows(2)
        .any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1)
    {
        return Ok(());
    }
    let how = match base.split {
        Split::Column(_) => "let the column of the split name more rows validation",
        Split::ByGroup => {
            "raise validation_fraction, or bring more groups: a row is searched among those of other groups"
        }
        _ => "raise validation_fraction",
    };
    Err(Error::Config(format!(
        "entries are ranked on the validation rows, and none of the {} has another of its class there: {how}",
        labels.len()
    )))
}
