//! The allocator's message: how much was asked for, and what the card held. PyTorch's words of all versions, CUDA, HIP, XPU, MPS and
//! the CPU; faiss; NumPy; TensorFlow.

/// Figures of an allocator's message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    /// Bytes that were asked for and refused.
    pub(super) asked: Option<u64>,
    /// Memory of the card.
    pub(super) total: Option<u64>,
    /// Memory of the card that nobody holds.
    pub(super) free: Option<u64>,
    /// Bytes of live tensors.
    pub(super) allocated: Option<u64>,
    /// Bytes that PyTorch holds of the card, live or not.
    pub(super) reserved: Option<u64>,
    /// Bytes that PyTorch holds without a live tensor.
    pub(super) unused: Option<u64>,
    /// Bytes of this process.
    pub(super) process: Option<u64>,
    /// Some message of an allocator is there.
    pub(super) is_there: bool,
}

/// Phrases before a number of bytes that was refused.
const ASKED: [&str; 8] = [
    "tried to allocate ",
    "unable to allocate ",
    "cudamalloc ",
    "invalid buffer size: ",
    "buffer is not large enough: must be ",
    "failed to allocate ",
    "could not allocate ",
    " size ",
];

/// Phrases of an allocator.
const REFUSALS: [&str; 16] = [
    "out of memory",
    "outofmemory",
    "memoryerror",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "bad_alloc",
    "cublas_status_alloc_failed",
    "cudamalloc",
    "unable to allocate",
    "tried to allocate",
    "more than int_max",
    "invalid buffer size",
    "oom when allocating",
    "oom-kill",
    "killed",
];

impl Message {
    /// Reads the last message in a text.
    pub(super) fn read(text: &str) -> Self {
        let text = text.to_lowercase();
        let asked = ASKED.iter().filter_map(|phrase| {
            let at = text.rfind(phrase)?;
            let bytes = bytes(&text[at + phrase.len()..])?;
            // `size` alone says nothing: faiss writes it in one line with the kind of memory.
            let line = text[..at].rsplit('\n').take(1).collect::<String>();
            (*phrase != " size " || line.contains("alloc fail") || line.contains("space device"))
                .then_some((at, bytes))
        });
        let asked = asked.max_by_key(|(at, _)| *at);
        let Some((at, of)) = asked.map(|(at, asked)| (at, Some(asked))).or_else(|| {
            let at = REFUSALS
                .iter()
                .filter_map(|phrase| text.rfind(phrase))
                .max()?;
            Some((at, None))
        }) else {
            return Self::default();
        };
        let mut start = at.saturating_sub(600);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let around: String = text[start..].chars().take(1800).collect();
        let around = &around.replace(['\n', '\r'], " ");
        let allocated = before(around, " already allocated")
            .or_else(|| before(around, " is allocated by pytorch"))
            .or_else(|| before(around, " allocated by pytorch"))
            .or_else(|| after(around, "mps allocated: "));
        let unused = before(around, " is reserved by pytorch but unallocated")
            .or_else(|| before(around, " reserved by pytorch but unallocated"))
            .or_else(|| before(around, " cached)"));
        let reserved = before(around, " reserved in total by pytorch");
        Self {
            asked: of,
            total: before(around, " total capacity")
                .or_else(|| after(around, "total capacity of "))
                .or_else(|| after(around, "total capacty of "))
                .or_else(|| after(around, "max allowed: ")),
            free: before(around, " free;").or_else(|| before(around, " is free")),
            allocated,
            reserved: reserved.or_else(|| Some(allocated?.saturating_add(unused?))),
            unused: unused.or_else(|| Some(reserved?.saturating_sub(allocated?))),
            process: after(around, "this process has "),
            is_there: true,
        }
    }
}

/// The bytes that a text begins with, such as `3.81 GiB` or `1610612736 bytes`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim_start().trim_start_matches(['*', '`', '~']);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let number: f64 = text[..end].trim_end_matches('.').parse().ok()?;
    let unit: String = text[end..].trim_start().chars().take(5).collect();
    let scale = [
        ("bytes", 0),
        ("byte", 0),
        ("kib", 1),
        ("kb", 1),
        ("mib", 2),
        ("mb", 2),
        ("gib", 3),
        ("gb", 3),
        ("tib", 4),
        ("tb", 4),
        ("b", 0),
    ];
    let (_, power) = scale.iter().find(|(name, _)| unit.starts_with(name))?;
    // PyTorch's GB of the Mac are powers of 1024 as well.
    Some((number * 1024f64.powi(*power)) as u64)
}

/// The bytes directly before a phrase.
fn before(text: &str, phrase: &str) -> Option<u64> {
    let at = text.rfind(phrase)?;
    let words: Vec<&str> = text[..at].split_whitespace().rev().take(2).collect();
    let [unit, number] = words[..] else {
        return None;
    };
    bytes(&format!(
        "{} {unit}",
        number.trim_start_matches(|c: char| !c.is_ascii_digit())
    ))
}

/// The bytes directly after a phrase.
fn after(text: &str, phrase: &str) -> Option<u64> {
    let at = text.rfind(phrase)?;
    bytes(&text[at + phrase.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1u64 << 30) as f64;

    #[test]
    fn messages_of_all_versions_are_read() {
        let gib = |value: f64| Some((value * GIB) as u64);
        let old = Message::read(
            "RuntimeError: CUDA out of memory. Tried to allocate 3.81 GiB (GPU 0; 15.75 GiB total capacity; 9.50 GiB already allocated; \
             2.25 GiB free; 12.00 GiB reserved in total by PyTorch)",
        );
        assert_eq!(
            [old.asked, old.total, old.free],
            [gib(3.81), gib(15.75), gib(2.25)]
        );
        assert_eq!([old.allocated, old.unused], [gib(9.5), gib(2.5)]);
        let new = Message::read(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.50 GiB of which \
             1.25 GiB is free. Including non-PyTorch memory, this process has 22.00 GiB memory in use. Of the allocated memory \
             12.00 GiB is allocated by PyTorch, and 8.50 GiB is reserved by PyTorch but unallocated.",
        );
        assert_eq!(
            [new.asked, new.free, new.unused],
            [gib(2.0), gib(1.25), gib(8.5)]
        );
        assert_eq!([new.process, new.reserved], [gib(22.0), gib(20.5)]);
        let mac = Message::read(
            "RuntimeError: MPS backend out of memory (MPS allocated: 5.50 GB, other allocations: 1.25 GB, max allowed: 9.00 GB). \
             Tried to allocate 4.00 GB on private pool.",
        );
        assert_eq!(
            [mac.asked, mac.allocated, mac.total],
            [gib(4.0), gib(5.5), gib(9.0)]
        );
        for (text, asked) in [
            (
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 51380224 bytes.",
                51_380_224,
            ),
            (
                "Failed to cudaMalloc 1610612736 bytes on device 0",
                1_610_612_736,
            ),
            (
                "alloc fail type TemporaryMemoryBuffer dev 0 space Device stream 0x55 size 1610612736 bytes (cudaMalloc error out of memory [2])",
                1_610_612_736,
            ),
            (
                "MemoryError: Unable to allocate 71.0 GiB for an array with shape (97620, 97620)",
                (71.0 * GIB) as u64,
            ),
            (
                "RuntimeError: Invalid buffer size: 80.00 GB",
                (80.0 * GIB) as u64,
            ),
        ] {
            assert_eq!(Message::read(text).asked, Some(asked), "{text}");
        }
        assert!(!Message::read("loss = losses.NTXentLoss()").is_there);
    }
}
