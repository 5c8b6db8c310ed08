//! GFLOP/s against the size, a curve for each number of columns and each k or number of classes, under the measured peak.

use std::fmt::Display;
use std::ops::Range;
use std::path::Path;

use nearfar::bench::{Line, Report, Shape};
use nearfar::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (960, 540);
/// Width at the right for the names of the curves.
const NAMES: i32 = 220;
const FONT: &str = "sans-serif";
/// Colours that people who see fewer colours can tell apart as well (Okabe and Ito), darkest first.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const GREY: RGBColor = RGBColor(90, 90, 90);
const GRID: RGBColor = RGBColor(228, 228, 228);

/// A point of a curve, with its range.
struct Point {
    pairs: f64,
    gflops: f64,
    /// GFLOP/s at the times that nine and one in ten took at most.
    range: [f64; 2],
}

/// The lines of a sweep that share everything but the size.
struct Curve {
    name: String,
    points: Vec<Point>,
}

/// Writes the figure of a sweep as SVG, with text as text.
///
/// # Errors
/// [`Error::Io`] if the file cannot be written.
pub(crate) fn write(report: &Report, path: &Path) -> Result<()> {
    let failed = |error: &dyn Display| Error::Io {
        what: format!("writing {}", path.display()),
        source: std::io::Error::other(error.to_string()),
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(report, &area).map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))?;
    }
    std::fs::write(path, svg).map_err(|error| failed(&error))
}

fn curves(report: &Report) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for line in &report.lines {
        let Line {
            shape: Some(shape),
            median_ms,
            p10_ms,
            p90_ms,
            ..
        } = line
        else {
            continue;
        };
        let gflops = |ms: &f64| shape.operations() / ms / 1e6;
        let point = Point {
            pairs: shape.pairs(),
            gflops: gflops(median_ms),
            range: [gflops(p90_ms), gflops(p10_ms)],
        };
        let name = Shape::series(shape);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name,
                points: vec![point],
            }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.pairs.total_cmp(&b.pairs));
    }
    curves
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw(report: &Report, area: &Area<'_>) -> Drawn {
    let (curves, peak) = (curves(report), report.peak_gflops);
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values.fold([f64::INFINITY, 0.0], |[low, high]: [f64; 2], value| {
            [low.min(value), high.max(value)]
        })
    };
    let [smallest, largest] = ends(&mut points().map(|point| point.pairs));
    let [least, most] = ends(&mut points().flat_map(|point| point.range).chain([peak]));
    let (sizes, rates) = (smallest / 1.3..largest * 1.3, least / 1.4..most * 1.3);
    area.fill(&WHITE)?;
    title(report, area)?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(100)
        .margin_bottom(64)
        .margin_left(76)
        .margin_right(NAMES)
        .build_cartesian_2d(sizes.clone().log_scale(), rates.clone().log_scale())?;
    let write = |text: String, x: i32, y: i32, colour: RGBColor, side: HPos| {
        let style = (FONT, 16).into_font().color(&colour);
        let style = style.pos(Pos::new(side, VPos::Center));
        area.draw(&Text::new(text, (x, y), style))
    };
    for size in marks(&sizes) {
        let line = [(size, rates.start), (size, rates.end)];
        chart.draw_series([PathElement::new(line, GRID)])?;
        let (x, y) = chart.backend_coord(&line[0]);
        write(power(size), x, y + 16, GREY, HPos::Center)?;
    }
    for rate in marks(&rates) {
        let line = [(sizes.start, rate), (sizes.end, rate)];
        chart.draw_series([PathElement::new(line, GRID)])?;
        let (x, y) = chart.backend_coord(&line[0]);
        write(rate.to_string(), x - 10, y, GREY, HPos::Right)?;
    }
    let (left, bottom) = chart.backend_coord(&(sizes.start, rates.start));
    let right = SIZE.0 as i32 - NAMES;
    write("GFLOP/s".to_owned(), left - 10, 84, GREY, HPos::Right)?;
    let middle = i32::midpoint(left, right);
    write(
        "queries x references".to_owned(),
        middle,
        bottom + 42,
        GREY,
        HPos::Center,
    )?;

    let line = [(sizes.start, peak), (sizes.end, peak)];
    chart.draw_series(DashedLineSeries::new(line, 6, 4, GREY.stroke_width(2)))?;
    let mut names = vec![(
        chart.backend_coord(&line[1]).1,
        format!("measured peak, {peak:.1}"),
        GREY,
    )];
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let line = curve.points.iter().map(|p| (p.pairs, p.gflops));
        chart.draw_series(LineSeries::new(line.clone(), colour.stroke_width(2)))?;
        chart.draw_series(line.map(|at| Circle::new(at, 4, colour.filled())))?;
        let reach = |p: &Point| PathElement::new(p.range.map(|to| (p.pairs, to)), *colour);
        chart.draw_series(curve.points.iter().map(reach))?;
        if let Some(last) = curve.points.last() {
            let at = chart.backend_coord(&(last.pairs, last.gflops)).1;
            names.push((at, curve.name.clone(), *colour));
        }
    }
    apart(&mut names, bottom);
    for (y, name, colour) in names {
        write(name, right + 10, y, colour, HPos::Left)?;
    }
    Ok(())
}

/// Draws the title: the work, and the device.
fn title(report: &Report, area: &Area<'_>) -> Drawn {
    let device = &report.device;
    let what = report.lines.iter().find_map(|line| line.shape);
    let what = what.map_or("", |shape| shape.name());
    let software = if device.software {
        ", which a processor plays: ratios only"
    } else {
        ""
    };
    let lines = [
        (
            16,
            20,
            BLACK,
            format!("{what}: speed against size, each result checked first"),
        ),
        (
            46,
            16,
            GREY,
            format!("{} engine on {}{software}", device.engine, device.adapter),
        ),
    ];
    for (y, size, colour, text) in lines {
        let style = (FONT, size).into_font().color(&colour);
        area.draw(&Text::new(text, (24, y), style))?;
    }
    Ok(())
}

/// Moves names apart that would overlap, none below the bottom of the plot.
fn apart(names: &mut [(i32, String, RGBColor)], bottom: i32) {
    const LINE: i32 = 20;
    names.sort_by_key(|(y, ..)| *y);
    let mut free = i32::MIN;
    for (y, ..) in &mut *names {
        *y = (*y).max(free);
        free = *y + LINE;
    }
    let mut floor = bottom;
    for (y, ..) in names.iter_mut().rev() {
        *y = (*y).min(floor);
        floor = *y - LINE;
    }
}

/// Powers of ten, and twice and five times them if there are few.
fn marks(range: &Range<f64>) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        let exponents = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
        let all = exponents.flat_map(|e| steps.iter().map(move |step| step * 10f64.powi(e)));
        all.filter(|mark| range.contains(mark)).collect()
    };
    let powers = within(&[1.0]);
    if powers.len() > 2 {
        return powers;
    }
    within(&[1.0, 2.0, 5.0])
}

/// A size as `10⁶` or `2·10⁶`.
fn power(value: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent = (value.log10() + 1e-9).floor() as i32;
    let times = (value / 10f64.powi(exponent)).round();
    let digits = exponent.to_string();
    let raised = |digit: char| digit.to_digit(10).map(|digit| DIGITS[digit as usize]);
    let raised: String = digits.chars().filter_map(raised).collect();
    if times == 1.0 {
        return format!("10{raised}");
    }
    format!("{times}·10{raised}")
}
