//! Frames of a traceback, as Python and `IPython` print them.

/// A line of a traceback that names a place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Path of the file, with `/`.
    pub(super) file: String,
    /// Name of the function; empty if the text does not have it.
    pub(super) function: String,
    /// The code that stands under it, up to the next frame.
    pub(super) code: String,
}

/// Frames in the order of the text: the last one is where it failed.
pub(super) fn frames(text: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines() {
        let line = line
            .trim_start_matches(|c: char| c.is_whitespace() || ">|[]0123456789:rank".contains(c));
        if let Some((file, function)) = place(line) {
            frames.push(Frame {
                file: file.replace('\\', "/"),
                function: function.to_owned(),
                code: String::new(),
            });
        } else if let Some(frame) = frames.last_mut()
            && frame.code.len() < 2000
        {
            // IPython shows lines around the one that failed, and points at it.
            let arrow = line.starts_with("--") && line.contains('>');
            if arrow {
                frame.code.clear();
            }
            frame.code.push_str(line);
            frame.code.push('\n');
        }
    }
    frames
}

/// File and function of a line: `File "a.py", line 3, in f`, `~/a.py in f(x)`, `File ~/a.py:3, in f(x)`.
fn place(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("File ").map_or(line, str::trim_start);
    let end = line.find(".py").map(|at| at + 3)?;
    let file = line[..end].trim_start_matches(['"', '\'', '`']);
    if file.contains(char::is_whitespace) && !file.contains(['/', '\\']) {
        return None;
    }
    let rest = &line[end..];
    let mut function = rest.split(" in ").nth(1);
    if rest.trim_start().starts_with("in ") {
        function = rest.trim_start().strip_prefix("in ");
    }
    let is_place = rest.contains(" line ") || rest.starts_with(':') || function.is_some();
    let name = function.unwrap_or_default();
    let end = name.find(|c: char| !(c.is_alphanumeric() || "_<>.".contains(c)));
    is_place.then(|| (file, &name[..end.unwrap_or(name.len())]))
}

impl Frame {
    /// Name of the file, without its folders.
    pub(super) fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_python_and_of_ipython_are_found() {
        let text = "\
Traceback (most recent call last):
  File \"train.py\", line 90, in step
    loss = criterion(emb, labels)
  File \"C:\\env\\pytorch_metric_learning\\losses\\ntxent_loss.py\", line 34, in _compute_loss
    denominator = torch.sum(..)
~/env/lib/sentence_transformers/util.py in cos_sim(a, b)
     40     a_norm = normalize(a)
---> 42     return torch.mm(a_norm, b_norm.transpose(0, 1))
File ~/env/torch/functional.py:1315, in cdist(x1, x2, p)
";
        let found = frames(text);
        let functions: Vec<&str> = found.iter().map(|frame| &frame.function[..]).collect();
        assert_eq!(functions, ["step", "_compute_loss", "cos_sim", "cdist"]);
        assert_eq!(found[1].name(), "ntxent_loss.py");
        assert!(found[2].code.contains("torch.mm") && !found[2].code.contains("normalize"));
    }
}
