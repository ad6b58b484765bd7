# make demo    an image from a real tree: built, checked, read back, measured beside mke2fs -d; then
#              every workload and arm for a moment, as one page: target/report/report.html
# make test    every test (kernel mounts and loop devices where the machine has them)
# make page    the page of the benchmarks in Chromium, which it installs: a minute
# make check   formatting, clippy and documentation, warnings denied
# make crash   the crash tests at full length
# make explore what power losses leave, state by state: goes on where crates/testkit/results ends, for EXPLORE_SECONDS
# make nightly the tests at full length: the fault sweep, make crash, the whole matrix, the soak, then make explore; three hours
# make bench   every workload and arm at length, beside the peers: half an hour, target/report-full/report.html
# make regress the quick run of all workloads beside figures kept before: reported, never failing on a time
# make baseline keeps the figures of such a run as those to compare with
# make tsan    the stress test under ThreadSanitizer, on nightly
# make soak    message queue namespaces by the ten thousand, for five minutes: nothing lost, nothing left
# make shuttle lock protocols, up to the whole file system, schedule by schedule
# make loom    lock-free protocols in every order that the memory model allows
# make docs    regenerates docs/LOCKING.md and the evidence in docs/TESTING.md
SHELL := /bin/bash
export CARGO_TERM_COLOR ?= auto

EXPLORE_SECONDS ?= 3600
# The command, and beside it the program that `uext4 bench` executes.
BUILD_BENCH = cargo build --release -p uext4-cli -p uext4-bench

.PHONY: demo test page check crash explore nightly bench regress baseline tsan soak shuttle loom docs setup

setup:
	@tools/setup.sh

demo: setup
	$(BUILD_BENCH)
	tools/demo.sh target/release/uext4

test: setup
	cargo test --workspace
	$(MAKE) shuttle loom

page:
	@tools/setup.sh page
	cargo test -p uext4-bench --test page -- --ignored

check: setup
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

crash: setup
	UEXT4_CRASH_RUNS=1000 cargo test --release -p uext4-testkit --test crash random_workloads:: -- --nocapture

explore: setup
	cargo run --release -p uext4-testkit --bin explore -- run --seconds $(EXPLORE_SECONDS)
	$(MAKE) docs

nightly: setup
	rm -f crates/testkit/results/faults.jsonl
	UEXT4_FAULT_SWEEP=1 UEXT4_RESULTS=$(CURDIR)/crates/testkit/results/faults.jsonl \
	cargo test --release -p uext4-testkit --test fault every_device_call::
	UEXT4_MATRIX=1 cargo test --release -p uext4-testkit --test kernel matrix::
	$(MAKE) crash soak explore

bench: setup
	$(BUILD_BENCH)
	target/release/uext4 bench all --report target/report-full

regress: setup
	$(BUILD_BENCH)
	target/release/uext4 bench all --quick --report target/report
	target/release/uext4 bench compare tools/baseline.json target/report/report.json

baseline: setup
	$(BUILD_BENCH)
	target/release/uext4 bench all --quick --report target/report
	tools/baseline.py target/report/report.json > tools/baseline.json

tsan: setup
	RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" UEXT4_STRESS_SECONDS=20 \
	TSAN_OPTIONS="halt_on_error=0 suppressions=$(CURDIR)/tools/tsan.supp" \
	cargo +nightly test --target x86_64-unknown-linux-gnu --target-dir target/tsan -p uext4-testkit --test model stress -- --nocapture

soak: setup
	UEXT4_SOAK_SECONDS=300 UEXT4_SOAK_NAMESPACES=10000 cargo test --release -p uext4-testkit --test mqueue_soak -- --nocapture

shuttle:
	RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle -p uext4-testkit --test schedule

loom:
	RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p uext4-ext4 --lib --test loom_bitmap loom_

docs:
	UEXT4_WRITE_DOCS=1 cargo test -p uext4-sync --lib class::tests::locking_md_is_current
	UEXT4_WRITE_DOCS=1 cargo test -p uext4-testkit --lib evidence::tests::testing_md_is_current
