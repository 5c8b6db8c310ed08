//! [`MemoryLedger`]: every byte of device memory, by purpose, against one budget.
//!
//! Each buffer holds a [`Reservation`]. Its bytes are *live* until the buffer is given up, then *returning* until the device has
//! released it, and count against the budget throughout. Depends on no other module.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Purpose of a buffer. Programs may rely on the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Purpose {
    Dataset,
    Weights,
    Gradients,
    Optimizer,
    Activations,
    MemoryBank,
    Similarities,
    Ranks,
    Triplets,
    Neighbours,
    Staging,
    Uniforms,
}

impl Purpose {
    /// Every purpose, in the order in which reports list them.
    pub const ALL: [Self; 12] = [
        Self::Dataset,
        Self::Weights,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::MemoryBank,
        Self::Similarities,
        Self::Ranks,
        Self::Triplets,
        Self::Neighbours,
        Self::Staging,
        Self::Uniforms,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dataset => "dataset",
            Self::Weights => "weights",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Activations => "activations",
            Self::MemoryBank => "memory_bank",
            Self::Similarities => "similarities",
            Self::Ranks => "ranks",
            Self::Triplets => "triplets",
            Self::Neighbours => "neighbours",
            Self::Staging => "staging",
            Self::Uniforms => "uniforms",
        }
    }
}

/// A request that passes the budget, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// The buffer or phase that asked.
    pub what: String,
    /// Bytes asked for.
    pub needs_bytes: u64,
    /// Bytes of the budget that are not in use.
    pub free_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" needs {}, {} of the {} budget is free",
            self.what,
            Bytes(self.needs_bytes).rounded_up(),
            Bytes(self.free_bytes).rounded_down(),
            Bytes(self.budget_bytes).rounded_down()
        )
    }
}

/// A byte count that displays in binary units: `1.5 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Text of the bytes, rounded up: for needed memory, so that a budget of that much is enough.
    pub fn rounded_up(self) -> String {
        self.text(f64::ceil)
    }

    /// Text of the bytes, rounded down: for free memory, or a limit.
    pub fn rounded_down(self) -> String {
        self.text(f64::floor)
    }

    /// The bytes that [`Bytes::rounded_up`] shows.
    pub(crate) fn ceiled(self) -> Self {
        let (value, unit) = self.in_units(f64::ceil);
        let bytes = value * 1024f64.powi(unit as i32);
        Self((bytes as u64).max(self.0))
    }

    fn text(self, round: fn(f64) -> f64) -> String {
        let (value, unit) = self.in_units(round);
        let decimals = usize::from(value.fract() > 0.0);
        format!("{value:.decimals$} {}", Self::UNITS[unit])
    }

    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

    /// Value and unit, with three digits at most if the unit is KiB or more: tenths below 100, whole units above.
    fn in_units(self, round: fn(f64) -> f64) -> (f64, usize) {
        if self.0 < 1024 {
            return (self.0 as f64, 0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 1;
        while value >= 1024.0 && unit + 1 < Self::UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let parts = if value < 100.0 { 10.0 } else { 1.0 };
        (round(value * parts) / parts, unit)
    }
}

impl fmt::Display for Bytes {
    /// The text of the bytes, rounded to the nearest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(f64::round))
    }
}

#[derive(Debug, Default)]
struct Account {
    budget: u64,
    live: u64,
    returning: u64,
    peak: u64,
    /// Reservations that were handed out.
    reservations: u64,
    by_purpose: BTreeMap<Purpose, u64>,
    by_label: BTreeMap<String, u64>,
}

/// The account of one engine's memory; clones share the same account.
#[derive(Clone, Debug)]
pub struct MemoryLedger(Rc<RefCell<Account>>);

impl MemoryLedger {
    /// Opens the account with a budget in bytes.
    pub fn new(budget_bytes: u64) -> Self {
        Self(Rc::new(RefCell::new(Account {
            budget: budget_bytes,
            ..Account::default()
        })))
    }

    /// Takes `bytes` from the budget until the reservation is dropped.
    ///
    /// # Errors
    /// [`OverBudget`] when fewer bytes are free; nothing is taken then.
    pub fn reserve(
        &self,
        purpose: Purpose,
        label: &str,
        bytes: u64,
    ) -> Result<Reservation, OverBudget> {
        let free = self.free_bytes();
        if bytes > free {
            return Err(OverBudget {
                what: label.to_owned(),
                needs_bytes: bytes,
                free_bytes: free,
                budget_bytes: self.budget_bytes(),
            });
        }
        let mut account = self.0.borrow_mut();
        account.live += bytes;
        account.reservations += 1;
        account.peak = account.peak.max(account.live + account.returning);
        *account.by_purpose.entry(purpose).or_default() += bytes;
        *account.by_label.entry(label.to_owned()).or_default() += bytes;
        Ok(Reservation {
            ledger: self.clone(),
            purpose,
            label: label.to_owned(),
            bytes,
            returning: false,
        })
    }

    /// The budget, in bytes.
    pub fn budget_bytes(&self) -> u64 {
        self.0.borrow().budget
    }

    /// Bytes of the budget that are neither live nor returning.
    pub fn free_bytes(&self) -> u64 {
        let account = self.0.borrow();
        account.budget - account.live - account.returning
    }

    /// Bytes held by buffers in use.
    pub fn live_bytes(&self) -> u64 {
        self.0.borrow().live
    }

    /// Bytes given up that the device has not released yet.
    pub fn returning_bytes(&self) -> u64 {
        self.0.borrow().returning
    }

    /// The most that was ever live or returning at once.
    pub fn peak_bytes(&self) -> u64 {
        self.0.borrow().peak
    }

    /// Number of reservations so far, each of which is a buffer: a loop that creates none leaves it as it is.
    pub fn reservations(&self) -> u64 {
        self.0.borrow().reservations
    }

    /// Restarts the peak at the bytes that are live or returning now.
    pub fn restart_peak(&self) {
        let mut account = self.0.borrow_mut();
        account.peak = account.live + account.returning;
    }

    /// Live bytes of each purpose that has any.
    pub fn by_purpose(&self) -> BTreeMap<Purpose, u64> {
        self.0.borrow().by_purpose.clone()
    }

    /// Live bytes of each buffer label.
    pub fn by_label(&self) -> BTreeMap<String, u64> {
        self.0.borrow().by_label.clone()
    }
}

/// A share of the budget; dropping it gives the bytes back.
#[derive(Debug)]
pub struct Reservation {
    ledger: MemoryLedger,
    purpose: Purpose,
    label: String,
    bytes: u64,
    returning: bool,
}

impl Reservation {
    /// The size, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves the bytes from live to returning: the buffer is given up, the device may still hold it.
    pub fn begin_return(&mut self) {
        if std::mem::replace(&mut self.returning, true) {
            return;
        }
        let mut account = self.ledger.0.borrow_mut();
        account.live -= self.bytes;
        account.returning += self.bytes;
        subtract(&mut account.by_purpose, &self.purpose, self.bytes);
        subtract(&mut account.by_label, &self.label, self.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.begin_return();
        self.ledger.0.borrow_mut().returning -= self.bytes;
    }
}

fn subtract<K: Ord + Clone>(map: &mut BTreeMap<K, u64>, key: &K, bytes: u64) {
    if let Some(held) = map.get_mut(key) {
        *held -= bytes;
        if *held == 0 {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_the_budget_is_refused_with_numbers_and_takes_nothing() {
        let ledger = MemoryLedger::new(1 << 20);
        let _kept = ledger
            .reserve(Purpose::Weights, "weights", 600 << 10)
            .expect("fits");
        let refused = ledger
            .reserve(Purpose::Ranks, "ranks", 500 << 10)
            .expect_err("does not fit");
        assert_eq!(
            refused.to_string(),
            "\"ranks\" needs 500 KiB, 424 KiB of the 1 MiB budget is free"
        );
        assert_eq!(ledger.live_bytes(), 600 << 10);
    }

    #[test]
    fn what_is_needed_never_reads_like_what_is_free() {
        for free_bytes in [1u64 << 10, 136_192, 1 << 20, (1 << 30) - 7, 3 << 40] {
            let refused = OverBudget {
                what: "knn".to_owned(),
                needs_bytes: free_bytes + 1,
                free_bytes,
                budget_bytes: free_bytes,
            };
            let (needs, free) = (Bytes(free_bytes + 1), Bytes(free_bytes));
            assert_ne!(needs.rounded_up(), free.rounded_down(), "{refused}");
            assert!(
                refused.to_string().contains(&needs.rounded_up()),
                "{refused}"
            );
        }
        assert_eq!(Bytes(136_193).rounded_up(), "134 KiB");
        assert_eq!(Bytes(136_319).rounded_down(), "133 KiB");
        assert_eq!(Bytes(13_619).rounded_up(), "13.3 KiB");
        assert_eq!(Bytes(2 << 20).rounded_up(), "2 MiB");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
    }

    #[test]
    fn returning_bytes_count_until_they_are_back() {
        let ledger = MemoryLedger::new(100);
        let mut kept = ledger.reserve(Purpose::Staging, "s", 80).expect("fits");
        kept.begin_return();
        assert_eq!((ledger.live_bytes(), ledger.returning_bytes()), (0, 80));
        assert!(ledger.by_purpose().is_empty());
        assert!(ledger.reserve(Purpose::Staging, "t", 21).is_err());
        drop(kept);
        assert_eq!((ledger.returning_bytes(), ledger.free_bytes()), (0, 100));
        assert_eq!(ledger.peak_bytes(), 80);
        ledger.restart_peak();
        assert_eq!(ledger.peak_bytes(), 0);
    }
}
