//! The model card in Markdown: training data, method, scores of the head, and the verdict.

use super::code;
use super::head::Head;
use super::results::{Results, data_name};
use super::text::markdown;
use crate::base::ledger::Bytes;
use crate::cpu::Norm;
use crate::judge::verdict::{Compared, Gain};
use crate::run::RunReport;
use crate::search::metrics::Metrics;

/// Scores of one map on one side.
pub(super) struct ScoreLine {
    /// Name of the map and the side.
    pub(super) what: String,
    pub(super) metrics: Metrics,
}

/// Headings of the scores.
pub(super) const SCORES: [&str; 6] = [
    "of",
    "precision@1",
    "95 % interval",
    "MAP@R",
    "R-precision",
    "queries",
];

impl ScoreLine {
    /// The numbers under [`SCORES`].
    pub(super) fn numbers(&self) -> [String; 5] {
        let metrics = &self.metrics;
        let [low, high] = interval(metrics);
        [
            format!("{:.3}", metrics.precision_at_1),
            format!("{low:.3} to {high:.3}"),
            format!("{:.3}", metrics.mean_average_precision_at_r),
            format!("{:.3}", metrics.r_precision),
            metrics.queries.to_string(),
        ]
    }
}

/// Gains of the head over each baseline, over the same queries: the baseline, precision@1, MAP@R, and the queries that one alone
/// has right.
pub(super) fn gains(report: &RunReport) -> Vec<[String; 4]> {
    let text = |gain: &Gain| format!("{:+.3} ({:+.3} to {:+.3})", gain.gain, gain.low, gain.high);
    let line = |compared: &Compared| {
        [
            compared.with.clone(),
            text(&compared.nearest),
            text(&compared.groups),
            format!(
                "{} by the head, {} by the other",
                compared.head_alone, compared.other_alone
            ),
        ]
    };
    report.compared.iter().map(line).collect()
}

/// Headings of the gains.
pub(super) const GAINS: [&str; 4] = [
    "gain over",
    "precision@1",
    "MAP@R",
    "nearest row right by one alone",
];

/// Scores of the head and of the baselines.
pub(super) fn scores(report: &RunReport) -> Vec<ScoreLine> {
    let mut lines = Vec::new();
    let mut add = |what: &str, metrics: Option<Metrics>| {
        lines.extend(metrics.map(|metrics| ScoreLine {
            what: what.to_owned(),
            metrics,
        }));
    };
    if let Some(scores) = &report.r#final {
        add("head, test rows", scores.test);
        add("head, test rows, own group too", scores.test_own_group);
        add(
            "head, test rows, without copies",
            scores.test_without_copies,
        );
        add(
            "head, test rows, mean over classes",
            scores.test_over_classes,
        );
        add("head, test rows, features in f32", scores.test_unrounded);
        add("head, validation rows", scores.validation);
        add("head, as many training rows", scores.train);
    }
    let raw = report.data.scaling.scored();
    add(&format!("{raw}, test rows"), report.baseline.raw.test);
    let linear = report.baseline.linear.and_then(|linear| linear.test);
    add("linear map (LDA), test rows", linear);
    lines
}

/// 95 % interval of precision@1: over the draw of groups if rows have some, else of the queries (Wilson).
fn interval(metrics: &Metrics) -> [f64; 2] {
    if let Some(interval) = metrics.interval {
        return interval;
    }
    const Z: f64 = 1.959964;
    let (n, p) = (metrics.queries as f64, metrics.precision_at_1);
    if n == 0.0 {
        return [0.0, 1.0];
    }
    let middle = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let whole = 1.0 + Z * Z / n;
    [(middle - half) / whole, (middle + half) / whole]
}

/// Description of the data, a line each.
fn data(report: &RunReport) -> Vec<[String; 2]> {
    let data = &report.data;
    let count = |rows: usize, what: &str| format!("{rows} {what}");
    let sides = [
        count(data.train, "train"),
        count(data.validation, "validate"),
        count(data.test, "test"),
    ];
    let mut lines = vec![
        ["Data".to_owned(), data_name(report).to_owned()],
        [
            "Rows".to_owned(),
            format!("{}: {}", data.rows, sides.join(", ")),
        ],
        ["Features".to_owned(), data.dim.to_string()],
        ["Classes".to_owned(), data.classes.to_string()],
    ];
    let column = data.label_column.iter();
    lines.extend(column.map(|column| ["Label".to_owned(), column.clone()]));
    lines
}

/// Version, device, time and memory of the training, a line each.
fn device(report: &RunReport) -> Vec<[String; 2]> {
    let RunReport {
        engine,
        adapter,
        memory,
        ..
    } = report;
    let version = match &report.version[..] {
        "" => "unknown",
        version => version,
    };
    let rows = [
        (
            "Steps",
            format!(
                "{} of {}{}",
                report.steps,
                report.config.steps,
                chosen(report)
            ),
        ),
        ("Ran on", format!("{engine}, {adapter}")),
        ("Time", format!("{:.1} s", report.elapsed_ms / 1e3)),
        (
            "Memory",
            format!(
                "{} at most, of {}",
                Bytes(memory.peak_bytes),
                Bytes(memory.budget_bytes)
            ),
        ),
        ("Nearfar", version.to_owned()),
    ];
    let rows = rows.map(|(name, value)| [name.to_owned(), value]);
    rows.into_iter().chain(report.halved()).collect()
}

/// The step whose head it is, if it was chosen by `early_stop`.
fn chosen(report: &RunReport) -> String {
    let Some(best) = report.best else {
        return String::new();
    };
    let early = match best.stopped_at {
        Some(_) => ", stopped early",
        None => "",
    };
    format!("{early}; {}, whose head this is", best.words())
}

/// Data and training under their titles, a line each.
pub(super) fn facts(report: &RunReport) -> [(&'static str, Vec<[String; 2]>); 2] {
    [("Data", data(report)), ("Training", device(report))]
}

/// Every setting, a line each.
pub(super) fn settings(report: &RunReport) -> Vec<[String; 2]> {
    let mut settings = report.config.settings();
    settings.sort();
    settings.into_iter().map(<[String; 2]>::from).collect()
}

/// The network in words, and how it fills cells without a number.
fn network(head: &Head) -> String {
    let (inputs, dimensions) = (head.inputs(), head.dimensions());
    let widths: Vec<String> = std::iter::once(inputs)
        .chain(head.layers.iter().map(|layer| layer.shape[0]))
        .map(|width| width.to_string())
        .collect();
    let mut text = format!(
        "A network that maps rows of {inputs} features to embeddings of {dimensions} dimensions and length 1, in which rows of one \
         class lie near each other. Linear layers with {} between them: {}{}. Rows go in as they are in the file; any scaling is \
         folded into the first layer.\n\n",
        match head.norm() {
            Norm::None => head.activation().class().to_owned(),
            norm => format!(
                "{} and {}",
                Norm::ALL[norm as usize].1,
                head.activation().class()
            ),
        },
        widths.join(" -> "),
        match head.skip() {
            Some(_) => ", and a linear map of the row that is added to the output",
            None => "",
        }
    );
    if !head.filled.is_empty() {
        text += &format!(
            "Cells that held no number were filled with the median of their column; there were some in {} of {inputs} columns. \
             `nearfar embed`, the ONNX file and the lines below fill them with the same numbers.\n\n",
            head.filled.len()
        );
    }
    text
}

/// Tables of the scores, and of the gains over each baseline.
fn tables(report: &RunReport) -> String {
    let mut text = format!("| {} |\n|---|--:|--:|--:|--:|--:|\n", SCORES.join(" | "));
    for line in scores(report) {
        text += &format!("| {} | {} |\n", line.what, line.numbers().join(" | "));
    }
    if !report.compared.is_empty() {
        text += &format!("\n| {} |\n|---|--:|--:|---|\n", GAINS.join(" | "));
        for cells in gains(report) {
            text += &format!("| {} |\n", cells.map(|cell| markdown(&cell)).join(" | "));
        }
    }
    text
}

/// The whole model card.
pub(super) fn card(results: &Results) -> Vec<u8> {
    let (report, head) = (&results.report, &results.head);
    let mut text = format!("# Embedding head\n\n{}", network(head));
    if let [_, below @ ..] = &report.config.matryoshka.levels()[..]
        && !below.is_empty()
    {
        let sizes: Vec<String> = below.iter().map(|level| level.dim.to_string()).collect();
        text += &format!(
            "The first {} numbers of an embedding, brought to length 1 anew, were trained as embeddings of their own (Matryoshka \
             learning, Kusupati et al. 2022).\n\n",
            sizes.join(" or ")
        );
    }
    if let Some(verdict) = &report.verdict {
        text += &format!("**{}**\n\n", markdown(verdict));
    }
    text += &format!("## Scores\n\n{}", tables(report));
    text += "\nprecision@1 is how often the nearest other row has the same class, MAP@R how well all rows of a class stand together. \
         Test rows were scored once, at the end.\n";
    let item = |text: &str| format!("- {}\n", markdown(text));
    for (title, lines) in facts(report) {
        text += &format!("\n## {title}\n\n");
        for [name, value] in lines {
            text += &format!("- {name}: {}\n", markdown(&value));
        }
        if title == "Data" {
            text.extend(report.data.notes.iter().map(|note| item(note)));
        }
    }
    text += &format!("\n{}", code::markdown(results));
    if report.baseline.linear.is_some() {
        text += "\n`linear.safetensors` holds the linear map of the table in the same way: one layer, `0.weight` and `0.bias`.\n";
    }
    if !report.warnings.is_empty() {
        text += "\n## Warnings\n\n";
        text.extend(report.warnings.iter().map(|warning| item(warning)));
    }
    text += "\n## Settings\n\n| setting | value |\n|---|---|\n";
    for [key, value] in settings(report) {
        text += &format!("| {} | {} |\n", markdown(&key), markdown(&value));
    }
    text += "\nNames are those of PyTorch Metric Learning. `config.json` repeats the run: `nearfar train --config config.json --data \
         ..`\n";
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small;
    use super::*;

    #[test]
    fn an_interval_is_wilsons() {
        let metrics = Metrics {
            precision_at_1: 0.9,
            queries: 100,
            ..Metrics::default()
        };
        // scipy.stats.binomtest(90, 100).proportion_ci(method="wilson")
        let [low, high] = interval(&metrics);
        assert!(
            (low - 0.825634).abs() < 1e-6 && (high - 0.944771).abs() < 1e-6,
            "{low} {high}"
        );
    }

    #[test]
    fn a_card_says_data_scores_settings_and_device_and_keeps_markup_as_text() {
        let text = String::from_utf8(card(&small())).expect("text");
        for part in [
            "3 -> 4 -> 2",
            "| head, test rows | 0.700 | 0.604 to 0.781 |",
            "| raw features, test rows | 0.500 |",
            "- Rows: 9: 4 train, 3 validate, 2 test",
            "- Nearfar: 0.1.0",
            "| miner.type\\_of\\_triplets | semihard |",
            "**Keep this head.",
            "head = torch.nn.Sequential(\n    torch.nn.Linear(3, 4), torch.nn.ReLU(),\n    torch.nn.Linear(4, 2),\n)",
            "- Data: &lt;script&gt;alert(1)&lt;script&gt;\\|\\*x\\*.csv",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("<script") && !text.contains("someone"));
    }
}
