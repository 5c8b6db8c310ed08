//! Questions about the run, answered between two slices of it: all scores, a threshold, neighbours, an anchor.

use nearfar::{AnchorAsked, Error, Result, Run};
use web_time::Instant;

use super::Core;
use super::progress::milliseconds;
use crate::protocol::{Command, Event, LookedAt, Part};

impl Core {
    /// Scores every row of a side, between two slices of the run.
    pub(super) async fn evaluate_all(&mut self) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let began = Instant::now();
        let tell = |done, queries| {
            let part = Part::after(milliseconds(began), done, queries);
            self.say(&Event::Evaluating(part));
        };
        let scored = run.evaluate_all(tell).await;
        match scored {
            Ok(scored) => {
                self.evaluating = false;
                self.run = Some(run);
                self.say(&Event::EvaluatedAll(scored.map(Box::new)));
            }
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => self.run = Some(run),
            Err(error) => {
                self.evaluating = false;
                self.fail(&error);
            }
        }
    }

    /// Stops scoring every row, if that is under way.
    pub(super) fn stop_evaluating(&mut self) {
        if std::mem::take(&mut self.evaluating) {
            self.say(&Event::EvaluatedAll(None));
        }
    }

    /// Finds the threshold of the run that is over, or reports on one that a person chose.
    pub(super) async fn look_for_threshold(&mut self, asked: Command) {
        let Some(mut run) = self.run.take() else {
            return self.say(&Event::Threshold(Ok(None)));
        };
        let found = match asked {
            Command::ThresholdAt(similarity) => run.threshold_at(similarity).await,
            Command::FindThreshold { rate } => run.find_threshold(rate).await,
            _ => unreachable!("only what is about a threshold comes here"),
        };
        let found = match found {
            Ok(found) => Ok(Some(Box::new(found.report))),
            Err(Error::Stopped) => Ok(None),
            Err(error @ Error::Device(_)) => return self.fail(&error),
            Err(error) => Err(error.to_string()),
        };
        self.run = Some(run);
        self.say(&Event::Threshold(found));
    }

    /// Looks at an anchor of the last step, between two slices of the run.
    pub(super) async fn look_at_anchor(&mut self, asked: &AnchorAsked) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let seen = match looked_at(&mut run, asked).await {
            Ok(looked) => Ok(looked.map(Box::new)),
            Err(error @ Error::Device(_)) => return self.fail(&error),
            Err(Error::Stopped) => return self.run = Some(run),
            Err(error) => Err(error.to_string()),
        };
        self.run = Some(run);
        self.say(&Event::Anchor(seen));
    }

    /// Finds the rows nearest to a row, between two slices of the run.
    pub(super) async fn look_around(&mut self, row: u32) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        match around(&mut run, row).await {
            Ok(event) => {
                self.run = Some(run);
                self.say(&event);
            }
            Err(Error::Stopped) => self.run = Some(run),
            Err(error) => self.fail(&error),
        }
    }
}

/// The rows nearest to a row, with the pictures of all.
async fn around(run: &mut Run, row: u32) -> Result<Event> {
    let Some(found) = run.neighbours(row).await? else {
        return Ok(Event::Unseen(row));
    };
    let near = found.neighbours.iter().map(|near| near.row);
    let rows: Vec<u32> = std::iter::once(row).chain(near).collect();
    let pictures = run.pictures(&rows).await?;
    let pictures = pictures.map(|pictures| (rows, pictures));
    Ok(Event::Neighbours(Box::new(found), pictures))
}

/// An anchor of the last step, with the places and pictures of its rows.
async fn looked_at(run: &mut Run, asked: &AnchorAsked) -> Result<Option<LookedAt>> {
    let Some(seen) = run.anchor(asked).await? else {
        return Ok(None);
    };
    let sides = [0, 1].into_iter().filter_map(|side| seen.triplet(side));
    let mut rows: Vec<u32> = sides.flatten().collect();
    let places = run.on_map(&rows).await?;
    let on_map = rows.iter().copied().zip(places).collect();
    rows.push(seen.batch[seen.anchor]);
    rows.extend(seen.listed.iter().map(|other| other.row));
    let pictures = run.pictures(&rows).await?;
    Ok(Some(LookedAt {
        seen,
        on_map,
        pictures: pictures.map(|pictures| (rows, pictures)),
    }))
}
