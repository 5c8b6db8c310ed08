//! [`evaluate_numbered`]: scores of rows whose classes are numbers, by any [`Metric`], at once or in shares that are added up later.

use super::{Side, Sides, no_positive, rank};
use crate::base::error::{Error, Result};
use crate::base::order;
use crate::data::by_class::class_counts;
use crate::engine::Engine;
use crate::model::metric::Metric;
use crate::search::metrics::{Ranked, Retrieval, RetrievalSum};
use crate::search::rows::{Classes, NumberedRows};

/// Choices of [`evaluate_numbered`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Scoring<'a> {
    /// Value by which rows are compared.
    pub metric: Metric,
    /// The k of recall@k and precision@k.
    pub at: &'a [u64],
    /// The nearest references alone are ranked, as [`crate::evaluate_nearest`] does.
    pub nearest: bool,
    /// Place of each query among the references that are given, if the queries are some of them: none is its own neighbour. PML's
    /// `ref_includes_query` has the first places.
    pub places: Option<&'a [u32]>,
}

/// Scores rows whose classes are numbers, as [`crate::evaluate`] does: without `references`, every row among all others. Classes are named
/// by their numbers.
///
/// # Errors
/// As [`crate::evaluate`]; [`Error::Data`] for a place that no reference has.
pub async fn evaluate_numbered(
    engine: &Engine,
    queries: NumberedRows<'_>,
    references: Option<NumberedRows<'_>>,
    scoring: &Scoring<'_>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let sum = RetrievalSum::at(scoring.at);
    let sum = sum_of(engine, queries, references, scoring, sum, &mut progress).await?;
    let retrieval = sum.finish(&|class| class.to_string());
    let retrieval = retrieval.ok_or_else(|| no_positive(false))?;
    Ok(match scoring.nearest {
        true => retrieval.of_the_nearest(),
        false => retrieval,
    })
}

/// Scores of each query by itself, which [`total_of_ranked`] adds up with those of other shares of the queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankedQueries {
    /// A line for each query that is not lone, by class, then by number: its number, its class, 1 for a right nearest reference, R-precision,
    /// average precision at R, average precision, reciprocal rank, and the hits among the nearest k for each k.
    pub lines: Vec<f64>,
    /// Queries that have no positive.
    pub lone: u64,
}

/// Numbers of a line of [`RankedQueries`] before the hits.
const FIRST: usize = 7;

/// Scores each query as [`evaluate_numbered`] does, and adds none up.
///
/// # Errors
/// As [`evaluate_numbered`], but queries may all be lone.
pub async fn rank_queries(
    engine: &Engine,
    queries: NumberedRows<'_>,
    references: NumberedRows<'_>,
    scoring: &Scoring<'_>,
    mut progress: impl FnMut(u64, u64),
) -> Result<RankedQueries> {
    let sum = RetrievalSum::at(scoring.at).keep_ranked();
    let sum = sum_of(
        engine,
        queries,
        Some(references),
        scoring,
        sum,
        &mut progress,
    );
    let (ranked, lone) = sum.await?.take_ranked();
    let counts = class_counts(references.labels);
    let is_lone = |query: &u32| {
        let class = queries.labels[*query as usize] as usize;
        let own = u32::from(scoring.places.is_some());
        counts.get(class).copied().unwrap_or(0) <= own
    };
    let mut order: Vec<u32> = (0..queries.labels.len() as u32).collect();
    order.retain(|query| !is_lone(query));
    order::sort_by_key(&mut order, |query| {
        (queries.labels[*query as usize], *query)
    });
    let mut lines = Vec::new();
    for (query, ranked) in order.iter().zip(&ranked) {
        let class = queries.labels[*query as usize];
        lines.extend([f64::from(*query), f64::from(class)]);
        lines.extend(ranked.numbers());
    }
    Ok(RankedQueries { lines, lone })
}

/// Adds up the lines of all shares, as [`RankedQueries`] has them, by class and then by number: the bits are those of
/// [`evaluate_numbered`] of all queries. `at` is sorted and has no k twice.
///
/// # Errors
/// [`Error::Data`] if all queries are lone.
pub fn total_of_ranked(at: &[u64], lines: &[f64], lone: u64) -> Result<Retrieval> {
    let mut sum = RetrievalSum::at(at);
    let mut all: Vec<&[f64]> = lines.chunks_exact(FIRST + at.len()).collect();
    order::sort_by(&mut all, |a, b| {
        a[1].total_cmp(&b[1]).then(a[0].total_cmp(&b[0]))
    });
    for line in all {
        let scores = [line[2], line[3], line[4], line[5], line[6]];
        sum.add(line[1] as u32, None, &Ranked::of(scores, &line[FIRST..]));
    }
    for _ in 0..lone {
        sum.add_lone();
    }
    let retrieval = sum.finish(&|class| class.to_string());
    retrieval.ok_or_else(|| no_positive(false))
}

/// The sum over all queries.
async fn sum_of(
    engine: &Engine,
    queries: NumberedRows<'_>,
    references: Option<NumberedRows<'_>>,
    scoring: &Scoring<'_>,
    sum: RetrievalSum,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RetrievalSum> {
    let known = references.unwrap_or(queries);
    check(queries, known, scoring.places)?;
    let sides = Sides {
        queries: side(queries),
        references: side(known),
        own: references.is_none(),
        places: scoring.places,
        metric: scoring.metric,
    };
    let nearest = scoring.at.iter().max().copied().unwrap_or(0);
    let depth = match scoring.nearest {
        true => usize::try_from(nearest).unwrap_or(usize::MAX),
        false => usize::MAX,
    };
    rank(engine, sides, sum, depth, progress).await
}

fn side(side: NumberedRows<'_>) -> Side<'_> {
    Side {
        rows: side.rows,
        classes: Classes {
            labels: side.labels,
            groups: None,
        },
    }
}

/// Checks that every row has a class, both sides have as many dimensions, and queries are at their places.
fn check(queries: NumberedRows<'_>, known: NumberedRows<'_>, places: Option<&[u32]>) -> Result<()> {
    queries.check_against(known)?;
    let Some(places) = places else {
        return Ok(());
    };
    let (asked, there) = (queries.labels.len(), known.labels.len());
    let is_there = |(place, class): (&u32, &u32)| known.labels.get(*place as usize) == Some(class);
    if places.len() != asked || !places.iter().zip(queries.labels).all(is_there) {
        return Err(Error::Data(format!(
            "{asked} queries are not at their places among {there} references: each query must be a reference with its label"
        )));
    }
    Ok(())
}
