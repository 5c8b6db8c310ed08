//! [`MemoryPlan`]: every buffer of a phase, by purpose and size, before any of them exists.
//!
//! A phase allocates exactly its plan, through [`crate::Engine::workspace`]; nothing else creates a buffer.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::base::error::{Error, Result};
use crate::base::ledger::{Bytes, OverBudget, Purpose};

/// The advice that names a budget.
const RAISE: &str = "raise the budget";

/// One buffer of a plan.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PlannedBuffer {
    /// The buffer's name in the plan, the ledger and the driver's reports.
    pub label: &'static str,
    /// The purpose of the buffer.
    #[serde(serialize_with = "purpose_name")]
    pub purpose: Purpose,
    /// Its size: whole 16-byte units, at least one.
    pub bytes: u64,
}

/// The buffers of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    buffers: Vec<PlannedBuffer>,
}

impl MemoryPlan {
    /// Adds a buffer of `elements` values of `T`. Sizes past `u64::MAX` count as `u64::MAX`: no budget holds them.
    ///
    /// # Panics
    /// When the plan has a buffer of this label already.
    #[must_use]
    pub fn with<T>(mut self, purpose: Purpose, label: &'static str, elements: u64) -> Self {
        assert!(
            self.buffers.iter().all(|buffer| buffer.label != label),
            "a plan names \"{label}\" twice"
        );
        let bytes = elements.saturating_mul(size_of::<T>() as u64).max(1);
        self.buffers.push(PlannedBuffer {
            label,
            purpose,
            bytes: bytes.checked_next_multiple_of(16).unwrap_or(u64::MAX),
        });
        self
    }

    /// The buffers, in the order in which they were added.
    pub fn buffers(&self) -> &[PlannedBuffer] {
        &self.buffers
    }

    /// The sum of all buffers, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.buffers
            .iter()
            .fold(0, |sum, buffer| sum.saturating_add(buffer.bytes))
    }

    /// The sum of the buffers of each purpose, in bytes.
    pub fn by_purpose(&self) -> BTreeMap<Purpose, u64> {
        let mut sums = BTreeMap::new();
        for buffer in &self.buffers {
            let sum: &mut u64 = sums.entry(buffer.purpose).or_default();
            *sum = sum.saturating_add(buffer.bytes);
        }
        sums
    }

    /// Checks the plan against the free bytes and the largest buffer that the device binds.
    ///
    /// # Errors
    /// [`Error::Refused`] for the whole plan as `phase`, [`Error::TooLarge`] for one buffer; `how` says what to change. If it says
    /// "raise the budget", the budget that would be enough is added.
    pub fn fits(&self, phase: &str, room: &Room, how: &str) -> Result<()> {
        self.fits_or(phase, room, how, |_| self.clone())
    }

    /// [`MemoryPlan::fits`] for a plan that depends on the room, `plan_in(room)`: the budget that is named is enough for that plan.
    pub(crate) fn fits_or(
        &self,
        phase: &str,
        room: &Room,
        how: &str,
        plan_in: impl Fn(&Room) -> Self,
    ) -> Result<()> {
        let needs_bytes = self.total_bytes();
        if needs_bytes > room.free_bytes {
            let held_bytes = room.budget_bytes - room.free_bytes;
            let mut enough = Bytes(needs_bytes.saturating_add(held_bytes)).ceiled();
            // A larger room may be cut into larger blocks, which need a little more again.
            for _ in 0..64 {
                let larger = Room {
                    free_bytes: enough.0 - held_bytes,
                    budget_bytes: enough.0,
                    ..*room
                };
                let needs_bytes = plan_in(&larger).total_bytes();
                if needs_bytes <= larger.free_bytes {
                    break;
                }
                enough = Bytes(needs_bytes.saturating_add(held_bytes)).ceiled();
            }
            return Err(Error::Refused {
                over: OverBudget {
                    what: phase.to_owned(),
                    needs_bytes,
                    free_bytes: room.free_bytes,
                    budget_bytes: room.budget_bytes,
                },
                how: how.replacen(RAISE, &format!("{RAISE} to {}", enough.rounded_up()), 1),
                fits: Vec::new(),
            });
        }
        let too_large = self
            .buffers
            .iter()
            .find(|buffer| buffer.bytes > room.max_buffer_bytes);
        match too_large {
            Some(buffer) => Err(Error::TooLarge {
                label: buffer.label,
                bytes: Bytes(buffer.bytes),
                limit: Bytes(room.max_buffer_bytes),
                how: how.to_owned(),
                fits: Vec::new(),
            }),
            None => Ok(()),
        }
    }
}

/// `{"total_bytes": .., "by_purpose": {..}, "buffers": [{"label", "purpose", "bytes"}]}`.
impl Serialize for MemoryPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by_purpose: BTreeMap<_, _> = self
            .by_purpose()
            .into_iter()
            .map(|(purpose, bytes)| (purpose.name(), bytes))
            .collect();
        let mut plan = serializer.serialize_struct("MemoryPlan", 3)?;
        plan.serialize_field("total_bytes", &self.total_bytes())?;
        plan.serialize_field("by_purpose", &by_purpose)?;
        plan.serialize_field("buffers", &self.buffers)?;
        plan.end()
    }
}

fn purpose_name<S: Serializer>(purpose: &Purpose, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(purpose.name())
}

/// Memory that a plan may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the budget that are not in use.
    pub free_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// The largest buffer that a kernel can bind.
    pub max_buffer_bytes: u64,
}
