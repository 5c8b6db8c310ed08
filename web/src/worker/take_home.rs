//! Pieces of the run to take home, and the rows to check.

use js_sys::Uint8Array;
use nearfar::{Error, Origin, Pictures, Piece, Result, RowsOf, RowsToCheck, Run, Taken, Working};

use super::{Core, NO_RUN};
use crate::protocol::{Command, Event, LISTED};

/// Parts of the rows, each of which a head did not train on, as every row is checked.
const FOLDS: usize = 5;

/// Test rows whose vectors are scored in every size, chosen if there are more; as `nearfar sizes` does.
const MOST_ROWS: usize = 10_000;

impl Core {
    /// Executes the commands that make something of the run, or look for rows to check.
    pub(super) async fn obey_about_pieces(&mut self, command: Command) {
        match command {
            Command::ListPieces { side, linear } => self.list_pieces(side, linear).await,
            Command::TakeHome {
                piece,
                side,
                linear,
            } => self.take_home(piece, side, linear).await,
            Command::FindRowsToCheck { side } => self.find_rows_to_check(Some(side)).await,
            Command::CheckEveryRow => self.find_rows_to_check(None).await,
            Command::MeasureSizes => self.measure_sizes().await,
            _ => unreachable!("only what is about pieces comes here"),
        }
    }

    /// Tells the page the sizes of the pieces that can be exported, with the code that uses them, between two slices of the run.
    pub(super) async fn list_pieces(&mut self, side: RowsOf, linear: bool) {
        let (Some(mut run), Some(origin)) = (self.run.take(), self.origin()) else {
            return;
        };
        let sizes = async {
            let mut taken = Taken::of(&mut run).await?;
            taken.save_run(&run, &origin).await?;
            if linear {
                taken.take_linear();
            }
            self.with_files(async |files| files.sizes(&taken, side).await)
                .await
        };
        let sizes = sizes.await;
        if let Some((sizes, code)) = self.answered(run, sizes) {
            self.say(&Event::Pieces(sizes, code));
        }
    }

    /// Looks for rows to check, between two slices of the run: on a side, by the head of the run, or else among all rows, by heads that
    /// did not train on them.
    pub(super) async fn find_rows_to_check(&mut self, side: Option<RowsOf>) {
        let (Some(mut run), Some(origin), Some(data)) =
            (self.run.take(), self.origin(), self.data.clone())
        else {
            return;
        };
        let found = match side {
            Some(side) => to_check(&mut run, &origin, side).await,
            None => {
                let config = run.trainer().config().clone();
                // Not on the run's engine: the report of the run says what that held.
                match self.open(config.budget_bytes).await {
                    Ok(engine) => {
                        let found = RowsToCheck::by_folds(&engine, &data, &config, FOLDS).await;
                        self.idle = Some(engine);
                        found
                    }
                    Err(error) => Err(error),
                }
            }
        };
        let found = match found {
            Err(Error::Stopped) => {
                self.run = Some(run);
                None
            }
            found => self.answered(run, found),
        };
        let listed = found.iter().flat_map(|check| &check.suspects).take(LISTED);
        let listed: Vec<u32> = listed.map(|suspect| suspect.row).collect();
        let pictures = Pictures::of(&data, &listed).await.ok().flatten();
        let pictures = pictures.unwrap_or_default();
        let event = Event::RowsToCheck {
            check: found.map(Box::new),
            picture_side: (pictures.side > 0).then_some(pictures.side),
        };
        let shades = Uint8Array::from(&pictures.shades[..]).buffer();
        self.post(&event, &[shades.into()]);
    }

    /// Scores vectors of every size of the test rows.
    pub(super) async fn measure_sizes(&mut self) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let tell = self.working();
        let heard = |done, total| {
            tell(Working {
                what: "scoring vectors of every size".to_owned(),
                unit: "sizes".to_owned(),
                done,
                total,
            });
        };
        let measured = async {
            let taken = Taken::of(&mut run).await?;
            taken.vector_sizes(&mut run, MOST_ROWS, heard).await
        };
        let measured = measured.await;
        if let Some(sizes) = self.answered(run, measured) {
            self.say(&Event::Sizes(sizes));
        }
    }

    /// Makes a piece of the run, and hands it to the page.
    pub(super) async fn take_home(&mut self, piece: Piece, side: RowsOf, linear: bool) {
        let (Some(mut run), Some(origin)) = (self.run.take(), self.origin()) else {
            return self.say(&Event::NotTaken(NO_RUN.to_owned()));
        };
        let made = async {
            let taken = taken(&mut run, &origin, piece, side, linear).await?;
            self.with_files(async |files| files.make(&taken, piece).await)
                .await
        };
        let made = made.await;
        if let Some((name, bytes)) = self.answered(run, made) {
            self.post(&Event::Taken(name), &[bytes]);
        }
    }

    /// Puts the run back, and returns what was made of it; if nothing was made, says why. A device that is lost ends the run.
    pub(super) fn answered<T>(&mut self, run: Run, made: Result<T>) -> Option<T> {
        match made {
            Ok(made) => {
                self.run = Some(run);
                return Some(made);
            }
            Err(error @ Error::Device(_)) => self.fail(&error),
            Err(error) => {
                self.run = Some(run);
                self.say(&Event::NotTaken(error.to_string()));
            }
        }
        None
    }
}

/// Collects what a piece of a run is made of: the head, a checkpoint, embedded rows, their neighbours.
async fn taken(
    run: &mut Run,
    origin: &Origin,
    piece: Piece,
    side: RowsOf,
    linear: bool,
) -> Result<Taken> {
    let mut taken = Taken::of(run).await?;
    if linear && piece.is_of_network() {
        taken.take_linear();
    }
    if matches!(piece, Piece::Zip | Piece::Checkpoint) {
        taken.save_run(run, origin).await?;
    }
    if piece.is_of_rows() {
        taken.embed(run, side).await?;
        if piece == Piece::H5ad {
            taken.name_as_in_file(run);
        }
    } else if piece == Piece::Zip {
        match taken.embed(run, RowsOf::Test).await {
            // Without these rows the rest of the run is whole.
            Ok(()) | Err(Error::NoDirection { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if let (true, Some(rows)) = (piece.needs_neighbours(), &mut taken.rows) {
        rows.find_neighbours(run.engine()).await?;
    }
    Ok(taken)
}

/// Finds the rows of a run whose neighbours speak against their label.
async fn to_check(run: &mut Run, origin: &Origin, side: RowsOf) -> Result<RowsToCheck> {
    let rows = taken(run, origin, Piece::RowsToCheck, side, false)
        .await?
        .rows;
    let rows = rows.ok_or_else(|| Error::Data("there are no rows to look at".to_owned()))?;
    Ok(rows.to_check().unwrap_or_default())
}
