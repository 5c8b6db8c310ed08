// Builds the core with threads beside the one that Trunk builds: the same code, on all cores where the page may have them (see
// docs/publish.md), fetched by web/start.js instead of the other. Its memory is shared between workers, for which Rust's standard
// library is compiled anew, from the component rust-src. `make page`, `make serve` and `make test` ask for it (NEARFAR_THREADS=1)
// where that component is there; without it the page is whole, on one thread. Trunk runs this file while it compiles the other core.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
const TARGET = "wasm32-unknown-unknown";
/** The most memory, which is set aside as addresses: all that 32 bits can tell, as the other core has. */
const MOST_BYTES = 2 ** 32;
const LINKER = ["--shared-memory", `--max-memory=${MOST_BYTES}`, "--import-memory", ...["__wasm_init_tls", "__tls_size", "__tls_align", "__tls_base"].map((name) => `--export=${name}`)];
/** What .cargo/config.toml has, and what threads take. */
const FLAGS = ["-Ctarget-feature=+simd128,+atomics,+bulk-memory,+mutable-globals", "--cfg=erase_components", ...LINKER.map((word) => `-Clink-arg=${word}`)];

/** Compiles the core, if it is not compiled yet; returns the wasm. */
function compiled(isRelease) {
  const profile = isRelease ? "page" : "dev";
  // A stable compiler does so, too, if it is told to. That would compile all else anew: so it has a folder of its own.
  const target = path.join(path.resolve(root, process.env.CARGO_TARGET_DIR ?? "target"), "threads");
  const env = { ...process.env, RUSTC_BOOTSTRAP: "1", CARGO_ENCODED_RUSTFLAGS: FLAGS.join("\x1f") };
  const core = ["--package", "nearfar-web", "--features", "threads", "--target", TARGET, "--target-dir", target, "--profile", profile];
  execFileSync("cargo", ["build", "--locked", "-Zbuild-std=std,panic_abort", ...core], { cwd: root, env, stdio: "inherit" });
  return path.join(target, TARGET, profile === "dev" ? "debug" : profile, "nearfar-web.wasm");
}

/** Puts the core and its script into the folder of the page, whose head then names them. */
export function threads(folder, isRelease) {
  const wasm = compiled(isRelease);
  // Named by its content, as Trunk does: a number without leading zeros.
  const hash = createHash("sha256").update(readFileSync(wasm)).digest("hex");
  const name = `nearfar-threads-1${hash.slice(0, 15)}`;
  execFileSync("wasm-bindgen", ["--target", "web", "--no-typescript", "--out-dir", folder, "--out-name", name, wasm], { stdio: "inherit" });
  const page = path.join(folder, "index.html");
  const html = readFileSync(page, "utf8");
  const own = /<meta name="core" content="(\S*\/)\S+ \S+" ?\/?>/.exec(html);
  if (!own) throw new Error("index.html names no core: see pattern_script in Trunk.toml");
  const [meta, base] = own;
  writeFileSync(page, html.replace(meta, `${meta}<meta name="core-threads" content="${base}${name}.js ${base}${name}_bg.wasm">`));
}

const { TRUNK_PROFILE, NEARFAR_THREADS } = process.env;
if (process.argv[1] === fileURLToPath(import.meta.url) && NEARFAR_THREADS === "1") compiled(TRUNK_PROFILE === "release");
