//! The map of the data or the run, and its places by UMAP.

use js_sys::{Float32Array, Uint8Array, Uint16Array, Uint32Array};
use nearfar::{Error, Map, Result, Run, Side, Umap};
use wasm_bindgen::JsValue;
use web_time::{Duration, Instant};

use super::progress::milliseconds;
use super::{Core, NO_RUN};
use crate::protocol::{Event, Part};

/// Time that UMAP runs before the page gets the positions.
const PLACE_FOR: Duration = Duration::from_millis(120);

/// State of the placing by UMAP.
pub(super) enum Placing {
    /// Asked for, with nothing done yet.
    Asked,
    /// Under way: the layouts of the features and of the embeddings, and the time of the start.
    Going(Box<[Umap; 2]>, Instant),
}

impl Core {
    /// Sends the page the map, between two slices of the run; after the last slice also how the run ended.
    pub(super) async fn show_map(&mut self) {
        let Some(mut run) = self.run.take() else {
            self.owes_map = false;
            return;
        };
        match self.say_map(&mut run).await {
            Ok(()) => {
                self.owes_map = false;
                let is_finished = run.is_finished();
                if is_finished {
                    self.say_end(&run);
                }
                self.run = Some(run);
                if is_finished {
                    self.keep(self.slots.held()).await;
                }
            }
            // The map is sent after the command that stopped it, if the run is still there.
            Err(Error::Stopped) => self.run = Some(run),
            Err(error) => {
                self.owes_map = false;
                self.fail(&error);
            }
        }
    }

    /// Sends the page a map of another side, between two slices of the run.
    pub(super) async fn show_side(&mut self, side: Side) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        run.show_side(side);
        match self.say_map(&mut run).await {
            // A map that was stopped comes with the next evaluation.
            Ok(()) | Err(Error::Stopped) => self.run = Some(run),
            Err(error) => self.fail(&error),
        }
    }

    pub(super) async fn say_map(&mut self, run: &mut Run) -> Result<()> {
        self.post_map(run.map().await?);
        Ok(())
    }

    /// Places the rows of the map by UMAP for a moment, if that is asked for.
    pub(super) async fn place(&mut self) {
        match self.placing.take() {
            None => {}
            Some(Placing::Asked) => self.place_first().await,
            Some(Placing::Going(both, since)) => self.place_on(both, since).await,
        }
    }

    /// Begins the layouts by UMAP.
    pub(super) async fn place_first(&mut self) {
        let Some(mut run) = self.run.take() else {
            return self.say(&Event::NotPlaced(NO_RUN.to_owned()));
        };
        match run.umap().await {
            Ok(both) => {
                self.run = Some(run);
                self.placing = Some(Placing::Going(Box::new(both), Instant::now()));
            }
            Err(error @ Error::Device(_)) => self.fail(&error),
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => {
                self.run = Some(run);
                self.placing = Some(Placing::Asked);
            }
            Err(error) => {
                self.run = Some(run);
                self.say(&Event::NotPlaced(error.to_string()));
            }
        }
    }

    /// Advances UMAP for a moment, and sends the page the positions.
    pub(super) async fn place_on(&mut self, mut both: Box<[Umap; 2]>, since: Instant) {
        let began = Instant::now();
        // One epoch of each in turn: both have the same number.
        while !both[1].is_done() && began.elapsed() < PLACE_FOR {
            Umap::advance_both(&mut both, 1);
        }
        let event = Event::PlacedByUmap {
            epochs: Part::after(milliseconds(since), both[1].epoch(), both[1].epochs()),
        };
        let points = Umap::side_by_side(&both).map(|points| {
            let points = Float32Array::from(points.as_flattened());
            JsValue::from(points.buffer())
        });
        if !both[1].is_done() {
            self.placing = Some(Placing::Going(both, since));
        }
        self.post(&event, &points);
        // Commands that came meanwhile have their turn: one may stop this.
        if let Some(run) = &mut self.run {
            run.trainer().engine().breathe().await.ok();
        }
    }

    pub(super) fn post_map(&mut self, map: Map) {
        self.placing = None;
        let points = Float32Array::from(map.points.as_flattened()).buffer();
        let classes = Uint16Array::from(&map.classes[..]).buffer();
        let rows = Uint32Array::from(&map.rows[..]).buffer();
        let before = Float32Array::from(map.before.as_flattened()).buffer();
        let pictures = map.pictures.unwrap_or_default();
        let shades = Uint8Array::from(&pictures.shades[..]).buffer();
        let event = Event::Map {
            side: map.side,
            names: map.names,
            picture_side: (pictures.side > 0).then_some(pictures.side),
            aside: map.aside,
        };
        let parts = [points, classes, rows, before, shades];
        self.post(&event, &parts.map(Into::into));
    }
}
