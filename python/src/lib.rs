//! Nearfar as a Python package: which of its functions can Python call? Thin: arrays come in by address, results go out as JSON or into
//! arrays that Python made. `python/nearfar` has the names, the checks and the documentation.

mod engine;
mod judge;
mod listing;
mod memory;
mod rows;
mod work;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
fn _nearfar(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("BudgetError", py.get_type::<engine::BudgetError>())?;
    module.add("DeviceError", py.get_type::<engine::DeviceError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(engine::after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(work::devices, module)?)?;
    module.add_function(wrap_pyfunction!(work::knn, module)?)?;
    module.add_function(wrap_pyfunction!(work::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(work::rank_queries, module)?)?;
    module.add_function(wrap_pyfunction!(work::total_of_ranked, module)?)?;
    module.add_function(wrap_pyfunction!(work::mine, module)?)?;
    module.add_class::<listing::Listing>()?;
    module.add_class::<memory::MemoryLoss>()?;
    module.add_function(wrap_pyfunction!(work::threshold, module)?)?;
    module.add_function(wrap_pyfunction!(judge::rows_to_check, module)?)?;
    module.add_function(wrap_pyfunction!(judge::linear_map, module)?)?;
    module.add_function(wrap_pyfunction!(judge::compare, module)?)?;
    module.add_function(wrap_pyfunction!(work::train, module)?)?;
    module.add_function(wrap_pyfunction!(work::embed, module)?)?;
    module.add_function(wrap_pyfunction!(work::plan, module)?)?;
    module.add_function(wrap_pyfunction!(work::plan_pml, module)?)?;
    module.add_function(wrap_pyfunction!(work::panic_for_a_test, module)?)?;
    Ok(())
}
