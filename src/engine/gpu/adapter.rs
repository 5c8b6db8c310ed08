//! [`Adapter`]: the GPUs of this machine, in order of preference, before one is opened.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::base::error::{Error, Result};
use crate::base::order;
use crate::engine::device::DeviceInfo;

/// An adapter that is not opened yet.
#[derive(Debug)]
pub struct Adapter(wgpu::Adapter);

impl Adapter {
    /// Finds the best adapter: discrete before integrated before software; a part of its name narrows the choice.
    ///
    /// # Errors
    /// [`Error::Device`] when there is no such adapter.
    pub async fn find(name_part: Option<&str>) -> Result<Self> {
        let mut adapters = adapters().await;
        order::sort_by_key(&mut adapters, |adapter| {
            preference(adapter.get_info().device_type)
        });
        let listed: Vec<String> = adapters
            .iter()
            .map(|a| adapter_name(&a.get_info()))
            .collect();
        adapters
            .into_iter()
            .find(|adapter| {
                let name = adapter_name(&adapter.get_info()).to_ascii_lowercase();
                name_part.is_none_or(|part| name.contains(&part.to_ascii_lowercase()))
            })
            .map(Self)
            .ok_or_else(|| no_adapter(name_part, &listed))
    }

    /// Names, limits and features of the adapter.
    pub fn info(&self) -> DeviceInfo {
        device_info(&self.0)
    }

    /// Opens the device, with buffers as large as the adapter has them.
    pub(super) async fn device(&self) -> Result<(wgpu::Device, wgpu::Queue)> {
        let Self(adapter) = self;
        let offered = adapter.limits();
        let request = wgpu::DeviceDescriptor {
            label: Some("nearfar"),
            // The bench times dispatches with it.
            required_features: adapter.features() & wgpu::Features::TIMESTAMP_QUERY,
            required_limits: wgpu::Limits {
                max_buffer_size: offered.max_buffer_size,
                max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size,
                ..wgpu::Limits::default()
            },
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        };
        let opened = adapter.request_device(&request).await;
        opened.map_err(|error| Error::Device(format!("the adapter gave no device: {error}")))
    }
}

/// A connection to the drivers.
fn connect() -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle())
}

/// The connection to the drivers that the whole process shares: each further one loads and unloads their libraries once more, and
/// after some forty, or on several threads at once, drivers fail.
#[cfg(not(target_arch = "wasm32"))]
fn instance() -> &'static wgpu::Instance {
    static INSTANCE: std::sync::OnceLock<wgpu::Instance> = std::sync::OnceLock::new();
    INSTANCE.get_or_init(|| {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        connect()
    })
}

/// In a browser the connection is an object of the thread that made it.
#[cfg(target_arch = "wasm32")]
fn instance() -> wgpu::Instance {
    CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    connect()
}

/// Number of connections of this process to the drivers.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// Number of connections of this process to the drivers so far: natively one at most.
#[doc(hidden)]
pub fn connections() -> u32 {
    CONNECTIONS.load(Ordering::Relaxed)
}

/// Set once this process has found an adapter.
static FOUND: AtomicBool = AtomicBool::new(false);

/// Every adapter of this machine, or the one a browser offers.
async fn adapters() -> Vec<wgpu::Adapter> {
    let adapters = listed().await;
    if !adapters.is_empty() {
        FOUND.store(true, Ordering::Relaxed);
    }
    adapters
}

async fn listed() -> Vec<wgpu::Adapter> {
    let instance = instance();
    if cfg!(target_arch = "wasm32") {
        // A browser lists nothing: it gives the adapter that suits the request.
        let request = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        };
        instance
            .request_adapter(&request)
            .await
            .into_iter()
            .collect()
    } else {
        instance.enumerate_adapters(wgpu::Backends::all()).await
    }
}

/// The adapters of this machine, best first, with the limits they offer.
pub async fn devices() -> Vec<DeviceInfo> {
    let mut adapters = adapters().await;
    order::sort_by_key(&mut adapters, |adapter| {
        preference(adapter.get_info().device_type)
    });
    adapters.iter().map(device_info).collect()
}

/// Rank of a type of device; lower is better.
fn preference(device_type: wgpu::DeviceType) -> u8 {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

/// The adapter's name; browsers may hide it.
fn adapter_name(info: &wgpu::AdapterInfo) -> String {
    if info.name.is_empty() {
        "WebGPU adapter".to_owned()
    } else {
        info.name.clone()
    }
}

fn device_info(adapter: &wgpu::Adapter) -> DeviceInfo {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    let known = [
        (wgpu::Features::SUBGROUP, "subgroups"),
        (wgpu::Features::SHADER_F16, "shader-f16"),
        (wgpu::Features::TIMESTAMP_QUERY, "timestamp-query"),
    ];
    let has = |(feature, name): (_, &str)| {
        adapter
            .features()
            .contains(feature)
            .then(|| name.to_owned())
    };
    DeviceInfo {
        engine: "gpu".to_owned(),
        adapter: adapter_name(&info),
        backend: match info.backend {
            wgpu::Backend::BrowserWebGpu => "webgpu".to_owned(),
            backend => backend.to_string(),
        },
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_owned(),
        software: info.device_type == wgpu::DeviceType::Cpu,
        max_buffer_bytes: limits
            .max_buffer_size
            .min(limits.max_storage_buffer_binding_size)
            & !255,
        workgroup_bytes: limits.max_compute_workgroup_storage_size.into(),
        workgroup_size: limits.max_compute_invocations_per_workgroup,
        features: known.into_iter().filter_map(has).collect(),
        shape: None,
        tuned: None,
        pci_address: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => info.device_pci_bus_id,
            _ => String::new(),
        },
    }
}

fn no_adapter(name_part: Option<&str>, listed: &[String]) -> Error {
    Error::Device(match (name_part, listed) {
        (Some(part), [_, ..]) => {
            format!("no GPU adapter has \"{part}\" in its name; there are: {}", listed.join(", "))
        }
        _ if FOUND.load(Ordering::Relaxed) => "the GPU was there before and its driver lists it no more: close other programs \
              that use it, or use the CPU engine"
            .to_owned(),
        _ => "no GPU adapter: install a Vulkan driver (Mesa's lavapipe will do), open the page in a browser with \
              WebGPU, or use the CPU engine"
            .to_owned(),
    })
}
