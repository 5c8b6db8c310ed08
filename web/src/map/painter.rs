//! Draws a map on a canvas: points in the colours of their classes, and marks around a row and its neighbours.

use nearfar::Neighbourhood;
use web_sys::CanvasRenderingContext2d;

use super::apart;
use super::sheet::{Dot, Sheet, Stamp};
use crate::state::{MapData, Places};
use crate::theme;

/// Margin around the points, in CSS pixels.
const EDGE: f64 = 10.0;
/// Classes whose colours stand in `style.css`.
const COLORS: u16 = 10;
/// Class of the rows whose class is not named.
const OTHER: u16 = u16::MAX;
/// Class of the rows without a label.
pub(super) const NO_LABEL: u16 = u16::MAX - 1;

/// Part of the plane that is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct View {
    zoom: f64,
    /// Point of the plane in the middle; the whole map reaches from -1 to 1.
    middle: (f64, f64),
    pressed: Option<Pressed>,
}

/// Positions of a pressed pointer: where it went down, and where it was last.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pressed {
    first: (f64, f64),
    last: (f64, f64),
}

impl Default for View {
    fn default() -> Self {
        Self {
            zoom: 1.0,
            middle: (0.0, 0.0),
            pressed: None,
        }
    }
}

impl View {
    /// Zooms around a point, which stays in its place: `(x, y)` is its offset from the middle, to the right and down.
    pub(super) fn zoom_at(&mut self, by: f64, (x, y): (f64, f64)) {
        let zoom = (self.zoom * by).clamp(1.0, 200.0);
        let moved = 1.0 / self.zoom - 1.0 / zoom;
        self.middle.0 += x * moved;
        self.middle.1 -= y * moved;
        self.zoom = zoom;
        self.hold();
    }

    /// Tells if the whole map is shown.
    pub(super) fn is_whole(&self) -> bool {
        self.zoom <= 1.0
    }

    pub(super) fn press(&mut self, at: (f64, f64)) {
        self.pressed = Some(Pressed {
            first: at,
            last: at,
        });
    }

    pub(super) fn is_pressed(&self) -> bool {
        self.pressed.is_some()
    }

    /// Follows the pointer on a canvas of this size.
    pub(super) fn drag(&mut self, at: (f64, f64), (width, height): (f64, f64)) {
        let unit = Frame::unit(width, height, 1.0) * self.zoom;
        if let Some(pressed) = &mut self.pressed {
            self.middle.0 -= (at.0 - pressed.last.0) / unit;
            self.middle.1 += (at.1 - pressed.last.1) / unit;
            pressed.last = at;
        }
        self.hold();
    }

    /// Ends a press; tells if the pointer came up no farther than `still` from where it went down.
    pub(super) fn release(&mut self, at: (f64, f64), still: f64) -> bool {
        let pressed = self.pressed.take();
        pressed.is_some_and(|pressed| apart(at, pressed.first) <= still)
    }

    /// Drops a press whose pointer is gone: it is no click.
    pub(super) fn let_go(&mut self) {
        self.pressed = None;
    }

    /// Keeps the map in sight.
    fn hold(&mut self) {
        let most = 1.0 - 1.0 / self.zoom;
        self.middle.0 = self.middle.0.clamp(-most, most);
        self.middle.1 = self.middle.1.clamp(-most, most);
    }
}

/// Placement of the plane on a canvas.
pub(super) struct Frame {
    centre: (f64, f64),
    scale: f64,
    middle: (f64, f64),
}

impl Frame {
    pub(super) fn new(view: View, width: f64, height: f64, ratio: f64) -> Self {
        Self {
            centre: (width / 2.0, height / 2.0),
            scale: Self::unit(width, height, ratio) * view.zoom,
            middle: view.middle,
        }
    }

    /// Pixels from the middle to the outermost point if the whole map is shown; its mark is not cut off.
    pub(super) fn unit(width: f64, height: f64, ratio: f64) -> f64 {
        (0.5 * width.min(height) - EDGE * ratio).max(1.0)
    }

    pub(super) fn place(&self, point: (f64, f64)) -> (f64, f64) {
        (
            self.centre.0 + self.scale * (point.0 - self.middle.0),
            self.centre.1 - self.scale * (point.1 - self.middle.1),
        )
    }
}

/// Positions of the rows, from -1 to 1: by their features at `mix` 0, by their embeddings at 1, and between them on the way.
pub(super) fn places(places: &Places, mix: f64) -> impl Iterator<Item = (f64, f64)> {
    let (before, after) = (
        (1.0 - mix) / most(&places.before),
        mix / most(&places.points),
    );
    let pairs = places.before.iter().zip(&places.points);
    pairs.map(move |(from, to)| {
        let [x, y] =
            [0, 1].map(|axis| before * f64::from(from[axis]) + after * f64::from(to[axis]));
        (x, y)
    })
}

/// The largest coordinate of these points.
fn most(points: &[[f32; 2]]) -> f64 {
    let values = points.iter().flatten();
    f64::from(values.fold(1e-6f32, |most, value| most.max(value.abs())))
}

/// The colour of a class as CSS, for `style`.
pub(super) fn css_color(class: u16) -> String {
    match class {
        ..COLORS => return format!("var(--class{class})"),
        NO_LABEL => return "var(--grid-strong)".to_owned(),
        _ => {}
    }
    let hue = hue(class);
    format!("light-dark(hsl({hue}, 45%, 45%), hsl({hue}, 50%, 68%))")
}

/// The colour of a class in the current theme, as RGB. To ask the browser would style the whole page anew for each.
fn color(class: u16, dark: bool) -> (u8, u8, u8) {
    if class < COLORS {
        return theme::color(&format!("class{class}"));
    }
    let (saturation, lightness) = if dark { (0.50, 0.68) } else { (0.45, 0.45) };
    let reach = saturation * f64::min(lightness, 1.0 - lightness);
    // From HSL, as in CSS Color 4.
    let channel = |n: f64| {
        let turn = n + f64::from(hue(class)) / 30.0;
        let k = if turn < 12.0 { turn } else { turn - 12.0 };
        let value = lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (255.0 * value).round() as u8
    };
    (channel(0.0), channel(8.0), channel(4.0))
}

/// Colours of a scale of numbers, from the lowest to the highest: viridis (van der Walt and Smith 2015), which stays in order without
/// colours, too. What would vanish on the page, yellow in light and dark blue in dark, is left out.
const VIRIDIS: [(u8, u8, u8); 10] = [
    (68, 1, 84),
    (72, 40, 120),
    (62, 73, 137),
    (49, 104, 142),
    (38, 130, 142),
    (31, 158, 137),
    (53, 183, 121),
    (110, 206, 88),
    (181, 222, 43),
    (253, 231, 37),
];
/// Steps of a scale.
const SHADES: u16 = 64;

/// The colour at a part of a scale.
fn shade(part: f64, dark: bool) -> (u8, u8, u8) {
    let (first, last) = if dark { (0.28, 1.0) } else { (0.0, 0.88) };
    let place = (first + (last - first) * part) * (VIRIDIS.len() - 1) as f64;
    let at = (place as usize).min(VIRIDIS.len() - 2);
    let (from, to) = (VIRIDIS[at], VIRIDIS[at + 1]);
    let mix = |from: u8, to: u8| {
        let (from, to) = (f64::from(from), f64::from(to));
        (from + (to - from) * (place - at as f64)).round() as u8
    };
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// The colour at a part of a scale as CSS, for `style`.
pub(super) fn css_shade(part: f64) -> String {
    let [(r, g, b), (r1, g1, b1)] = [false, true].map(|dark| shade(part, dark));
    format!("light-dark(rgb({r} {g} {b}), rgb({r1} {g1} {b1}))")
}

/// Hues that differ from one class to the next.
fn hue(class: u16) -> u32 {
    (u32::from(class) * 137 + 20) % 360
}

/// Draws on a canvas in its own pixels, `ratio` per CSS pixel.
pub(super) struct Painter {
    pub(super) context: CanvasRenderingContext2d,
    pub(super) frame: Frame,
    /// Position of each row of the map on the plane; those of the rows without a label are the last.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) ratio: f64,
    /// Width and height in pixels.
    pub(super) size: (usize, usize),
}

impl Painter {
    /// Draws all points, colour by colour with the first, the most frequent, last. If rows are `picked`, the others stand back, and so
    /// do all colours but `alone`, if there is one; points that stand back are drawn first. `pale` halves the opacity, as for a row with
    /// its neighbours. Rows without a label lie below all others, unless they are alone.
    pub(super) fn points(
        &self,
        colours: &[u16],
        named: usize,
        alone: Option<u16>,
        picked: &[bool],
        pale: bool,
    ) {
        // Rows of no named colour have the last index.
        let mut of_colour = vec![[Vec::new(), Vec::new()]; named + 1];
        for (place, colour) in colours.iter().enumerate() {
            let stands_back =
                alone.is_some_and(|alone| alone != *colour) || picked.get(place) == Some(&false);
            of_colour[named.min((*colour).into())][usize::from(!stands_back)].push(place);
        }
        let mut sheet = Sheet::new(self.size);
        let dark = theme::is_dark();
        let behind = alone.is_some() || !picked.is_empty();
        if alone != Some(NO_LABEL) {
            self.no_label(&mut sheet, colours.len(), behind, pale);
        }
        for (front, colour) in [false, true]
            .into_iter()
            .flat_map(|front| (0..=named).rev().map(move |colour| (front, colour)))
        {
            let places = &of_colour[colour][usize::from(front)];
            let colour = if colour < named { colour as u16 } else { OTHER };
            if places.is_empty() {
                continue;
            }
            let stamp = match colour {
                _ if !front => self.behind(pale),
                OTHER => self.stamp(theme::color("grid-strong"), 0.6, 0.8, pale),
                COLORS.. => self.stamp(color(colour, dark), 0.8, 0.75, pale),
                _ => self.stamp(color(colour, dark), 1.0, 0.9, pale),
            };
            for place in places {
                sheet.dot(self.at(*place), &stamp);
            }
        }
        if alone == Some(NO_LABEL) {
            self.no_label(&mut sheet, colours.len(), false, pale);
        }
        sheet.put(&self.context);
    }

    /// Draws the rows without a label, which are those from `first` on, in grey.
    fn no_label(&self, sheet: &mut Sheet, first: usize, behind: bool, pale: bool) {
        let stamp = match behind {
            true => self.behind(pale),
            false => self.stamp(theme::color("grid-strong"), 0.8, 0.9, pale),
        };
        (first..self.points.len()).for_each(|place| sheet.dot(self.at(place), &stamp));
    }

    /// Draws all points in the colours of a scale, those without a value and those that stand back first.
    pub(super) fn scale(&self, steps: &[u16], picked: &[bool], pale: bool) {
        let dark = theme::is_dark();
        let shade = |step: u16| shade(f64::from(step) / f64::from(SHADES - 1), dark);
        let stamps = (0..SHADES).map(|step| self.stamp(shade(step), 1.0, 0.9, pale));
        let stamps: Vec<Stamp> = stamps.collect();
        let (behind, none) = (
            self.behind(pale),
            self.stamp(theme::color("grid-strong"), 0.6, 0.8, pale),
        );
        let mut sheet = Sheet::new(self.size);
        self.no_label(&mut sheet, steps.len(), !picked.is_empty(), pale);
        for front in [false, true] {
            for (place, step) in steps.iter().enumerate() {
                let stamp = match stamps.get(usize::from(*step)) {
                    _ if picked.get(place) == Some(&false) => (false, &behind),
                    None => (false, &none),
                    Some(stamp) => (true, stamp),
                };
                if stamp.0 == front {
                    sheet.dot(self.at(place), stamp.1);
                }
            }
        }
        sheet.put(&self.context);
    }

    /// A dot, whose radius is a part of that of a row of a large class: the more points there are, the smaller they are.
    fn stamp(&self, color: (u8, u8, u8), part: f64, alpha: f64, pale: bool) -> Stamp {
        let radius = match self.points.len() {
            ..=4000 => 2.8,
            4001..=20_000 => 2.0,
            _ => 1.4,
        };
        Stamp::new(&Dot {
            color,
            alpha: (if pale { 0.5 * alpha } else { alpha }) as f32,
            radius: (self.ratio * part * radius) as f32,
        })
    }

    /// Dot of a row that stands back.
    fn behind(&self, pale: bool) -> Stamp {
        self.stamp(theme::color("muted"), 0.6, 0.25, pale)
    }

    /// Draws a closed line through these places of the canvas, in CSS pixels.
    pub(super) fn outline(&self, corners: &[(f64, f64)]) {
        self.pen("accent", 1.5);
        self.context.begin_path();
        for (x, y) in corners {
            self.context.line_to(self.ratio * x, self.ratio * y);
        }
        self.context.close_path();
        self.context.stroke();
    }

    /// Draws a ring around the chosen row, and lines to its neighbours: solid and to a ring if the class is right, dashed and to a
    /// cross if it is wrong.
    pub(super) fn neighbours(&self, places: &Places, chosen: usize, found: Option<&Neighbourhood>) {
        let found = found.map_or(&[][..], |found| &found.neighbours);
        for neighbour in found {
            let Some(place) = places.of(neighbour.row) else {
                continue;
            };
            let color = if neighbour.right { "accent" } else { "danger" };
            self.pen(color, 1.2);
            self.dash(if neighbour.right { 0.0 } else { 3.0 });
            self.line(self.at(chosen), self.at(place));
            self.dash(0.0);
            self.pen(color, 2.0);
            if neighbour.right {
                self.ring(place, 5.0);
            } else {
                self.cross(place, 4.5);
            }
        }
        self.pen("ink", 2.5);
        self.ring(chosen, 7.5);
    }

    /// Joins the rows of a triplet: the anchor with the positive by a solid line, with the negative by a dashed one. A row that is not
    /// one of the map's stands where its embedding lies on the plane of principal components.
    pub(super) fn triplet(&self, map: &MapData, mix: f64, triplet: [(u32, Option<[f32; 2]>); 3]) {
        let by_embeddings = mix == 1.0 && map.by_umap.is_none();
        let scale = most(&map.places.points);
        let [anchor, positive, negative] = triplet.map(|(row, place)| {
            let own = map.places.of(row).map(|place| self.at(place));
            let placed = place.filter(|_| by_embeddings).map(|point| {
                let [x, y] = point.map(|value| f64::from(value) / scale);
                self.frame.place((x, y))
            });
            own.or(placed)
        });
        for (other, color, dash) in [(positive, "positive", 0.0), (negative, "negative", 5.0)] {
            self.pen(color, 2.0);
            self.dash(dash);
            if let (Some(from), Some(to)) = (anchor, other) {
                self.line(from, to);
            }
            self.dash(0.0);
            self.circle(other, 5.0);
        }
        self.pen("ink", 2.5);
        self.circle(anchor, 6.0);
    }

    /// A circle around a place of the canvas, if there is one.
    fn circle(&self, at: Option<(f64, f64)>, radius: f64) {
        let Some(at) = at else { return };
        self.context.begin_path();
        self.arc(at, self.ratio * radius);
        self.context.stroke();
    }

    fn at(&self, place: usize) -> (f64, f64) {
        self.frame.place(self.points[place])
    }

    fn arc(&self, (x, y): (f64, f64), radius: f64) {
        self.context
            .arc(x, y, radius, 0.0, std::f64::consts::TAU)
            .ok();
    }

    fn ring(&self, place: usize, radius: f64) {
        self.circle(Some(self.at(place)), radius);
    }

    fn cross(&self, place: usize, reach: f64) {
        let (x, y) = self.at(place);
        let reach = self.ratio * reach;
        self.line((x - reach, y - reach), (x + reach, y + reach));
        self.line((x - reach, y + reach), (x + reach, y - reach));
    }

    fn line(&self, from: (f64, f64), to: (f64, f64)) {
        self.context.begin_path();
        self.context.move_to(from.0, from.1);
        self.context.line_to(to.0, to.1);
        self.context.stroke();
    }

    fn pen(&self, color: &str, width: f64) {
        self.context.set_stroke_style_str(&rgb(color));
        self.context.set_line_width(self.ratio * width);
    }

    /// Draws the next lines in dashes of this length, in CSS pixels; solid if it is 0.
    fn dash(&self, length: f64) {
        let dashes = js_sys::Array::new();
        if length > 0.0 {
            dashes.push(&(self.ratio * length).into());
        }
        self.context.set_line_dash(&dashes).ok();
    }
}

fn rgb(name: &str) -> String {
    let (r, g, b) = theme::color(name);
    format!("rgb({r},{g},{b})")
}
