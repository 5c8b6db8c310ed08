//! `nearfar devices`: adapters with their limits, and which engine is taken where none is named.

use nearfar::{Bytes, DeviceInfo, Engine, EngineChoice, Result, self_test};

use super::device_memory::DeviceMemories;
use super::{Common, print_json, print_line, shapes};

/// List the devices that the work can run on, the best first, and say which is taken where none is named
///
/// A GPU is listed with the largest buffer that it binds, its memory and the part of it that other programs hold, where the system
/// tells (AMD on Linux, NVIDIA with nvidia-smi); a software GPU is a processor that plays one: right, but slow.
#[derive(Debug, clap::Args)]
pub(super) struct Devices {
    /// Print the report as one JSON object on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(super) fn run(&self) -> Result<()> {
        // Before this program holds any.
        let memories = DeviceMemories::read();
        let devices = pollster::block_on(Engine::devices());
        let budget_bytes = Common::default_budget();
        let engine = pollster::block_on(Engine::open(&EngineChoice::default(), budget_bytes))?;
        let engine = shapes::tuned(engine)?;
        let (chosen, reason) = (engine.info(), engine.reason());
        let tested = pollster::block_on(self_test(&engine))?;
        if self.json {
            return print_json(&serde_json::json!({
                "devices": with_memory(&devices, &memories),
                "chosen": {
                    "engine": chosen.engine,
                    "adapter": chosen.adapter,
                    "reason": reason.to_string(),
                    "tuned": chosen.tuned,
                    "self_test": tested,
                },
            }));
        }
        for device in &devices {
            print_device(device, &memories);
        }
        let engine = match chosen.engine.as_str() {
            "gpu" => "the GPU",
            _ => "the CPU",
        };
        let shape = chosen.tuned.map_or_else(String::new, |shape| {
            format!(", its work cut into {shape}s, which it is fastest with")
        });
        let speed = tested.map_or_else(String::new, |tested| {
            format!(" ({:.0} GFLOP/s in a self-test)", tested.gflops)
        });
        print_line(format_args!(
            "Without --engine the work runs on {engine}{speed}, {reason}{shape}."
        ));
        Ok(())
    }
}

/// The devices, each with its memory where the system tells it.
fn with_memory(devices: &[DeviceInfo], memories: &DeviceMemories) -> Vec<serde_json::Value> {
    let fields = |device: &DeviceInfo| {
        let mut fields = serde_json::json!(device);
        if let Some(memory) = memories.of(device) {
            fields["memory"] = serde_json::json!(memory);
        }
        fields
    };
    devices.iter().map(fields).collect()
}

fn print_device(device: &DeviceInfo, memories: &DeviceMemories) {
    let software = if device.software {
        ", software: right but slow"
    } else {
        ""
    };
    print_line(format_args!(
        "{}: {} ({}{software})",
        device.engine, device.adapter, device.backend
    ));
    if device.engine == "gpu" {
        print_line(format_args!(
            "     buffers up to {}, workgroups of {} with {}; {}",
            Bytes(device.max_buffer_bytes),
            device.workgroup_size,
            Bytes(device.workgroup_bytes),
            device.features.join(", ")
        ));
    }
    if let Some(memory) = memories.of(device) {
        print_line(format_args!("     {}", memory.line()));
    }
}
