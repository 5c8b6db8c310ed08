//! One HTML file that shows a run: verdict, scores, charts and settings. It loads nothing, and holds no row of the data.

use super::card;
use super::charts::{Chart, charts};
use super::results::{Results, data_name};
use super::svg::chart;
use super::text::html;
use crate::run::RunReport;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2rem .6rem .2rem 0;border-bottom:1px solid #ddd;\
overflow-wrap:anywhere}td.n,th.n{text-align:right;white-space:nowrap}svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#666}\
.grid{stroke:#ddd;fill:none}.legend span{margin-right:1rem}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}\
.verdict{font-size:1.15rem}@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}th,td{border-color:#444}\
.grid{stroke:#444}svg text{fill:#aaa}}";

/// Begin of the page. Nothing is fetched and nothing runs, whatever a name holds.
const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";

/// Tables of the scores, and of the gains over each baseline.
fn scores(report: &RunReport) -> String {
    let [of, numbers @ ..] = card::SCORES;
    let numbers = numbers.map(|head| format!("<th class=\"n\">{head}</th>"));
    // The row of heads is two lines.
    let (first, second) = numbers.split_at(2);
    let (first, second) = (first.concat(), second.concat());
    let mut text = format!("<h2>Scores</h2>\n<table><tr><th>{of}</th>{first}\n{second}</tr>\n");
    for line in card::scores(report) {
        let cells = line.numbers();
        let cells = cells.map(|number| format!("<td class=\"n\">{number}</td>"));
        let (what, cells) = (html(&line.what), cells.concat());
        text += &format!("<tr><td>{what}</td>{cells}</tr>\n");
    }
    text += "</table>\n";
    if !report.compared.is_empty() {
        let heads = card::GAINS.map(|head| format!("<th>{head}</th>"));
        text += &format!("<table><tr>{}</tr>\n", heads.concat());
        for cells in card::gains(report) {
            let cells = cells.map(|cell| format!("<td>{}</td>", html(&cell)));
            text += &format!("<tr>{}</tr>\n", cells.concat());
        }
        text += "</table>\n";
    }
    text
}

/// A table of names and values under a title.
fn table(title: &str, lines: &[[String; 2]]) -> String {
    let lines = lines.iter().map(|[name, value]| {
        let (name, value) = (html(name), html(value));
        format!("<tr><th>{name}</th><td>{value}</td></tr>\n")
    });
    let lines: String = lines.collect();
    format!("<h2>{title}</h2>\n<table>\n{lines}</table>\n")
}

/// The whole HTML page.
pub(super) fn report(results: &Results) -> Vec<u8> {
    let report = &results.report;
    let title = html(&format!("Nearfar: {}", data_name(report)));
    let mut page = format!(
        "{BEGIN}<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    if let Some(verdict) = &report.verdict {
        page += &format!("<p class=\"verdict\">{}</p>\n", html(verdict));
    }
    page += &scores(report);
    for Chart { title, lines, .. } in charts(report) {
        if let Some(svg) = chart(title, &lines) {
            page += &format!("<h2>{}</h2>\n{svg}\n", html(title));
        }
    }
    for (title, lines) in card::facts(report) {
        page += &table(title, &lines);
    }
    for (title, lines) in [
        ("Notes", &report.data.notes),
        ("Warnings", &report.warnings),
    ] {
        if !lines.is_empty() {
            let items = lines.iter().map(|line| format!("<li>{}</li>", html(line)));
            let items = items.collect::<String>();
            page += &format!("<h2>{title}</h2>\n<ul>{items}</ul>\n");
        }
    }
    page += &table("Settings", &card::settings(report));
    page += "</body>\n</html>\n";
    page.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small;
    use super::*;

    #[test]
    fn a_report_shows_the_run_fetches_nothing_and_keeps_markup_as_text() {
        let page = String::from_utf8(report(&small())).expect("text");
        for part in [
            "<td>head, test rows</td><td class=\"n\">0.700</td><td class=\"n\">0.604 to 0.781</td>",
            "aria-label=\"precision@1 while training\"",
            "<title>Nearfar: &lt;script&gt;alert(1)&lt;script&gt;|*x*.csv</title>",
            "<tr><th>steps</th><td>2</td></tr>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("<script") && !page.contains("someone"));
        let foreign = ["src=", "href=", "url(", "@import"];
        assert!(foreign.iter().all(|part| !page.contains(part)));
        // The page has no labels of rows.
        assert!(!page.contains("HYPERLINK"));
    }
}
