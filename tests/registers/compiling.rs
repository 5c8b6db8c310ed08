//! A kernel on its way through `wgpu::hal` to a Vulkan driver, as `src/engine/gpu/kernel.rs` sends it.

use nearfar::kernels::{Access, Kernel};
use wgpu::hal::{self, Device as _, vulkan};
use wgpu::naga;

/// The first Vulkan adapter that suits, discrete before integrated before software.
pub(crate) fn adapter(suits: impl Fn(&wgpu::AdapterInfo) -> bool) -> Option<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let suiting = adapters
        .into_iter()
        .filter(|adapter| suits(&adapter.get_info()));
    suiting.min_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    })
}

/// Compiles a kernel with the options that wgpu itself would pass on, and lets go of it.
pub(crate) fn compile(device: &vulkan::Device, kernel: &Kernel, compiled: impl FnOnce()) {
    let module = naga::front::wgsl::parse_str(&kernel.source.concat()).expect("parses");
    let info = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::default() | naga::valid::Capabilities::SHADER_FLOAT16_IN_FLOAT32,
    );
    let info = { info }.validate(&module).expect("is valid");
    let entry = |binding, ty, dynamic| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: dynamic,
            min_binding_size: None,
        },
        count: None,
    };
    let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true)];
    entries.extend((1..).zip(kernel.bindings).map(|(binding, access)| {
        let read_only = *access == Access::Read;
        let ty = wgpu::BufferBindingType::Storage { read_only };
        entry(binding, ty, false)
    }));
    let constant = (
        "WORKGROUP_SIZE".to_owned(),
        f64::from(kernel.workgroup_size),
    );
    let constants = [constant].into_iter().collect();
    // SAFETY: all objects are of this device, used before they are destroyed and destroyed once. naga has validated the
    // shader, and its bindings are those of the layout: `tests/kernels/shaders.rs` sees to that.
    unsafe {
        let bind_group = device
            .create_bind_group_layout(&hal::BindGroupLayoutDescriptor {
                label: None,
                flags: hal::BindGroupLayoutFlags::empty(),
                entries: &entries,
            })
            .expect("a layout");
        let layout = device
            .create_pipeline_layout(&hal::PipelineLayoutDescriptor {
                label: None,
                flags: hal::PipelineLayoutFlags::empty(),
                bind_group_layouts: &[Some(&bind_group)],
                immediate_size: 0,
            })
            .expect("a layout");
        let module = device
            .create_shader_module(
                &hal::ShaderModuleDescriptor {
                    label: None,
                    runtime_checks: wgpu::ShaderRuntimeChecks::checked(),
                },
                hal::ShaderInput::Naga(hal::NagaShader {
                    module: std::borrow::Cow::Owned(module),
                    info,
                    debug_source: None,
                }),
            )
            .expect("a module");
        let pipeline = device
            .create_compute_pipeline(&hal::ComputePipelineDescriptor {
                label: None,
                layout: &layout,
                stage: hal::ProgrammableStage {
                    module: &module,
                    entry_point: kernel.entry,
                    constants: &constants,
                    zero_initialize_workgroup_memory: true,
                },
                cache: None,
            })
            .expect("compiles");
        compiled();
        device.destroy_compute_pipeline(pipeline);
        device.destroy_shader_module(module);
        device.destroy_pipeline_layout(layout);
        device.destroy_bind_group_layout(bind_group);
    }
}
