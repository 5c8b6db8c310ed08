//! `nearfar plan`: forecast of a command's memory, by purpose, and if it fits. Runs nothing but a short test of the rate.

use clap::{Args, Subcommand};
use nearfar::{Bytes, Engine, Forecast, Rate, Result, Room, Trainer, measure_rate};

use super::{Common, embed, evaluate, knn, mine, print_json, print_line, sizes, threshold, train};

/// Print what a command would take, memory by purpose and time, and whether it fits; run nothing
///
/// The files of the command are read and checked, and the speed of the device is measured for a moment.
#[derive(Debug, Args)]
pub(super) struct Plan {
    #[command(subcommand)]
    command: Planned,
}

#[derive(Debug, Subcommand)]
enum Planned {
    Train(train::Train),
    Embed(embed::Embed),
    Evaluate(evaluate::Evaluate),
    Threshold(threshold::Threshold),
    Sizes(sizes::Sizes),
    Knn(knn::Knn),
    Mine(mine::Mine),
    Loss(mine::Loss),
}

impl Plan {
    pub(super) fn run(&self) -> Result<()> {
        let (common, budget) = match &self.command {
            Planned::Train(train) => (&train.common, train.budget()?),
            Planned::Embed(embed) => (&embed.common, Common::default_budget()),
            Planned::Evaluate(evaluate) => (&evaluate.common, Common::default_budget()),
            Planned::Threshold(threshold) => (&threshold.common, Common::default_budget()),
            Planned::Sizes(sizes) => (&sizes.common, Common::default_budget()),
            Planned::Knn(knn) => (&knn.common, Common::default_budget()),
            Planned::Mine(mine) => (&mine.common, Common::default_budget()),
            Planned::Loss(loss) => (&loss.common, Common::default_budget()),
        };
        let engine = common.open_beside_others(budget)?;
        let (engine, rate) = match &self.command {
            Planned::Train(_) => pollster::block_on(Trainer::measure_rate(engine))?,
            _ => {
                let rate = pollster::block_on(measure_rate(&engine))?;
                (engine, rate)
            }
        };
        pollster::block_on(engine.settle())?;
        let room = engine.room();
        let forecast = match &self.command {
            Planned::Train(train) => train.plan(&room, &rate)?,
            Planned::Embed(embed) => embed.plan(&room, &rate)?,
            Planned::Evaluate(evaluate) => evaluate.plan(&room, &rate)?,
            Planned::Threshold(threshold) => threshold.plan(&room, &rate)?,
            Planned::Sizes(sizes) => sizes.plan(&room, &rate)?,
            Planned::Knn(knn) => knn.plan(&room, &rate)?,
            Planned::Mine(mine) => mine.plan(&room, &rate)?,
            Planned::Loss(loss) => loss.plan(&room, &rate)?,
        };
        if common.json {
            return print_json(&report(&engine, &room, &rate, &forecast));
        }
        print(&engine, &room, &forecast);
        Ok(())
    }
}

fn report(engine: &Engine, room: &Room, rate: &Rate, forecast: &Forecast) -> serde_json::Value {
    let mut report = serde_json::json!(forecast);
    if let Some(fields) = report.as_object_mut() {
        let info = engine.info();
        fields.insert("engine".to_owned(), info.engine.clone().into());
        fields.insert("adapter".to_owned(), info.adapter.clone().into());
        fields.insert("fits".to_owned(), true.into());
        fields.insert("budget_bytes".to_owned(), room.budget_bytes.into());
        fields.insert("free_bytes".to_owned(), room.free_bytes.into());
        let rate = rate.operations_per_ms;
        fields.insert("operations_per_ms".to_owned(), rate.into());
    }
    report
}

fn print(engine: &Engine, room: &Room, forecast: &Forecast) {
    let info = engine.info();
    print_line(format_args!("{} on {}", info.engine, info.adapter));
    for buffer in forecast.memory.buffers() {
        print_line(format_args!(
            "{:<24} {:<14} {:>12}",
            buffer.label,
            buffer.purpose.name(),
            Bytes(buffer.bytes).to_string()
        ));
    }
    print_line(format_args!(
        "It fits: {} are needed, {} of the {} budget are free.",
        Bytes(forecast.memory.total_bytes()).rounded_up(),
        Bytes(room.free_bytes).rounded_down(),
        Bytes(room.budget_bytes).rounded_down()
    ));
    if forecast.chunk_rows > 0 {
        let references = if forecast.resident {
            "all references stay on the device".to_owned()
        } else {
            format!(
                "references are read {} rows at a time, {} times in all",
                forecast.chunk_rows, forecast.passes
            )
        };
        print_line(format_args!(
            "Work is cut into {} queries at a time; {references}.",
            forecast.block_queries
        ));
    }
    if let Some(path) = forecast.path {
        print_line(format_args!("Triplets are mined by {}.", path.name()));
    }
    if let Some(chunk) = forecast.batch_chunk {
        print_line(format_args!("{chunk}."));
    }
    if forecast.map_bytes > 0 {
        print_line(format_args!(
            "A map of its rows, where one is drawn, takes up to {} of the host's memory.",
            Bytes(forecast.map_bytes).rounded_up()
        ));
    }
    print_line(format_args!(
        "It takes about {:.1} s: {} go to the device, in {} submits.",
        forecast.predicted_ms / 1e3,
        Bytes(forecast.traffic_bytes),
        forecast.submits
    ));
}
