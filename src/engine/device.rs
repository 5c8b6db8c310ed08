//! [`EngineChoice`], [`DeviceInfo`] and [`Reason`]: what to run on, what it turned out to be, and why.

use serde::{Deserialize, Serialize};

use crate::base::quote::quoted;

/// Which engine to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineChoice {
    /// A forced kind; `None` takes a hardware GPU if there is one, else the CPU.
    pub kind: Option<EngineKind>,
    /// A part of the adapter's name, in any case.
    pub adapter: Option<String>,
    /// Whether a GPU runs the kernels without wgpu's runtime checks, natively: to measure, not to rely on.
    pub trusted: bool,
    /// The shape of tiles that a GPU takes for all work, instead of the one that suits.
    pub shape: Option<TileShape>,
    /// What a GPU said that failed at its first work: unless one is asked for, none is tried again.
    pub failed_gpu: Option<String>,
}

/// How a GPU cuts the product of rows with references into workgroups. Every way gives the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TileShape {
    /// 8 rows and 4 references an invocation, no barrier: for adapters that pay dearly for barriers, and for few rows. Where all
    /// work is cut like this, other kernels start fewer invocations, too, if that changes no bit.
    Strip,
    /// 64 rows and 128 references a workgroup, through workgroup memory.
    Tile,
}

impl TileShape {
    /// Every shape.
    pub const ALL: [Self; 2] = [Self::Strip, Self::Tile];

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
        })
    }
}

impl std::str::FromStr for TileShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL
            .into_iter()
            .find(|shape| shape.to_string() == text);
        named.ok_or_else(|| format!("unknown shape {}: strip or tile", quoted(text)))
    }
}

impl EngineChoice {
    /// Whether it must be a GPU.
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
    /// The same kernels in Rust.
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

/// Why an engine runs on what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// It was asked for.
    AskedFor,
    /// It is a hardware GPU.
    Hardware,
    /// The CPU, as no GPU is there: no driver has one, or the browser gives none.
    NoGpu,
    /// The CPU, as a processor plays the only GPU there is, of this name.
    OnlySoftware(String),
    /// The CPU, as the GPU gave no device, or failed at its first work: what it said.
    NoDevice(String),
}

/// What an engine runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `gpu` or `cpu`.
    pub engine: String,
    /// The name of the adapter.
    pub adapter: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu` or `cpu`.
    pub backend: String,
    /// The driver and its version, where they are known: browsers hide them.
    #[serde(default)]
    pub driver: String,
    /// Whether a processor plays the GPU: right, but slow.
    pub software: bool,
    /// The largest buffer that a kernel can bind.
    pub max_buffer_bytes: u64,
    /// Memory that the invocations of a workgroup can share.
    pub workgroup_bytes: u64,
    /// Invocations of a workgroup.
    pub workgroup_size: u32,
    /// Optional features that later kernels may use.
    pub features: Vec<String>,
    // Both are written where there is none, too: messages to the page are read by place.
    /// The shape of tiles for all work, where one was asked for.
    #[serde(default)]
    pub shape: Option<TileShape>,
    /// The fastest shape for many rows, where they were timed.
    #[serde(default)]
    pub tuned: Option<TileShape>,
}

impl DeviceInfo {
    /// Whether shapes of tiles are worth timing: on a hardware GPU that was told none. A processor that plays one has its own.
    pub fn is_tunable(&self) -> bool {
        self.engine == "gpu" && !self.software && self.shape.is_none()
    }

    /// What a tuning holds for: the adapter, what drives it, and these kernels.
    pub fn tuning_key(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        [&self.adapter, &self.backend, &self.driver, version].join("; ")
    }
}

impl std::fmt::Display for Reason {
    /// Goes on from "the GPU" or "the CPU", after a comma.
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
