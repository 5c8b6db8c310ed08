//! [`Sheet`]: dots as the pixels of an image, which is put on a canvas at once. Fifty thousand dots take some milliseconds; as
//! paths of a canvas they take a good part of a second. A [`Stamp`] holds how much of each pixel a dot covers, worked out
//! beforehand.

use js_sys::Uint8ClampedArray;
use web_sys::{CanvasRenderingContext2d, ImageData};

/// An image in a canvas's own pixels, transparent at first.
pub(super) struct Sheet {
    width: usize,
    height: usize,
    /// Red, green, blue and alpha of each pixel, row by row.
    pixels: Vec<[u8; 4]>,
}

/// Colour, opacity and radius of a dot.
#[derive(Clone, Copy)]
pub(super) struct Dot {
    pub(super) color: (u8, u8, u8),
    /// 0 is transparent, 1 is opaque.
    pub(super) alpha: f32,
    /// In pixels.
    pub(super) radius: f32,
}

impl Sheet {
    pub(super) fn new((width, height): (usize, usize)) -> Self {
        Self {
            width,
            height,
            pixels: vec![[0; 4]; width * height],
        }
    }

    /// Blends a dot over the image.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), stamp: &Stamp) {
        let fine = |place: f64| (place * FINE as f64).round() as i32;
        let ((column, right), (row, down)) = (split(fine(x)), split(fine(y)));
        for (along, below, over) in &stamp.cells[down * FINE + right] {
            let (column, row) = ((column + along) as usize, (row + below) as usize);
            if column >= self.width || row >= self.height {
                continue;
            }
            let pixel = &mut self.pixels[row * self.width + column];
            let alpha = u32::from(pixel[3]);
            let both = over + alpha - over * alpha / 255;
            let part = 256 * over / both;
            pixel[0] = mix(pixel[0], stamp.color.0, part);
            pixel[1] = mix(pixel[1], stamp.color.1, part);
            pixel[2] = mix(pixel[2], stamp.color.2, part);
            pixel[3] = both as u8;
        }
    }

    /// Puts the image on the canvas, in place of what was there.
    pub(super) fn put(&self, context: &CanvasRenderingContext2d) {
        // A copy: an image does not take memory that is shared with other threads.
        let pixels = Uint8ClampedArray::from(self.pixels.as_flattened());
        let (width, height) = (self.width as u32, self.height as u32);
        if let Ok(image) = ImageData::new_with_js_u8_clamped_array_and_sh(&pixels, width, height) {
            context.put_image_data(&image, 0.0, 0.0).ok();
        }
    }
}

/// Mixes a colour channel with `part` of 256 of another colour's.
#[inline(always)]
fn mix(before: u8, color: u8, part: u32) -> u8 {
    ((u32::from(before) * (256 - part) + u32::from(color) * part + 128) >> 8) as u8
}

/// Positions within a pixel, along and down each, to which the middle of a dot is rounded.
const FINE: usize = 4;

/// Splits a place, counted in `FINE` to a pixel, into its pixel and the rest.
fn split(place: i32) -> (i32, usize) {
    let fine = FINE as i32;
    (place.div_euclid(fine), place.rem_euclid(fine) as usize)
}

/// The pixels that a dot covers.
pub(super) struct Stamp {
    color: (u8, u8, u8),
    /// For each position of its middle within a pixel: the covered pixels, as offsets to the right and down, and the opacity of
    /// each, of 255.
    cells: Vec<Vec<(i32, i32, u32)>>,
}

impl Stamp {
    pub(super) fn new(dot: &Dot) -> Self {
        // Coverage of a pixel is the distance of the edge beyond its middle plus a half, from 0 to 1.
        let reach = dot.radius + 0.5;
        let far = reach.ceil() as i32;
        let cells = |place: usize| {
            let middle = [place % FINE, place / FINE].map(|part| part as f32 / FINE as f32 - 0.5);
            let pixels = (-far..=far).flat_map(|down| (-far..=far).map(move |right| (right, down)));
            let covered = pixels.filter_map(|(right, down)| {
                let (along, below) = (right as f32 - middle[0], down as f32 - middle[1]);
                let distance = (along * along + below * below).sqrt();
                let covered = (reach - distance).clamp(0.0, 1.0);
                let over = (255.0 * covered * dot.alpha + 0.5) as u32;
                (over > 0).then_some((right, down, over))
            });
            covered.collect()
        };
        Self {
            color: dot.color,
            cells: (0..FINE * FINE).map(cells).collect(),
        }
    }
}
