//! Lines of code that use a head elsewhere: in PyTorch, ONNX Runtime, scanpy and JavaScript. The page, the piece *code* and the model card
//! print the same ones, which name the files, the sizes and the scaling of the run.

use super::head::Head;
use super::results::{self, HEAD, LINEAR, Results};
use super::{Piece, text};
use crate::cpu::Norm;
use crate::model::layer_weights::LayerWeights;
use crate::model::scaling::ScalingKind;

/// The program whose lines are no Python.
const JAVASCRIPT: &str = "JavaScript";

impl Results {
    /// Lines of code for each program that can use the run: its name, the piece whose file they read, and the lines. Of pieces that
    /// are made of rows they read all rows.
    pub fn code(&self) -> [(&'static str, Piece, String); 4] {
        let (reads, cells) = in_scanpy(self);
        [
            ("PyTorch", Piece::Safetensors, in_pytorch(self)),
            ("ONNX Runtime", Piece::Onnx, in_onnx(self)),
            ("scanpy", reads, cells),
            (JAVASCRIPT, Piece::Onnx, in_javascript(self)),
        ]
    }
}

/// The lines of each program under a heading, in Markdown.
pub(super) fn markdown(results: &Results) -> String {
    let of = if results.by_linear { " --linear" } else { "" };
    let part = |(program, piece, lines): (&str, Piece, String)| {
        let side = if piece.is_of_rows() {
            " --side all"
        } else {
            ""
        };
        let language = match program {
            JAVASCRIPT => "js",
            _ => "python",
        };
        format!(
            "## In {program}\n\n```{language}\n{lines}\n```\n\nIts file: `nearfar export RUN --format {}{side}{of}`, or *Take home* on the page.\n",
            piece.name()
        )
    };
    results.code().map(part).join("\n")
}

/// What is to be known of the rows that the network takes, as a comment.
fn rows_in(results: &Results) -> String {
    let data = &results.report.data;
    match data.scaling {
        _ if data.name == "sample:digits" => {
            "yours: float32; the sample's are load_digits().data / 16 of scikit-learn".to_owned()
        }
        ScalingKind::None => "yours: float32, the columns in the order of the file".to_owned(),
        ScalingKind::Common | ScalingKind::Columns => format!(
            "yours: float32, the columns in the order of the file; the {} scales them itself",
            match results.by_linear {
                true => "map",
                false => "head",
            }
        ),
    }
}

/// Layers with a map of the input in PyTorch: the names of the weights stay.
const WITH_SKIP: &str = "class WithSkip(torch.nn.Sequential):
    def forward(self, rows):  # the last module is the map of the input that is added
        *layers, skip = self
        return torch.nn.Sequential(*layers)(rows) + skip(rows)

";

/// The layers of a head as PyTorch's modules, with commas.
fn modules(head: &Head) -> String {
    let activation = head.activation().class();
    let last = head.layers.last().map_or(0, |last| last.index);
    let module = |layer: &LayerWeights| {
        let [outputs, inputs] = layer.shape;
        let linear = format!("torch.nn.Linear({inputs}, {outputs})");
        match head.norm() {
            _ if layer.index == last => linear,
            Norm::None => format!("{linear}, torch.nn.{activation}()"),
            norm => format!(
                "{linear}, torch.nn.{}({outputs}), torch.nn.{activation}()",
                norm.class()
            ),
        }
    };
    let modules: Vec<String> = head.layers.iter().map(module).collect();
    format!("\n    {},\n", modules.join(",\n    "))
}

/// The head in PyTorch, from its safetensors file.
fn in_pytorch(results: &Results) -> String {
    let head = &results.head;
    let (inputs, modules) = (head.inputs(), modules(head));
    let (file, name) = match results.by_linear {
        true => (LINEAR, "linear"),
        false => (HEAD, "head"),
    };
    let (class, kind, add) = match head.skip() {
        None => ("", "torch.nn.Sequential", String::new()),
        Some(_) => (
            WITH_SKIP,
            "WithSkip",
            format!(
                "head.add_module(\"skip\", torch.nn.Linear({inputs}, {}, bias=False))\n",
                head.dimensions()
            ),
        ),
    };
    // Batch norm goes by its running means and variances.
    let eval = match head.norm() {
        Norm::BatchNorm => "head.eval()\n",
        Norm::LayerNorm | Norm::None => "",
    };
    let (reads, fills) = match head.filled.is_empty() {
        true => (String::new(), String::new()),
        false => (
            "import json\n\nfrom safetensors import safe_open\n".to_owned(),
            format!(
                "with safe_open(\"{file}\", \"pt\") as file:\n    medians = json.loads(file.metadata()[\"filled\"])\n\
                 for column, median in medians:  # cells without a number\n    \
                 rows[:, column] = torch.where(rows[:, column].isfinite(), rows[:, column], median)\n"
            ),
        ),
    };
    format!(
        "{reads}import torch\nfrom safetensors.torch import load_file\n\n{class}{name} = {kind}({modules})\n{add}\
         {name}.load_state_dict(load_file(\"{file}\"))\n{eval}\
         # {}\nrows = torch.rand(5, {inputs})\n\
         {fills}with torch.no_grad():\n    embeddings = torch.nn.functional.normalize({name}(rows))",
        rows_in(results)
    )
}

/// The head in ONNX Runtime, which fills cells without a number by itself.
fn in_onnx(results: &Results) -> String {
    let (file, head) = (results.named("head.onnx"), &results.head);
    format!(
        "import numpy as np\nimport onnxruntime\n\nsession = onnxruntime.InferenceSession(\"{file}\")\n\
         # {}\nrows = np.random.rand(5, {}).astype(\"float32\")\n\
         [embeddings] = session.run([\"embeddings\"], {{\"features\": rows}})  # {} numbers a row, of length 1",
        rows_in(results),
        head.inputs(),
        head.dimensions()
    )
}

/// The head in a browser or Node, from its ONNX file.
fn in_javascript(results: &Results) -> String {
    let (file, head) = (results.named("head.onnx"), &results.head);
    let inputs = head.inputs();
    format!(
        "import * as ort from \"onnxruntime-web\";\n\nconst session = await ort.InferenceSession.create(\"{file}\");\n\
         // {}\nconst rows = Float32Array.from({{ length: 5 * {inputs} }}, Math.random);\n\
         const features = new ort.Tensor(\"float32\", rows, [5, {inputs}]);\n\
         const {{ embeddings }} = await session.run({{ features }});\n\
         // embeddings.data: {} numbers a row, of length 1",
        rows_in(results),
        head.dimensions()
    )
}

/// The embeddings of all rows in scanpy: beside the cells of the file, found by their names, if it is AnnData.
fn in_scanpy(results: &Results) -> (Piece, String) {
    let report = &results.report;
    let after = |color: &str, of: &str| {
        format!(
            "sc.pp.neighbors(adata, use_rep=\"{of}\", metric=\"cosine\")\nsc.tl.umap(adata)\nsc.pl.umap(adata, color={})",
            text::python(color)
        )
    };
    let label = report.data.label_column.as_deref().unwrap_or("label");
    let Some(cells) = results::cells(report) else {
        let table = results.named("all_embeddings.csv");
        let lines = format!(
            "import pandas as pd\nimport scanpy as sc\n\ntable = pd.read_csv(\"{table}\")\n\
             embeddings = table.filter(regex=r\"^embedding_\\d+$\").to_numpy(\"float32\")\n\
             obs = table[[\"label\"]].astype(str).set_index(table[\"row\"].astype(str))\nadata = sc.AnnData(embeddings, obs=obs)\n{}",
            after("label", "X")
        );
        return (Piece::Csv, lines);
    };
    let (file, new) = (text::python(cells), results.named("all_embeddings.h5ad"));
    let out = text::python(format!("{}_nearfar.h5ad", &cells[..cells.len() - 5]));
    let others = match report.data.left_out.is_empty() {
        true => "",
        false => "adata = adata[new.obs_names].copy()  # the others were left out\n",
    };
    let lines = format!(
        "import scanpy as sc\n\nadata = sc.read_h5ad({file})\nnew = sc.read_h5ad(\"{new}\")\n{others}\
         if not adata.obs_names.equals(new.obs_names):\n    new = new[adata.obs_names]\nadata.obsm[\"X_nearfar\"] = new.obsm[\"X_nearfar\"]\n{}\nadata.write_h5ad({out})",
        after(label, "X_nearfar")
    );
    (Piece::H5ad, lines)
}
