//! [`GpuCommands`]: dispatches and uploads collected for one submit.

use std::rc::Rc;

use bytemuck::Pod;

use super::vec::Binding;
use super::{Gpu, GpuVec, Kernel, PARAMS_BYTES, PARAMS_SLOTS, STAGING_BYTES};

/// Most workgroups along one side of a dispatch; larger grids fold into the next side.
const MAX_GROUPS: u32 = 65_535;

/// One submit in the making. Uploads happen before the first dispatch, whatever the order of the calls.
#[derive(Debug)]
pub struct GpuCommands {
    gpu: Rc<Gpu>,
    encoder: wgpu::CommandEncoder,
    pass: wgpu::ComputePass<'static>,
    params: Vec<u8>,
    data: Vec<u8>,
    uploads: Vec<Upload>,
    dispatches: u32,
}

#[derive(Debug)]
struct Upload {
    target: wgpu::Buffer,
    to: u64,
    from: u64,
    bytes: u64,
}

impl GpuCommands {
    pub(super) fn new(gpu: &Rc<Gpu>) -> Self {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let pass = encoder
            .begin_compute_pass(&Default::default())
            .forget_lifetime();
        Self {
            gpu: Rc::clone(gpu),
            encoder,
            pass,
            params: Vec::new(),
            data: Vec::new(),
            uploads: Vec::new(),
            dispatches: 0,
        }
    }

    /// Runs `groups` workgroups of a kernel; a shader finds its number from `workgroup_id` and `num_workgroups`.
    pub fn dispatch<P: Pod>(
        &mut self,
        kernel: &'static Kernel,
        params: &P,
        buffers: &[Binding<'_>],
        groups: u64,
    ) {
        const {
            assert!(
                size_of::<P>() <= PARAMS_BYTES as usize,
                "a parameter block has 256 bytes"
            );
        }
        if groups == 0 {
            return;
        }
        assert!(
            self.dispatches < PARAMS_SLOTS,
            "a submit carries at most {PARAMS_SLOTS} dispatches"
        );
        let offset = self.dispatches * PARAMS_BYTES;
        self.params.extend_from_slice(bytemuck::bytes_of(params));
        self.params.resize((offset + PARAMS_BYTES) as usize, 0);
        self.dispatches += 1;
        let gpu = &self.gpu;
        let pipeline = gpu.pipelines.get(&gpu.device, kernel);
        let bind_group =
            gpu.pipelines
                .bind_group(&gpu.device, kernel, &pipeline, gpu.params.raw(), buffers);
        let (x, y) = grid(groups);
        self.pass.set_pipeline(&pipeline.compute);
        self.pass.set_bind_group(0, &bind_group, &[offset]);
        self.pass.dispatch_workgroups(x, y, 1);
    }

    /// Writes `elements` into `target` from element `first` on.
    pub fn upload<T: Pod>(&mut self, target: &GpuVec<T>, first: u64, elements: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let from = self.data.len() as u64;
        assert!(
            from + bytes.len() as u64 <= STAGING_BYTES,
            "a submit carries at most {STAGING_BYTES} bytes"
        );
        assert!(bytes.len().is_multiple_of(4), "uploads are whole words");
        self.data.extend_from_slice(bytes);
        self.uploads.push(Upload {
            target: target.raw().clone(),
            to: first * size_of::<T>() as u64,
            from,
            bytes: bytes.len() as u64,
        });
    }

    /// Dispatches so far.
    pub fn dispatches(&self) -> u32 {
        self.dispatches
    }

    pub(super) fn submit(mut self) {
        drop(self.pass);
        let gpu = &self.gpu;
        let staging = gpu.upload.raw();
        let params_from = self.data.len() as u64;
        self.data.extend_from_slice(&self.params);
        if self.data.is_empty() {
            return;
        }
        gpu.queue.write_buffer(staging, 0, &self.data);
        let mut first = gpu.device.create_command_encoder(&Default::default());
        for Upload {
            target,
            to,
            from,
            bytes,
        } in &self.uploads
        {
            first.copy_buffer_to_buffer(staging, *from, target, *to, *bytes);
        }
        if !self.params.is_empty() {
            let bytes = self.params.len() as u64;
            first.copy_buffer_to_buffer(staging, params_from, gpu.params.raw(), 0, bytes);
        }
        gpu.queue.submit([first.finish(), self.encoder.finish()]);
    }
}

/// The sides of a grid with at least `groups` workgroups.
fn grid(groups: u64) -> (u32, u32) {
    let y = groups.div_ceil(u64::from(MAX_GROUPS));
    let x = groups.div_ceil(y);
    let side = |n| u32::try_from(n).ok().filter(|n| *n <= MAX_GROUPS);
    side(x)
        .zip(side(y))
        .expect("a dispatch has at most 65,535 x 65,535 workgroups")
}

#[cfg(test)]
mod tests {
    use super::grid;

    #[test]
    fn grids_fold_past_the_limit_of_one_side() {
        assert_eq!(grid(1), (1, 1));
        assert_eq!(grid(65_535), (65_535, 1));
        assert_eq!(grid(65_536), (32_768, 2));
        assert_eq!(grid(65_537), (32_769, 2));
    }
}
