//! `nearfar mine --out`: the triplets that a miner keeps, streamed to a file window by window.

use std::path::Path;
use std::time::Instant;

use nearfar::{
    Engine, Forecast, ListingSpec, MemoryReport, Miner, Rate, Result, TrainConfig, checksum, list,
    triplets_header,
};

use super::files::LabelledRows;
use super::output::Output;
use super::{note_line, of_work, progress};

/// The file in progress; its list is known to fit beside the rows.
pub(super) struct File<'a> {
    path: &'a Path,
    output: Output,
    source: Source<'a>,
}

/// Source of the triplets.
pub(super) struct Source<'a> {
    engine: &'a Engine,
    anchors: &'a LabelledRows,
    references: Option<&'a LabelledRows>,
    settings: &'a TrainConfig,
}

impl<'a> Source<'a> {
    /// Triplets of these rows, if the engine has memory to list them.
    pub(super) fn new(
        engine: &'a Engine,
        anchors: &'a LabelledRows,
        references: Option<&'a LabelledRows>,
        settings: &'a TrainConfig,
    ) -> Result<Self> {
        spec(anchors, references, settings).plan(&engine.room(), &Rate::default())?;
        Ok(Self {
            engine,
            anchors,
            references,
            settings,
        })
    }

    fn list(&self, sink: impl FnMut(&[[u32; 3]]) -> Result<()>) -> Result<u64> {
        pollster::block_on(list(
            self.engine,
            self.anchors.rows(),
            self.references.map(LabelledRows::rows),
            &self.settings.miner,
            self.settings.distance,
            ListingSpec::WINDOW_BYTES,
            sink,
        ))
    }

    /// Tells if only the list itself tells the number of triplets.
    fn is_a_list(&self) -> bool {
        self.settings.miner.draws()
    }
}

/// Sizes that a list of these rows needs memory for.
pub(super) fn spec(
    anchors: &LabelledRows,
    references: Option<&LabelledRows>,
    settings: &TrainConfig,
) -> ListingSpec {
    let known = references.unwrap_or(anchors);
    let (dim, count) = (known.rows.dim(), anchors.labels.len());
    ListingSpec::of_names(&known.labels, dim, count, &settings.miner)
}

/// Settings of the count before a list: every triplet, if only the list tells how many the miner keeps.
pub(super) fn counting(settings: &TrainConfig) -> TrainConfig {
    let mut settings = settings.clone();
    if settings.miner.draws() {
        settings.miner = Miner::None;
    }
    settings
}

/// Forecast of counting and then listing: the memory of the larger one, as neither holds it beside the other, and the time of both.
pub(super) fn both(counting: Forecast, listing: Forecast) -> Forecast {
    let bytes = |forecast: &Forecast| forecast.memory.total_bytes();
    let operations = counting.operations + listing.operations;
    let predicted_ms = counting.predicted_ms + listing.predicted_ms;
    let submits = counting.submits + listing.submits;
    let traffic_bytes = counting.traffic_bytes + listing.traffic_bytes;
    let larger = if bytes(&counting) > bytes(&listing) {
        counting
    } else {
        listing
    };
    Forecast {
        operations,
        predicted_ms,
        submits,
        traffic_bytes,
        ..larger
    }
}

/// Lists the miner's triplets through one window, and computes their checksum on the device.
pub(super) fn sum_up(
    engine: &Engine,
    anchors: &LabelledRows,
    references: Option<&LabelledRows>,
    settings: &TrainConfig,
) -> Result<serde_json::Value> {
    let started = Instant::now();
    let (triplets, checksum) = pollster::block_on(checksum(
        engine,
        anchors.rows(),
        references.map(LabelledRows::rows),
        &settings.miner,
        settings.distance,
        ListingSpec::WINDOW_BYTES,
    ))?;
    let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
    let report = serde_json::json!({ "triplets": triplets, "checksum": checksum });
    Ok(of_work(report, engine, elapsed_ms))
}

impl<'a> File<'a> {
    /// Creates the file, before anything is counted.
    pub(super) fn create(path: &'a Path, source: Source<'a>, inputs: &[&str]) -> Result<Self> {
        Ok(Self {
            path,
            output: Output::create(path, inputs)?,
            source,
        })
    }

    /// Lists as many triplets as were counted, and adds this to the report. Draws are listed twice, first to count them.
    pub(super) fn write(self, counted: u64, report: &mut serde_json::Value) -> Result<()> {
        let Self {
            path,
            mut output,
            source,
        } = self;
        let started = Instant::now();
        let count = if source.is_a_list() {
            let count = source.list(|_| Ok(()))?;
            if let Some(mining) = report["mining"].as_object_mut() {
                mining.retain(|name, _| ["anchors", "valid"].contains(&name.as_str()));
                mining.insert("mined".to_owned(), count.into());
            }
            count
        } else {
            counted
        };
        let bar = progress::Progress::new(count, "triplets");
        let (mut done, mut writing) = (0, std::time::Duration::ZERO);
        output.write(&triplets_header(count))?;
        let listed = source.list(|window| {
            let begun = Instant::now();
            output.write(bytemuck::cast_slice(window))?;
            done += window.len() as u64;
            bar.set(done);
            writing += begun.elapsed();
            Ok(())
        })?;
        bar.finish();
        assert_eq!(listed, count, "as many triplets are listed as were counted");
        let listing_ms = (started.elapsed() - writing).as_secs_f64() * 1e3;
        output.finish()?;
        let counting_ms = report["elapsed_ms"].as_f64().unwrap_or(0.0);
        report["elapsed_ms"] = (counting_ms + listing_ms).into();
        report["triplets"] = count.into();
        report["memory"] = serde_json::json!(MemoryReport::new(source.engine.ledger()));
        note_line(format_args!("{count} triplets in {}", path.display()));
        Ok(())
    }
}
