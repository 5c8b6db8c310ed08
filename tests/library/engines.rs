//! Engines come and go in one process: in turn, and on several threads at once.

use std::thread;

use crate::common::open;
use nearfar::EngineKind;
use nearfar::gpu::connections;

#[test]
fn engines_open_in_any_number_over_one_connection_to_the_drivers() {
    for _ in 0..200 {
        open(EngineKind::Gpu, 16 << 20);
    }
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let engine = open(EngineKind::Gpu, 16 << 20);
                assert_eq!(engine.info().engine, "gpu");
            });
        }
    });
    assert_eq!(connections(), 1);
}
