//! A UMAP layout has the local scales, the graph and the first epochs of umap-learn, and keeps the neighbours of digits as well as
//! its layouts do: `tests/golden/umap.py` recorded them.

use crate::common::open;
use nearfar::{Dataset, EngineKind, KnnIndex, LocalScale, Neighbors, Umap, smooth_knn_dist};
use rand::seq::SliceRandom as _;
use serde::Deserialize;

/// Number of nearest rows, and of nearest points, for the scores.
const K: usize = 15;
/// Distances of 0.01 come from similarities in f32: relative for scales, absolute for strengths.
const TOLERANCE: f32 = 1e-4;
/// Points lie within 10, and start up to 4e-4 aside. The learning rate of the second epoch, 0.998, makes 4e-3 of a step.
const TRACE_TOLERANCE: f32 = 1e-3;
/// Allowance of one layout below umap-learn's mean, beside three standard deviations of its seeds.
const BEHIND: f64 = 0.003;

#[derive(Deserialize)]
struct Golden {
    curve: [f64; 2],
    rows: Vec<usize>,
    sigmas: Vec<f32>,
    rhos: Vec<f32>,
    graph: Vec<GraphRow>,
    trustworthiness: Seeds,
    purity: Seeds,
    trace: Trace,
}

#[derive(Deserialize)]
struct GraphRow {
    row: usize,
    ids: Vec<u32>,
    strengths: Vec<f32>,
}

#[derive(Deserialize)]
struct Seeds {
    mean: f64,
    deviation: f64,
}

#[derive(Deserialize)]
struct Trace {
    k: usize,
    ids: Vec<u32>,
    similarities: Vec<f32>,
    start: Vec<[f32; 2]>,
    epochs: Vec<u64>,
    points: Vec<Vec<[f32; 2]>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/umap.json")).expect("the script wrote it")
}

/// Digits as unit rows, their labels, neighbours and first two principal components.
struct Digits {
    rows: Vec<Vec<f64>>,
    labels: Vec<u32>,
    neighbors: Neighbors,
    start: Vec<[f32; 2]>,
}

fn digits(k: usize) -> Digits {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    pollster::block_on(async {
        let engine = open(EngineKind::Cpu, 64 << 20);
        let index = KnnIndex::new(&engine, &dataset.features, None, k).await;
        let neighbors = index.expect("fits").search(None, |_, _| {}).await;
        let all: Vec<u32> = (0..dataset.rows() as u32).collect();
        let mut values = Vec::new();
        let read = dataset.features.read(&all, &mut values).await;
        read.expect("reads");
        let unit = |row: &[f32]| {
            let row = crate::common::to_f64(row);
            let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            row.iter().map(|value| value / length).collect()
        };
        let map = nearfar::Map::of_features(&dataset, &mut |_| ())
            .await
            .expect("is drawn");
        Digits {
            rows: values.chunks(dataset.features.dim()).map(unit).collect(),
            labels: dataset.labels,
            neighbors: neighbors.expect("finds"),
            start: map.before,
        }
    })
}

impl Digits {
    fn layout(&self, seed: u64, negative_samples: u32) -> Vec<[f32; 2]> {
        let mut umap = Umap::new(&self.neighbors, &self.start, seed);
        umap.negative_samples = negative_samples;
        umap.advance(umap.epochs());
        umap.points().to_vec()
    }

    /// Trustworthiness of the points (Venna and Kaski 2001), as `sklearn.manifold.trustworthiness`; and the part of their nearest
    /// points that have their label.
    fn scores(&self, points: &[[f32; 2]]) -> [f64; 2] {
        let count = points.len();
        let (mut penalty, mut same) = (0, 0);
        for row in 0..count {
            let apart: Vec<f64> = (0..count)
                .map(|other| {
                    let product = self.rows[row].iter().zip(&self.rows[other]);
                    1.0 - product.map(|(a, b)| a * b).sum::<f64>()
                })
                .collect();
            let on_the_plane = |other: &usize| {
                let [x, y] = [0, 1].map(|axis| points[row][axis] - points[*other][axis]);
                x * x + y * y
            };
            let mut others: Vec<usize> = (0..count).filter(|other| *other != row).collect();
            others.sort_by(|a, b| on_the_plane(a).total_cmp(&on_the_plane(b)));
            for other in &others[..K] {
                let nearer = others.iter().filter(|row| apart[**row] < apart[*other]);
                penalty += (nearer.count() + 1).saturating_sub(K);
                same += usize::from(self.labels[*other] == self.labels[row]);
            }
        }
        let most = (count * K * (2 * count - 3 * K - 1)) as f64;
        let trustworthiness = 1.0 - 2.0 * penalty as f64 / most;
        [trustworthiness, same as f64 / (count * K) as f64]
    }
}

fn scale_difference(scales: &[LocalScale], golden: &Golden) -> Option<String> {
    let pairs = golden.sigmas.iter().zip(&golden.rhos);
    golden
        .rows
        .iter()
        .zip(pairs)
        .find_map(|(row, (sigma, rho))| {
            let scale = scales[*row];
            let off = (scale.sigma / sigma - 1.0)
                .abs()
                .max((scale.rho / rho - 1.0).abs());
            (off > TOLERANCE).then(|| format!("row {row}: {scale:?}, expected {rho} and {sigma}"))
        })
}

fn graph_difference(umap: &Umap, golden: &Golden) -> Option<String> {
    golden.graph.iter().find_map(|expected| {
        let (ids, strengths): (Vec<u32>, Vec<f32>) = umap.strengths(expected.row).unzip();
        let pairs = strengths.iter().zip(&expected.strengths);
        let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let row = expected.row;
        (ids != expected.ids || off > TOLERANCE)
            .then(|| format!("row {row}: {ids:?}, off by {off}"))
    })
}

#[test]
fn scales_and_strengths_are_those_of_umap_learn() {
    let golden = golden();
    for (ours, theirs) in Umap::CURVE.iter().zip(golden.curve) {
        assert!((f64::from(*ours) - theirs).abs() < 1e-6, "{theirs}");
    }
    let digits = digits(K);
    let scales = smooth_knn_dist(&digits.neighbors);
    assert_eq!(scales.len(), digits.rows.len());
    assert_eq!(scale_difference(&scales, &golden), None);
    let umap = Umap::new(&digits.neighbors, &digits.start, 0);
    assert_eq!(graph_difference(&umap, &golden), None);
    assert!(
        golden.graph.iter().any(|row| row.ids.len() > K),
        "one-sided ties are there"
    );

    // Another target of the sum, and distances that are a thousandth larger.
    let fewer = self::digits(K - 1);
    let mut stretched = digits.neighbors.clone();
    for similarity in &mut stretched.similarities {
        *similarity = 1.0 - 1.001 * (1.0 - *similarity);
    }
    for (fault, neighbors) in [("k", &fewer.neighbors), ("distances", &stretched)] {
        let scales = smooth_knn_dist(neighbors);
        assert!(scale_difference(&scales, &golden).is_some(), "{fault}");
    }
    let umap = Umap::new(&fewer.neighbors, &digits.start, 0);
    assert!(graph_difference(&umap, &golden).is_some());
    // A sigma that is a hundredth too large.
    let mut wrong = scales;
    wrong.iter_mut().for_each(|scale| scale.sigma *= 1.01);
    assert!(scale_difference(&wrong, &golden).is_some());
}

#[test]
fn the_first_epochs_without_negative_samples_are_those_of_umap_learn() {
    let Trace {
        k,
        ids,
        similarities,
        start,
        epochs,
        points,
    } = golden().trace;
    let neighbors = Neighbors {
        k,
        ids,
        similarities,
    };
    // After `late` epochs more than the script, which numbers them from 0.
    let off = |late: u64, at: usize, start: &[[f32; 2]]| {
        let mut umap = Umap::new(&neighbors, start, 0);
        umap.negative_samples = 0;
        umap.advance(epochs[at] + 1 + late);
        let pairs = umap
            .points()
            .iter()
            .flatten()
            .zip(points[at].iter().flatten());
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let mirrored: Vec<[f32; 2]> = start.iter().map(|[x, y]| [*y, *x]).collect();
    for (at, epoch) in epochs.iter().enumerate() {
        let right = off(0, at, &start);
        println!("epoch {epoch}: off by {right:.1e}");
        assert!(right < TRACE_TOLERANCE, "epoch {epoch}: {right}");
        assert!(off(1, at, &start) > 20.0 * TRACE_TOLERANCE);
        assert!(off(0, at, &mirrored) > 20.0 * TRACE_TOLERANCE);
    }
}

#[test]
fn layouts_keep_the_neighbours_of_digits_as_well_as_those_of_umap_learn() {
    let (golden, digits) = (golden(), digits(K));
    let least = [&golden.trustworthiness, &golden.purity]
        .map(|seeds| seeds.mean - 3.0 * seeds.deviation - BEHIND);
    let scores = |what: &str, points: &[[f32; 2]]| {
        let scores = digits.scores(points);
        println!("{what}: trustworthiness, purity {scores:.4?}, at least {least:.4?}");
        scores
    };
    for seed in 0..3 {
        let [trustworthiness, purity] = scores("seed", &digits.layout(seed, 5));
        assert!(trustworthiness >= least[0] && purity >= least[1], "{seed}");
    }
    let mut shuffled = digits.layout(0, 5);
    shuffled.shuffle(&mut crate::common::rng(0));
    let faults = [
        ("where it starts", digits.start.clone()),
        ("shuffled", shuffled),
        ("no negative samples", digits.layout(0, 0)),
    ];
    for (fault, points) in faults {
        let [trustworthiness, _] = scores(fault, &points);
        assert!(trustworthiness < least[0], "{fault}");
    }
}
