//! One HTML file that shows a run: verdict, scores, charts and settings. It loads nothing, and holds no row of the data.

use super::card::{self, ScoreLine};
use super::charts::{Chart, charts};
use super::results::{Results, data_name};
use super::svg::chart;
use super::text::html;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2rem .6rem .2rem 0;border-bottom:1px solid #ddd;\
overflow-wrap:anywhere}td.n,th.n{text-align:right;white-space:nowrap}svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#666}\
.grid{stroke:#ddd;fill:none}.legend span{margin-right:1rem}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}\
.verdict{font-size:1.15rem}@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}th,td{border-color:#444}\
.grid{stroke:#444}svg text{fill:#aaa}}";

/// The whole HTML page.
pub(super) fn report(results: &Results) -> Vec<u8> {
    let report = &results.report;
    let title = format!("Nearfar: {}", data_name(report));
    let mut page = String::new();
    let mut put = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">");
    put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    // Nothing is fetched and nothing runs, whatever a name holds.
    put(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
    );
    put(&format!(
        "<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        html(&title)
    ));
    put(&format!("<h1>{}</h1>", html(&title)));
    if let Some(verdict) = &report.verdict {
        put(&format!("<p class=\"verdict\">{}</p>", html(verdict)));
    }
    put(
        "<h2>Scores</h2>\n<table><tr><th>of</th><th class=\"n\">precision@1</th><th class=\"n\">95 % interval</th>",
    );
    put(
        "<th class=\"n\">MAP@R</th><th class=\"n\">R-precision</th><th class=\"n\">queries</th></tr>",
    );
    for ScoreLine { what, metrics } in card::scores(report) {
        let [low, high] = card::interval(&metrics);
        let numbers = [
            format!("{:.3}", metrics.precision_at_1),
            format!("{low:.3} to {high:.3}"),
            format!("{:.3}", metrics.mean_average_precision_at_r),
            format!("{:.3}", metrics.r_precision),
            metrics.queries.to_string(),
        ];
        let cells = numbers.map(|number| format!("<td class=\"n\">{number}</td>"));
        put(&format!(
            "<tr><td>{}</td>{}</tr>",
            html(&what),
            cells.concat()
        ));
    }
    put("</table>");
    if !report.compared.is_empty() {
        let heads = card::GAINS.map(|head| format!("<th>{head}</th>"));
        put(&format!("<table><tr>{}</tr>", heads.concat()));
        for cells in card::gains(report) {
            let cells = cells.map(|cell| format!("<td>{}</td>", html(&cell)));
            put(&format!("<tr>{}</tr>", cells.concat()));
        }
        put("</table>");
    }
    for Chart { title, lines, .. } in charts(report) {
        if let Some(svg) = chart(title, &lines) {
            put(&format!("<h2>{}</h2>\n{svg}", html(title)));
        }
    }
    for (title, lines) in [
        ("Data", card::data(report)),
        ("Training", card::device(report)),
    ] {
        put(&format!("<h2>{title}</h2>\n<table>"));
        for [name, value] in lines {
            put(&format!(
                "<tr><th>{}</th><td>{}</td></tr>",
                html(&name),
                html(&value)
            ));
        }
        put("</table>");
    }
    for (title, lines) in [
        ("Notes", &report.data.notes),
        ("Warnings", &report.warnings),
    ] {
        if !lines.is_empty() {
            let items = lines.iter().map(|line| format!("<li>{}</li>", html(line)));
            put(&format!(
                "<h2>{title}</h2>\n<ul>{}</ul>",
                items.collect::<String>()
            ));
        }
    }
    put("<h2>Settings</h2>\n<table>");
    for (key, value) in card::settings(report) {
        put(&format!(
            "<tr><th>{}</th><td>{}</td></tr>",
            html(&key),
            html(&value)
        ));
    }
    put("</table>\n</body>\n</html>");
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
