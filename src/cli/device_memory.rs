//! Memory of the GPUs of this machine and the part that other programs hold, as far as the system tells: Linux of AMD's cards, and
//! `nvidia-smi` of NVIDIA's. Read before this process opens a device, so that all that is in use is in use by others.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nearfar::{Bytes, DeviceInfo, Engine};

use super::{Common, note_line};

/// Folder in which Linux lists graphics cards.
const CARDS: &str = "/sys/class/drm";
/// Time that `nvidia-smi` has for its answer: it takes 0.1 s, and a second where the driver has to be loaded.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most bytes of its answer that are read: a line a GPU.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct DeviceMemory {
    /// All of it.
    total_bytes: u64,
    /// The part in use before this process has taken any.
    used_by_others_bytes: u64,
}

/// Memory of one GPU, and the names by which its adapter is found.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// PCI address: domain, and the rest of it.
    place: Option<(u32, String)>,
    /// Name, where the system has one.
    name: Option<String>,
    memory: DeviceMemory,
}

/// Memory of every GPU of which the system tells it.
#[derive(Debug, Default)]
pub(super) struct DeviceMemories(Vec<Told>);

impl DeviceMemories {
    /// Asks the system.
    pub(super) fn read() -> Self {
        let mut all = of_amd(Path::new(CARDS));
        all.extend(of_nvidia(&ask_nvidia().unwrap_or_default()));
        Self(all)
    }

    /// Memory of this device: by its PCI address, or else by a name that only one GPU has.
    pub(super) fn of(&self, device: &DeviceInfo) -> Option<DeviceMemory> {
        let Self(all) = self;
        let at = place(&device.pci_address);
        let here = |told: &&Told| at.is_some() && told.place == at;
        let named = |told: &&Told| {
            let known = told.name.as_ref();
            known.is_some_and(|name| name.eq_ignore_ascii_case(&device.adapter))
        };
        let mut alike = all.iter().filter(named);
        let only = alike.next().filter(|_| alike.next().is_none());
        all.iter().find(here).or(only).map(|told| told.memory)
    }
}

impl DeviceMemory {
    fn new(total_bytes: u64, used_by_others_bytes: u64) -> Option<Self> {
        (total_bytes > 0).then_some(Self {
            total_bytes,
            used_by_others_bytes: used_by_others_bytes.min(total_bytes),
        })
    }

    /// The line of `nearfar devices`.
    pub(super) fn line(&self) -> String {
        format!(
            "{} of memory, {} of it held by other programs",
            Bytes(self.total_bytes).rounded_down(),
            Bytes(self.used_by_others_bytes).rounded_up()
        )
    }

    /// The warning of a budget that is more than what is free; `None` if it is not.
    fn warning(&self, device: &str, budget_bytes: u64) -> Option<String> {
        let free_bytes = self.total_bytes - self.used_by_others_bytes;
        (budget_bytes > free_bytes).then(|| {
            format!(
                "the budget is {}, and {} of the {} of {device} are free, as other programs hold {}: end some of them, or lower \
                 the budget",
                Bytes(budget_bytes).rounded_up(),
                Bytes(free_bytes).rounded_down(),
                Bytes(self.total_bytes).rounded_down(),
                Bytes(self.used_by_others_bytes).rounded_up()
            )
        })
    }
}

/// Warns if the budget is more than what other programs leave of the GPU that the options take.
pub(super) fn warn(common: &Common, budget_bytes: u64) {
    let choice = common.choice();
    if choice.kind == Some(nearfar::EngineKind::Cpu) {
        return;
    }
    let devices = pollster::block_on(Engine::devices());
    let part = choice
        .adapter
        .as_ref()
        .map(|part| part.to_ascii_lowercase());
    let is_taken = |device: &&DeviceInfo| {
        let name = device.adapter.to_ascii_lowercase();
        device.engine == "gpu"
            && part.as_ref().is_none_or(|part| name.contains(part))
            && (choice.asks_for_gpu() || !device.software)
    };
    let Some(device) = devices.iter().find(is_taken) else {
        return;
    };
    let memory = DeviceMemories::read().of(device);
    if let Some(warning) = memory.and_then(|memory| memory.warning(&device.adapter, budget_bytes)) {
        note_line(format_args!("warning: {warning}"));
    }
}

/// A PCI address, `0000:03:00.0`, in parts that compare: NVIDIA writes the domain with more zeros.
fn place(address: &str) -> Option<(u32, String)> {
    let (domain, rest) = address.trim().split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some((domain, rest.to_ascii_lowercase()))
}

/// Memory of the cards that the driver `amdgpu` serves; `cards` is `/sys/class/drm`.
fn of_amd(cards: &Path) -> Vec<Told> {
    let Ok(entries) = std::fs::read_dir(cards) else {
        return Vec::new();
    };
    let is_card = |name: &str| {
        let number = name.strip_prefix("card");
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let told = entries.flatten().filter_map(|entry| {
        // An output of a card is another entry: `card0-DP-1`.
        is_card(entry.file_name().to_str()?).then_some(())?;
        let device = entry.path().join("device");
        let number = |file: &str| {
            let text = std::fs::read_to_string(device.join(file)).ok()?;
            text.trim().parse().ok()
        };
        let about = std::fs::read_to_string(device.join("uevent")).ok()?;
        let mut lines = about.lines();
        let address = lines.find_map(|line| line.strip_prefix("PCI_SLOT_NAME="))?;
        Some(Told {
            place: Some(place(address)?),
            name: None,
            memory: DeviceMemory::new(
                number("mem_info_vram_total")?,
                number("mem_info_vram_used")?,
            )?,
        })
    });
    told.collect()
}

/// Answer of `nvidia-smi`: of each GPU its PCI address, its name, and memory in MiB. `None` where it is not installed or does not
/// answer.
fn ask_nvidia() -> Option<String> {
    let mut asked = Command::new("nvidia-smi")
        .arg("--query-gpu=pci.bus_id,name,memory.total,memory.used")
        .arg("--format=csv,noheader,nounits")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = asked.stdout.take();
    let (send, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = output.map(|output| output.take(LONGEST_ANSWER).read_to_string(&mut text));
        send.send(read.is_some_and(|read| read.is_ok()).then_some(text))
            .ok();
    });
    let answer = answer.recv_timeout(PATIENCE).ok().flatten();
    // After its answer it has nothing left to do.
    asked.kill().ok();
    asked.wait().ok();
    answer
}

/// Memory by the answer of `nvidia-smi`; lines that it does not fill in are left out.
fn of_nvidia(answer: &str) -> Vec<Told> {
    let mib = |text: &str| {
        let mib: u64 = text.trim().parse().ok()?;
        mib.checked_mul(1 << 20)
    };
    let told = answer.lines().filter_map(|line| {
        // A name may have a comma.
        let mut parts = line.rsplitn(3, ',');
        let (used, total) = (mib(parts.next()?)?, mib(parts.next()?)?);
        let (address, name) = parts.next()?.split_once(',')?;
        Some(Told {
            place: place(address),
            name: Some(name.trim().to_owned()),
            memory: DeviceMemory::new(total, used)?,
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(adapter: &str, pci_address: &str) -> DeviceInfo {
        DeviceInfo {
            engine: "gpu".to_owned(),
            adapter: adapter.to_owned(),
            backend: "vulkan".to_owned(),
            driver: String::new(),
            software: false,
            max_buffer_bytes: 1 << 30,
            workgroup_bytes: 16 << 10,
            workgroup_size: 256,
            features: Vec::new(),
            shape: None,
            tuned: None,
            pci_address: pci_address.to_owned(),
        }
    }

    fn memory(total_bytes: u64, used_by_others_bytes: u64) -> Option<DeviceMemory> {
        Some(DeviceMemory {
            total_bytes,
            used_by_others_bytes,
        })
    }

    #[test]
    fn the_answer_of_nvidia_smi_is_read_line_by_line() {
        let answer = "00000000:01:00.0, NVIDIA H200, 143771, 12\n\
            00000000:41:00.0, Quadro, the 2nd, 8192, 512\n\
            00000000:42:00.0, Twin, 8192, 1\n\
            00000000:43:00.0, Twin, 8192, 9000\n\
            00000000:44:00.0, NVIDIA GB10, [N/A], [N/A]\n\
            00000000:45:00.0, Empty, 0, 0\n\
            00000000:46:00.0, Vast, 18446744073709551615, 1\n\
            no such thing\n\
            , , ,\n";
        let all = DeviceMemories(of_nvidia(answer));
        assert_eq!(all.0.len(), 4);
        let mib = 1 << 20;
        for (name, address, expected) in [
            (
                "another name",
                "0000:01:00.0",
                memory(143_771 * mib, 12 * mib),
            ),
            ("nvidia h200", "", memory(143_771 * mib, 12 * mib)),
            ("Quadro, the 2nd", "", memory(8192 * mib, 512 * mib)),
            // Two have this name.
            ("Twin", "", None),
            ("Twin", "0000:42:00.0", memory(8192 * mib, mib)),
            // No more than there is.
            ("Twin", "0000:43:00.0", memory(8192 * mib, 8192 * mib)),
            ("NVIDIA GB10", "0000:44:00.0", None),
            ("Empty", "0000:45:00.0", None),
            ("NVIDIA", "0001:01:00.0", None),
        ] {
            assert_eq!(all.of(&device(name, address)), expected, "{name} {address}");
        }
        for malformed in [
            "",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "name, memory.total [MiB], memory.used [MiB]",
            "a, b, -1, 2",
            "\0,\0,\0,\0",
        ] {
            assert_eq!(of_nvidia(malformed), [], "{malformed}");
        }
    }

    #[test]
    fn cards_of_amd_are_read_from_their_folders() {
        let cards = std::env::temp_dir().join(format!("nearfar-cards-{}", std::process::id()));
        let write = |card: &str, file: &str, text: &str| {
            let device = cards.join(card).join("device");
            std::fs::create_dir_all(&device).expect("is made");
            std::fs::write(device.join(file), text).expect("is written");
        };
        for (card, slot, total, used) in [
            ("card0", "0000:03:00.0", "17163091968\n", "1073741824\n"),
            ("card1", "0000:0C:00.0", "17163091968\n", "soon\n"),
            ("card2", "0000:0d:00.0", "-1\n", "0\n"),
            ("card10", "0001:03:00.0", "8589934592\n", "0\n"),
            ("card0-DP-1", "0000:05:00.0", "1024\n", "0\n"),
            ("cards", "0000:06:00.0", "1024\n", "0\n"),
        ] {
            let about = format!("DRIVER=amdgpu\nPCI_SLOT_NAME={slot}\n");
            write(card, "uevent", &about);
            write(card, "mem_info_vram_total", total);
            write(card, "mem_info_vram_used", used);
        }
        // Of another driver, and without an address.
        write(
            "card3",
            "uevent",
            "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n",
        );
        write("card4", "uevent", "DRIVER=amdgpu\n");
        write("card4", "mem_info_vram_total", "1024");
        write("card4", "mem_info_vram_used", "0");
        let all = DeviceMemories(of_amd(&cards));
        std::fs::remove_dir_all(&cards).expect("is ours");
        assert_eq!(all.0.len(), 2, "{all:?}");
        let found = |address| all.of(&device("AMD Radeon", address));
        assert_eq!(found("0000:03:00.0"), memory(17_163_091_968, 1 << 30));
        assert_eq!(found("0001:03:00.0"), memory(8 << 30, 0));
        assert_eq!(found(""), None);
        assert_eq!(of_amd(&cards), []);
    }

    #[test]
    fn a_budget_beyond_what_is_free_is_warned_of_with_the_numbers() {
        let memory = memory(16 << 30, 12 << 30).expect("is there");
        assert_eq!(memory.warning("Card", 4 << 30), None);
        assert_eq!(
            memory.warning("Card", (4 << 30) + 1).as_deref(),
            Some(
                "the budget is 4.1 GiB, and 4 GiB of the 16 GiB of Card are free, as other programs hold 12 GiB: end some of them, \
                 or lower the budget"
            )
        );
        assert_eq!(
            memory.line(),
            "16 GiB of memory, 12 GiB of it held by other programs"
        );
    }
}
