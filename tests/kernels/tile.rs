use nearfar::DeviceInfo;
use nearfar::kernels::tile::Shape;

use super::common::open;

// The results of the shapes are tested with their users, `knn` and `ranks`, for equal bytes.

#[test]
fn a_software_adapter_and_a_handful_of_rows_go_without_barriers() {
    let hardware = DeviceInfo {
        driver: String::new(),
        engine: "gpu".to_owned(),
        adapter: "a card".to_owned(),
        backend: "vulkan".to_owned(),
        software: false,
        max_buffer_bytes: 1 << 30,
        workgroup_bytes: 16 << 10,
        workgroup_size: 256,
        features: Vec::new(),
        shape: None,
        tuned: None,
        pci_address: String::new(),
    };
    let software = DeviceInfo {
        software: true,
        ..hardware.clone()
    };
    assert_eq!(Shape::of(&hardware, 1000), Shape::Tile);
    assert_eq!(Shape::of(&hardware, 8), Shape::Strip);
    assert_eq!(Shape::of(&software, 1000), Shape::Strip);
}

#[test]
fn what_was_timed_holds_for_many_rows_and_what_was_asked_for_holds_for_all() {
    let info = open(nearfar::EngineKind::Gpu, 64 << 20).info().clone();
    for shape in Shape::ALL {
        let mut info = DeviceInfo {
            tuned: Some(shape),
            ..info.clone()
        };
        assert_eq!(Shape::of(&info, 64), shape);
        assert_eq!(Shape::of(&info, 63), Shape::Strip);
        for asked in Shape::ALL {
            info.shape = Some(asked);
            assert_eq!(
                [1, 63, 64, 1000].map(|rows| Shape::of(&info, rows)),
                [asked; 4]
            );
        }
    }
}
