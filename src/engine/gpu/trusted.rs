//! Shader modules without some of wgpu's runtime checks.
#![allow(
    unsafe_code,
    reason = "wgpu has no other way to compile a shader without its runtime checks"
)]

use crate::engine::device::EngineChoice;

/// Checks that a shader is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checks {
    /// All of them: for shaders that a browser compiles, and for tests.
    All,
    /// All but the guards that end loops: a GPU takes a quarter longer with them where a kernel is mostly a short loop.
    AllButLoops,
    /// None: for measurements.
    None,
}

impl Checks {
    pub(super) fn of(choice: &EngineChoice) -> Self {
        match (choice.trusted, choice.guards_loops) {
            (true, _) => Self::None,
            (false, true) => Self::All,
            (false, false) => Self::AllButLoops,
        }
    }
}

/// Compiles a shader of this crate; in a browser always with all checks.
pub(super) fn module(
    device: &wgpu::Device,
    descriptor: wgpu::ShaderModuleDescriptor<'_>,
    checks: Checks,
) -> wgpu::ShaderModule {
    let wanted = match checks {
        Checks::All => return device.create_shader_module(descriptor),
        Checks::AllButLoops => wgpu::ShaderRuntimeChecks {
            force_loop_bounding: false,
            ..wgpu::ShaderRuntimeChecks::checked()
        },
        Checks::None => wgpu::ShaderRuntimeChecks::unchecked(),
    };
    // SAFETY: only the shaders in `shaders/` come here. They index within their buffers, their loops end, and their
    // divisors are sizes above zero; the tests run them with the checks on.
    unsafe { device.create_shader_module_trusted(descriptor, wanted) }
}
