//! Shader modules without wgpu's runtime checks, so that the bench can compare them with checked ones.
#![allow(
    unsafe_code,
    reason = "wgpu has no other way to compile a shader without its runtime checks"
)]

/// Compiles a shader of this crate without bounds checks, loop bounds and division guards; in a browser with them.
pub(super) fn module(
    device: &wgpu::Device,
    descriptor: wgpu::ShaderModuleDescriptor<'_>,
) -> wgpu::ShaderModule {
    // SAFETY: only the shaders in `shaders/` come here. They index within their buffers, their loops end, and their
    // divisors are sizes above zero; the tests run them with the checks on.
    unsafe {
        device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
    }
}
