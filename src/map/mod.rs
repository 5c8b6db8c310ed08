//! [`Map`]: rows of the data on a plane, for a person to look at. Takes features or embeddings, gives points.

pub(crate) mod projection;
pub(crate) mod umap;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::order;
use crate::base::working::Working;
use crate::data::{Aside, Dataset, Side};
use crate::map::projection::{Axes, Plane};
use crate::model::embeddings::Embeddings;
use crate::model::scaling::Scaling;
use crate::search::rows;

/// The most rows of a map, and the most features of these rows.
const ROWS: usize = 50_000;
const FEATURES: usize = 1 << 25;
/// The most features that the plane is fitted to, or products of two features of a row if that allows more rows: each evaluation
/// of a run fits a plane.
const FITTED_FEATURES: usize = 1 << 20;
const FITTED_PRODUCTS: usize = 1 << 26;
/// Number of the largest classes that the plane is fitted to, so that it spreads them.
const SPREAD: usize = 10;
/// Rows that are read between two progress messages.
const READ_ROWS: usize = 4096;
/// The most pixels of all pictures on a map.
const PIXELS: usize = 4 << 20;
/// The most classes that are named: a class index has 16 bits, and the last two are no classes.
const NAMED: usize = u16::MAX as usize - 1;

/// Rows on a plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Side of the rows; `None` if they are of all sides.
    pub side: Option<Side>,
    /// Number of each row in the data set, ascending.
    pub rows: Vec<u32>,
    /// `[x, y]` of each row's embedding: principal components, or the unit circle of two dimensions as it is.
    pub points: Vec<[f32; 2]>,
    /// `[x, y]` of each row's features, scaled if a run scales them: their own principal components.
    pub before: Vec<[f32; 2]>,
    /// Class of each row: its place in `names`, or `u16::MAX` for every other class.
    pub classes: Vec<u16>,
    /// Classes of the data, the largest first: a class has the same place, and colour, on the map of each side. If there are more
    /// than 65,534, those with the most rows on the map.
    pub names: Vec<String>,
    /// Pictures of the rows, if each row is a picture.
    pub pictures: Option<Pictures>,
    /// Numbers in their file of rows without a label. Their places stand behind those of `rows`; they have no class here.
    pub aside: Vec<u32>,
}

/// The rows of a map as pictures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    /// Width of a picture in pixels, which is also its height.
    pub side: usize,
    /// Shades `[rows, side, side]`: 0 is the least of a picture's values, 255 the largest.
    pub shades: Vec<u8>,
}

impl Pictures {
    /// The pictures of rows of the data, if its rows are pictures and these are few enough to be shown.
    ///
    /// # Errors
    /// [`crate::Error::Data`] if a file has changed.
    pub async fn of(dataset: &Dataset, rows: &[u32]) -> Result<Option<Self>> {
        let few = |_: &usize| rows.len() * dataset.features.dim() <= PIXELS;
        let Some(side) = dataset.picture_side().filter(few) else {
            return Ok(None);
        };
        let mut values = Vec::new();
        dataset.features.read(rows, &mut values).await?;
        let shades = Vec::with_capacity(values.len());
        let mut pictures = Self { side, shades };
        pictures.extend(&values);
        Ok(Some(pictures))
    }

    /// Adds rows of `side * side` values, as they are in the data.
    fn extend(&mut self, values: &[f32]) {
        self.shades
            .extend(values.chunks_exact(self.side * self.side).flat_map(|row| {
                let least = row.iter().copied().fold(f32::INFINITY, f32::min);
                let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let range = if most > least { most - least } else { 1.0 };
                row.iter()
                    .map(move |value| (255.0 * ((value - least) / range)) as u8)
            }));
    }
}

impl Map {
    /// Map of the data's rows by the direction of their features, scaled by a run's default: before a run there are no embeddings.
    /// `heard` receives the progress.
    ///
    /// # Errors
    /// [`crate::Error::Data`] if a file has changed.
    pub async fn of_features(dataset: &Dataset, heard: &mut dyn FnMut(Working)) -> Result<Self> {
        let rows = rows::choose(dataset.rows(), most_rows(dataset.features.dim()), 0);
        let scaling = Scaling::auto(dataset, &rows, heard).await?;
        let mut map = Self::of(dataset, &scaling, None, rows, &Aside::default(), heard).await?;
        map.points.clone_from(&map.before);
        Ok(map)
    }

    /// A map of these rows of a side, and of rows without a label, with this scaling; their embeddings are not placed yet.
    pub(crate) async fn of(
        dataset: &Dataset,
        scaling: &Scaling,
        side: Option<Side>,
        rows: Vec<u32>,
        aside: &Aside,
        heard: &mut dyn FnMut(Working),
    ) -> Result<Self> {
        let labels = dataset.labels_of(&rows);
        let mut sizes = vec![0usize; dataset.class_names.len()];
        let sized = if sizes.len() > NAMED {
            &labels
        } else {
            &dataset.labels
        };
        sized.iter().for_each(|label| sizes[*label as usize] += 1);
        let mut named: Vec<u32> = (0..sizes.len() as u32).collect();
        named.retain(|label| sizes[*label as usize] > 0);
        order::sort_by_key(&mut named, |label| {
            std::cmp::Reverse(sizes[*label as usize])
        });
        named.truncate(NAMED);
        let mut places = vec![u16::MAX; sizes.len()];
        for (place, label) in named.iter().enumerate() {
            places[*label as usize] = place as u16;
        }
        let classes: Vec<u16> = labels.iter().map(|label| places[*label as usize]).collect();
        let dim = dataset.features.dim();
        let is_fitted = fitted(&classes, dim);
        let fit_to: Vec<u32> = (0..rows.len())
            .filter(|at| is_fitted(*at))
            .map(|at| rows[at])
            .collect();
        let at_once = fit_to.len().max(READ_ROWS.min(rows.len()));
        let mut features = Embeddings {
            values: Vec::with_capacity(at_once * dim),
            dim,
        };
        dataset.features.read(&fit_to, &mut features.values).await?;
        scaling.apply(&mut features.values);
        make_unit(&mut features);
        let plane = Plane::fit(&features, |_| true, &Axes::default());
        let mut pictures = dataset
            .picture_side()
            .filter(|_| rows.len() * dim <= PIXELS)
            .map(|side| Pictures {
                side,
                shades: Vec::with_capacity(rows.len() * dim),
            });
        let mut before = Vec::with_capacity(rows.len());
        for (part, some) in rows.chunks(READ_ROWS).enumerate() {
            heard(Working {
                what: "placing rows by their features".to_owned(),
                unit: "rows".to_owned(),
                done: (part * READ_ROWS) as u64,
                total: rows.len() as u64,
            });
            features.values.clear();
            dataset.features.read(some, &mut features.values).await?;
            if let Some(pictures) = &mut pictures {
                pictures.extend(&features.values);
            }
            scaling.apply(&mut features.values);
            make_unit(&mut features);
            before.extend(plane.place(&features));
        }
        features.values.clone_from(&aside.values);
        scaling.apply(&mut features.values);
        make_unit(&mut features);
        before.extend(plane.place(&features));
        let name = |label: &u32| dataset.class_names[*label as usize].clone();
        Ok(Self {
            side,
            rows,
            points: Vec::new(),
            before,
            classes,
            names: named.iter().map(name).collect(),
            pictures,
            aside: aside.rows.clone(),
        })
    }

    /// Places the rows by their embeddings, on axes that keep their direction from one map to the next; returns the plane.
    pub(crate) fn place(&mut self, embeddings: &Embeddings, axes: &mut Axes) -> Plane {
        let plane = Plane::fit(embeddings, fitted(&self.classes, embeddings.dim), axes);
        self.points = plane.place(embeddings).collect();
        *axes = plane.axes().clone();
        plane
    }
}

/// The most rows of a map with `dim` features.
pub(crate) fn most_rows(dim: usize) -> usize {
    ROWS.min(FEATURES / dim.max(1)).max(100)
}

/// The most bytes of the host that a map of `rows` rows of the data and its two layouts take, with embeddings of `embedding` numbers:
/// 54 MB for a million rows of 64 features, of which 50,000 are on the map.
pub(crate) fn host_bytes(dataset: &Dataset, rows: usize, embedding: usize) -> u64 {
    let few = |_: &usize| rows * dataset.features.dim() <= PIXELS;
    let picture = dataset.picture_side().filter(few).unwrap_or(0) as u64;
    let aside = dataset.aside.rows.len();
    let [n, k] = [rows + aside, umap::NEIGHBOURS].map(|count| count as u64);
    let [dim, embedding] = [dataset.features.dim(), embedding].map(|count| count as u64);
    // A map, and one that is handed out: number, two points, class and picture of each row.
    let maps = 2 * (22 + picture * picture);
    // Embeddings as they are read back and as they are told; rows whose neighbours are sought, those found so far twice, and their
    // leaves; then a layout that is built of them, and in any case the first of two.
    let read = 4 * (2 * embedding + 3);
    let sought = 4 * dim.max(embedding) + 20 * k + 24;
    let built = 44 * k + 24;
    let first = 16 * k + 16;
    // The rows that the plane is fitted to, or those that are placed next.
    let fitted = (FITTED_FEATURES as u64)
        .max(100 * dim)
        .max(READ_ROWS as u64 * dim);
    // Rows without a label, which are held, and once more while they are embedded.
    let aside = 8 * aside as u64 * dim;
    n * (maps + first + read.max(sought).max(built)) + 4 * fitted.min(n * dim) + aside + (1 << 20)
}

/// Divides every row that has a direction by its length.
pub(crate) fn make_unit(rows: &mut Embeddings) {
    for row in rows.values.chunks_exact_mut(rows.dim.max(1)) {
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 && length.is_finite() {
            row.iter_mut().for_each(|value| *value /= length);
        }
    }
}

/// Numbers in the data of the rows of a side that are on its map.
pub(crate) fn rows_of(all: &[u32], most: usize, seed: u64) -> Vec<u32> {
    let chosen = rows::choose(all.len(), most, seed);
    chosen.iter().map(|at| all[*at as usize]).collect()
}

/// Tells by number if the plane is fitted to a row of `dim` values: rows of the largest classes here, or a seeded choice of these
/// if they are many.
fn fitted(classes: &[u16], dim: usize) -> impl Fn(usize) -> bool + use<> {
    let mut sizes = vec![0u32; usize::from(u16::MAX) + 1];
    classes
        .iter()
        .for_each(|class| sizes[usize::from(*class)] += 1);
    let mut largest: Vec<usize> = (0..NAMED).filter(|class| sizes[*class] > 0).collect();
    order::sort_by_key(&mut largest, |class| std::cmp::Reverse(sizes[*class]));
    largest.truncate(SPREAD);
    let spread = |row: &usize| largest.contains(&usize::from(classes[*row]));
    let candidates: Vec<usize> = (0..classes.len()).filter(spread).collect();
    let dim = dim.max(1);
    let most = (FITTED_FEATURES / dim)
        .max(FITTED_PRODUCTS / dim / dim)
        .max(100);
    let mut is_fitted = vec![false; classes.len()];
    for at in rows::choose(candidates.len(), most, 0) {
        is_fitted[candidates[at as usize]] = true;
    }
    move |row| is_fitted[row]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile};

    #[test]
    fn the_data_as_it_is_has_a_place_and_a_class_for_each_row() {
        for (sample, named) in [("digits", 10), ("mirrored", 650)] {
            let dataset = Dataset::sample(sample, 0).expect("is there");
            let map =
                pollster::block_on(Map::of_features(&dataset, &mut |_| ())).expect("is drawn");
            assert_eq!((map.side, map.names.len()), (None, named));
            assert_eq!(map.rows.len(), dataset.rows().min(ROWS));
            assert_eq!(map.points, map.before);
            for ((row, class), point) in map.rows.iter().zip(&map.classes).zip(&map.points) {
                let label = dataset.labels[*row as usize];
                let name = &map.names[usize::from(*class)];
                assert_eq!(*name, dataset.class_names[label as usize]);
                // Rows of unit length, less their mean.
                assert!(point.iter().all(|value| value.abs() < 2.0));
            }
            let pictures = map.pictures.map(|pictures| pictures.shades.len());
            assert_eq!(pictures, (named == 10).then_some(1797 * 64));
        }
    }

    #[test]
    fn a_class_has_the_same_place_on_every_map() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let as_they_are = Scaling::none(dataset.features.dim());
        let names = |rows: Vec<u32>| {
            let unheard = &mut |_| ();
            let aside = &Aside::default();
            pollster::block_on(Map::of(&dataset, &as_they_are, None, rows, aside, unheard))
                .expect("is drawn")
                .names
        };
        let all: Vec<u32> = (0..dataset.rows() as u32).collect();
        let of_all = names(all.clone());
        // None of the largest class.
        let name = |row: &u32| &dataset.class_names[dataset.labels[*row as usize] as usize];
        let few = all.into_iter().filter(|row| *name(row) != of_all[0]);
        assert_eq!(names(few.take(200).collect()), of_all);
    }

    #[test]
    fn columns_of_different_units_count_alike_on_the_map_of_features() {
        // Two classes that small columns separate, and a wide column without information.
        let row = |i: usize| {
            let part = if i.is_multiple_of(2) { 0.1 } else { -0.1 };
            let small = |at: usize| part + 0.001 * ((i * 7 + at * 3) % 10) as f32;
            let wide = if i % 4 < 2 { 1000.0 } else { -1000.0 };
            [wide, small(1), small(2), small(3)]
        };
        let dataset = Dataset::new(Labelled {
            values: (0..200).flat_map(row).collect(),
            dim: 4,
            labels: (0..200).map(|i| (i % 2).to_string()).collect(),
            ..Labelled::default()
        });
        let dataset = dataset.expect("is data");
        let parted = |map: Map| {
            let of = |class: u16| {
                let points = map.before.iter().zip(&map.classes);
                points
                    .filter(move |(_, of)| **of == class)
                    .map(|(point, _)| point[0])
            };
            let (least, most) = (f32::INFINITY, f32::NEG_INFINITY);
            of(0).fold(least, f32::min) > of(1).fold(most, f32::max)
                || of(1).fold(least, f32::min) > of(0).fold(most, f32::max)
        };
        let unheard = &mut |_| ();
        let scaled = pollster::block_on(Map::of_features(&dataset, unheard));
        assert!(parted(scaled.expect("is drawn")));
        let as_they_are = Scaling::none(4);
        let rows = (0..200).collect();
        let aside = &Aside::default();
        let unscaled =
            pollster::block_on(Map::of(&dataset, &as_they_are, None, rows, aside, unheard));
        assert!(!parted(unscaled.expect("is drawn")));
    }

    #[test]
    fn of_many_rows_some_of_every_large_class_fit_the_plane() {
        // The classes take turns: a fixed step between the fitted rows could leave whole classes out.
        let classes: Vec<u16> = (0..60_000).map(|row| (row % 12) as u16).collect();
        let is_fitted = fitted(&classes, 64);
        let mut of_class = [0; 12];
        for (row, class) in classes.iter().enumerate() {
            of_class[usize::from(*class)] += usize::from(is_fitted(row));
        }
        assert_eq!(of_class.iter().sum::<usize>(), FITTED_PRODUCTS / 64 / 64);
        assert!(
            of_class[..SPREAD].iter().all(|count| *count > 1000),
            "{of_class:?}"
        );
        assert_eq!(of_class[SPREAD..], [0, 0]);
        let all = fitted(&classes[..100], 64);
        assert!((0..10).all(all));
    }

    #[test]
    fn rows_are_pictures_where_their_columns_are_pixels() {
        let drawn = |header: &str, row: &str| {
            let text = format!("{header},label\n{row},a\n{row},b\n");
            let file = NamedFile {
                name: "pictures.csv".to_owned(),
                bytes: text.into(),
            };
            let rows = Labelled::read(&file, None, Choice::default());
            let dataset = rows.and_then(Dataset::new).expect("is a table");
            let map = pollster::block_on(Map::of_features(&dataset, &mut |_| ()));
            map.expect("is drawn").pictures
        };
        let pictures = drawn("pixel_0_0,pixel_0_1,pixel_1_0,pixel_1_1", "-1,0,0.5,1");
        let pictures = pictures.expect("are pictures");
        let shades = [0, 127, 191, 255, 0, 127, 191, 255];
        assert_eq!((pictures.side, &pictures.shades[..]), (2, &shades[..]));
        assert_eq!(drawn("a,b,c,d", "-1,0,0.5,1"), None);
        // Three columns make no square.
        assert_eq!(drawn("pixel1,pixel2,pixel3", "-1,0,0.5"), None);
    }
}
