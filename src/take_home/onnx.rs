//! The head as an ONNX file: features as they are in the file in, embeddings of unit length out, any number of rows.
//!
//! Messages and tags are the part of `onnx.proto` that a head needs.

use prost::Message;

use super::head::Head;
use crate::cpu::{Activation, Distance, Norm};
use crate::model::layer_weights::{LayerWeights, NormWeights};

/// Version of the operators: `Gemm` 13, `Relu` 14, `Erf` 13, `LayerNormalization` 17,
/// `BatchNormalization` 15, `LpNormalization` 1, `IsNaN` 13, `IsInf` 10, `Or` 7, `Where` 16.
const OPSET: i64 = 17;
/// Version of the file format that came with it.
const IR: i64 = 8;
/// `TensorProto.FLOAT`.
const FLOAT: i32 = 1;
/// `AttributeProto.FLOAT`.
const REAL: i32 = 1;
/// `AttributeProto.INT`.
const INT: i32 = 2;
/// Names of input and output.
const INPUT: &str = "features";
const OUTPUT: &str = "embeddings";

/// The ONNX file of a head.
pub(super) fn file(head: &Head, distance: Distance) -> Vec<u8> {
    let property = |(key, value): (&str, String)| Property {
        key: key.to_owned(),
        value,
    };
    let model = Model {
        ir_version: IR,
        producer_name: "nearfar".to_owned(),
        producer_version: env!("CARGO_PKG_VERSION").to_owned(),
        doc_string: "Rows of features as they are in the file in, embeddings of unit length out."
            .to_owned(),
        graph: Some(graph(head)),
        opset_import: vec![OperatorSet {
            domain: String::new(),
            version: OPSET,
        }],
        metadata_props: head.about(distance).into_iter().map(property).collect(),
    };
    model.encode_to_vec()
}

/// The graph of a head: missing values filled, the layers with their activation between them, and each row scaled to unit length.
fn graph(head: &Head) -> Graph {
    let (mut nodes, mut initializers) = (Vec::new(), Vec::new());
    let mut rows = INPUT.to_owned();
    if !head.filled.is_empty() {
        let (numbers, steps) = filling(head);
        initializers.push(numbers);
        rows.clone_from(&steps[steps.len() - 1].name);
        nodes.extend(steps);
    }
    let (whole, last) = (rows.clone(), head.layers.len().saturating_sub(1));
    for (place, layer) in head.layers.iter().enumerate() {
        let index = layer.index;
        let [weight, bias] = ["weight", "bias"].map(|kind| format!("{index}.{kind}"));
        let linear = format!("{index}.output");
        initializers.push(tensor(&weight, &layer.shape, &layer.weight));
        initializers.push(tensor(&bias, &layer.shape[..1], &layer.bias));
        nodes.push(Node {
            attribute: vec![integer("transB", 1)],
            ..node("Gemm", index, &[&rows, &weight, &bias], &linear)
        });
        rows = linear;
        if let Some((weight, sum)) = skip(head, layer, &whole, &rows) {
            rows.clone_from(&sum.output[0]);
            initializers.push(weight);
            nodes.push(sum);
        }
        if place < last {
            if let Some(own) = &layer.norm {
                let (numbers, node) = norm(own, index + 1, &rows);
                rows.clone_from(&node.output[0]);
                initializers.extend(numbers);
                nodes.push(node);
            }
            let steps = activation(
                head.activation(),
                index + 1 + usize::from(layer.norm.is_some()),
                &rows,
            );
            rows.clone_from(&steps[steps.len() - 1].output[0]);
            nodes.extend(steps);
        }
    }
    if nodes.iter().any(|node| node.op_type == "Erf") {
        let numbers = NUMBERS.map(|(name, value)| tensor(name, &[], &[value]));
        initializers.extend(numbers);
    }
    let end = head.layers.last().map_or(0, |layer| layer.index + 1);
    nodes.push(Node {
        attribute: vec![integer("axis", -1), integer("p", 2)],
        ..node("LpNormalization", end, &[&rows], OUTPUT)
    });
    Graph {
        node: nodes,
        name: "head".to_owned(),
        initializer: initializers,
        input: vec![matrix(INPUT, head.inputs())],
        output: vec![matrix(OUTPUT, head.dimensions())],
    }
}

/// The node that adds the map of the head's `input` to the outputs of a layer, if it has one, and the map's weights.
fn skip(head: &Head, layer: &LayerWeights, input: &str, outputs: &str) -> Option<(Tensor, Node)> {
    let name = "skip.weight";
    let weight = tensor(name, &[layer.shape[0], head.inputs()], layer.skip.as_ref()?);
    let sum = Node {
        attribute: vec![integer("transB", 1)],
        name: "skip".to_owned(),
        ..node("Gemm", layer.index, &[input, name, outputs], "skip.output")
    };
    Some((weight, sum))
}

/// The node of a norm of these rows, and its numbers.
fn norm(norm: &NormWeights, index: usize, rows: &str) -> (Vec<Tensor>, Node) {
    let numbers = norm
        .named()
        .map(|(name, values)| tensor(&format!("{index}.{name}"), &[values.len()], values));
    let numbers: Vec<Tensor> = numbers.collect();
    let inputs = numbers.iter().map(|number| &number.name[..]);
    let inputs: Vec<&str> = std::iter::once(rows).chain(inputs).collect();
    let epsilon = Attribute {
        name: "epsilon".to_owned(),
        f: 1e-5,
        kind: REAL,
        ..Attribute::default()
    };
    let operator = match norm.norm() {
        Norm::BatchNorm => "BatchNormalization",
        Norm::LayerNorm | Norm::None => "LayerNormalization",
    };
    let output = format!("{index}.output");
    let node = Node {
        attribute: vec![epsilon],
        ..node(operator, index, &inputs, &output)
    };
    (numbers, node)
}

/// Constants of GELU.
const NUMBERS: [(&str, f32); 3] = [
    ("sqrt_half", std::f32::consts::FRAC_1_SQRT_2),
    ("half", 0.5),
    ("one", 1.0),
];

/// The nodes of the activation of these rows; the first output of the last is the result. GELU is `x (1 + erf(x / sqrt 2)) / 2`: the
/// operator of that name came with a later version.
fn activation(activation: Activation, index: usize, rows: &str) -> Vec<Node> {
    let name = |part: &str| format!("{index}.{part}");
    match activation {
        Activation::Relu => vec![node("Relu", index, &[rows], &name("output"))],
        Activation::Gelu => {
            let [scaled, erf, above, twice, output] =
                ["scaled", "erf", "above", "twice", "output"].map(name);
            let steps = [
                node("Mul", index, &[rows, "sqrt_half"], &scaled),
                node("Erf", index, &[&scaled], &erf),
                node("Add", index, &[&erf, "one"], &above),
                node("Mul", index, &[rows, &above], &twice),
                node("Mul", index, &[&twice, "half"], &output),
            ];
            // Readers refuse two nodes of one name.
            let named = steps.map(|node| Node {
                name: node.output[0].clone(),
                ..node
            });
            named.into()
        }
    }
}

/// Numbers that fill cells without one, and the nodes that put them in; the name of the last is that of its rows.
fn filling(head: &Head) -> (Tensor, [Node; 4]) {
    // A column without missing cells in training is not filled: NaN comes out.
    let mut numbers = vec![f32::NAN; head.inputs()];
    for (column, number) in &head.filled {
        numbers[*column] = *number;
    }
    let steps = [
        ("IsNaN", &[INPUT][..], "is_nan"),
        ("IsInf", &[INPUT], "is_infinite"),
        ("Or", &["is_nan", "is_infinite"], "is_missing"),
        ("Where", &["is_missing", "filled", INPUT], "rows"),
    ];
    let steps = steps.map(|(operator, inputs, output)| Node {
        name: output.to_owned(),
        ..node(operator, 0, inputs, output)
    });
    (tensor("filled", &[head.inputs()], &numbers), steps)
}

fn node(operator: &str, index: usize, inputs: &[&str], output: &str) -> Node {
    Node {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        name: index.to_string(),
        op_type: operator.to_owned(),
        attribute: Vec::new(),
    }
}

fn integer(name: &str, value: i64) -> Attribute {
    Attribute {
        name: name.to_owned(),
        i: value,
        kind: INT,
        ..Attribute::default()
    }
}

fn tensor(name: &str, shape: &[usize], values: &[f32]) -> Tensor {
    Tensor {
        dims: shape.iter().map(|side| *side as i64).collect(),
        data_type: FLOAT,
        name: name.to_owned(),
        raw_data: values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    }
}

/// Type of a matrix with this many columns and any number of rows.
fn matrix(name: &str, columns: usize) -> ValueInfo {
    let dimensions = [Size::Named("rows".to_owned()), Size::Fixed(columns as i64)];
    let shape = Shape {
        dim: dimensions
            .map(|value| Dimension { value: Some(value) })
            .into(),
    };
    ValueInfo {
        name: name.to_owned(),
        kind: Some(Type {
            tensor: Some(TensorType {
                element: FLOAT,
                shape: Some(shape),
            }),
        }),
    }
}

/// Problem of a head's file, if it does not read.
pub(super) fn problem(bytes: &[u8]) -> Option<String> {
    Model::decode(bytes).err().map(|error| error.to_string())
}

#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(string, tag = "2")]
    producer_name: String,
    #[prost(string, tag = "3")]
    producer_version: String,
    #[prost(string, tag = "6")]
    doc_string: String,
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    metadata_props: Vec<Property>,
}

#[derive(Clone, PartialEq, Message)]
struct OperatorSet {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Property {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    op_type: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(float, tag = "2")]
    f: f32,
    #[prost(int64, tag = "3")]
    i: i64,
    #[prost(int32, tag = "20")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    kind: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
struct Type {
    #[prost(message, optional, tag = "1")]
    tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorType {
    #[prost(int32, tag = "1")]
    element: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
struct Dimension {
    #[prost(oneof = "Size", tags = "1, 2")]
    value: Option<Size>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Size {
    #[prost(int64, tag = "1")]
    Fixed(i64),
    #[prost(string, tag = "2")]
    Named(String),
}

#[cfg(test)]
mod tests {
    use super::super::head::tests::{small, with};
    use super::*;

    #[test]
    fn norms_and_gelu_are_operators_of_this_version_and_nodes_have_names_of_their_own() {
        for (norm, operator, numbers) in [
            (Norm::LayerNorm, "LayerNormalization", 2),
            (Norm::BatchNorm, "BatchNormalization", 4),
        ] {
            let head = with(norm, Activation::Gelu);
            let model = Model::decode(&file(&head, Distance::L2)[..]).expect("decodes");
            let graph = model.graph.expect("a graph");
            let operators: Vec<&str> = graph.node.iter().map(|node| &node.op_type[..]).collect();
            let gelu = ["Mul", "Erf", "Add", "Mul", "Mul"];
            assert_eq!(operators[4..6], ["Gemm", operator]);
            assert_eq!(operators[6..11], gelu);
            assert_eq!(graph.node[5].input.len(), 1 + numbers);
            assert_eq!(graph.node[5].attribute[0].f, 1e-5);
            let names: std::collections::BTreeSet<&str> =
                graph.node.iter().map(|node| &node.name[..]).collect();
            assert_eq!(names.len(), graph.node.len());
        }
    }

    #[test]
    fn the_file_decodes_to_the_layers_with_relu_between_and_unit_length_at_the_end() {
        let head = small();
        let model = Model::decode(&file(&head, Distance::L2)[..]).expect("decodes");
        assert_eq!((model.ir_version, model.opset_import[0].version), (8, 17));
        let graph = model.graph.expect("a graph");
        let operators: Vec<&str> = graph.node.iter().map(|node| &node.op_type[..]).collect();
        assert_eq!(operators[..4], ["IsNaN", "IsInf", "Or", "Where"]);
        assert_eq!(operators[4..], ["Gemm", "Relu", "Gemm", "LpNormalization"]);
        let whole = Head {
            filled: Vec::new(),
            ..small()
        };
        let whole = Model::decode(&file(&whole, Distance::L2)[..]).expect("decodes");
        assert_eq!(whole.graph.expect("a graph").node.len(), 4);
        let filled: Vec<u8> = [f32::NAN, -0.5, f32::NAN].map(f32::to_le_bytes).concat();
        assert_eq!(graph.initializer[0].raw_data, filled);
        // Each takes the output of the one before.
        assert_eq!(graph.node[3].input[2], INPUT);
        let mut rows = &graph.node[3].output[0][..];
        for node in &graph.node[4..] {
            assert_eq!(node.input[0], rows);
            rows = &node.output[0];
        }
        assert_eq!(rows, OUTPUT);
        let names = ["filled", "0.weight", "0.bias"];
        for (tensor, name) in graph.initializer.iter().zip(names) {
            assert_eq!(tensor.name, name);
        }
        let weight = &graph.initializer[1];
        assert_eq!((&weight.dims[..], weight.data_type), (&[4, 3][..], FLOAT));
        let values = weight.raw_data.chunks_exact(4);
        let values: Vec<f32> = values
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        assert_eq!(values, head.layers[0].weight);
        let shape = |info: &ValueInfo| {
            let kind = info.kind.clone().and_then(|kind| kind.tensor);
            let shape = kind.and_then(|tensor| tensor.shape).expect("a shape");
            shape
                .dim
                .into_iter()
                .map(|dim| dim.value)
                .collect::<Vec<_>>()
        };
        let any = Some(Size::Named("rows".to_owned()));
        assert_eq!(shape(&graph.input[0]), [any.clone(), Some(Size::Fixed(3))]);
        assert_eq!(shape(&graph.output[0]), [any, Some(Size::Fixed(2))]);
        let properties = model.metadata_props.iter();
        let properties: Vec<_> = properties.map(|p| (&p.key[..], &p.value[..])).collect();
        assert_eq!(
            properties,
            [
                ("dimensions", "2"),
                ("distance", "l2"),
                ("unit_length", "true")
            ]
        );
    }
}
