//! The shader files themselves: naga parses them, and the Rust description of a kernel agrees with its text.

use std::collections::BTreeSet;

use nearfar::kernels::{self, Access, Kernel, triplet_margin};

use super::common::open;
use super::wgsl;

/// Files of those folders that are no kernel.
const OTHERS: [&str; 20] = [
    "activation",
    "distance",
    "exp",
    "failures",
    "helpers",
    "layout",
    "lib",
    "loops",
    "main",
    "meeting",
    "mine_rows",
    "mod",
    "near",
    "parallel",
    "references",
    "shaders",
    "stored",
    "stored_f16",
    "stored_f32",
    "wgsl",
];

fn module(kernel: &Kernel) -> naga::Module {
    let source = kernel.source.concat();
    naga::front::wgsl::parse_str(&source)
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(&source)))
}

#[test]
fn every_kernel_compiles_on_the_adapter_with_its_real_constants() {
    let engine = open(nearfar::EngineKind::Gpu, 64 << 20);
    pollster::block_on(engine.prepare(kernels::ALL.iter().copied())).expect("all compile");
}

/// SPIR-V of a kernel as a driver would get it, without names.
fn compiled(kernel: &Kernel, source: &str) -> Vec<u32> {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(source)));
    let validated = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
    let info = validated.unwrap_or_else(|error| panic!("{}: {error:?}", kernel.name));
    let size = [(
        "WORKGROUP_SIZE".to_owned(),
        f64::from(kernel.workgroup_size),
    )];
    let constants = size.into_iter().collect();
    let entry = Some((naga::ShaderStage::Compute, kernel.entry));
    let (module, info) =
        naga::back::pipeline_constants::process_overrides(&module, &info, entry, &constants)
            .expect("the one override has a value");
    let options = naga::back::spv::Options {
        flags: naga::back::spv::WriterFlags::empty(),
        ..Default::default()
    };
    naga::back::spv::write_vec(&module, &info, &options, None).expect("SPIR-V can say it")
}

#[test]
fn short_names_change_nothing_but_names() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders"));
    let texts = files.expect("the folder is there").map(|file| {
        let file = file.expect("readable");
        wgsl::packed(&std::fs::read_to_string(file.path()).expect("text"))
    });
    let texts: Vec<String> = texts.collect();
    let names = wgsl::short_names(texts.iter().map(String::as_str));
    let (mut bytes, mut short_bytes) = (0, 0);
    for kernel in kernels::ALL {
        let short = { kernel.source.iter() }.map(|part| wgsl::joined(&wgsl::renamed(part, &names)));
        let (long, short) = (kernel.source.concat(), short.collect::<String>());
        assert_eq!(
            compiled(kernel, &long),
            compiled(kernel, &short),
            "{}",
            kernel.name
        );
        bytes += long.len();
        short_bytes += short.len();
    }
    assert!(
        short_bytes * 4 < bytes * 3,
        "{short_bytes} of {bytes} bytes"
    );
}

#[test]
fn comments_and_needless_spaces_go_and_lines_stay() {
    const TEXT: &str = "// What it does: √n.\n  let a = b / c - -1;  // why\n\n    // so\nvar<private> d: array<vec2<u32> >= 1;";
    let packed = "\nlet a=b/c- -1;\n\n\nvar<private>d:array<vec2<u32> >=1;";
    assert_eq!(wgsl::packed(TEXT), packed);
    let joined = "let a=b/c- -1;var<private>d:array<vec2<u32> >=1;";
    assert_eq!(wgsl::joined(packed), joined);
}

#[test]
fn every_shader_has_its_kernel_and_every_entry_point_is_listed() {
    let stems = |folder: &str, extension: &str| -> BTreeSet<String> {
        let path = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(path).expect("the folder is there");
        let names = files.map(|file| {
            file.expect("readable")
                .file_name()
                .into_string()
                .expect("UTF-8")
        });
        names
            .filter_map(|name| name.strip_suffix(extension).map(str::to_owned))
            .filter(|stem| !OTHERS.contains(&stem.as_str()))
            .collect()
    };
    let shaders = stems("shaders", ".wgsl");
    assert_eq!(shaders, stems("src/kernels", ".rs"));
    assert_eq!(shaders, stems("src/cpu", ".rs"));
    assert_eq!(shaders, stems("tests/kernels", ".rs"));
    let mut listed = BTreeSet::new();
    let mut written = BTreeSet::new();
    let mut names = BTreeSet::new();
    for kernel in kernels::ALL {
        assert!(names.insert(kernel.name), "{} stands twice", kernel.name);
        let stem = kernel.name.split('.').next().expect("stem.entry");
        // The same entry point in a small workgroup, or over rows in half precision, is a kernel of its own.
        let entry = format!("{stem}.{}", kernel.entry);
        let name = kernel.name.trim_end_matches("_f16");
        assert_eq!(name.trim_end_matches("_few"), entry);
        let is_of_f16 = kernel.source[0].contains("alias Stored=vec2u");
        assert_eq!(kernel.name.ends_with("_f16"), is_of_f16, "{}", kernel.name);
        if is_of_f16 {
            continue;
        }
        listed.insert((kernel.source.concat(), kernel.entry));
        assert!(shaders.contains(stem), "{}", kernel.name);
        for entry in module(kernel).entry_points {
            written.insert((kernel.source.concat(), entry.name));
        }
    }
    let of_ranks = kernels::ALL
        .iter()
        .filter_map(|kernel| kernel.name.strip_prefix("ranks."));
    let of_ranks: BTreeSet<&str> = of_ranks.collect();
    let rank_entries = |name: &str| of_ranks.contains(name);
    let follows_ranks = |source: &str| {
        ["fn mine(", "fn mine_rows(", "fn pick("]
            .iter()
            .any(|name| source.contains(name))
    };
    written.retain(|(source, entry)| !(follows_ranks(source) && rank_entries(entry)));
    let of_layers = |entry: &str| {
        let names = kernels::ALL.iter().map(|kernel| kernel.name);
        { names }.any(|name| name.strip_prefix("gemm.") == Some(entry))
    };
    let follows_layers = |source: &str| source.contains("fn embed_and_store_tile(");
    written.retain(|(source, entry)| !(follows_layers(source) && of_layers(entry)));
    let follows_gelu = |source: &str| source.contains("fn layer_norm(");
    written.retain(|(source, entry)| {
        !(follows_gelu(source) && ["forward", "backward"].contains(&entry.as_str()))
    });
    let listed: BTreeSet<_> = listed
        .into_iter()
        .map(|(source, entry)| (source, entry.to_owned()))
        .collect();
    assert_eq!(listed, written);
}

#[test]
fn bindings_are_declared_as_the_shader_uses_them() {
    for kernel in kernels::ALL {
        let module = module(kernel);
        let mut validator = naga::valid::Validator::new(
            naga::valid::ValidationFlags::all(),
            // Vulkan, Metal and Direct3D 12 all have it.
            naga::valid::Capabilities::default()
                | naga::valid::Capabilities::SHADER_FLOAT16_IN_FLOAT32,
        );
        let info = validator.validate(&module).unwrap_or_else(|error| {
            let source = kernel.source.concat();
            panic!("{}: {}", kernel.name, error.emit_to_string(&source))
        });
        let entry = module
            .entry_points
            .iter()
            .position(|e| e.name == kernel.entry)
            .expect("listed");
        let uses = info.get_entry_point(entry);
        let names = { module.global_variables.iter() }
            .filter(|(handle, _)| !uses[*handle].is_empty())
            .filter_map(|(_, variable)| variable.name.as_deref());
        // Those that touch no stored row have no second kernel.
        let touches = { names }
            .any(|name| ["bank", "features", "left", "references", "rows", "x"].contains(&name));
        assert!(touches || !kernel.name.ends_with("_f16"), "{}", kernel.name);
        for (handle, variable) in module.global_variables.iter() {
            let (Some(binding), false) = (variable.binding, uses[handle].is_empty()) else {
                continue;
            };
            let naga::AddressSpace::Storage { access } = variable.space else {
                assert_eq!(
                    binding.binding, 0,
                    "{}: the uniform is binding 0",
                    kernel.name
                );
                continue;
            };
            let declared = kernel.bindings[binding.binding as usize - 1];
            let stored = access.contains(naga::StorageAccess::STORE);
            assert_eq!(
                declared == Access::ReadWrite,
                stored,
                "{}: {:?}",
                kernel.name,
                variable.name
            );
        }
    }
}

#[test]
fn owners_are_the_same_number_in_rust_and_in_the_shader() {
    let module = module(&triplet_margin::MINE);
    let (_, owners) = module
        .constants
        .iter()
        .find(|(_, constant)| constant.name.as_deref() == Some("OWNERS"))
        .expect("the shader has it");
    let naga::Expression::Literal(naga::Literal::U32(value)) =
        module.global_expressions[owners.init]
    else {
        panic!("OWNERS is a literal");
    };
    assert_eq!(value as usize, triplet_margin::OWNERS);
}

/// A shader that names an unknown type.
static BROKEN: Kernel = Kernel {
    name: "broken.main",
    source: &["@compute @workgroup_size(1) fn main() { var x: f33; }"],
    entry: "main",
    bindings: &[],
    workgroup_size: 1,
    workgroup_bytes: 0,
    any_size: false,
};

#[test]
fn a_kernel_that_does_not_compile_is_a_message() {
    let engine = open(nearfar::EngineKind::Gpu, 64 << 20);
    let error = pollster::block_on(engine.prepare([&BROKEN])).expect_err("does not compile");
    let text = error.to_string();
    assert!(
        text.starts_with("the kernel broken.main does not compile") && text.contains("f33"),
        "{text}"
    );
}

#[test]
fn an_error_that_nobody_waits_for_is_a_message_at_the_next_read() {
    let engine = open(nearfar::EngineKind::Gpu, 64 << 20);
    let vector = super::common::vector(&engine, &[1u32], 0);
    let nearfar::Commands::Gpu(mut commands) = engine.commands() else {
        panic!("a GPU was opened");
    };
    commands.dispatch(&BROKEN, &0u32, &[], 1);
    engine.submit(nearfar::Commands::Gpu(commands));
    let error = pollster::block_on(engine.read(&vector, 0, 1)).expect_err("was reported");
    assert!(
        error
            .to_string()
            .starts_with("the device reported an error"),
        "{error}"
    );
}
