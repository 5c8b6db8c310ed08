//! Hidden activations of a batch in half precision, as the layers after them and the backward pass read them.

use super::{Kernel, READ, READ_WRITE, groups_for, vec4s, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

/// One invocation per vec4.
pub static TO_HALF_F16: Kernel = Kernel {
    name: "cast.to_half_f16",
    source: wgsl!("stored_f16.wgsl", "cast.wgsl"),
    entry: "to_half",
    bindings: &[READ, READ_WRITE, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// Rounds the first `count` values to halves, two in a word, each to the nearest and of two to the even one.
///
/// A value of 65520 or more, or NaN, sets `status[0]`; no kernel clears it.
///
/// # Shapes
/// `values`: `[count]`, whole vec4s · `words`: `[count / 2]`
pub fn cast(
    commands: &mut Commands,
    count: usize,
    values: &DeviceVec<f32>,
    words: &mut DeviceVec<u32>,
    status: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let own = [values.binding(), words.binding(), status.binding()];
            let groups = groups_for(&TO_HALF_F16, count / 4);
            gpu.dispatch(&TO_HALF_F16, &vec4s(count), &own, groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let words = &mut words.slice_mut()[..count / 2];
            cpu::cast::cast(&values.slice()[..count], words, status.slice_mut());
        }
    }
}
