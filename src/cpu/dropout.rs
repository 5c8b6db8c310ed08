//! Dropout: a part of a layer's outputs, drawn anew each step, is set to 0.

/// Rule that drops outputs of one layer in one step: each with the same chance, decided by its place and `key` alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The chance of an output to be dropped, at least 0 and below 1.
    pub rate: f32,
    /// Tells layers, steps and seeds apart.
    pub key: [u32; 2],
}

impl Dropout {
    /// An output is dropped if [`Dropout::draw`] is below this.
    pub fn threshold(&self) -> u32 {
        (f64::from(self.rate) * 4_294_967_296.0) as u32
    }

    /// Factor of the outputs that are kept, so that the expected sum stays: 1 over the part that is kept.
    pub fn scale(&self) -> f32 {
        1.0 / (1.0 - self.rate)
    }

    /// The draw at a place: 32 bits, evenly spread.
    pub fn draw(&self, place: u32) -> u32 {
        mix(mix(place ^ self.key[0]) ^ self.key[1])
    }
}

/// Drops from `values` `[rows, stride]` in place, whose places begin at `first`: from outputs in the forward pass, and from their
/// gradient in the backward pass.
pub fn drop(dropout: &Dropout, first: u32, values: &mut [f32]) {
    let (threshold, scale) = (dropout.threshold(), dropout.scale());
    for (value, place) in values.iter_mut().zip(first..) {
        *value = if dropout.draw(place) < threshold {
            0.0
        } else {
            *value * scale
        };
    }
}

/// Hash in which each bit of the result depends on each of `x`: `lowbias32` of Wellons' hash prospector.
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
