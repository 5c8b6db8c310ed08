//! [`EngineChoice`], [`DeviceInfo`] and [`Reason`]: the engine that is asked for, the device that it runs on, and the reason.

use serde::{Deserialize, Serialize};

use crate::base::quote::quoted;

/// Choice of the engine to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineChoice {
    /// A forced kind; `None` takes a hardware GPU if there is one, else the CPU.
    pub kind: Option<EngineKind>,
    /// A part of the adapter's name, in any case.
    pub adapter: Option<String>,
    /// A GPU runs the kernels without wgpu's runtime checks, natively: for measurements, not for results.
    pub trusted: bool,
    /// A GPU runs the kernels with the guards of wgpu that end loops, natively: for tests, as each loop here ends by itself.
    pub guards_loops: bool,
    /// Every kernel on a GPU is waited for, natively, so that an error names the one that failed: for the search for errors.
    pub synchronous: bool,
    /// The shape of tiles that a GPU uses for all work, instead of the one that suits.
    pub shape: Option<TileShape>,
    /// Message of a GPU that failed at its first work: unless a GPU is asked for, none is tried again.
    pub failed_gpu: Option<String>,
}

/// Shape in which a GPU cuts the product of rows with references into workgroups. Every shape gives the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TileShape {
    /// 8 rows and 4 references an invocation, no barrier: for adapters with slow barriers, and for few rows. If all work has this
    /// shape, other kernels have smaller workgroups too, if that changes no bit.
    Strip,
    /// 64 rows and 128 references a workgroup, through workgroup memory.
    Tile,
    /// The same with twice as many for an invocation, for many registers. Other kernels take it for [`TileShape::Tile`].
    Quads,
}

impl TileShape {
    /// Every shape.
    pub const ALL: [Self; 3] = [Self::Strip, Self::Tile, Self::Quads];

    /// The shape that suits a device, whatever the number of rows: of the layers of a head, and of workgroups.
    pub fn of_device(info: &DeviceInfo) -> Self {
        if info.software {
            Self::Strip
        } else {
            Self::Tile
        }
    }
}

impl std::fmt::Display for TileShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Strip => "strip",
            Self::Tile => "tile",
            Self::Quads => "quads",
        })
    }
}

impl std::str::FromStr for TileShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL
            .into_iter()
            .find(|shape| shape.to_string() == text);
        named.ok_or_else(|| format!("unknown shape {}: strip, tile or quads", quoted(text)))
    }
}

impl EngineChoice {
    /// Tells if it must be a GPU.
    pub fn asks_for_gpu(&self) -> bool {
        self.kind == Some(EngineKind::Gpu) || self.adapter.is_some()
    }
}

/// The two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// WGSL kernels on a GPU, a software one included.
    Gpu,
    /// Kernels in Rust on the CPU.
    Cpu,
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "gpu" => Ok(Self::Gpu),
            "cpu" => Ok(Self::Cpu),
            _ => Err(format!("unknown engine {}: gpu or cpu", quoted(text))),
        }
    }
}

/// Reason for the device of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// This engine was asked for.
    AskedFor,
    /// A hardware GPU, as there is one.
    Hardware,
    /// The CPU, as no GPU is there: no driver has one, or the browser gives none.
    NoGpu,
    /// The CPU, as the only GPU is emulated by a processor; with its name.
    OnlySoftware(String),
    /// The CPU, as the GPU gave no device, or failed at its first work; with its message.
    NoDevice(String),
}

/// Device of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `gpu` or `cpu`.
    pub engine: String,
    /// The name of the adapter.
    pub adapter: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu` or `cpu`.
    pub backend: String,
    /// The driver and its version, if they are known: browsers hide them.
    #[serde(default)]
    pub driver: String,
    /// A processor emulates the GPU: right, but slow.
    pub software: bool,
    /// The largest buffer that a kernel can bind.
    pub max_buffer_bytes: u64,
    /// Memory that the invocations of a workgroup can share.
    pub workgroup_bytes: u64,
    /// The most invocations of a workgroup.
    pub workgroup_size: u32,
    /// Optional features that later kernels may use.
    pub features: Vec<String>,
    // Both are written if they are `None`, too: messages to the page are read by place.
    /// The shape of tiles for all work, if one was asked for.
    #[serde(default)]
    pub shape: Option<TileShape>,
    /// The fastest shape for many rows, if the shapes were timed.
    #[serde(default)]
    pub tuned: Option<TileShape>,
    /// PCI address of a GPU with memory of its own, as `0000:03:00.0`; empty if it has none, or if the driver does not tell.
    #[serde(skip)]
    pub pci_address: String,
}

impl DeviceInfo {
    /// Tells if shapes of tiles are worth timing: on a hardware GPU for which none was asked for. An emulated GPU has its own.
    pub fn is_tunable(&self) -> bool {
        self.engine == "gpu" && !self.software && self.shape.is_none()
    }

    /// Key under which a tuning is valid: the adapter, its backend and driver, and the version of the kernels.
    pub fn tuning_key(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        [&self.adapter, &self.backend, &self.driver, version].join("; ")
    }
}

impl std::fmt::Display for Reason {
    /// Text that follows "the GPU" or "the CPU" and a comma.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AskedFor => write!(f, "as was asked"),
            Self::Hardware => write!(f, "as there is one"),
            Self::NoGpu => write!(f, "as there is no GPU"),
            Self::OnlySoftware(name) => {
                write!(
                    f,
                    "as the only GPU is played by a processor ({name}): --engine gpu uses that"
                )
            }
            Self::NoDevice(why) => write!(f, "as the GPU cannot be used: {why}"),
        }
    }
}
