//! The history of a run step by step, for other programs: CSV and JSON Lines, one line for each step in the history. A step that
//! was evaluated has its scores on the same line; the scores before the first step are step 0.

use serde_json::{Value, json};

use crate::run::RunReport;

/// Names of the columns, and the JSON pointer of each value in the line's object.
const COLUMNS: [(&str, &str); 20] = [
    ("step", "/step"),
    ("loss", "/loss"),
    ("valid", "/mining/valid"),
    ("easy", "/mining/easy"),
    ("semihard", "/mining/semihard"),
    ("hard", "/mining/hard"),
    ("mined", "/mining/mined"),
    ("active", "/mining/active"),
    ("memory_bytes", "/memory_bytes"),
    ("pml_bytes", "/pml_bytes"),
    ("train_precision_at_1", "/train/precision_at_1"),
    ("train_r_precision", "/train/r_precision"),
    (
        "train_mean_average_precision_at_r",
        "/train/mean_average_precision_at_r",
    ),
    ("validation_precision_at_1", "/validation/precision_at_1"),
    ("validation_r_precision", "/validation/r_precision"),
    (
        "validation_mean_average_precision_at_r",
        "/validation/mean_average_precision_at_r",
    ),
    ("validation_standard_error", "/validation/standard_error"),
    ("mean_similarity", "/diagnostics/mean_similarity"),
    ("effective_rank", "/diagnostics/effective_rank"),
    ("gradient_norm", "/diagnostics/gradient_norm"),
];

/// One object a step: its report, with the evaluation after it, if any.
fn lines(report: &RunReport) -> impl Iterator<Item = Value> {
    let mut steps = report.history.iter().peekable();
    let mut evaluations = report.evaluations.iter().peekable();
    std::iter::from_fn(move || {
        // In a long run not every step is kept, and maybe not the one before an evaluation.
        let next = [
            steps.peek().map(|taken| taken.step),
            evaluations.peek().map(|evaluation| evaluation.step),
        ];
        let step = next.into_iter().flatten().min()?;
        let taken = steps.next_if(|taken| taken.step == step);
        let evaluation = evaluations.next_if(|evaluation| evaluation.step == step);
        let mut line = json!(taken);
        match (&mut line, evaluation.map(|evaluation| json!(evaluation))) {
            (Value::Object(line), Some(Value::Object(scores))) => line.extend(scores),
            (line, Some(scores)) => *line = scores,
            (_, None) => {}
        }
        Some(line)
    })
}

/// The history as JSON Lines.
pub(super) fn jsonl(report: &RunReport) -> Vec<u8> {
    let mut text = String::new();
    for line in lines(report) {
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text.into_bytes()
}

/// The history as CSV; a cell is empty if nothing was measured.
pub(super) fn csv(report: &RunReport) -> Vec<u8> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let mut put = |cells: Vec<String>| file.write_record(cells).expect("memory takes it");
    put(COLUMNS.map(|(name, _)| name.to_owned()).into());
    for line in lines(report) {
        let cell = |(_, pointer): (&str, &str)| match line.pointer(pointer) {
            None | Some(Value::Null) => String::new(),
            Some(value) => value.to_string(),
        };
        put(COLUMNS.map(cell).into());
    }
    file.into_inner().expect("memory takes it")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small_report;
    use super::*;

    #[test]
    fn every_step_is_a_line_and_scores_stand_with_their_step() {
        let report = small_report();
        let text = String::from_utf8(csv(&report)).expect("text");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 1 + 1 + report.history.len());
        let column = |name: &str| {
            lines[0]
                .iter()
                .position(|cell| *cell == name)
                .expect("there")
        };
        let (loss, score) = (column("loss"), column("validation_precision_at_1"));
        assert_eq!(
            (lines[1][0], lines[1][loss], lines[1][score]),
            ("0", "", "0.25")
        );
        assert_eq!(
            (lines[2][0], lines[2][loss], lines[2][score]),
            ("1", "0.5", "")
        );
        assert_eq!(
            (lines[3][0], lines[3][loss], lines[3][score]),
            ("2", "0.125", "0.75")
        );
        let text = String::from_utf8(jsonl(&report)).expect("text");
        let values = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let scores: Vec<_> = values
            .map(|line| line.pointer("/validation/precision_at_1").cloned())
            .collect();
        assert_eq!(scores, [Some(json!(0.25)), None, Some(json!(0.75))]);
    }
}
