#!/usr/bin/env python3
"""Changes the engine in one small way after another, and runs tests until one fails.
usage: tools/mutants.py build          copies the source to target/mutants, puts every mutant into it, and builds the tests once
       tools/mutants.py run SECONDS    tries mutants that have no result yet, two at a time
       tools/mutants.py list           prints those that no test killed

cargo-mutants builds a program for each change, a minute each and 40 hours for these modules on two cores. Here one program has all of them, as
conditions of which UEXT4_MUTANT makes one true; what does not compile as one is left out and counted. Results: crates/testkit/results/mutants.jsonl."""
import concurrent.futures
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "target/mutants/tree"
BUILD = ROOT / "target/mutants/build"
LIST = ROOT / "target/mutants/list.json"
RESULTS = ROOT / "crates/testkit/results/mutants.jsonl"
# The journal, the allocators, orphans, recovery, extents, rename, and what errors become.
MODULES = [
    "crates/jbd2/src",
    "crates/ext4/src/block_allocator",
    "crates/ext4/src/inode_allocator",
    "crates/ext4/src/group",
    "crates/ext4/src/orphans.rs",
    "crates/ext4/src/deletion",
    "crates/ext4/src/mount",
    "crates/ext4/src/mapping/extents",
    "crates/ext4/src/namei/rename.rs",
    "crates/ext4/src/error.rs",
    "crates/ext4/src/errno.rs",
    "crates/ext4/src/volume",
]
CHOICE = """
/// Whether a mutant is chosen.
pub fn mutant(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var("UEXT4_MUTANT").ok()?.parse().ok();
    *CHOSEN.get_or_init(|| read().unwrap_or(0)) == number
}
"""
# Programs, fastest first, and the seconds that each may take: some changes make a loop endless.
TESTS = [
    ("uext4_jbd2", [], 60),
    ("uext4_ext4", [], 60),
    ("simulate", ["--seeds", "0..12", "--minimise", "0", "--jobs", "1"], 90),
    ("operations", [], 240),
    ("model", [], 240),
    ("crash", [], 400),
    ("damage", [], 400),
    ("fault", [], 400),
]
ENV = os.environ | {"RUSTFLAGS": "--cap-lints warn", "CARGO_TARGET_DIR": str(BUILD), "CARGO_INCREMENTAL": "0"}


def rewrite(skipped):
    """Puts the mutants into a fresh copy of the files: a list of them."""
    files = []
    for module in MODULES:
        path = ROOT / module
        found = [path] if path.is_file() else sorted(path.rglob("*.rs"))
        files += [str(f.relative_to(ROOT)) for f in found if f.name != "tests.rs" and "tests" not in f.parts]
    for name in files:
        shutil.copy(ROOT / name, TREE / name)
    named = [f"{name}:{','.join(map(str, sorted(skipped.get(name, []))))}" for name in files]
    program = ROOT / "target/debug/mutants"
    out = subprocess.run([program, "1", *named], cwd=TREE, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def cargo(args, env):
    """Builds; the programs by name, and the lines that do not compile."""
    run = subprocess.run(["cargo", *args, "--message-format=json"], cwd=TREE, env=env, capture_output=True, text=True)
    programs, wrong = {}, {}
    for line in run.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            programs[message["target"]["name"]] = message["executable"]
        if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
            for span in message["message"]["spans"]:
                if span["is_primary"]:
                    wrong.setdefault(span["file_name"], set()).add(span["line_start"])
    if run.returncode and not wrong:
        sys.exit(run.stderr[-3000:])
    return programs, wrong


def build():
    subprocess.run(["cargo", "build", "-p", "uext4-testkit", "--bin", "mutants"], cwd=ROOT, check=True)
    shutil.rmtree(TREE, ignore_errors=True)
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, names):
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, TREE / name)
    with open(TREE / "crates/sync/src/lib.rs", "a") as lib:
        lib.write(CHOICE)
    tests = [arg for name, _, _ in TESTS[3:] for arg in ("--test", name)]
    units = ["test", "--no-run", "--profile", "simulate", "-p", "uext4-jbd2", "-p", "uext4-ext4", "--lib"]
    whole = ["test", "--no-run", "--profile", "simulate", "-p", "uext4-testkit", *tests]
    shuttle = ["build", "--profile", "simulate", "-p", "uext4-testkit", "--bin", "simulate"]
    skipped = {}
    while True:
        mutants = rewrite(skipped)
        programs, wrong = cargo(units, ENV)
        if not wrong:
            more, wrong = cargo(whole, ENV)
            programs |= more
        if not wrong:
            more, wrong = cargo(shuttle, ENV | {"RUSTC_WORKSPACE_WRAPPER": str(ROOT / "tools/cfg/shuttle")})
            programs |= more
        if not wrong:
            break
        for name, lines in wrong.items():
            print(f"does not compile: {name}: {sorted(lines)}", flush=True)
            if lines <= skipped.get(name, set()):
                sys.exit(f"{name}: does not compile without mutants either")
            skipped.setdefault(name, set()).update(lines)
    left_out = sum(map(len, skipped.values()))
    LIST.write_text(json.dumps({"mutants": mutants, "programs": programs, "lines_left_out": left_out}))
    print(f"{len(mutants)} mutants; {left_out} lines left out, as theirs do not compile")


def key(mutant):
    return (mutant["file"], mutant["line"], mutant["function"], mutant["what"], mutant["nth"])


def numbered(mutants):
    """Numbers those that are alike in one line, so that a result is known again after a new build."""
    seen = {}
    for mutant in mutants:
        alike = (mutant["file"], mutant["line"], mutant["function"], mutant["what"])
        mutant["nth"] = seen[alike] = seen.get(alike, -1) + 1
    return mutants


def attempt(mutant, programs):
    """The test that kills a mutant, and whether it failed or took too long; two times None if none does."""
    env = ENV | {"UEXT4_MUTANT": str(mutant["id"]), "RUST_BACKTRACE": "0"}
    for name, args, seconds in TESTS:
        try:
            run = subprocess.run(
                [programs[name], *args], cwd=TREE / "crates/testkit", env=env, timeout=seconds,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return name, "took too long"
        if run.returncode:
            return name, "failed"
    return None, None


def results():
    if not RESULTS.exists():
        return {}
    return {key(line): line for line in map(json.loads, RESULTS.read_text().splitlines())}


def run(seconds):
    built = json.loads(LIST.read_text())
    mutants, programs, done = numbered(built["mutants"]), built["programs"], results()
    # Without a mutant, all pass, also two at a time.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, how in pool.map(lambda _: attempt({"id": 0}, programs), range(2)):
            if name:
                sys.exit(f"without a mutant, {name} {how}")
    # What is no longer in the source counts no more.
    known = {key(mutant) for mutant in mutants}
    done = {place: line for place, line in done.items() if place in known}
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in done.values()))
    end = time.monotonic() + seconds
    left = [mutant for mutant in mutants if key(mutant) not in done]
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()

    def one(mutant):
        if time.monotonic() < end:
            killer, how = attempt(mutant, programs)
            line = {name: mutant[name] for name in ("file", "line", "function", "what", "nth")}
            with open(RESULTS, "a") as out:
                out.write(json.dumps(line | {"killed_by": killer, "how": how, "date": date}) + "\n")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, left))
    done = [results().get(key(mutant)) for mutant in mutants]
    tried = [line for line in done if line]
    killed = sum(line["killed_by"] is not None for line in tried)
    late = sum(line["how"] == "took too long" for line in tried)
    print(f"{len(mutants)} mutants, {len(tried)} tried, {killed} killed, {late} of them as a test took too long")


def survivors():
    for line in results().values():
        if line["killed_by"] is None:
            print(f"{line['file']}:{line['line']}: {line['function']}: {line['what']}")


match sys.argv[1:]:
    case ["build"]:
        build()
    case ["run", seconds]:
        run(int(seconds))
    case ["list"]:
        survivors()
    case _:
        sys.exit(__doc__)
