use nearfar::DeviceInfo;
use nearfar::kernels::tile::Shape;

// What the shapes compute is tested where they are used: in `knn` and in `ranks`, for equal bytes.

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
    };
    let software = DeviceInfo {
        software: true,
        ..hardware.clone()
    };
    assert_eq!(Shape::of(&hardware, 1000), Shape::Tile);
    assert_eq!(Shape::of(&hardware, 8), Shape::Strip);
    assert_eq!(Shape::of(&software, 1000), Shape::Strip);
}
