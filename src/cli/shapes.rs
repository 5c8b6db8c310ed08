//! The fastest tile shape of a GPU, stored for each adapter and driver in the user's cache folder. If the file cannot be read or
//! written the shapes are timed again, which takes 0.1 s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nearfar::{DeviceInfo, Engine, Result, TileShape, tune};

/// The engine, with its fastest shape if it is a hardware GPU and none was asked for.
///
/// # Errors
/// As [`tune`].
pub(super) fn tuned(engine: Engine) -> Result<Engine> {
    let info = engine.info();
    if !info.is_tunable() {
        return Ok(engine);
    }
    let shape = remembered(file().as_deref(), info, || {
        let tuned = pollster::block_on(tune(&engine))?;
        engine.ledger().restart_peak();
        Ok(tuned.map(|tuned| tuned.shape))
    })?;
    Ok(match shape {
        Some(shape) => engine.with_tuned_shape(shape),
        None => engine,
    })
}

/// Path of the stored shapes, if the system has a cache folder.
fn file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = if cfg!(windows) {
        PathBuf::from(set("LOCALAPPDATA")?)
    } else if cfg!(target_os = "macos") {
        PathBuf::from(set("HOME")?).join("Library/Caches")
    } else {
        let named = set("XDG_CACHE_HOME").map(PathBuf::from);
        // Relative paths are ignored, as the XDG specification demands.
        let named = named.filter(|folder| folder.is_absolute());
        named.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?
    };
    Some(folder.join("nearfar").join("shapes.json"))
}

/// The stored shape for this adapter, its driver and these kernels; else the one that is timed now, and then stored.
fn remembered(
    file: Option<&Path>,
    info: &DeviceInfo,
    time: impl FnOnce() -> Result<Option<TileShape>>,
) -> Result<Option<TileShape>> {
    let key = info.tuning_key();
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    let known = text.and_then(|text| serde_json::from_str(&text).ok());
    let mut known: BTreeMap<String, TileShape> = known.unwrap_or_default();
    if let Some(shape) = known.get(&key) {
        return Ok(Some(*shape));
    }
    let timed = time()?;
    if let (Some(file), Some(shape)) = (file, timed) {
        known.insert(key, shape);
        let text = serde_json::to_string_pretty(&known).expect("shapes are plain data");
        let folder = file.parent().unwrap_or(Path::new(""));
        // If it cannot be written, shapes are timed again.
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, text));
        drop(written);
    }
    Ok(timed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_timed_once_for_each_adapter_and_driver() {
        let folder = std::env::temp_dir().join(format!("nearfar-shapes-{}", std::process::id()));
        let file = folder.join("nearfar/shapes.json");
        let card = |driver: &str| {
            let mut info = pollster::block_on(Engine::devices())
                .pop()
                .expect("the CPU");
            (info.adapter, info.driver) = ("a card".to_owned(), driver.to_owned());
            info
        };
        let shape = |info: &DeviceInfo, timed: Option<TileShape>| {
            let time = || Ok(Some(timed.expect("is known")));
            remembered(Some(&file), info, time).expect("is there")
        };
        let (strip, tile) = (Some(TileShape::Strip), Some(TileShape::Tile));
        let (old, new) = (card("1.0"), card("1.1"));
        assert_eq!(shape(&old, strip), strip);
        assert_eq!(shape(&new, tile), tile);
        assert_eq!([shape(&old, None), shape(&new, None)], [strip, tile]);
        // A file that is no list of shapes is replaced.
        std::fs::write(&file, "{\"a card").expect("is ours");
        assert_eq!(shape(&old, tile), tile);
        assert_eq!(shape(&old, None), tile);
        std::fs::remove_dir_all(&folder).expect("is ours");
    }

    #[test]
    fn without_a_folder_shapes_are_timed_each_time() {
        let info = pollster::block_on(Engine::devices())
            .pop()
            .expect("the CPU");
        for place in [None, Some(Path::new("/dev/null/nearfar/shapes.json"))] {
            for shape in TileShape::ALL {
                let found = remembered(place, &info, || Ok(Some(shape)));
                assert_eq!(found.expect("is timed"), Some(shape));
            }
        }
    }
}
