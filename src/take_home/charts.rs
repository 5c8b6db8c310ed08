//! Charts of a run over its steps: for the report, and each as an SVG file to show and a CSV file to draw again.

use super::TakenFile;
use super::svg::{self, Line};
use crate::run::RunReport;
use crate::search::metrics::Metrics;
use crate::train::trainer::{Evaluation, StepReport};

/// A chart.
pub(super) struct Chart {
    /// The name of its files.
    pub(super) file: &'static str,
    /// Title of the chart.
    pub(super) title: &'static str,
    pub(super) lines: Vec<Line>,
}

/// All charts; one without measurements has no points.
pub(super) fn charts(report: &RunReport) -> [Chart; 5] {
    let scored = |name, score: &dyn Fn(&Evaluation) -> Option<f64>| Line {
        name,
        points: report
            .evaluations
            .iter()
            .filter_map(|evaluation| Some([evaluation.step as f64, score(evaluation)?]))
            .collect(),
    };
    let taken = |name, value: &dyn Fn(&StepReport) -> f64| Line {
        name,
        points: report
            .history
            .iter()
            .map(|step| [step.step as f64, value(step)])
            .filter(|[_, value]| value.is_finite())
            .collect(),
    };
    let (raw, linear) = (report.baseline.raw, report.baseline.linear);
    let scores = |of: fn(&Metrics) -> f64| {
        let raw = raw.validation.as_ref().map(of);
        let linear = linear.and_then(|linear| linear.validation).as_ref().map(of);
        vec![
            scored("validation", &|e| e.validation.as_ref().map(of)),
            scored("training", &|e| e.train.as_ref().map(of)),
            scored("raw features, validation", &|_| raw),
            scored("linear map, validation", &|_| linear),
        ]
    };
    let chart = |file, title, lines| Chart { file, title, lines };
    [
        chart(
            "precision_at_1",
            "precision@1 while training",
            scores(|metrics| metrics.precision_at_1),
        ),
        chart(
            "map_at_r",
            "MAP@R while training",
            scores(|metrics| metrics.mean_average_precision_at_r),
        ),
        chart("loss", "Loss", vec![taken("loss", &|step| step.loss)]),
        chart(
            "mining",
            "Triplets or pairs: valid, mined, active",
            vec![
                taken("valid", &|step| step.mining.valid as f64),
                taken("mined", &|step| step.mining.mined as f64),
                taken("active", &|step| step.mining.active as f64),
            ],
        ),
        chart(
            "memory",
            "Device memory, bytes",
            vec![taken("Nearfar", &|step| step.memory_bytes as f64)],
        ),
    ]
}

/// Each chart that has a line, as SVG and as CSV, in a folder.
pub(super) fn files(report: &RunReport) -> Vec<TakenFile> {
    let mut files = Vec::new();
    for Chart { file, title, lines } in charts(report) {
        if let Some(svg) = svg::file(title, &lines) {
            files.push(TakenFile::new(format!("charts/{file}.svg"), svg.into()));
            files.push(TakenFile::new(format!("charts/{file}.csv"), csv(&lines)));
        }
    }
    files
}

/// A row for each point: the line's name, the step, the value.
fn csv(lines: &[Line]) -> Vec<u8> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let mut put = |cells: [String; 3]| file.write_record(cells).expect("memory takes it");
    put(["line", "step", "value"].map(str::to_owned));
    for line in lines {
        for [step, value] in &line.points {
            put([line.name.to_owned(), step.to_string(), value.to_string()]);
        }
    }
    file.into_inner().expect("memory takes it")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small_report;
    use super::*;

    #[test]
    fn each_chart_is_a_picture_and_a_table_of_the_same_points() {
        let files = files(&small_report());
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let charts = ["precision_at_1", "map_at_r", "loss", "mining", "memory"];
        let expected: Vec<String> = charts
            .iter()
            .flat_map(|name| [format!("charts/{name}.svg"), format!("charts/{name}.csv")])
            .collect();
        assert_eq!(names, expected);
        let text = |at: usize| String::from_utf8_lossy(&files[at].bytes).into_owned();
        assert_eq!(
            text(1),
            "line,step,value\nvalidation,0,0.25\nvalidation,2,0.75\n"
        );
        assert_eq!(text(5), "line,step,value\nloss,1,0.5\nloss,2,0.125\n");
        for part in ["<text", ">loss</text>", "<title>Loss</title>", "</svg>\n"] {
            assert!(text(4).contains(part), "{part}: {}", text(4));
        }
        assert_eq!(
            text(4).matches("<svg").count(),
            text(4).matches("</svg>").count()
        );
    }
}
