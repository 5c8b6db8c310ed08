//! [`Sheet`]: dots as the pixels of an image, which is put on a canvas at once. Fifty thousand take some milliseconds; as paths of
//! a canvas they take a good part of a second.

use wasm_bindgen::Clamped;
use web_sys::{CanvasRenderingContext2d, ImageData};

/// An image in a canvas's own pixels, see-through at first.
pub(super) struct Sheet {
    width: usize,
    height: usize,
    /// Red, green, blue and alpha of each pixel, row by row.
    pixels: Vec<u8>,
}

/// How a dot looks.
#[derive(Clone, Copy)]
pub(super) struct Dot {
    pub(super) color: (u8, u8, u8),
    /// 0 is see-through, 1 is solid.
    pub(super) alpha: f32,
    /// In pixels.
    pub(super) radius: f32,
}

impl Sheet {
    pub(super) fn new((width, height): (usize, usize)) -> Self {
        Self {
            width,
            height,
            pixels: vec![0; 4 * width * height],
        }
    }

    /// Lays a dot over what is there.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), dot: &Dot) {
        let (x, y) = (x as f32, y as f32);
        // A pixel is covered by as much as the edge lies beyond its middle.
        let reach = dot.radius + 0.5;
        let span = |middle: f32, most: usize| {
            ((middle - reach) as usize).min(most)..((middle + reach) as usize + 1).min(most)
        };
        let color = [dot.color.0, dot.color.1, dot.color.2].map(f32::from);
        for row in span(y, self.height) {
            let down = row as f32 + 0.5 - y;
            let first = 4 * row * self.width;
            for column in span(x, self.width) {
                let along = column as f32 + 0.5 - x;
                let covered = (reach - (along * along + down * down).sqrt()).min(1.0);
                if covered <= 0.0 {
                    continue;
                }
                let pixel = &mut self.pixels[first + 4 * column..][..4];
                let over = covered * dot.alpha;
                let both = over + f32::from(pixel[3]) / 255.0 * (1.0 - over);
                let part = over / both;
                for (value, color) in pixel.iter_mut().zip(color) {
                    let before = f32::from(*value);
                    *value = (before + part * (color - before) + 0.5) as u8;
                }
                pixel[3] = (255.0 * both + 0.5) as u8;
            }
        }
    }

    /// Puts the image on the canvas, in place of what was there.
    pub(super) fn put(&self, context: &CanvasRenderingContext2d) {
        let pixels = Clamped(self.pixels.as_slice());
        let (width, height) = (self.width as u32, self.height as u32);
        if let Ok(image) = ImageData::new_with_u8_clamped_array_and_sh(pixels, width, height) {
            context.put_image_data(&image, 0.0, 0.0).ok();
        }
    }
}
