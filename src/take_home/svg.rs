//! Line charts as SVG, small enough to write by hand: fonts are left to the viewer, and the same numbers give the same bytes on
//! every machine.

use super::text::html;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// The most points of a line: more would cover each other.
const MOST_POINTS: usize = 1000;
/// Colours that can be told apart in light and dark, and by most who see few colours.
const COLOURS: [&str; 5] = ["#1f77b4", "#d95f02", "#7570b3", "#1b9e77", "#777777"];

/// A line: its name, and `[x, y]` of its points, x ascending.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<[f64; 2]>,
}

/// A chart of lines over the steps of a run, from y 0 on, with its legend, as HTML; `None` if no line has a point.
pub(super) fn chart(title: &str, lines: &[Line]) -> Option<String> {
    let (mut page, drawn) = plot(title, lines)?;
    page.push_str("<p class=\"legend\">");
    for (line, colour) in drawn {
        page.push_str(&format!(
            "<span><i style=\"background:{colour}\"></i>{}</span> ",
            html(line.name)
        ));
    }
    page.push_str("</p>\n");
    Some(page)
}

/// A chart as a file of its own, on white, with its title.
pub(super) fn file(title: &str, lines: &[Line]) -> Option<String> {
    let (plot, drawn) = plot(title, lines)?;
    let (above, title) = (56.0, html(title));
    let height = HEIGHT + above;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         <title>{title}</title>\n<style>text{{font:11px sans-serif;fill:#444}}.grid{{stroke:#ddd}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"22\" style=\"font-size:14px\">{title}</text>\n"
    );
    let mut at = LEFT;
    for (line, colour) in drawn {
        svg.push_str(&format!(
            "<rect x=\"{at}\" y=\"35\" width=\"9\" height=\"9\" fill=\"{colour}\"/><text x=\"{}\" y=\"44\">{}</text>\n",
            at + 14.0,
            html(line.name)
        ));
        at += 34.0 + 6.0 * line.name.chars().count() as f64;
    }
    svg.push_str(&format!(
        "<g transform=\"translate(0 {above})\">\n{plot}</g>\n</svg>\n"
    ));
    Some(svg)
}

/// The plot with axes, and the lines that are drawn with their colours.
fn plot<'a>(title: &str, lines: &'a [Line]) -> Option<(String, Vec<(&'a Line, &'static str)>)> {
    let drawn: Vec<(&Line, &'static str)> = lines
        .iter()
        .zip(COLOURS)
        .filter(|(line, _)| !line.points.is_empty())
        .collect();
    let points = || drawn.iter().flat_map(|(line, _)| &line.points);
    let most = |axis: usize| points().map(|point| point[axis]).fold(0.0, f64::max);
    let (most_x, most_y) = (most(0), round_up(most(1)));
    if drawn.is_empty() || most_x == 0.0 {
        return None;
    }
    let x = |value: f64| LEFT + value / most_x * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / most_y * (HEIGHT - TOP - BOTTOM);
    let title = html(title);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    for quarter in 0..=4 {
        let value = most_y * f64::from(quarter) / 4.0;
        let at = y(value);
        svg.push_str(&format!(
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(value)
        ));
        let step = (most_x * f64::from(quarter) / 4.0).round();
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{step}</text>\n",
            x(step),
            HEIGHT - 8.0
        ));
    }
    for (line, colour) in &drawn {
        let stride = line.points.len().div_ceil(MOST_POINTS);
        let mut shown: Vec<_> = line.points.iter().step_by(stride).collect();
        // The last point is the result of the run.
        shown.extend(
            line.points
                .last()
                .filter(|_| (line.points.len() - 1) % stride > 0),
        );
        let place = |point: &&[f64; 2]| format!("{:.1},{:.1}", x(point[0]), y(point[1]));
        let places: Vec<String> = shown.iter().map(place).collect();
        svg.push_str(&format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n",
            places.join(" ")
        ));
    }
    svg.push_str("</svg>\n");
    Some((svg, drawn))
}

/// Least number of 1, 2, 5, 10, .. times a power of ten that is at least `most`.
fn round_up(most: f64) -> f64 {
    let mut power = 1.0;
    while power < most && power < f64::MAX / 10.0 {
        power *= 10.0;
    }
    while power / 10.0 >= most && power > 1e-12 {
        power /= 10.0;
    }
    let steps = [power / 5.0, power / 2.0, power];
    steps
        .into_iter()
        .find(|step| *step >= most)
        .unwrap_or(power)
}

/// Label of a number on an axis.
fn short(value: f64) -> String {
    if value >= 1e15 {
        return format!("{value:.1e}");
    }
    for (unit, letter) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= unit {
            return format!("{}{letter}", value / unit);
        }
    }
    // Sums like 0.1 + 0.2 end in digits without meaning.
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (most, end) in [
            (0.93, 1.0),
            (0.3, 0.5),
            (1.2, 2.0),
            (7.0, 10.0),
            (1234.0, 2000.0),
        ] {
            assert_eq!(round_up(most), end);
        }
        // Near the largest f64 the result is approximate.
        assert!((1e307..f64::MAX).contains(&round_up(1.7e308)));
        assert_eq!(
            [0.25, 1500.0, 0.0, 1e308].map(short),
            ["0.25", "1.5k", "0", "1.0e308"]
        );
    }

    #[test]
    fn a_line_spans_the_chart_and_keeps_its_last_point() {
        let points = (0..=3000).map(|i| [f64::from(i), f64::from(i)]).collect();
        let name = "a";
        let svg = chart("<b>", &[Line { name, points }]).expect("a chart");
        assert!(svg.contains("aria-label=\"&lt;b&gt;\""));
        let line = svg.split("points=\"").nth(1).expect("a line");
        let places: Vec<&str> = line.split('"').next().expect("places").split(' ').collect();
        assert!(places.len() <= MOST_POINTS + 1);
        assert_eq!(places[0], "56.0,212.0");
        // 3000 of 5000.
        assert_eq!(places.last(), Some(&"628.0,92.0"));
        assert_eq!(chart("none", &[]), None);
    }
}
