//! Scores of whole sets of embeddings: takes unit rows with labels, gives [`Retrieval`] by ranking every query's positives among all
//! references, block by block, in memory that a plan fixes: references that do not fit are streamed.

mod buffers;
mod numbered;
mod pass;
mod ranking;

use std::collections::HashMap;

use crate::base::error::{Error, Result};
use crate::base::forecast::Rate;
use crate::data::{RowSource, groups};
use crate::engine::Engine;
use crate::engine::pace::{Pace, Slices};
use crate::kernels;
use crate::model::metric::Metric;
use crate::model::unit_rows::UnitRows;
use crate::search::metrics::{Judged, Retrieval, RetrievalSum};
use crate::search::rows::{Classes, Rows, numbered};
use buffers::ADVICE;

pub use buffers::EvaluationSpec;
pub(crate) use buffers::{Cut, Evaluator};
pub use numbered::{RankedQueries, Scoring, evaluate_numbered, rank_queries, total_of_ranked};
pub(crate) use pass::Queries;
pub(crate) use ranking::Ranking;

/// Scores embeddings: every row is a query against `references`, or against the other rows if there are none.
///
/// `at` lists the k of recall@k and precision@k. `progress` receives the number of queries done and the number of all.
///
/// # Errors
/// [`Error::Data`] if dimensions differ or no query has a positive; [`Error::Refused`] if not even the smallest blocks fit the
/// engine's budget.
pub async fn evaluate(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    at: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let all = usize::MAX;
    let groups = None;
    evaluate_within(engine, queries, references, groups, at, all, &mut progress).await
}

/// Scores embeddings across groups, such as donors, subjects or cameras: a row's own group is left out of its neighbours. `groups`
/// has the group of each query; `references` come with the group of each.
///
/// # Errors
/// As [`evaluate`]; [`Error::Data`] if a row has no group, or all have the same one.
pub async fn evaluate_across(
    engine: &Engine,
    queries: Rows<'_>,
    groups: &[String],
    references: Option<(Rows<'_>, &[String])>,
    at: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let known = references.map_or(groups, |(_, groups)| groups);
    let references = references.map(|(rows, _)| rows);
    groups::check(queries.rows.rows(), groups)?;
    groups::check(references.unwrap_or(queries).rows.rows(), known)?;
    let mut all = groups.iter().chain(known);
    if let Some(first) = all.next()
        && all.all(|group| group == first)
    {
        return Err(groups::only_one(first));
    }
    let groups = Some([groups, known]);
    let depth = usize::MAX;
    evaluate_within(
        engine,
        queries,
        references,
        groups,
        at,
        depth,
        &mut progress,
    )
    .await
}

/// Scores embeddings by the nearest references of every query alone: R, or the largest k in `at`. This takes the CPU less time.
/// [`Metrics::OF_THE_NEAREST`](crate::Metrics::OF_THE_NEAREST) are equal; MAP and MRR are not a number.
///
/// # Errors
/// As [`evaluate`].
pub async fn evaluate_nearest(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    at: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let depth = at.iter().max().copied().unwrap_or(0);
    let depth = usize::try_from(depth).unwrap_or(usize::MAX);
    let groups = None;
    let retrieval = evaluate_within(
        engine,
        queries,
        references,
        groups,
        at,
        depth,
        &mut progress,
    );
    Ok(retrieval.await?.of_the_nearest())
}

/// Groups of queries and references by number, in the order in which they come.
fn grouped(groups: [&[String]; 2]) -> [Vec<u32>; 2] {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut number = |group| {
        let next = numbers.len() as u32;
        *numbers.entry(group).or_insert(next)
    };
    groups.map(|side| side.iter().map(|group| number(group.as_str())).collect())
}

/// Scores embeddings against each other, and gives the score of each query beside the means: class by class, as numbered by name.
pub(crate) async fn evaluate_each(engine: &Engine, rows: Rows<'_>) -> Result<Judged> {
    let sum = RetrievalSum::default().keep_queries();
    let unheard = &mut |_, _| {};
    let (mut sum, names) = sums(engine, rows, None, None, sum, 0, unheard).await?;
    let queries = sum.take_queries();
    let retrieval = finish(sum, &names, false)?;
    Ok(Judged {
        metrics: retrieval.metrics,
        over_classes: retrieval.over_classes,
        queries,
    })
}

/// Scores embeddings by ranks up to the larger of `depth` and R.
async fn evaluate_within(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    groups: Option<[&[String]; 2]>,
    at: &[u64],
    depth: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Retrieval> {
    let sum = RetrievalSum::at(at);
    let (sum, names) = sums(engine, queries, references, groups, sum, depth, progress).await?;
    finish(sum, &names, groups.is_some())
}

/// The means, if any query has a positive: across groups if `grouped`.
fn finish(sum: RetrievalSum, names: &[String], grouped: bool) -> Result<Retrieval> {
    let name = |class: u32| names.get(class as usize).cloned().unwrap_or_default();
    sum.finish(&name).ok_or_else(|| no_positive(grouped))
}

fn no_positive(grouped: bool) -> Error {
    let other = match grouped {
        true => "a row of its label in another group",
        false => "another row of its label",
    };
    Error::Data(format!(
        "no query has {other}: there is nothing to retrieve"
    ))
}

/// Sums over the queries, and the names of the classes.
async fn sums(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    groups: Option<[&[String]; 2]>,
    sum: RetrievalSum,
    depth: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(RetrievalSum, Vec<String>)> {
    let known = references.unwrap_or(queries);
    queries.check_against(known)?;
    let (names, labels) = numbered(queries.labels, known.labels);
    let groups = groups.map(grouped);
    let [asking, classes] = [0, 1].map(|side| Classes {
        labels: &labels[side],
        groups: groups.as_ref().map(|groups| &groups[side][..]),
    });
    let side = |rows, classes| Side { rows, classes };
    let sides = Sides {
        queries: side(queries.rows, asking),
        references: side(known.rows, classes),
        own: references.is_none(),
        places: None,
        metric: Metric::Cosine,
    };
    let sum = rank(engine, sides, sum, depth, progress).await?;
    Ok((sum, names))
}

/// Rows and the class of each.
#[derive(Clone, Copy)]
struct Side<'a> {
    rows: &'a RowSource,
    classes: Classes<'a>,
}

/// Rows that are compared, and by what.
struct Sides<'a> {
    queries: Side<'a>,
    references: Side<'a>,
    /// The queries are the references.
    own: bool,
    /// Place of each query among the references, if they are some of them.
    places: Option<&'a [u32]>,
    metric: Metric,
}

/// Ranks every query's positives among the references.
async fn rank(
    engine: &Engine,
    sides: Sides<'_>,
    sum: RetrievalSum,
    depth: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RetrievalSum> {
    let Sides {
        queries,
        references,
        own,
        places,
        metric,
    } = sides;
    let count = queries.classes.labels.len();
    let columns = metric.columns(references.rows.dim());
    let spec = EvaluationSpec::of(references.classes.labels, columns, count);
    let (room, rate) = (engine.room(), Rate::default());
    let forecast = spec.plan(&room, &rate)?;
    engine.prepare(kernels::used_on(engine.info())).await?;
    let mut workspace = engine
        .workspace("evaluation", &forecast.memory, ADVICE)
        .await?;
    let mut evaluator = Evaluator::new(&mut workspace, spec.cut(&room));
    evaluator.depth = depth;
    let mut stored = UnitRows::Stored {
        rows: references.rows,
        chosen: None,
        form: metric.of_references(),
    };
    let numbers: Vec<u32> = (0..count as u32).collect();
    let alike = metric.of_queries() == metric.of_references();
    let asked = match own && alike {
        true => Queries::Own(&numbers),
        false => Queries::Apart {
            rows: queries.rows,
            classes: queries.classes,
            form: metric.of_queries(),
            places: match own {
                true => Some(&numbers),
                false => places,
            },
        },
    };
    let known = references.classes;
    let mut pace = Pace::of(engine);
    let mut slices = Slices::new(engine, &mut pace);
    let ranking = evaluator
        .score(&mut slices, known, &mut stored, asked, sum, progress)
        .await?;
    slices.collect().await?;
    Ok(ranking.sum(&mut slices))
}
