//! `nearfar mine --out`: the triplets that a miner keeps, streamed to a file window by window.

use std::path::Path;
use std::time::Instant;

use nearfar::{
    Engine, Forecast, ListingSpec, MemoryReport, Rate, Result, TrainConfig, list, triplets_header,
};

use super::files::{LabelledRows, Output};
use super::{note_line, progress};

/// The file under way, of rows that it is known to fit beside.
pub(super) struct File<'a> {
    output: Output,
    path: &'a Path,
    engine: &'a Engine,
    anchors: &'a LabelledRows,
    references: Option<&'a LabelledRows>,
    settings: &'a TrainConfig,
}

/// What a list of these rows has to have room for.
pub(super) fn spec(
    anchors: &LabelledRows,
    references: Option<&LabelledRows>,
    settings: &TrainConfig,
) -> ListingSpec {
    let known = references.unwrap_or(anchors);
    let (dim, count) = (known.rows.dim(), anchors.labels.len());
    ListingSpec::of_names(&known.labels, dim, count, &settings.miner)
}

/// Counting and then listing: the memory of the larger one, as neither holds it beside the other, and the time of both.
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

impl<'a> File<'a> {
    /// Begins the file, before anything is counted: what cannot be listed or written is refused first.
    pub(super) fn create(
        path: &'a Path,
        engine: &'a Engine,
        anchors: &'a LabelledRows,
        references: Option<&'a LabelledRows>,
        settings: &'a TrainConfig,
    ) -> Result<Self> {
        spec(anchors, references, settings).plan(&engine.room(), &Rate::default())?;
        Ok(Self {
            output: Output::create(path)?,
            path,
            engine,
            anchors,
            references,
            settings,
        })
    }

    /// Lists as many triplets as were counted, and says so in the report.
    pub(super) fn write(mut self, count: u64, report: &mut serde_json::Value) -> Result<()> {
        let (started, bar) = (Instant::now(), progress::Progress::new(count, "triplets"));
        let mut writing = std::time::Duration::ZERO;
        self.output.write(&triplets_header(count))?;
        let (mut done, output) = (0, &mut self.output);
        let listed = pollster::block_on(list(
            self.engine,
            self.anchors.rows(),
            self.references.map(LabelledRows::rows),
            &self.settings.miner,
            ListingSpec::WINDOW_BYTES,
            |window| {
                let begun = Instant::now();
                output.write(bytemuck::cast_slice(window))?;
                done += window.len() as u64;
                bar.set(done);
                writing += begun.elapsed();
                Ok(())
            },
        ))?;
        bar.finish();
        assert_eq!(listed, count, "as many triplets are listed as were counted");
        let listing_ms = (started.elapsed() - writing).as_secs_f64() * 1e3;
        self.output.finish()?;
        let counting_ms = report["elapsed_ms"].as_f64().unwrap_or(0.0);
        report["elapsed_ms"] = (counting_ms + listing_ms).into();
        report["triplets"] = count.into();
        report["memory"] = serde_json::json!(MemoryReport::new(self.engine.ledger()));
        note_line(format_args!("{count} triplets in {}", self.path.display()));
        Ok(())
    }
}
