//! [`reserve`] and [`zeros`]: memory that the system may refuse, as an error and not as the end of the process.

use std::cell::Cell;

use bytemuck::Pod;
#[cfg(not(target_arch = "wasm32"))]
use rayon::iter::IndexedParallelIterator as _;

use crate::base::error::{Error, Result};
use crate::base::ledger::Bytes;

/// Bytes from which on all cores write the zeros.
#[cfg(not(target_arch = "wasm32"))]
const MANY_BYTES: usize = 1 << 20;

thread_local! {
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Makes room for exactly `more` elements; `what` names them in the message.
///
/// # Errors
/// [`Error::NoMemory`] if the system has less.
pub fn reserve<T>(vec: &mut Vec<T>, more: u64, what: &str) -> Result<()> {
    MAY_FAIL.set(true);
    let reserved = usize::try_from(more).is_ok_and(|more| vec.try_reserve_exact(more).is_ok());
    MAY_FAIL.set(false);
    if reserved {
        return Ok(());
    }
    Err(Error::NoMemory {
        what: what.to_owned(),
        bytes: Bytes(more.saturating_mul(size_of::<T>() as u64)),
    })
}

/// A vector of `count` zeros. Each is written, so that the system has handed out the memory when this returns, not on first use.
///
/// # Errors
/// [`Error::NoMemory`] if the system has less.
pub(crate) fn zeros<T: Pod + Send>(count: u64, what: &str) -> Result<Vec<T>> {
    let mut zeros = Vec::new();
    reserve(&mut zeros, count, what)?;
    // Hidden from the compiler, which would ask the system for pages of zeros: those are handed out on first use.
    let (count, zero) = (count as usize, std::hint::black_box(T::zeroed()));
    // Handing them out takes longer than writing them: all cores ask.
    #[cfg(not(target_arch = "wasm32"))]
    if count * size_of::<T>() >= MANY_BYTES && rayon::current_num_threads() > 1 {
        rayon::iter::repeat_n(zero, count)
            .with_min_len(MANY_BYTES / 4 / size_of::<T>())
            .collect_into_vec(&mut zeros);
        return Ok(zeros);
    }
    zeros.resize(count, zero);
    Ok(zeros)
}

/// Tells if this thread now turns a refusal of memory into an error: for the allocator of a program.
#[doc(hidden)]
pub fn may_fail() -> bool {
    MAY_FAIL.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_machine_has_is_refused_with_its_size() {
        let refused = zeros::<f32>(1 << 60, "\"training\"").expect_err("no machine has it");
        assert_eq!(
            refused.to_string(),
            "\"training\" needs 4096 PiB, and the system gives this process no more: lower the budget, use less data, \
             or end other programs"
        );
        assert_eq!(refused.exit_code(), 2);
        assert!(!may_fail());
        assert_eq!(zeros::<u32>(3, "three").ok(), Some(vec![0; 3]));
    }
}
