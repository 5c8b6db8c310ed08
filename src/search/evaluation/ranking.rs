//! The score of a set of queries: [`Evaluator::score`] cuts them into blocks, and a [`Ranking`] adds up the counts that come back.

use std::borrow::Cow;
use std::ops::Range;

use super::buffers::Evaluator;
use super::pass::{Job, Known, Queries};
use crate::base::error::Result;
use crate::base::order;
use crate::cpu::parallel::map;
use crate::data::by_class::ByClass;
use crate::engine::pace::{Fetch, Slices};
use crate::kernels::ranks::{self, LabelBits, NO_ID, Row};
use crate::model::unit_rows::UnitRows;
use crate::search::metrics::RetrievalSum;
use crate::search::rows::{Classes, count, sorted};

/// Gap counts that are worth waking a core: some tens of microseconds of divisions.
const WORTH_A_CORE: usize = 1 << 13;

/// The queries as the kernels take them.
struct Asking<'a> {
    labels: &'a [u32],
    groups: Option<&'a [u32]>,
    keys: Cow<'a, [u32]>,
    /// All queries, class by class.
    order: Vec<u32>,
    /// The queries are references too: those of their own numbers, or of these.
    own: bool,
    places: Option<&'a [u32]>,
    /// Keys of all references, ascending, if rows have groups: those with a query's own key are no positives of it.
    left_out: Option<Vec<u32>>,
}

impl Asking<'_> {
    /// Id of a query among the references.
    fn id_of(&self, query: u32) -> u32 {
        match (self.own, self.places) {
            (false, _) => NO_ID,
            (true, None) => query,
            (true, Some(places)) => places[query as usize],
        }
    }

    fn group_of(&self, query: u32) -> Option<u32> {
        self.groups.map(|groups| groups[query as usize])
    }

    fn asked(&self, job: &Job) -> Asked {
        Asked {
            class: job.class,
            group: self.group_of(job.query),
            row: job.row,
        }
    }
}

/// Queries and references of these classes as the kernels take them.
///
/// # Errors
/// As [`Classes::keys`].
fn sides<'a>(queries: Queries<'a>, known: Classes<'a>) -> Result<(Asking<'a>, Known<'a>)> {
    let (asking, mut order) = match queries {
        Queries::Own(places) => (known, places.to_vec()),
        Queries::Apart { classes, .. } => (classes, (0..classes.labels.len() as u32).collect()),
    };
    let ([own_keys, keys], bits) = Classes::keys([asking, known])?;
    order::sort_by_key(&mut order, |query| (asking.labels[*query as usize], *query));
    let places = match queries {
        Queries::Own(_) => None,
        Queries::Apart { places, .. } => places,
    };
    let asking = Asking {
        labels: asking.labels,
        groups: asking.groups,
        keys: own_keys,
        order,
        own: matches!(queries, Queries::Own(_)) || places.is_some(),
        places,
        left_out: (bits != LabelBits::CLASSES).then(|| sorted(&keys)),
    };
    let by_class = ByClass::new(known.labels);
    let known = Known {
        by_class,
        keys,
        bits,
    };
    Ok((asking, known))
}

/// A query whose gap counts are being read back.
#[derive(Debug)]
struct Asked {
    class: u32,
    group: Option<u32>,
    row: Row,
}

/// Result of a score, whose last counts are still being read back: [`Slices::collect`] waits for them.
#[derive(Debug)]
pub(crate) struct Ranking {
    sum: RetrievalSum,
    /// Queries and their gap counts, not yet added.
    waiting: Vec<(Vec<Asked>, GapCounts)>,
}

/// Gap counts that are being read back.
#[derive(Debug)]
enum GapCounts {
    Whole(Fetch<u32>),
    /// Four counts together, as [`ranks::pack`] writes them.
    Packed(Fetch<[u32; 2]>),
}

impl GapCounts {
    fn are_there(&self, slices: &Slices<'_>) -> bool {
        match self {
            Self::Whole(gap_counts) => slices.is_there(gap_counts),
            Self::Packed(gap_counts) => slices.is_there(gap_counts),
        }
    }

    fn take(self, slices: &mut Slices<'_>) -> Vec<u32> {
        match self {
            Self::Whole(gap_counts) => slices.take(gap_counts),
            Self::Packed(gap_counts) => {
                let words = slices.take(gap_counts).into_iter().flatten();
                words.flat_map(|word| [word & 0xffff, word >> 16]).collect()
            }
        }
    }
}

impl Ranking {
    /// The whole sum, after [`Slices::collect`].
    pub(crate) fn sum(mut self, slices: &mut Slices<'_>) -> RetrievalSum {
        self.add_collected(slices);
        self.sum
    }

    fn add_collected(&mut self, slices: &mut Slices<'_>) {
        let waiting = self.waiting.iter();
        let there = waiting.take_while(|(_, gap_counts)| gap_counts.are_there(slices));
        let there = there.count();
        for (rows, gap_counts) in self.waiting.drain(..there) {
            let gap_counts = gap_counts.take(slices);
            let sum = &self.sum;
            let rank = |rows: &[Asked]| {
                let mut ranks = Vec::new();
                let of = |row: &Row| &gap_counts[row.offset as usize..][..=row.positives as usize];
                let ranked = rows
                    .iter()
                    .map(|asked| sum.rank(negatives_above(of(&asked.row)), &mut ranks));
                ranked.collect::<Vec<_>>()
            };
            let parts = rows.chunks(rows_of_a_part(rows.len(), gap_counts.len()));
            let ranked = map(parts.collect(), rank);
            // Sums of floats: added in the order of the queries.
            for (asked, ranked) in rows.iter().zip(ranked.iter().flatten()) {
                self.sum.add(asked.class, asked.group, ranked);
            }
        }
    }
}

/// Queries that one core ranks at a time, of `rows` with `places` gap counts in all: as many as are worth waking it.
fn rows_of_a_part(rows: usize, places: usize) -> usize {
    rows.div_ceil((places / WORTH_A_CORE).max(1)).max(1)
}

impl Evaluator {
    /// Ranks each query's positives among the references, whose classes are `known`. The last results arrive with the next
    /// [`Slices::collect`]: several scores can be waited for together.
    ///
    /// # Errors
    /// As [`Slices::recorded`], and errors of reading the rows.
    pub(crate) async fn score(
        &mut self,
        slices: &mut Slices<'_>,
        known: Classes<'_>,
        references: &mut UnitRows<'_>,
        queries: Queries<'_>,
        sum: RetrievalSum,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Ranking> {
        let (asking, known) = sides(queries, known)?;
        if self.holds(references) {
            self.bring_by_class(slices, &known.by_class, references)
                .await?;
            let members = known.by_class.members.iter().copied();
            self.tag(slices, &known, members).await?;
        }
        let mut ranking = Ranking {
            sum,
            waiting: Vec::new(),
        };
        let (mut done, all) = (0, asking.order.len());
        while done < all {
            let (jobs, lone) = self.next_block(&asking.order[done..], &known, &asking);
            for _ in 0..lone {
                ranking.sum.add_lone();
            }
            done += jobs.len() + lone;
            match &jobs[..] {
                [job] if job.row.positives as usize >= self.cut.thresholds => {
                    let mut above = Vec::with_capacity(job.row.positives as usize);
                    for (part, ids) in self.parts(job, &known, &asking) {
                        let part = std::slice::from_ref(&part);
                        let places = self
                            .pass(slices, &known, references, queries, part, ids)
                            .await?;
                        let gap_counts = slices.read(&self.scratch.gap_counts, 0, places).await?;
                        above.extend(negatives_above(&gap_counts));
                    }
                    order::sort_wide(&mut above);
                    // Sums of floats: added in the order of the queries.
                    ranking.add_collected(slices);
                    let ranked = ranking.sum.rank(above.into_iter(), &mut Vec::new());
                    let group = asking.group_of(job.query);
                    ranking.sum.add(job.class, group, &ranked);
                }
                [] => {}
                jobs => {
                    let places = self
                        .pass(slices, &known, references, queries, jobs, 0..NO_ID)
                        .await?;
                    let gap_counts = self
                        .fetch_gap_counts(slices, places, known.keys.len())
                        .await?;
                    let rows = jobs.iter().map(|job| asking.asked(job)).collect();
                    ranking.waiting.push((rows, gap_counts));
                    ranking.add_collected(slices);
                }
            }
            progress(done as u64, all as u64);
            slices.breathe().await?;
        }
        Ok(ranking)
    }

    /// The next queries that fit in one block, at least one if any is left, and the number of lone queries among them.
    fn next_block(
        &self,
        rest: &[u32],
        known: &Known<'_>,
        asking: &Asking<'_>,
    ) -> (Vec<Job>, usize) {
        let (mut jobs, mut lone, mut offset) = (Vec::new(), 0, 0);
        for query in rest {
            let class = asking.labels[*query as usize];
            let label = asking.keys[*query as usize];
            let members = known.by_class.of(class);
            let left_out = match &asking.left_out {
                Some(keys) => count(keys, label),
                None => u32::from(asking.own),
            };
            let positives = members.len() as u32 - left_out;
            if positives == 0 {
                lone += 1;
                continue;
            }
            let after = offset + positives + 1;
            let full = jobs.len() == self.cut.queries || after as usize > self.cut.thresholds;
            if full && !jobs.is_empty() {
                break;
            }
            let id = asking.id_of(*query);
            jobs.push(Job {
                query: *query,
                class,
                row: Row {
                    label,
                    id,
                    offset,
                    positives,
                },
                members,
            });
            offset = after;
        }
        (jobs, lone)
    }

    /// Splits a query with more positives than a block holds: each part has some of its positives, and the range of reference ids
    /// that they are in.
    fn parts(&self, job: &Job, known: &Known<'_>, asking: &Asking<'_>) -> Vec<(Job, Range<u32>)> {
        let room = self.cut.thresholds - 1;
        let part = |start: usize| {
            let members = start..job.members.end.min(start + room);
            let ids = known.by_class.members[start]..known.by_class.members[members.end - 1] + 1;
            let no_positive = match asking.left_out {
                Some(_) => {
                    let key = |row: &&u32| known.keys[**row as usize] == job.row.label;
                    known.by_class.members[members.clone()]
                        .iter()
                        .filter(key)
                        .count()
                }
                None => usize::from(ids.contains(&job.row.id)),
            };
            let row = Row {
                positives: (members.len() - no_positive) as u32,
                ..job.row
            };
            let part = Job {
                row,
                members,
                ..*job
            };
            (part, ids)
        };
        job.members.clone().step_by(room).map(part).collect()
    }

    /// Starts to read back the gap counts of a pass in `places` places, among `references` references.
    async fn fetch_gap_counts(
        &mut self,
        slices: &mut Slices<'_>,
        places: u64,
        references: usize,
    ) -> Result<GapCounts> {
        Ok(if references <= ranks::MOST_PACKED {
            ranks::pack(slices.commands(), places as usize, &mut self.scratch);
            let packed = places.div_ceil(4);
            GapCounts::Packed(slices.fetch(&self.scratch.thresholds, 0, packed).await?)
        } else {
            GapCounts::Whole(slices.fetch(&self.scratch.gap_counts, 0, places).await?)
        })
    }
}

/// Number of negatives that are nearer than each positive of a query, ascending, from the query's gap counts.
fn negatives_above(gap_counts: &[u32]) -> impl Iterator<Item = u64> {
    gap_counts[1..].iter().rev().scan(0, |above, gap| {
        *above += u64::from(*gap);
        Some(*above)
    })
}
