//! [`Kernel`]: one WGSL entry point and the data to compile a pipeline of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::rc::Rc;

use super::PARAMS_BYTES;
use super::trusted::{self, Checks};
use super::vec::Binding;
use crate::engine::device::TileShape;

/// The most storage buffers of a kernel: the limit that every WebGPU device has.
pub(super) const MAX_BINDINGS: usize = 8;

/// Invocations of a workgroup if barriers are slow: software adapters start every invocation that waits at one by itself.
pub const NARROW: u32 = 32;

/// Access of a kernel to a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    ReadWrite,
}

/// One entry point of a shader. Binding 0 is always its uniform `Params`.
#[derive(Debug)]
pub struct Kernel {
    /// `file.entry`: the kernel's name in messages and counters.
    pub name: &'static str,
    /// The WGSL code, in parts that are joined.
    pub source: &'static [&'static str],
    /// The entry point.
    pub entry: &'static str,
    /// The storage buffers, from binding 1 on.
    pub bindings: &'static [Access],
    /// Invocations of a workgroup: the shader's `override WORKGROUP_SIZE`.
    pub workgroup_size: u32,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// A workgroup gives the same bits with fewer invocations: in [`TileShape::Strip`] it has 32.
    pub any_size: bool,
}

impl Kernel {
    /// The same entry point of another text, such as that of rows in half precision.
    pub(crate) const fn of_text(
        &self,
        name: &'static str,
        source: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            source,
            ..*self
        }
    }

    /// Invocations of a workgroup in this shape.
    pub fn size_in(&self, shape: TileShape) -> u32 {
        match shape {
            TileShape::Strip if self.any_size => self.workgroup_size.min(NARROW),
            _ => self.workgroup_size,
        }
    }
}

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) compute: wgpu::ComputePipeline,
    layout: Rc<Layout>,
}

#[derive(Debug)]
struct Layout {
    bind_group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

/// The ids of a dispatch's buffers in binding order, 0 for none.
type BufferIds = [u64; MAX_BINDINGS];

/// The compiled kernels, the layouts they share, and the bind groups of the buffers in use.
#[derive(Debug)]
pub(super) struct Pipelines {
    checks: Checks,
    /// Shape in which work is cut into workgroups.
    pub(super) shape: TileShape,
    /// Pipelines by name and invocations of a workgroup.
    compiled: RefCell<HashMap<(&'static str, u32), Rc<Pipeline>>>,
    layouts: RefCell<HashMap<&'static [Access], Rc<Layout>>>,
    bind_groups: RefCell<HashMap<(&'static [Access], BufferIds), wgpu::BindGroup>>,
}

impl Pipelines {
    pub(super) fn new(checks: Checks, shape: TileShape) -> Self {
        Self {
            checks,
            shape,
            compiled: RefCell::default(),
            layouts: RefCell::default(),
            bind_groups: RefCell::default(),
        }
    }

    /// The names of those that are compiled.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.compiled
            .borrow()
            .keys()
            .map(|(name, _)| *name)
            .collect()
    }

    /// The pipeline of a kernel in this shape, compiled on first use.
    pub(super) fn get(
        &self,
        device: &wgpu::Device,
        kernel: &'static Kernel,
        shape: TileShape,
    ) -> Rc<Pipeline> {
        let size = kernel.size_in(shape);
        if let Some(pipeline) = self.compiled.borrow().get(&(kernel.name, size)) {
            return Rc::clone(pipeline);
        }
        // Native wgpu checks neither of these, and drivers crash instead of complaining.
        let limits = device.limits();
        assert!(
            kernel.workgroup_size <= limits.max_compute_invocations_per_workgroup
                && kernel.workgroup_bytes <= limits.max_compute_workgroup_storage_size,
            "{} needs more invocations or workgroup memory than the device has",
            kernel.name
        );
        let layout = self.layout(device, kernel.bindings);
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(kernel.name),
            source: wgpu::ShaderSource::Wgsl(kernel.source.concat().into()),
        };
        let module = trusted::module(device, descriptor, self.checks);
        let compute = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel.name),
            layout: Some(&layout.pipeline),
            module: &module,
            entry_point: Some(kernel.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &[("WORKGROUP_SIZE", f64::from(size))],
                ..Default::default()
            },
            cache: None,
        });
        let pipeline = Rc::new(Pipeline { compute, layout });
        self.compiled
            .borrow_mut()
            .insert((kernel.name, size), Rc::clone(&pipeline));
        pipeline
    }

    /// The bind group of `params` and the given buffers, made on first use.
    pub(super) fn bind_group(
        &self,
        device: &wgpu::Device,
        kernel: &'static Kernel,
        pipeline: &Pipeline,
        params: &wgpu::Buffer,
        buffers: &[Binding<'_>],
    ) -> wgpu::BindGroup {
        assert_eq!(
            buffers.len(),
            kernel.bindings.len(),
            "{} takes as many buffers as it declares",
            kernel.name
        );
        let mut ids = [0; MAX_BINDINGS];
        for (id, buffer) in ids.iter_mut().zip(buffers) {
            *id = buffer.id;
        }
        let make = || {
            let params = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: params,
                offset: 0,
                size: NonZeroU64::new(u64::from(PARAMS_BYTES)),
            });
            let resources =
                std::iter::once(params).chain(buffers.iter().map(|b| b.buffer.as_entire_binding()));
            let entries: Vec<_> = (0..)
                .zip(resources)
                .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
                .collect();
            device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(kernel.name),
                layout: &pipeline.layout.bind_group,
                entries: &entries,
            })
        };
        self.bind_groups
            .borrow_mut()
            .entry((kernel.bindings, ids))
            .or_insert_with(make)
            .clone()
    }

    /// Drops the bind groups, which keep their buffers alive.
    pub(super) fn forget_bind_groups(&self) {
        self.bind_groups.borrow_mut().clear();
    }

    /// The layout of `Params` and the given buffers; kernels with the same list share it, and so their bind groups.
    fn layout(&self, device: &wgpu::Device, bindings: &'static [Access]) -> Rc<Layout> {
        let make = || {
            assert!(
                bindings.len() <= MAX_BINDINGS,
                "a kernel has at most 8 storage buffers"
            );
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
            entries.extend((1..).zip(bindings).map(|(binding, access)| {
                let read_only = *access == Access::Read;
                entry(
                    binding,
                    wgpu::BufferBindingType::Storage { read_only },
                    false,
                )
            }));
            let bind_group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &entries,
            });
            let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&bind_group)],
                immediate_size: 0,
            });
            Rc::new(Layout {
                bind_group,
                pipeline,
            })
        };
        Rc::clone(
            self.layouts
                .borrow_mut()
                .entry(bindings)
                .or_insert_with(make),
        )
    }
}
