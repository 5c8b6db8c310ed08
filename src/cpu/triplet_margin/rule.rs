//! [`Rule`]: the triplets that are mined and active; and the words of a report that count them.

use crate::Distance;

/// Band of valid triplets that the miner keeps, by `tm = v_ap - v_an`; bands of all triplets, as in PML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// `tm <= margin`.
    All = 0,
    /// `tm > margin`.
    Easy = 1,
    /// `0 < tm <= margin`.
    Semihard = 2,
    /// `tm <= margin` and `tm <= 0`.
    Hard = 3,
    /// Every valid triplet: no miner.
    Unmined = 4,
}

/// Rule of miner and loss: the band of triplets that is mined, and the margin of the loss. A mined triplet is active if
/// `v_an - v_ap + loss_margin > 0`. `v` is the similarity for cosine, and minus the distance for L2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Distance by which rows are compared.
    pub distance: Distance,
    /// Band of triplets that is kept.
    pub kind: Kind,
    /// The miner's margin, inclusive.
    pub miner_margin: f32,
    /// The loss's margin; at exactly the margin the loss is 0.
    pub loss_margin: f32,
}

impl Rule {
    /// Tells if a triplet of margin `tm = v_ap - v_an` is mined, is within the miner's margin, and is hard.
    pub fn mined(&self, tm: f32) -> (bool, bool, bool) {
        let within = tm <= self.miner_margin;
        let hard = within && tm <= 0.0;
        let mined = match self.kind {
            Kind::All => within,
            Kind::Easy => !within,
            Kind::Semihard => within && !hard,
            Kind::Hard => hard,
            Kind::Unmined => true,
        };
        (mined, within, hard)
    }

    /// Factor of `<gradient, anchor>` in the sum over active triplets of `v_an - v_ap`. `alone`: the references are the anchors
    /// themselves, so that every term is in the gradient of both and counts half.
    ///
    /// For cosine the sum is just that product, summed over the anchors.
    ///
    /// For `v = -D`, `D^2 = 2 - 2 s` and weights `count / D`: `count * v = -weight * D^2 = 2 weight s - 2 weight`.
    pub fn scale(&self, alone: bool) -> f32 {
        let once = match self.distance {
            Distance::Cosine => 1.0,
            Distance::L2 => 2.0,
        };
        if alone { once / 2.0 } else { once }
    }
}

/// Triplet counts in a step's report: u64s, each in two words, low first; the number is the first word's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// All valid triplets.
    Valid = 0,
    /// Triplets within the miner's margin, `tm <= margin`: semihard and hard.
    Within = 2,
    /// Hard ones: `tm <= margin` and `tm <= 0`.
    Hard = 4,
    /// Triplets that the miner keeps.
    Mined = 6,
    /// Mined triplets with a loss above zero.
    Active = 8,
}

/// Word of a step's report that holds the status: not 0 once a value was not finite.
pub const STATUS: usize = 15;
/// First word of the rows' terms of the loss in a step's report, one f32 a row, as bits.
pub const TERMS: usize = 16;

impl Total {
    /// Reads the total off a step's report.
    pub fn read(self, report: &[u32]) -> u64 {
        read_total(report, self as usize)
    }

    /// Adds to the total of a step's report.
    pub fn add(self, report: &mut [u32], value: u64) {
        add_total(report, self as usize, value);
    }
}

/// Reads the u64 in two words of a report, low first.
pub(crate) fn read_total(report: &[u32], at: usize) -> u64 {
    u64::from(report[at]) | u64::from(report[at + 1]) << 32
}

/// Adds to the u64 in two words of a report, low first.
pub(crate) fn add_total(report: &mut [u32], at: usize, value: u64) {
    let sum = read_total(report, at) + value;
    report[at] = sum as u32;
    report[at + 1] = (sum >> 32) as u32;
}
