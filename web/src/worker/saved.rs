//! Runs that are saved, kept by the page, and resumed.

use js_sys::Uint8Array;
use nearfar::{Checkpoint, Error, Origin, Result, Run};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::File;
use web_time::{Duration, Instant};

use super::Core;
use super::slots::Saved;
use crate::offer::Offer;
use crate::protocol::Event;

/// Least time between two automatic resumes after a device was lost.
const SPARED: Duration = Duration::from_secs(60);

impl Core {
    /// Reads the checkpoint of an exported run, and what can be offered of it.
    pub(super) async fn saved_run(&self, files: Vec<File>) -> Result<(Offer, JsValue)> {
        let file = files.into_iter().next();
        let file = file.ok_or_else(|| Error::Data("there is no file".to_owned()))?;
        let bytes = self
            .with_files(async |files| files.saved_run(&file).await)
            .await?;
        let read = Uint8Array::new(&bytes).to_vec();
        let checkpoint = Checkpoint::read(&read)
            .map_err(|error| Error::Data(format!("{}: {error}", file.name())))?;
        Ok((Offer::of(0, &checkpoint), bytes))
    }

    /// Resumes the saved run of this number, or the one in the file if there is one.
    pub(super) async fn go_on_with_saved(&mut self, run: u64, files: Vec<File>) -> Result<()> {
        self.end_run().await;
        let gone = |why: String| {
            Error::Data(format!(
                "the saved run cannot be read ({why}): press Run to start again"
            ))
        };
        let kept = files.into_iter().next();
        let is_kept = kept.is_some();
        let bytes = match kept {
            Some(file) => Some(content(&file).await?),
            None => self.slots.take(run).await.map_err(gone)?,
        };
        let bytes = bytes.ok_or_else(|| gone("it is no longer there".to_owned()))?;
        let checkpoint = Checkpoint::read(&bytes)?;
        let config = checkpoint.config().clone();
        let data = self.seeded(&config).await?;
        let engine = self.open(config.budget_bytes).await?;
        let mut run = Run::resume(engine, data, &checkpoint).await?.watched();
        run.see_copies(&self.survey);
        let other = checkpoint.other_device(run.device());
        // A run that is opened from a file has no slots yet.
        self.slots.begin(!is_kept);
        self.kept = (0, false);
        self.show(run, None);
        other
            .into_iter()
            .for_each(|other| self.say(&Event::Said(other)));
        Ok(())
    }

    /// Origin of the data: its name, its label column, and how it was read.
    pub(super) fn origin(&self) -> Option<Origin> {
        let data = self.data.as_ref()?;
        Some(Origin {
            data: data.name.clone(),
            labels: data.labelled_by().cloned(),
            missing: data.missing,
            columns: self.columns.clone(),
            ..Origin::default()
        })
    }

    /// Hands the page what it needs to keep the run, if there is anything new; once the page keeps it, the `saved` run is deleted.
    pub(super) async fn keep(&mut self, saved: u64) {
        let (Some(run), Some(origin)) = (&self.run, self.origin()) else {
            return;
        };
        let now = (run.step(), run.is_finished());
        if now.0 == 0 || now == self.kept {
            return;
        }
        // A run whose device is lost cannot be read any more: only what the page shows is left of it.
        if let Ok(bytes) = run.checkpoint(&origin).await {
            self.kept = now;
            let bytes = Uint8Array::from(&bytes[..]).buffer();
            self.post(&Event::Kept { origin, saved }, &[bytes.into()]);
        }
    }

    /// Saves the run, if there is one that has taken a step and is not over.
    pub(super) async fn save(&mut self) {
        let Some(run) = self
            .run
            .as_ref()
            .filter(|run| !run.is_finished() && run.step() > 0)
        else {
            return;
        };
        let Some(origin) = self.origin() else { return };
        let is_first = self.slots.held() == 0;
        match self.slots.save(run, &origin).await {
            Saved::Yes => {
                self.say(&Event::NotSaved(None));
                self.say_saved();
                if is_first {
                    self.find_saved(1, true).await;
                }
            }
            Saved::Not(why) => self.say(&Event::NotSaved(Some(why))),
            Saved::Silent => {}
        }
    }

    /// Tells the page the runs that can be resumed.
    pub(super) fn say_saved(&self) {
        let (offers, own) = self.slots.offers();
        self.say(&Event::CanGoOn(offers, own));
    }

    /// Looks for the runs that can be resumed, and tells the page. If `bounded`, the oldest of too many are deleted, which is said,
    /// too.
    pub(super) async fn find_saved(&mut self, tries: u32, bounded: bool) {
        let said = self.slots.find(tries, bounded).await;
        self.say_saved();
        for text in said {
            self.say(&Event::Said(text));
        }
    }

    /// Tells if a run whose device is lost can be resumed from its last save. Only once within [`SPARED`]: what ends a device may
    /// end the next.
    pub(super) fn is_saved(&self) -> bool {
        let is_new = |lost: Instant| lost.elapsed() < SPARED;
        self.slots.held() > 0 && !self.lost.is_some_and(is_new)
    }

    /// Resumes the saved run on another device.
    pub(super) async fn go_on_without(&mut self, error: &Error) {
        self.lost = Some(Instant::now());
        let text = format!("{error}. The run goes on from where it was saved last.");
        match self.go_on_with_saved(self.slots.held(), Vec::new()).await {
            Ok(()) => self.say(&Event::Said(text)),
            Err(why) => {
                self.slots.close();
                self.fail(&why);
            }
        }
    }
}

/// The content of a file.
async fn content(file: &File) -> Result<Vec<u8>> {
    let bytes = JsFuture::from(file.array_buffer()).await;
    let bytes = bytes.map_err(|_| {
        Error::Data(format!(
            "{}: the file cannot be read any more: choose it again",
            file.name()
        ))
    })?;
    Ok(Uint8Array::new(&bytes).to_vec())
}
