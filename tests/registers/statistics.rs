//! What a Vulkan driver says of the kernels that it compiled: registers, spills, instructions, under the names that it has for
//! them. `VK_KHR_pipeline_executable_properties` gives it, where a pipeline was created to be asked.
//!
//! wgpu creates none like that. So its device is made with a `vkCreateComputePipelines` of ours, which adds the flag.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Mutex, OnceLock};

use ash::khr::pipeline_executable_properties::{self, NAME};
use ash::vk;
use nearfar::kernels::Kernel;
use wgpu::hal::{self, vulkan};

use super::compiling::compile;

/// The driver's own function.
static CREATE: OnceLock<vk::PFN_vkCreateComputePipelines> = OnceLock::new();
/// The pipeline that was created last.
static LAST: Mutex<vk::Pipeline> = Mutex::new(vk::Pipeline::null());

/// Creates pipelines whose statistics can be asked for.
unsafe extern "system" fn create(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let driver = CREATE.get().expect("it was found before any device is");
    // SAFETY: wgpu hands over as many descriptions, and room for as many pipelines, as it says.
    unsafe {
        let infos = std::slice::from_raw_parts(infos, count as usize);
        let captures = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR;
        let infos: Vec<_> = { infos.iter() }
            .map(|info| info.flags(info.flags | captures))
            .collect();
        let result = driver(device, cache, count, infos.as_ptr(), allocator, pipelines);
        *LAST.lock().expect("nobody fails while holding it") = *pipelines;
        result
    }
}

/// A device of wgpu whose pipelines can be asked.
pub(crate) struct Device {
    device: vulkan::Device,
    asks: pipeline_executable_properties::Device,
}

impl Device {
    /// Opens an adapter, or says why its driver cannot be asked.
    pub(crate) fn open(adapter: &wgpu::Adapter) -> Result<Self, String> {
        let (features, limits) = (wgpu::Features::empty(), wgpu::Limits::default());
        // SAFETY: nothing else uses the adapter. The device has what wgpu asks for and one extension more, which the driver
        // has; `create` does what the function does whose place it takes.
        unsafe {
            let adapter = adapter.as_hal::<hal::api::Vulkan>();
            let adapter = adapter.ok_or("this is no Vulkan adapter")?;
            let physical = adapter.raw_physical_device();
            let instance = adapter.shared_instance().raw_instance();
            let offered = instance.enumerate_device_extension_properties(physical);
            let has = |one: &vk::ExtensionProperties| one.extension_name_as_c_str() == Ok(NAME);
            if !offered.is_ok_and(|all| all.iter().any(has)) {
                return Err("the driver has no VK_KHR_pipeline_executable_properties".to_owned());
            }
            let mut extensions = adapter.required_device_extensions(features);
            extensions.push(NAME);
            let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let mut asks = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
                .pipeline_executable_info(true);
            let mut others = adapter.physical_device_features(&extensions, features);
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&names)
                .push_next(&mut asks);
            let info = others.add_to_device_create(info);
            let made = instance.create_device(physical, &info, None);
            let made = made.map_err(|error| format!("the driver gives no device: {error}"))?;
            let handle = made.handle();
            CREATE.get_or_init(|| made.fp_v1_0().create_compute_pipelines);
            let find = instance.fp_v1_0().get_device_proc_addr;
            let find = |name: &CStr| match name == c"vkCreateComputePipelines" {
                true => create as *const std::ffi::c_void,
                false => find(handle, name.as_ptr())
                    .map_or(std::ptr::null(), |found| found as *const std::ffi::c_void),
            };
            let hooked = ash::Device::load_with(find, handle);
            let asks = pipeline_executable_properties::Device::new(instance, &hooked);
            let hints = wgpu::MemoryHints::MemoryUsage;
            let opened =
                adapter.device_from_raw(hooked, None, &extensions, features, &limits, &hints, 0, 0);
            let opened = opened.map_err(|error| format!("wgpu takes no such device: {error}"))?;
            Ok(Self {
                device: opened.device,
                asks,
            })
        }
    }

    /// What the driver says of a kernel, by the driver's names.
    pub(crate) fn statistics(&self, kernel: &Kernel) -> BTreeMap<String, f64> {
        let mut statistics = BTreeMap::new();
        compile(&self.device, kernel, || {
            let pipeline = *LAST.lock().expect("nobody fails while holding it");
            // SAFETY: the pipeline is of this device, created to be asked, and still there.
            unsafe { self.ask(pipeline, &mut statistics) };
        });
        statistics
    }

    /// SAFETY: as [`Device::statistics`] has it.
    unsafe fn ask(&self, pipeline: vk::Pipeline, statistics: &mut BTreeMap<String, f64>) {
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: as the caller has it; a value is read as what its format says.
        unsafe {
            let executables = self.asks.get_pipeline_executable_properties(&info);
            let executables = executables.expect("the driver names its executables");
            for (index, executable) in executables.iter().enumerate() {
                let subgroup = f64::from(executable.subgroup_size);
                statistics.insert("subgroup size".to_owned(), subgroup);
                let info = vk::PipelineExecutableInfoKHR::default()
                    .pipeline(pipeline)
                    .executable_index(index as u32);
                let all = self.asks.get_pipeline_executable_statistics(&info);
                for one in all.expect("the driver has statistics") {
                    let name = one.name_as_c_str().expect("ends");
                    let value = match one.format {
                        vk::PipelineExecutableStatisticFormatKHR::BOOL32 => one.value.b32.into(),
                        vk::PipelineExecutableStatisticFormatKHR::INT64 => one.value.i64 as f64,
                        vk::PipelineExecutableStatisticFormatKHR::UINT64 => one.value.u64 as f64,
                        _ => one.value.f64,
                    };
                    statistics.insert(name.to_string_lossy().into_owned(), value);
                }
            }
        }
    }
}
