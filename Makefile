# Two commands: `make serve` opens the playground, `make test` runs every test (`make test-native` and `make test-page`). `make check` runs
# the quick ones, `make page` builds what can be published, `make wheel` the Python package, which `make test-wheel` tries where nothing
# else is installed, `make test-python` tests that package beside its peers, `make hardware` builds what measures on another machine's GPU,
# `make deny` looks at the dependencies. Each installs what is missing first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(HOME)/.cargo/bin:$(PATH)
export TRUNK_SKIP_VERSION_CHECK := true
# The Vulkan loader of a machine without a desktop complains where this is not set.
export XDG_RUNTIME_DIR ?= /tmp

TRUNK_VERSION := 0.21.14
DENY_VERSION := 0.20.2
BINARYEN_VERSION := 132
ESBUILD_VERSION := 0.28.2
MATURIN_VERSION := 1.16.0
BINDGEN_VERSION = $(shell grep -A1 '^name = "wasm-bindgen"$$' Cargo.lock | sed -n 's/version = "\(.*\)"/\1/p')
# A prebuilt tool takes seconds where cargo-binstall is there to fetch it.
BINSTALL := cargo binstall --no-confirm --disable-strategies compile
# Else it is built, once, and used briefly: a third of the time at a lower optimisation.
QUICK := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT := DEBIAN_FRONTEND=noninteractive apt-get

# Where Python's packages are installed for the tests of ours.
VENV := $(CURDIR)/target/python

# How long `make fuzz` looks at each parser, and `make soak` trains, natively and then in a tab.
FUZZ_SECONDS ?= 300
SOAK_MINUTES ?= 10

# Set where the core with threads can be built: see web/threads.mjs.
export NEARFAR_THREADS = $(shell ls "$$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" >/dev/null 2>&1 && echo 1)

.PHONY: serve test test-native test-page check page wheel test-wheel test-python venv hardware deny fuzz soak faults wasm-target rust-src trunk cargo-deny wasm-bindgen wasm-opt esbuild vulkan python chromium browser

serve: wasm-target rust-src trunk wasm-bindgen
	trunk serve

# The page as it is published: dist/ works from any folder of any host. Its first load is held to tests/browser/size.json. It is tried without
# its host, too: its core is in two parts, and the one that `make test` builds is in one.
page: wasm-target rust-src trunk wasm-bindgen wasm-opt esbuild chromium
	trunk build --release
	@node tests/browser/size.mjs dist
	@cd tests/browser && node run.mjs offline

# Says how long a part took.
TIMED = TIMEFORMAT='$@: $(1) took %0lR.'; time

test: test-native test-page

test-native: vulkan python
	@$(call TIMED,building the native tests) cargo test --no-run
	@$(call TIMED,the native tests) cargo test

# The page, and its tests in browsers: all of them, or those that FILES names.
test-page: wasm-target rust-src trunk wasm-bindgen vulkan python browser
	@$(call TIMED,building the page) { cargo build --bin nearfar && trunk build; }
	@$(call TIMED,the tests in browsers) npm --prefix tests/browser test -- $(FILES)

# The inner loop, minutes once all was built: format, lints, unit tests, a step on both engines beside PML's, and the page as it was
# built last, if it was.
check: vulkan
	cargo fmt --all --check
	@$(call TIMED,clippy) cargo clippy -- -D warnings
	@$(call TIMED,unit tests) cargo test --lib --bins
	@$(call TIMED,traces and the order of rooms) cargo test --test library -- trace:: graph::
	@[ ! -d dist ] || [ ! -d tests/browser/node_modules ] || { cd tests/browser && $(call TIMED,a test in a browser) node run.mjs demo; }

# The Python package of this platform, for every Python from 3.10 on: python/dist/nearfar-*.whl.
wheel: venv
	$(VENV)/bin/pip install --quiet "maturin==$(MATURIN_VERSION)"
	cd python && $(VENV)/bin/maturin build --release --out dist

# The wheel in an environment with NumPy alone, and what an index would say of it: a minute after `make wheel`, which takes several.
test-wheel: wheel
	rm -rf target/wheel && python3 -m venv target/wheel
	target/wheel/bin/pip install --quiet numpy "$$(ls -t python/dist/*.whl | head -1)"
	target/wheel/bin/python python/tests/smoke.py
	$(VENV)/bin/pip install --quiet "twine>=6" "abi3audit>=0.0.26"
	$(VENV)/bin/twine check --strict "$$(ls -t python/dist/*.whl | head -1)"
	$(VENV)/bin/abi3audit --strict "$$(ls -t python/dist/*.whl | head -1)"

# Installs the package, with what it works with and is compared with (torch, PML, sentence-transformers, Lightning, AnnData: 4 GB where torch
# brings CUDA), and runs its tests.
test-python: vulkan venv
	@$(call TIMED,installing torch and what else it works with) { $(VENV)/bin/pip install --quiet "uv>=0.13,<0.14" && \
	  $(VENV)/bin/uv pip install --quiet --system-certs --python $(VENV)/bin/python "maturin==$(MATURIN_VERSION)" -r python/tests/requirements.txt; }
	@$(call TIMED,building the Python package) { cd python && VIRTUAL_ENV=$(VENV) $(VENV)/bin/maturin develop --quiet; }
	@$(call TIMED,building the command line) cargo build --bin nearfar
	cd python && $(VENV)/bin/mypy
	@$(call TIMED,the tests of the Python package) { cd python && NEARFAR_TEST_ALL=1 $(VENV)/bin/python -m pytest -q; }

venv: python
	@[ -x $(VENV)/bin/pip ] || python3 -m venv $(VENV) 2>/dev/null || { \
	  echo "Installing Python's venv (under a minute) .."; \
	  rm -rf $(VENV); $(ROOT) $(APT) update -q && $(ROOT) $(APT) install -yq python3-venv && python3 -m venv $(VENV) || \
	    { echo "Python's venv is missing and may not be installed here: install python3-venv, then run make again."; exit 1; }; }

# A folder to carry to a machine with a GPU, with a release build of what `run` in it starts there.
hardware: python
	python3 tests/hardware/collect target/hardware

# Looks for bytes that bring a parser down, five minutes each: 75 in all. It needs a nightly Rust, which alone has what guides it.
fuzz:
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
	  echo "Installing a nightly Rust and cargo-fuzz (a few minutes) .."; \
	  rustup toolchain install nightly --profile minimal && $(QUICK) cargo install cargo-fuzz --locked || \
	    { echo "They may not be installed here: run 'rustup toolchain install nightly' and 'cargo install cargo-fuzz' where they may."; exit 1; }; }
	for target in $$(ls fuzz/fuzz_targets | sed 's/\.rs$$//'); do \
	  cargo +nightly fuzz run $$target --sanitizer none -- -malloc_limit_mb=64 -rss_limit_mb=512 -max_total_time=$(FUZZ_SECONDS); \
	done

# Trains without end on both engines, natively and in a tab, does everything else a tab does in turn, and prints what processes hold.
soak: vulkan python browser page
	cargo build --release --bin nearfar
	python3 tests/soak/run target/release/nearfar --minutes $(SOAK_MINUTES)
	cd tests/browser && NEARFAR_SOAK_MINUTES=$(SOAK_MINUTES) node run.mjs soak

# Plants thirty faults in the code, one at a time, and demands that a test fails at each: see tests/faults/run. An hour or two.
faults: vulkan python
	python3 tests/faults/run

# Holds the dependencies to deny.toml. What is known against them stands in a database on GitHub, which not every network reaches.
deny: cargo-deny
	cargo deny --workspace --locked check -D unmatched-skip -D unnecessary-skip bans licenses sources
	@if cargo deny fetch db 2>/dev/null; then cargo deny --workspace --locked check advisories; \
	else echo "Advisories were NOT checked: their database could not be fetched. Run make deny where GitHub can be reached."; fi

wasm-target:
	@rustup target list --installed | grep -q wasm32-unknown-unknown || { \
	  echo "Installing the WebAssembly target of Rust (a few seconds) .."; \
	  rustup target add wasm32-unknown-unknown || \
	    { echo "The WebAssembly target may not be installed here: run 'rustup target add wasm32-unknown-unknown' where it may."; exit 1; }; }

# Rust's standard library as source, from which the one with threads is compiled.
rust-src:
	@[ -n "$(NEARFAR_THREADS)" ] || { \
	  echo "Installing the source of Rust's standard library, for the core with threads (a few seconds) .."; \
	  rustup component add rust-src || \
	    echo "It may not be installed here: the page is built without its core with threads. 'rustup component add rust-src' installs it."; }

trunk:
	@trunk --version 2>/dev/null | grep -q ' $(TRUNK_VERSION)$$' || { \
	  echo "Installing trunk $(TRUNK_VERSION), which builds the page (seconds with cargo-binstall, else 2 to 7 minutes) .."; \
	  $(BINSTALL) --force trunk@$(TRUNK_VERSION) 2>/dev/null || $(QUICK) cargo install trunk --version $(TRUNK_VERSION) --locked --force || \
	    { echo "trunk may not be installed here: run 'cargo install trunk --version $(TRUNK_VERSION) --locked' where it may."; exit 1; }; }

cargo-deny:
	@cargo deny --version 2>/dev/null | grep -q ' $(DENY_VERSION)$$' || { \
	  echo "Installing cargo-deny $(DENY_VERSION), which looks at dependencies (seconds with cargo-binstall, else 2 to 5 minutes) .."; \
	  $(BINSTALL) --force cargo-deny@$(DENY_VERSION) 2>/dev/null || $(QUICK) cargo install cargo-deny --version $(DENY_VERSION) --locked --force || \
	    { echo "cargo-deny may not be installed here: run 'cargo install cargo-deny --version $(DENY_VERSION) --locked' where it may."; exit 1; }; }

wasm-bindgen:
	@wasm-bindgen --version 2>/dev/null | grep -q ' $(BINDGEN_VERSION)$$' || { \
	  echo "Installing wasm-bindgen $(BINDGEN_VERSION), the version in Cargo.lock (seconds with cargo-binstall, else 1 to 4 minutes) .."; \
	  $(BINSTALL) --force wasm-bindgen-cli@$(BINDGEN_VERSION) 2>/dev/null || $(QUICK) cargo install wasm-bindgen-cli --version $(BINDGEN_VERSION) --no-default-features --force || \
	    { echo "wasm-bindgen may not be installed here: run 'cargo install wasm-bindgen-cli --version $(BINDGEN_VERSION)' where it may."; exit 1; }; }

wasm-opt:
	@wasm-opt --version 2>/dev/null | grep -q '^wasm-opt version $(BINARYEN_VERSION)\b' || { \
	  echo "Installing wasm-opt of binaryen $(BINARYEN_VERSION), which makes the core smaller (a few seconds) .."; \
	  npm install --global --no-audit --no-fund binaryen@$(BINARYEN_VERSION) || $(ROOT) npm install --global --no-audit --no-fund binaryen@$(BINARYEN_VERSION) || \
	    { echo "wasm-opt may not be installed here: run 'npm install --global binaryen@$(BINARYEN_VERSION)' where it may."; exit 1; }; }

esbuild:
	@esbuild --version 2>/dev/null | grep -q '^$(ESBUILD_VERSION)$$' || { \
	  echo "Installing esbuild $(ESBUILD_VERSION), which makes scripts and the style sheet smaller (a few seconds) .."; \
	  npm install --global --no-audit --no-fund esbuild@$(ESBUILD_VERSION) || $(ROOT) npm install --global --no-audit --no-fund esbuild@$(ESBUILD_VERSION) || \
	    { echo "esbuild may not be installed here: run 'npm install --global esbuild@$(ESBUILD_VERSION)' where it may."; exit 1; }; }

# A software GPU will do for every test; a real one will too.
vulkan:
	@[ "$$(uname)" != Linux ] || [ -n "$$(ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json 2>/dev/null)" ] || { \
	  echo "Installing Mesa's software Vulkan driver (under a minute) .."; \
	  $(ROOT) $(APT) update -q && $(ROOT) $(APT) install -yq libvulkan1 mesa-vulkan-drivers || \
	    { echo "A Vulkan driver is missing and may not be installed here: install mesa-vulkan-drivers and libvulkan1, then run make test again."; exit 1; }; }

python:
	@python3 --version >/dev/null 2>&1 || { \
	  echo "Installing Python 3 (under a minute) .."; \
	  $(ROOT) $(APT) update -q && $(ROOT) $(APT) install -yq python3 || \
	    { echo "Python 3 is missing and may not be installed here: install it, then run make test again."; exit 1; }; }

browser: chromium
	@[ -x "$${FIREFOX:-/usr/bin/firefox-esr}" ] || { \
	  echo "Installing Firefox (about a minute) .."; \
	  $(ROOT) $(APT) update -q && $(ROOT) $(APT) install -yq firefox-esr || \
	    { echo "Firefox is missing and may not be installed here: install it, or set FIREFOX to where it is, then run make test again."; exit 1; }; }

chromium:
	@[ -x "$${CHROMIUM:-/usr/bin/chromium}" ] || { \
	  echo "Installing Chromium (about a minute) .."; \
	  $(ROOT) $(APT) update -q && $(ROOT) $(APT) install -yq chromium || \
	    { echo "Chromium is missing and may not be installed here: install it, or set CHROMIUM to a browser that speaks its protocol, then run make again."; exit 1; }; }
	@(cd tests/browser/node_modules 2>/dev/null && ls -d playwright-core puppeteer-core axe-core) >/dev/null 2>&1 || { \
	  echo "Installing playwright-core and puppeteer-core, which drive the browsers, and axe-core, which looks for barriers (a few seconds) .."; \
	  (cd tests/browser && npm ci --no-audit --no-fund) || \
	    { echo "playwright-core, puppeteer-core and axe-core may not be installed here: run 'npm ci' in tests/browser where they may."; exit 1; }; }
