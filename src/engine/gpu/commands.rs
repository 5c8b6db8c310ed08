//! [`GpuCommands`]: dispatches and uploads collected for one submit.

use std::rc::Rc;

use bytemuck::Pod;

use super::failure::Sent;
use super::timer::TIMES;
use super::vec::Binding;
use super::{Gpu, GpuVec, Kernel, PARAMS_BYTES, PARAMS_SLOTS, STAGING_BYTES};
use crate::engine::device::TileShape;

/// The most workgroups along one side of a dispatch; larger grids fold into the next side.
const MAX_GROUPS: u32 = 65_535;

/// A dispatch of a submit.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Invocations of a workgroup.
    pub workgroup_size: u32,
    /// Workgroups along the two sides of the grid.
    pub grid: [u32; 2],
}

/// One submit in the making: uploads, dispatches and fetches happen in the order of the calls.
#[derive(Debug)]
pub struct GpuCommands {
    gpu: Rc<Gpu>,
    encoder: wgpu::CommandEncoder,
    /// The dispatches since the last copy.
    pass: Option<wgpu::ComputePass<'static>>,
    params: Vec<u8>,
    data: Vec<u8>,
    dispatches: Vec<Dispatch>,
    /// If a timer is on, the queries of timestamps, and the kernels of the dispatches so far.
    timed: Option<(wgpu::QuerySet, Vec<&'static str>)>,
    empty: bool,
    /// The last dispatch.
    last: Option<Sent>,
    /// Copies were recorded since the last wait.
    copied: bool,
}

impl GpuCommands {
    pub(super) fn new(gpu: &Rc<Gpu>) -> Self {
        Self {
            gpu: Rc::clone(gpu),
            encoder: gpu.device.create_command_encoder(&Default::default()),
            pass: None,
            params: Vec::new(),
            data: Vec::new(),
            dispatches: Vec::new(),
            timed: (gpu.timer.borrow().as_ref())
                .filter(|_| TIMES)
                .map(|timer| (timer.queries(), Vec::new())),
            empty: true,
            last: None,
            copied: false,
        }
    }

    /// Runs `groups` workgroups of a kernel; a shader computes its workgroup's number from `workgroup_id` and `num_workgroups`.
    ///
    /// The first member of `params` must be one that rarely changes from dispatch to dispatch: Mesa 22's llvmpipe compiles many a
    /// shader again for each of its values, which takes up to 0.6 s.
    pub fn dispatch<P: Pod>(
        &mut self,
        kernel: &'static Kernel,
        params: &P,
        buffers: &[Binding<'_>],
        groups: u64,
    ) {
        self.dispatch_in(self.shape(), kernel, params, buffers, groups);
    }

    /// The default shape of workgroups.
    pub fn shape(&self) -> TileShape {
        self.gpu.pipelines.shape
    }

    /// [`GpuCommands::dispatch`] with workgroups of this shape.
    pub fn dispatch_in<P: Pod>(
        &mut self,
        shape: TileShape,
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
        self.record(shape, kernel, bytemuck::bytes_of(params), buffers, groups);
    }

    /// Records a dispatch from the bytes of its parameters: one function in the binary, whatever their type.
    fn record(
        &mut self,
        shape: TileShape,
        kernel: &'static Kernel,
        params: &[u8],
        buffers: &[Binding<'_>],
        groups: u64,
    ) {
        if groups == 0 {
            return;
        }
        assert!(
            self.dispatches() < PARAMS_SLOTS,
            "a submit carries at most {PARAMS_SLOTS} dispatches"
        );
        if self.gpu.synchronous && self.copied {
            self.run_now(None);
        }
        let offset = self.dispatches() * PARAMS_BYTES;
        self.params.extend_from_slice(params);
        self.params.resize((offset + PARAMS_BYTES) as usize, 0);
        let (x, y) = grid(groups);
        self.dispatches.push(Dispatch {
            kernel,
            workgroup_size: kernel.size_in(shape),
            grid: [x, y],
        });
        self.empty = false;
        self.last = Some(Sent::new(kernel, buffers));
        let gpu = Rc::clone(&self.gpu);
        let pipeline = gpu.pipelines.get(&gpu.device, kernel, shape);
        let params = gpu.params.raw();
        let bind_group =
            (gpu.pipelines).bind_group(&gpu.device, kernel, &pipeline, params, buffers);
        let pass = self.pass_of(kernel);
        pass.set_pipeline(&pipeline.compute);
        pass.set_bind_group(0, &bind_group, &[offset]);
        // More than any device takes, if it is to fail.
        let x = if gpu.failure.fails_now() { u32::MAX } else { x };
        pass.dispatch_workgroups(x, y, 1);
        if gpu.synchronous {
            self.run_now(self.last);
        }
    }

    /// The pass of the next dispatch: the one that is open, or a new one if there is none or dispatches are timed.
    fn pass_of(&mut self, kernel: &'static Kernel) -> &mut wgpu::ComputePass<'static> {
        let mut timestamps = None;
        if let Some((queries, kernels)) = &mut self.timed
            && TIMES
        {
            let first = 2 * kernels.len() as u32;
            kernels.push(kernel.name);
            self.pass = None;
            timestamps = Some(wgpu::ComputePassTimestampWrites {
                query_set: queries,
                beginning_of_pass_write_index: Some(first),
                end_of_pass_write_index: Some(first + 1),
            });
        }
        let encoder = &mut self.encoder;
        self.pass.get_or_insert_with(|| {
            encoder
                .begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: timestamps,
                })
                .forget_lifetime()
        })
    }

    /// Sends what was recorded so far and waits for it: an error is of `sent`, or else of the copies.
    fn run_now(&mut self, sent: Option<Sent>) {
        let gpu = Rc::clone(&self.gpu);
        self.pass = None;
        let next = gpu.device.create_command_encoder(&Default::default());
        let encoder = std::mem::replace(&mut self.encoder, next);
        send(&gpu, encoder, &mut self.data, &self.params);
        self.data.clear();
        self.copied = false;
        let waited = gpu.poll();
        gpu.failure.blame(sent, waited);
    }

    /// Writes `elements` into `target` from element `first` on.
    pub fn upload<T: Pod>(&mut self, target: &GpuVec<T>, first: u64, elements: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        assert!(
            bytes.len() as u64 <= self.room(),
            "a submit carries at most {STAGING_BYTES} bytes"
        );
        assert!(bytes.len().is_multiple_of(4), "uploads are whole words");
        let (from, to) = (self.data.len() as u64, first * size_of::<T>() as u64);
        self.data.extend_from_slice(bytes);
        let gpu = Rc::clone(&self.gpu);
        let bytes = bytes.len() as u64;
        self.copy_bytes(gpu.upload.raw(), from, target.raw(), to, bytes);
    }

    /// Bytes that can still be uploaded.
    pub fn room(&self) -> u64 {
        STAGING_BYTES - self.data.len() as u64
    }

    /// Copies `count` elements of `source`, from `first` on, to `target` from element `to` on.
    pub fn copy<T: Pod>(
        &mut self,
        source: &GpuVec<T>,
        first: u64,
        count: u64,
        target: &GpuVec<T>,
        to: u64,
    ) {
        let size = size_of::<T>() as u64;
        let (from, to, bytes) = (first * size, to * size, count * size);
        self.copy_bytes(source.raw(), from, target.raw(), to, bytes);
    }

    /// Copies `count` elements of `source`, from `first` on, to byte `at` of the bytes that [`Gpu::fetched`] returns.
    pub fn fetch<T: Pod>(&mut self, source: &GpuVec<T>, first: u64, count: u64, at: u64) {
        let size = size_of::<T>() as u64;
        let bytes = (count * size).next_multiple_of(4);
        assert!(
            at + bytes <= STAGING_BYTES,
            "at most {STAGING_BYTES} bytes are read at once"
        );
        let gpu = Rc::clone(&self.gpu);
        self.copy_bytes(source.raw(), first * size, gpu.readback.raw(), at, bytes);
    }

    /// Tells if a processor emulates the GPU: barriers are slow there.
    pub fn is_software(&self) -> bool {
        self.gpu.info().software
    }

    /// Dispatches so far.
    pub fn dispatches(&self) -> u32 {
        self.dispatches.len() as u32
    }

    /// Each dispatch so far, with the bytes of its parameters.
    pub fn recorded(&self) -> impl Iterator<Item = (&Dispatch, &[u8])> {
        let params = self.params.chunks_exact(PARAMS_BYTES as usize);
        self.dispatches.iter().zip(params)
    }

    fn copy_bytes(
        &mut self,
        source: &wgpu::Buffer,
        from: u64,
        target: &wgpu::Buffer,
        to: u64,
        bytes: u64,
    ) {
        if bytes > 0 {
            // A pass holds dispatches alone: a copy ends it.
            self.pass = None;
            (self.empty, self.copied) = (false, true);
            self.encoder
                .copy_buffer_to_buffer(source, from, target, to, bytes);
        }
    }

    pub(super) fn submit(mut self) {
        if self.empty {
            return;
        }
        self.pass = None;
        if let (Some(timer), Some((_, kernels))) = (&*self.gpu.timer.borrow(), self.timed)
            && TIMES
        {
            timer.keep(&mut self.encoder, kernels);
        }
        self.gpu.failure.sent(self.last);
        send(&self.gpu, self.encoder, &mut self.data, &self.params);
    }
}

/// Sends what an encoder recorded, and before it the data and parameters that it carries, in one write.
fn send(gpu: &Gpu, encoder: wgpu::CommandEncoder, data: &mut Vec<u8>, params: &[u8]) {
    let staging = gpu.upload.raw();
    let params_from = data.len() as u64;
    data.extend_from_slice(params);
    if !data.is_empty() {
        gpu.queue.write_buffer(staging, 0, data);
    }
    gpu.uploaded.set(gpu.uploaded.get() + data.len() as u64);
    let params = (!params.is_empty()).then(|| {
        let mut first = gpu.device.create_command_encoder(&Default::default());
        let bytes = params.len() as u64;
        first.copy_buffer_to_buffer(staging, params_from, gpu.params.raw(), 0, bytes);
        first.finish()
    });
    gpu.send(params.into_iter().chain([encoder.finish()]));
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
