//! An error of a device: the kernel that it names, its buffers with their bytes, and what the ledger holds.

use nearfar::kernels::dropout::{Dropout, drop};
use nearfar::kernels::gather::gather;
use nearfar::{Engine, EngineChoice, EngineKind, MemoryPlan, Purpose};

use super::common::open;

/// A GPU that waits for every kernel.
fn synchronous() -> Engine {
    let choice = EngineChoice {
        kind: Some(EngineKind::Gpu),
        synchronous: true,
        ..EngineChoice::default()
    };
    pollster::block_on(Engine::open(&choice, 64 << 20)).expect("`make test` installs a driver")
}

/// Gathers rows, drops some of their values and gathers others; the rows, or the message.
fn work(engine: &Engine) -> Result<Vec<f32>, String> {
    let plan = MemoryPlan::default()
        .with::<f32>(Purpose::Dataset, "features", 64 * 16)
        .with::<u32>(Purpose::Dataset, "rows", 40)
        .with::<f32>(Purpose::Activations, "batch", 32 * 16)
        .with::<f32>(Purpose::Activations, "others", 8 * 16);
    pollster::block_on(async {
        let read = |error: nearfar::Error| error.to_string();
        let workspace = engine.workspace("test", &plan, "make the test smaller");
        let mut workspace = workspace.await.map_err(read)?;
        let mut features = workspace.take("features");
        let (mut rows, mut batch) = (workspace.take("rows"), workspace.take("batch"));
        let mut others = workspace.take("others");
        let values: Vec<f32> = (0..64 * 16).map(|i| i as f32).collect();
        let mut commands = engine.commands();
        commands.upload(&mut features, 0, &values);
        let numbers: Vec<u32> = (0..40).map(|i| i * 7 % 64).collect();
        commands.upload(&mut rows, 0, &numbers);
        gather(
            &mut commands,
            (&features).into(),
            &rows,
            0,
            32,
            16,
            &mut batch,
        );
        let dropout = Dropout {
            rate: 0.5,
            key: [1, 2],
        };
        drop(&mut commands, &dropout, 0..32, 16, &mut batch);
        gather(
            &mut commands,
            (&features).into(),
            &rows,
            32,
            8,
            16,
            &mut others,
        );
        engine.submit(commands);
        let mut kept = engine.read(&batch, 0, 32 * 16).await.map_err(read)?;
        kept.extend(engine.read(&others, 0, 8 * 16).await.map_err(read)?);
        Ok(kept)
    })
}

#[test]
fn work_that_is_waited_for_kernel_by_kernel_is_the_same() {
    let engine = open(EngineKind::Gpu, 64 << 20);
    let expected = work(&engine).expect("works");
    let waiting = synchronous();
    let before = waiting.submits();
    assert_eq!(work(&waiting).expect("works"), expected);
    // Copies, three kernels, what is left of the list, two reads, and two where the plan's memory is handed out.
    let submits = waiting.submits() - before;
    assert!(submits >= 3 + 2, "{submits} submits");
}

#[test]
fn a_dispatch_that_fails_is_named_with_its_buffers() {
    let live = |engine: &Engine| {
        let fixed = engine.ledger().live_bytes();
        nearfar::Bytes(fixed + (64 * 16 + 40 + 32 * 16 + 8 * 16) * 4).to_string()
    };
    for (after, kernel) in [
        (
            0,
            "gather.gather with features (4 KiB), rows (160 B), batch (2 KiB)",
        ),
        (1, "dropout.drop with batch (2 KiB)"),
        (
            2,
            "gather.gather with features (4 KiB), rows (160 B), others (512 B)",
        ),
    ] {
        let engine = synchronous();
        let live = live(&engine);
        engine.fail_dispatch(after);
        let message = work(&engine).expect_err("fails");
        assert!(
            message.starts_with("the device reported an error: "),
            "{message}"
        );
        let end = format!(", at the kernel {kernel}, while {live} are live in all");
        assert!(message.ends_with(&end), "{message}\n{end}");
        assert!(
            !message.contains('\n') && message.contains("65535"),
            "{message}"
        );
        let again = pollster::block_on(engine.settle()).expect_err("it is remembered");
        assert_eq!(again.to_string(), message);
    }
    let engine = open(EngineKind::Gpu, 64 << 20);
    let live = live(&engine);
    engine.fail_dispatch(1);
    let message = work(&engine).expect_err("fails");
    let end = format!(
        "; the kernel sent last is gather.gather with features (4 KiB), rows (160 B), others (512 B), while {live} are live in all; \
         --synchronous finds the kernel that failed"
    );
    assert!(message.ends_with(&end), "{message}\n{end}");
}

#[test]
fn a_device_that_is_lost_is_named_with_the_kernel_it_ran() {
    let engine = synchronous();
    let before = engine.submits();
    work(&engine).expect("works");
    let submits = engine.submits() - before;
    let lost = |after| {
        let engine = synchronous();
        engine.lose_device(after);
        work(&engine).expect_err("the device is gone")
    };
    let messages: Vec<String> = (1..submits).map(lost).collect();
    for kernel in [
        "at the kernel gather.gather with features (4 KiB), ",
        "at the kernel dropout.drop with batch (2 KiB), ",
    ] {
        let named = messages.iter().any(|message| {
            message.starts_with("the device was lost (") && message.contains(kernel)
        });
        assert!(named, "{kernel}: {messages:#?}");
    }
}
