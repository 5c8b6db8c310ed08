//! [`signs`]: the causes that a text speaks for, each with its weight.

use super::cause::Cause::{self, *};
use super::facts::Facts;
use super::frames::Frame;
use super::number::{close, joined};
use super::tables::{LINES, NETWORK_WORDS, NETWORKS, OWN_LOSS, PHRASES, PLACES, VALIDATION};

/// A sign of a cause.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sign {
    pub(super) cause: Cause,
    /// 0 to 100: 50 for a setting that may, 90 for the place where it failed.
    pub(super) weight: u32,
    /// The sign in words.
    pub(super) seen: String,
}

/// Signs of a text, strongest first.
pub(super) fn signs(facts: &Facts) -> Vec<Sign> {
    let mut signs = Vec::new();
    signs.extend(by_place(facts));
    for (phrases, cause, weight) in PHRASES {
        if let Some(phrase) = phrases
            .split('|')
            .find(|phrase| facts.lower.contains(phrase))
        {
            let seen = format!("the text has `{}`", phrase.trim());
            signs.push(Sign {
                cause: *cause,
                weight: *weight,
                seen,
            });
        }
    }
    if facts.frames.is_empty()
        && let Some((part, cause)) = LINES.iter().find(|(part, _)| facts.lower.contains(part))
    {
        let seen = format!("the text has `{}`", part.trim());
        signs.push(Sign {
            cause: *cause,
            weight: 46,
            seen,
        });
    }
    signs.extend(by_name(facts));
    signs.extend(of_shapes(facts));
    signs.extend(of_faiss(facts));
    signs.extend(of_the_card(facts));
    signs.extend(of_a_loop(facts));
    signs.extend(of_one_card(facts));
    signs
}

/// Names of functions and files in prose; at last the network, if nothing else is named.
fn by_name(facts: &Facts) -> Vec<Sign> {
    let named = PLACES.iter().find_map(|(file, function, cause)| {
        let parts = [function, file]
            .into_iter()
            .filter(|part| part.len() > 7 && part.contains('_'));
        let part = parts
            .into_iter()
            .find(|part| facts.lower.contains(&part.to_lowercase()))?;
        let seen = format!("the text has `{part}`");
        Some(Sign {
            cause: *cause,
            weight: 59,
            seen,
        })
    });
    let network = NETWORK_WORDS
        .split(' ')
        .find(|word| facts.words.contains(*word));
    let network = network.filter(|_| facts.message.is_there).map(|word| {
        let seen = format!("the text names a network ({word}) and no other tensor");
        Sign {
            cause: Activations,
            weight: 34,
            seen,
        }
    });
    named.into_iter().chain(network).collect()
}

/// The innermost frame that makes a tensor.
fn by_place(facts: &Facts) -> Option<Sign> {
    let ends_in = |frame: &Frame, cause: Cause, weight: u32| Sign {
        cause,
        weight,
        seen: format!(
            "the traceback ends in `{}` of {}",
            name(frame),
            frame.name()
        ),
    };
    let mut innermost = facts.frames.iter().rev().take(4);
    let is_backward = innermost.any(|frame| frame.file.contains("autograd/"));
    let mut network: Option<&Frame> = None;
    for frame in facts.frames.iter().rev() {
        if let Some((cause, weight)) = made_in(frame) {
            // A network that fails inside of a loop over embeddings is the network.
            if network.is_some() && matches!(cause, Embeddings | Distances | Moments | Ranking) {
                break;
            }
            return Some(ends_in(frame, inside(facts, cause), weight));
        }
        if network.is_none() && !is_backward && is_of_network(frame) {
            network = Some(frame);
        }
    }
    let cause = match facts.frames.iter().any(validates) {
        true => Validation,
        false => Activations,
    };
    Some(ends_in(network?, cause, 84))
}

/// The tensor that a frame makes, with the weight of its sign.
fn made_in(frame: &Frame) -> Option<(Cause, u32)> {
    let (file, function) = (frame.file.to_lowercase(), frame.function.to_lowercase());
    let fits = |part: &str, of: &str| part.is_empty() || of.contains(&part.to_lowercase());
    let mut places = PLACES.iter();
    if let Some((.., cause)) = places.find(|(of, name, _)| fits(of, &file) && fits(name, &function))
    {
        return Some((*cause, 93));
    }
    // torch itself says what is done; who asks for it stands further out.
    let torch = ["site-packages/torch/", "/torch/nn/", "torch/tensor"];
    if torch.iter().any(|part| file.contains(part)) {
        return None;
    }
    let code = frame.code.to_lowercase();
    if let Some((_, cause)) = LINES.iter().find(|(part, _)| code.contains(part)) {
        return Some((*cause, 90));
    }
    let name = frame.name().to_lowercase();
    let is_own = OWN_LOSS.split(' ').any(|part| name.contains(part));
    is_own.then_some((Pairs, 86))
}

fn is_of_network(frame: &Frame) -> bool {
    let file = frame.file.to_lowercase();
    NETWORKS.split(' ').any(|part| file.contains(part))
}

fn validates(frame: &Frame) -> bool {
    let function = frame.function.to_lowercase();
    VALIDATION
        .split(' ')
        .any(|part| function.contains(part) || frame.name().contains(part))
}

fn name(frame: &Frame) -> &str {
    match frame.function.as_str() {
        "" => "the code",
        function => function,
    }
}

/// A distance of a loss or of a miner is that one's; of a search it is a matrix of its own.
fn inside(facts: &Facts, cause: Cause) -> Cause {
    if cause == Distances {
        let outer = |parts: &[&str]| {
            facts
                .frames
                .iter()
                .any(|frame| parts.iter().any(|part| frame.file.contains(part)))
        };
        if outer(&["signal_to_noise", "snr_distance"]) {
            return Differences;
        }
        if outer(&["metric_learning/losses", "metric_learning/miners"])
            && !outer(&["inference.py", "accuracy_calculator"])
        {
            return Pairs;
        }
    }
    cause
}

/// Shapes: the one that was refused, the one whose bytes were asked for, and large matrices.
fn of_shapes(facts: &Facts) -> Vec<Sign> {
    let mut signs = Vec::new();
    if let Some(shape) = facts.refused_shape() {
        let seen = format!("the message names the shape {}", joined(&shape));
        signs.extend(of_shape(&shape).map(|cause| Sign {
            cause,
            weight: 92,
            seen,
        }));
    }
    for shape in &facts.shapes {
        let cells = shape
            .iter()
            .fold(1u64, |cells, size| cells.saturating_mul(*size));
        let asked = facts.message.asked.filter(|asked| *asked > 1 << 26);
        let is_asked = asked.is_some_and(|asked| {
            [4, 8, 2]
                .iter()
                .any(|each| close(cells.saturating_mul(*each), asked))
        });
        if let Some(cause) = of_shape(shape).filter(|_| is_asked) {
            let seen = format!("{} has the bytes that were asked for", joined(shape));
            signs.push(Sign {
                cause,
                weight: 94,
                seen,
            });
        } else if shape.len() == 2 && shape.iter().all(|size| *size >= 5000) {
            let seen = format!("the text has {}", joined(shape));
            signs.push(Sign {
                cause: Distances,
                weight: 60,
                seen,
            });
        }
    }
    signs
}

/// The tensor that has such a shape.
fn of_shape(shape: &[u64]) -> Option<Cause> {
    match *shape {
        [a, b] if a.min(b) >= 1000 && (a == b || b > 8192) => Some(Distances),
        [a, b] if a >= 1000 && b <= 8192 => Some(Embeddings),
        [a, b, c] if a == b && b == c && a >= 32 => Some(BatchCube),
        [a, b, c] if a >= 32 && b >= 32 && c <= 16_384 => Some(Differences),
        [_, _, _, _] => Some(Activations),
        _ => None,
    }
}

/// faiss: the size of its scratch is fixed, all else is the index.
fn of_faiss(facts: &Facts) -> Option<Sign> {
    let is_faiss =
        facts.says(&["faiss"]) && facts.says(&["cudamalloc", "allocmemory", "bad_alloc"]);
    let asked = facts.message.asked?;
    if !is_faiss || facts.says(&["type flatdata", "type ivflists", "temporarymemorybuffer"]) {
        return None;
    }
    let mib = asked >> 20;
    let (cause, seen) = match [256, 512, 1024, 1536].contains(&mib) && asked.is_multiple_of(1 << 20)
    {
        true => (
            FaissScratch,
            format!("{mib} MiB at once is faiss's scratch"),
        ),
        false => (
            FaissIndex,
            "faiss asked for memory that is not its scratch".to_owned(),
        ),
    };
    Some(Sign {
        cause,
        weight: 94,
        seen,
    })
}

/// What the card held.
fn of_the_card(facts: &Facts) -> Vec<Sign> {
    let message = &facts.message;
    let (Some(asked), Some(total)) = (message.asked, message.total) else {
        return Vec::new();
    };
    let mut signs = Vec::new();
    if let Some(unused) = message.unused
        && unused >= asked.saturating_add(asked / 5)
        && unused >= total / 12
        && asked < total / 2
    {
        let seen = "PyTorch holds more unused memory than was asked for".to_owned();
        signs.push(Sign {
            cause: Fragments,
            weight: 96,
            seen,
        });
    }
    if let (Some(free), Some(own)) = (message.free, message.reserved.max(message.process)) {
        let others = total.saturating_sub(free).saturating_sub(own);
        if others > total / 2 && asked < total {
            let seen = "most of the card is held by others than this program".to_owned();
            signs.push(Sign {
                cause: OtherProgram,
                weight: 91,
                seen,
            });
        }
    }
    signs
}

/// Embeddings that a loop keeps: with their graph, if nothing says otherwise.
fn of_a_loop(facts: &Facts) -> Option<Sign> {
    let keeps = [
        ".append(model(",
        ".append(emb",
        ".append(embeddings",
        ".append(output",
        ".append(feat",
        ".append(features",
        ".append(net(",
        ".append(z)",
        ".append(f)",
        ".append(encoder(",
        ".append(trunk(",
    ];
    let networks = [
        "model", "net", "encoder", "trunk", "embedder", "backbone", "forward", "network",
    ];
    let outputs = facts
        .code
        .names
        .iter()
        .filter(|(_, value, _)| networks.contains(&value.name()));
    let mut outputs = outputs.map(|(name, ..)| format!(".append({})", name.to_lowercase()));
    let output = outputs.find(|phrase| facts.lower.contains(phrase.as_str()));
    let keeps = keeps.iter().find(|phrase| facts.lower.contains(**phrase));
    let phrase = output.or_else(|| keeps.map(|phrase| (*phrase).to_owned()))?;
    let is_cut = facts.says(&[
        "no_grad",
        "inference_mode",
        ".detach()",
        ".item()",
        ".cpu()",
    ]);
    let seen = format!("the text has `{phrase}`");
    Some(match is_cut {
        true => Sign {
            cause: Embeddings,
            weight: 52,
            seen,
        },
        false => Sign {
            cause: KeptGraph,
            weight: 76,
            seen: format!("{seen} and no `torch.no_grad()`"),
        },
    })
}

/// `DataParallel`: the first card gathers.
fn of_one_card(facts: &Facts) -> Option<Sign> {
    if !facts.has(&["dataparallel"]) {
        return None;
    }
    let uneven = facts.says(&[
        "only gpu 0",
        "first gpu",
        "gpu 0 ",
        "gpu0",
        "cuda:0",
        "imbalance",
        "unbalance",
        "uneven",
        "other gpus",
        "others are",
        "one gpu",
        "device 0",
        "(gpu 0;",
        "other cards",
        "first card",
    ]);
    let weight = if uneven { 72 } else { 48 };
    Some(Sign {
        cause: OneCard,
        weight,
        seen: "the text has `DataParallel`".to_owned(),
    })
}
