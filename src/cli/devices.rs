//! `nearfar devices`: adapters with their limits.

use nearfar::{Bytes, Engine, Result};

use super::{print_json, print_line};

/// List the adapters, best first, and what they allow
#[derive(Debug, clap::Args)]
pub(super) struct Devices {
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(super) fn run(&self) -> Result<()> {
        let devices = pollster::block_on(Engine::devices());
        if self.json {
            print_json(&serde_json::json!({ "devices": devices }));
            return Ok(());
        }
        for device in devices {
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
        }
        Ok(())
    }
}
