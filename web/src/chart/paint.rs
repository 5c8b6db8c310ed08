//! Drawing of a plot on a canvas, by plotters.

use nearfar::order;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_canvas::CanvasBackend;
use web_sys::HtmlCanvasElement;

use super::axes::{Along, Axis};
use super::plot::{Line, Plot};
use crate::frame::fit;
use crate::theme;

/// Room of the vertical axis, in CSS pixels.
pub(crate) fn left() -> f64 {
    54.0 / 13.0 * theme::letters()
}
/// Room of the horizontal axis, and at the other ends.
pub(crate) const RIGHT: f64 = 20.0;
const BELOW: f64 = 20.0;
const ABOVE: f64 = 6.0;
/// Height of an axis label with the space around it, in CSS pixels.
const LABEL: f64 = 20.0;

/// Draws on a canvas in device pixels, at its size on the page.
pub(super) fn draw(canvas: &HtmlCanvasElement, plot: &Plot) {
    let (_, _, ratio) = fit(canvas);
    if canvas.client_width() < 40 || canvas.client_height() < 40 {
        return;
    }
    if let Some(backend) = CanvasBackend::with_canvas_object(canvas.clone()) {
        paint(backend, plot, ratio).ok();
    }
}

/// Result of drawing: the only errors are those of a canvas that is gone.
type Drawn = Result<(), DrawingAreaErrorKind<<CanvasBackend as DrawingBackend>::ErrorType>>;

/// A plot's area on a canvas.
struct Painter<'a> {
    chart: ChartContext<'a, CanvasBackend, Cartesian2d<Along, Axis>>,
    along: Along,
    axis: Axis,
    text: TextStyle<'a>,
    /// Device pixels in a CSS pixel.
    ratio: f64,
}

fn paint(backend: CanvasBackend, plot: &Plot, ratio: f64) -> Drawn {
    let root = backend.into_drawing_area();
    let (width, height) = root.dim_in_pixel();
    let height = f64::from(height) / ratio - ABOVE - BELOW;
    let most = (height / LABEL).clamp(2.0, 5.0) as usize;
    let points = plot.lines.iter().flat_map(|line| &line.points);
    let values = points.map(|point| point.1).collect();
    let axis = Axis::new(plot.scale, values, plot.clips, most);
    // Built as `FontFamily::Name`: a font that is given as text is looked up by plotters in lower case, by tables of every letter.
    let font = FontFamily::Name("system-ui, sans-serif");
    let font = FontDesc::new(font, px(theme::letters(), ratio).into(), FontStyle::Normal);
    let mut painter = Painter {
        chart: ChartBuilder::on(&root)
            .margin_top(px(ABOVE, ratio))
            .margin_right(px(RIGHT, ratio))
            .x_label_area_size(px(BELOW, ratio))
            .y_label_area_size(px(left(), ratio))
            .build_cartesian_2d(plot.along, axis)?,
        along: plot.along,
        axis,
        text: font.color(&rgb("muted")),
        ratio,
    };
    painter.grid()?;
    if let Some(band) = plot.band {
        painter.band(band)?;
    }
    if let Some((at, _)) = &plot.pointed {
        painter.upright(plot.along.place(*at), "grid-strong", 1.0)?;
    }
    for line in &plot.lines {
        painter.line(line, width as usize)?;
    }
    if let Some((at, words)) = &plot.pointed {
        painter.words(plot.along.place(*at), words)?;
    }
    root.present()
}

impl Painter<'_> {
    fn px(&self, css: f64) -> i32 {
        px(css, self.ratio)
    }

    fn grid(&mut self) -> Drawn {
        self.chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(rgb("grid"))
            .axis_style(rgb("grid"))
            .label_style(self.text.clone())
            .x_labels(5)
            .draw()
    }

    /// Highlights a range of the horizontal axis.
    fn band(&mut self, (from, to): (f64, f64)) -> Drawn {
        let (first, last) = self.along.ends();
        let (from, to) = (self.along.place(from), self.along.place(to));
        let corners = [
            (from.max(first), self.axis.low),
            (to.min(last), self.axis.high),
        ];
        let inside = rgb("band").mix(0.25).filled();
        self.chart.draw_series([Rectangle::new(corners, inside)])?;
        self.upright(to, "band", 1.5)
    }

    /// Draws an upright line at a place of the horizontal axis.
    fn upright(&mut self, at: f64, color: &str, width: f64) -> Drawn {
        let style = rgb(color).stroke_width(self.px(width) as u32);
        let ends = [(at, self.axis.low), (at, self.axis.high)];
        self.chart.draw_series(LineSeries::new(ends, style))?;
        Ok(())
    }

    /// Draws a line, thinned to the pixels that the plot has.
    fn line(&mut self, line: &Line, pixels: usize) -> Drawn {
        let alpha = match (line.faint, line.pale) {
            (_, true) => 0.22,
            (true, false) => 0.35,
            (false, false) => 1.0,
        };
        let style = rgb(line.color)
            .mix(alpha)
            .stroke_width(self.px(line.width).max(1) as u32);
        let (along, axis) = (self.along, self.axis);
        let place = |(step, value)| (along.place(step), axis.place(value));
        let points = thin(&line.points, pixels).into_iter().map(place);
        if let [point] = line.points[..] {
            // One point makes no line.
            let dot = Circle::new(place(point), self.px(2.5), style.filled());
            self.chart.draw_series([dot])?;
        } else if line.dashed {
            let (dash, gap) = if line.dotted { (1.5, 4.0) } else { (5.0, 4.0) };
            let (dash, gap) = (self.px(dash) as u32, self.px(gap) as u32);
            self.chart
                .draw_series(DashedLineSeries::new(points, dash, gap, style))?;
        } else {
            self.chart.draw_series(LineSeries::new(points, style))?;
        }
        Ok(())
    }

    /// Writes words beside a place of the horizontal axis, on the side that has more room.
    fn words(&mut self, at: f64, words: &str) -> Drawn {
        let (first, last) = self.along.ends();
        let (side, beside) = match at < (first + last) / 2.0 {
            true => (HPos::Left, self.px(5.0)),
            false => (HPos::Right, -self.px(5.0)),
        };
        let color = rgb("ink");
        let style = self.text.color(&color).pos(Pos::new(side, VPos::Top));
        let text = Text::new(words.to_owned(), (beside, 0), style);
        let words = EmptyElement::at((at, self.axis.high)) + text;
        self.chart.draw_series([words])?;
        Ok(())
    }
}

/// Device pixels of a length in CSS pixels.
fn px(css: f64, ratio: f64) -> i32 {
    (css * ratio).round() as i32
}

/// A colour of `style.css`.
fn rgb(name: &str) -> RGBColor {
    let (r, g, b) = theme::color(name);
    RGBColor(r, g, b)
}

/// Thins points to about one a pixel: the least and the largest of each stretch.
fn thin(points: &[(f64, f64)], pixels: usize) -> Vec<(f64, f64)> {
    let stretch = points.len() / pixels.max(1);
    if stretch < 2 {
        return points.to_vec();
    }
    let ends = |part: &[(f64, f64)]| {
        let least = part.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let largest = part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut ends: Vec<_> = least.into_iter().chain(largest).collect();
        order::sort_by(&mut ends, |a, b| a.0.total_cmp(&b.0));
        ends
    };
    points.chunks(2 * stretch).flat_map(ends).collect()
}
