# Durations are of a machine with two cores whose dependencies are built; a first build adds about five minutes.
#
# make quick    after a change: format, clippy and unit tests of the packages that differ from main; about a minute
# make check    formatting, clippy and documentation, warnings denied; about two minutes
# make deny     licences, duplicates and sources of the dependencies, where they changed; seconds, and a minute where it installs cargo-deny;
#               with ADVISORIES=1 their advisories, from GitHub
# make test     every test but those of the benchmarks (kernel mounts and loop devices where the machine has them); about fourteen minutes
# make api      the library's interface beside tools/api.json.gz, the packages as crates.io takes them, other targets; about two
#               minutes, and three to eight more where the interface changed and it installs cargo-semver-checks
# make cinstall  the C library as cargo-c installs it: header, soname and uext4.pc beside those of make install, an example linked with each library;
#               about four minutes, and five more where it installs cargo-c
# make page     the page of the benchmarks in Chromium, which it installs; about a minute
# make demo     an image from a real tree: built, checked, read back, measured beside mke2fs -d; then every workload
#               and variant for a moment, as one page, target/report/report.html; about five minutes
# make regress  the quick run of all workloads beside figures kept before: reported, never failing on a time;
#               about three minutes
# make baseline keeps the figures of such a run as those to compare with; about three minutes
# make bench    every workload and variant at length, beside the peers: target/report-full/report.html; about half an hour
# make shuttle  lock protocols, up to the whole file system, schedule by schedule; about four minutes
# make loom     lock-free protocols in every order that the memory model allows; about a minute
# make conflicts  which cache lines two calls share, on virtual CPUs; about a minute, and three more with its build
# make transfers  how many cache lines move, and locks are waited for, on 1 to 256 virtual CPUs; writes what the page of the
#               benchmarks shows; about ten minutes with its build
# make tsan     the stress test under ThreadSanitizer, on nightly; about five minutes with its build
# make asan     what has unsafe code under AddressSanitizer, on nightly: devices, transports, clients, a mounted server; about six minutes
# make miri     the lock-free parts of crates/sync under Miri, on nightly, which it completes; about five minutes
# make python   the wheel of the Python package, installed in a clean environment, with its tests and how reads scale with threads; PARQUET=1 with pandas, zarr, dask and S3;
#               about four minutes with its build
# make go       the Go module over the C library: go vet, tests with the race detector, an empty image of 20 GB; COMPARE=1 beside go-diskfs, which it
#               downloads; skipped where Go is not installed; about two minutes, and four more with its build
# make test-remote  images of Ceph and S3, on a cluster that it starts on this machine and whose packages it installs, and of NBD servers; about
#               ten minutes with its build
# make age      an image that is filled, aged and emptied for AGE_SECONDS, ten minutes, with e2fsck after each round
# make crash    the crash tests at full length; about half an hour
# make soak     message queue namespaces by the ten thousand: nothing lost, nothing left; about five minutes
# make explore  what crashes leave, state by state: continues where crates/testkit/results ends; EXPLORE_SECONDS, an hour
# make simulate  mounts simulated from seeds, as many as the results do not have yet: schedule, faults, power losses, clock; SIMULATE_SECONDS,
#               ten minutes
# make planted  plants bugs in a copy of the source and counts the seeds that the simulation takes to find each; PLANTED names some;
#               about ten minutes with its build
# make fuzz     each fuzz target on both cores for FUZZ_SECONDS, ten minutes; nightly and cargo-fuzz, which it installs
# make mutants  changes the journal, allocators, orphans, recovery, extents, rename and errors in one way after the other, until a test fails;
#               continues where the results end; MUTANTS_SECONDS, half an hour, and a quarter more with its build
# make guest    images of a Debian system, of an archive, of layers and with dm-verity, boot in a QEMU guest, which it installs; about ten minutes
# make windows  uext4.exe under Wine: images, trees and archives in and out, beside e2fsck and debugfs; it installs Wine and mingw-w64; about four minutes
# make nightly  the tests at full length: the fault sweep, the whole matrix, the benchmarks' own, make conflicts, regress, guest, windows, crash, soak, explore,
#               simulate, fuzz and age, sanitizers;
#               about six hours
# make docs     regenerates docs/LOCKING.md, docs/HABITS.md and the evidence in docs/TESTING.md; about a minute
# make site     the documentation as a site, target/site, with links that lead somewhere; seconds, and five minutes where it installs mdbook
# make install  the command, man pages, completions, libuext4 and libuext4_mq.so with their headers below PREFIX, /usr/local by default;
#               about three minutes
# make dist     what a release consists of, in target/dist: source, static program, container image, Debian package, wheel, bill of materials, sums;
#               about half an hour
# make dist-check  these packages, tried where nothing else is: a minimal Debian system, an empty root, a container; about four minutes
# make install-e2fsprogs-names  links in DIR by which the installed command is mke2fs, e2fsck and the like, with their man pages; files that are there stay
# make setup    installs the programs that the tests compare with, and prints which; a minute, nothing where they are there
SHELL := /bin/bash
export CARGO_TERM_COLOR ?= auto

EXPLORE_SECONDS ?= 3600
SIMULATE_SECONDS ?= 600
FUZZ_SECONDS ?= 600
MUTANTS_SECONDS ?= 1800
AGE_SECONDS ?= 600
PREFIX ?= /usr/local
# The command, and beside it the program that `uext4 bench` executes.
BUILD_BENCH = cargo build --release -p uext4-cli -p uext4-bench

.PHONY: quick deny api cinstall install install-e2fsprogs-names dist dist-check demo test python go test-remote page check crash explore guest windows nightly bench regress baseline tsan asan miri age soak shuttle loom simulate planted mutants fuzz conflicts transfers docs site setup

setup:
	@tools/setup.sh

quick:
	@tools/quick.sh

deny:
	@tools/deny.sh

api:
	@tools/api.sh

cinstall:
	@tools/cinstall.sh

# BUILT names what Cargo built already, for packages and for `sudo make install BUILT=target/release`.
install:
ifndef BUILT
	cargo build --release -p uext4-cli -p uext4-mq -p uext4-c
endif
	tools/install.sh $(or $(BUILT),target/release) $(PREFIX)

dist:
	tools/dist.sh

dist-check:
	tools/dist-check.sh

# COMMAND is the command as it is installed.
install-e2fsprogs-names:
	@tools/names.sh $(or $(COMMAND),$(PREFIX)/bin/uext4) "$(DIR)" "$(or $(MANDIR),$(PREFIX)/share/man)"

demo: setup
	$(BUILD_BENCH)
	tools/demo.sh target/release/uext4

# All but the benchmarks, whose tests make nightly runs. Their features would be those of others too.
TESTED = --workspace --exclude uext4-bench

# Tests wait for devices and clocks: beside most of them schedules are explored, then habits, kernel, mounts and queues tested, by their first letters.
test: setup
	cargo test $(TESTED) --no-run
	($(MAKE) shuttle loom && cargo test $(TESTED) --test '[h-m]*') & beside=$$!; \
	cargo test $(TESTED) --lib --bins --test '[!h-m]*' && cargo test $(TESTED) --doc || failed=1; \
	wait $$beside || failed=1; exit $${failed:-0}

python: setup
	@tools/python.sh

go: setup
	@tools/go.sh

test-remote:
	@tools/setup.sh remote
	cargo test -p uext4-testkit --features rbd,s3 --test device --test mount -- --ignored remote

page:
	@tools/setup.sh page
	cargo test -p uext4-bench --test page -- --ignored

check: setup
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml -- --check
	CUSTOM_LIBFUZZER_PATH=/dev/null cargo clippy --manifest-path fuzz/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target} --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

crash: setup
	UEXT4_CRASH_RUNS=1000 cargo test --release -p uext4-testkit --test crash random_workloads:: -- --nocapture

explore: setup
	cargo run --release -p uext4-testkit --bin explore -- run --seconds $(EXPLORE_SECONDS)
	$(MAKE) docs

guest:
	@tools/setup.sh guest
	UEXT4_GUEST=1 cargo test --release -p uext4-testkit --test guest -- --nocapture --test-threads=1

windows: setup
	@tools/windows.sh

nightly: setup
	rm -f crates/testkit/results/faults.jsonl
	UEXT4_FAULT_SWEEP=1 UEXT4_RESULTS=$(CURDIR)/crates/testkit/results/faults.jsonl \
	cargo test --release -p uext4-testkit --test fault every_device_call::
	UEXT4_MATRIX=1 cargo test --release -p uext4-testkit --test kernel -- matrix:: feature_pairs::
	UEXT4_MOMENTS=20 cargo test --release -p uext4-testkit --test command interrupted::
	UEXT4_CHANGED_ARCHIVES=1000 cargo test --release -p uext4-testkit --test archives fuzz_changed_archives
	UEXT4_REPAIR_IMAGES=400 UEXT4_REPAIR_KILLS=60 UEXT4_TUNE_SHARE=1 cargo test --release -p uext4-testkit --test repair
	UEXT4_HOST_SEEDS=10000 cargo test --release -p uext4-testkit --test device two_hosts:: -- --nocapture
	UEXT4_TAKEOVERS=1000 $(MAKE) test-remote
	PARQUET=1 $(MAKE) python
	COMPARE=1 $(MAKE) go
	ALWAYS=1 $(MAKE) deny api cinstall
	$(MAKE) dist dist-check
	cargo test --release -p uext4-bench
	$(MAKE) site conflicts regress guest windows crash soak explore simulate fuzz age tsan asan miri

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
	tools/sanitize.py thread

asan: setup
	tools/sanitize.py address

miri:
	tools/sanitize.py miri

age: setup
	cargo build --release -p uext4-bench
	target/release/uext4-bench age --seconds $(AGE_SECONDS) --results crates/testkit/results/aging.jsonl --charts docs/charts
	$(MAKE) docs

soak: setup
	UEXT4_SOAK_SECONDS=300 UEXT4_SOAK_NAMESPACES=10000 cargo test --release -p uext4-testkit --test mqueue_soak -- --nocapture

shuttle:
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tools/cfg/shuttle cargo test $(TESTED) --test schedule

simulate: setup
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tools/cfg/shuttle cargo run --profile simulate --target-dir target/simulate -p uext4-testkit --bin simulate -- \
	--seeds 0..1000000 --seconds $(SIMULATE_SECONDS) --results crates/testkit/results/simulation.jsonl
	$(MAKE) docs

planted: setup
	tools/planted.py $(PLANTED)
	$(MAKE) docs

mutants: setup
	tools/mutants.py build
	tools/mutants.py run $(MUTANTS_SECONDS)
	$(MAKE) docs

# What is explored is little code; the rest is built as fast as can be.
LOOM_PROFILE = --config profile.dev.package.uext4-sync.opt-level=3 \
	$(foreach crate,ondisk block jbd2 vfs ext4,--config profile.dev.package.uext4-$(crate).opt-level=0)
loom:
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tools/cfg/loom cargo test $(LOOM_PROFILE) -p uext4-sync -p uext4-ext4 --lib loom_

fuzz: setup
	command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	tools/fuzz.py $(FUZZ_SECONDS)
	$(MAKE) docs

conflicts:
	RUSTFLAGS="--cfg virtual_cpus" cargo test --profile conflicts --target-dir target/conflicts -p uext4-ext4 --lib virtual_cpus -- --test-threads=1
	RUSTFLAGS="--cfg virtual_cpus" cargo build --profile conflicts --target-dir target/conflicts -p uext4-bench
	target/conflicts/conflicts/uext4-bench conflicts --gate

transfers:
	RUSTFLAGS="--cfg shuttle --cfg virtual_cpus" cargo build --profile conflicts --target-dir target/transfers -p uext4-bench
	tools/transfers.py target/transfers/conflicts/uext4-bench bench/src/all/page/transfers.json

docs:
	UEXT4_WRITE_DOCS=1 cargo test -p uext4-sync --lib class::tests::locking_md_is_current
	UEXT4_WRITE_DOCS=1 cargo test -p uext4-testkit --lib evidence::tests::testing_md_is_current
	UEXT4_WRITE_DOCS=1 cargo test -p uext4-testkit --test habits the_document_is_current

site:
	cargo build --release -p uext4-cli
	@tools/site.sh target/release/uext4
