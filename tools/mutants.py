#!/usr/bin/env python3
"""Changes the engine in one small way after another, and runs tests until one fails.
usage: tools/mutants.py build [PROGRAM...]        copies the source to target/mutants, puts every mutant into it, builds the tests once, all or
                                                  those of the programs named, and notes which test reaches which mutant
       tools/mutants.py run SECONDS [PATH...]     tries mutants that have no result yet, two at a time, all or those below the paths
       tools/mutants.py again SECONDS [PATH...]   tries those again that no test killed
       tools/mutants.py list [PATH...]            prints those that no test killed and that are not listed

cargo-mutants builds a program for each change, a minute each and 40 hours for these modules on two cores. Here one program has all of them, as
conditions of which UEXT4_MUTANT makes one true; what does not compile as one is left out and counted. Results: crates/testkit/results/mutants.jsonl.
mutants_listed.jsonl beside it lists, with the reason, those that change nothing that a test could see."""
import concurrent.futures
import datetime
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "target/mutants/tree"
BUILD = ROOT / "target/mutants/build"
LIST = ROOT / "target/mutants/list.json"
REACHED = ROOT / "target/mutants/reached.json"
RESULTS = ROOT / "crates/testkit/results/mutants.jsonl"
LISTED = ROOT / "crates/testkit/results/mutants_listed.jsonl"
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
/// Whether a mutant is chosen; without a choice, those that are asked for are noted in UEXT4_REACHED.
pub fn mutant(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    static NOTES: std::sync::OnceLock<Option<std::fs::File>> = std::sync::OnceLock::new();
    static NOTED: [std::sync::atomic::AtomicBool; 8192] = [const { std::sync::atomic::AtomicBool::new(false) }; 8192];
    let read = || std::env::var("UEXT4_MUTANT").ok()?.parse().ok();
    let chosen = *CHOSEN.get_or_init(|| read().unwrap_or(0));
    if chosen == 0 && !NOTED[number as usize].swap(true, std::sync::atomic::Ordering::Relaxed) {
        let open = || std::fs::File::options().append(true).open(std::env::var("UEXT4_REACHED").ok()?).ok();
        if let Some(mut notes) = NOTES.get_or_init(open).as_ref() {
            let _ = std::io::Write::write_all(&mut notes, &number.to_le_bytes());
        }
    }
    chosen == number
}
"""
# Programs, and what they are called with where they have no list of tests.
UNITS = {"uext4_jbd2", "uext4_ext4"}
TESTS = {
    "uext4_jbd2": [], "uext4_ext4": [], "simulate": ["--seeds", "0..12", "--minimise", "0", "--jobs", "1"], "operations": [], "model": [],
    "crash": [], "damage": [], "fault": [], "concurrency": [], "verifier": [], "kernel": [],
}
# A mutant that has survived this many seconds of tests lives, and when it is tried again, this many.
FIRST, AGAIN = 20, 120
# Tests are run together up to this many seconds, and end after that many times what they took: some changes make a loop endless.
TOGETHER, PATIENCE = 2, 8
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


def build(names):
    subprocess.run(["cargo", "build", "-p", "uext4-testkit", "--bin", "mutants"], cwd=ROOT, check=True)
    shutil.rmtree(TREE, ignore_errors=True)
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, files):
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, TREE / name)
    with open(TREE / "crates/sync/src/lib.rs", "a") as lib:
        lib.write(CHOICE)
    wanted = set(names or TESTS)
    packages = [arg for name in UNITS if name in wanted for arg in ("-p", name.replace("_", "-"))]
    tests = [arg for name in sorted(wanted - UNITS - {"simulate"}) for arg in ("--test", name)]
    calls = [(["test", "--no-run", "--profile", "simulate", *packages, "--lib"], ENV)] if packages else []
    if tests:
        calls.append((["test", "--no-run", "--profile", "simulate", "-p", "uext4-testkit", *tests], ENV))
    if "simulate" in wanted:
        shuttle = ENV | {"RUSTC_WORKSPACE_WRAPPER": str(ROOT / "tools/cfg/shuttle")}
        calls.append((["build", "--profile", "simulate", "-p", "uext4-testkit", "--bin", "simulate"], shuttle))
    skipped = {}
    while True:
        mutants, programs, wrong = rewrite(skipped), {}, {}
        for args, env in calls:
            more, wrong = cargo(args, env)
            programs |= {name: program for name, program in more.items() if name in wanted}
            if wrong:
                break
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
    return (mutant["file"], mutant["function"], mutant["what"], mutant["nth"])


def numbered(mutants):
    """Numbers those that are alike in one function, so that a result is known again after a new build and when lines move."""
    seen = {}
    for mutant in mutants:
        alike = (mutant["file"], mutant["function"], mutant["what"])
        mutant["nth"] = seen[alike] = seen.get(alike, -1) + 1
    return mutants


def pieces(programs):
    """What runs alone: the arguments of each test, or of a program without a list."""
    for name, args in TESTS.items():
        if name not in programs:
            continue
        if args:
            yield name, args
            continue
        said = subprocess.run([programs[name], "--list"], cwd=TREE / "crates/testkit", capture_output=True, text=True, check=True).stdout
        for line in said.splitlines():
            if line.endswith(": test"):
                yield name, [line.removesuffix(": test")]


def call(name, programs, args, env, seconds):
    """Runs tests of a program: whether all passed, or None if they took too long."""
    exact = [] if TESTS[name] else ["--exact", "--test-threads", "1"]
    try:
        done = subprocess.run(
            [programs[name], *args, *exact], cwd=TREE / "crates/testkit", env=ENV | {"RUST_BACKTRACE": "0"} | env, timeout=seconds,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode == 0


def reach():
    """Runs each test without a mutant and notes which it reaches, and for how long it runs."""
    built = json.loads(LIST.read_text())
    programs = built["programs"]

    def one(piece):
        name, args = piece
        with tempfile.NamedTemporaryFile() as notes:
            start = time.monotonic()
            # Again, should it fail beside the other.
            passed = any(call(name, programs, args, {"UEXT4_REACHED": notes.name}, 600) for _ in range(3))
            seconds = time.monotonic() - start
            numbers = memoryview(notes.read()).cast("I")
        if not passed:
            print(f"left out, as it fails or takes too long: {name} {args[0]}", flush=True)
            return None
        return {"program": name, "args": args, "seconds": round(seconds, 3), "reached": sorted(set(numbers))}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tests = list(filter(None, pool.map(one, pieces(programs))))
    REACHED.write_text(json.dumps(sorted(tests, key=lambda test: test["seconds"])))
    reached = {number for test in tests for number in test["reached"]}
    print(f"{len(tests)} tests, {sum(test['seconds'] for test in tests):.0f} s; {len(reached)} of {len(built['mutants'])} mutants reached")


def batches(tests):
    """Tests of one program after the other, unit tests and then the fastest first, some at a time."""
    for units in (True, False):
        waiting = {}
        for test in tests:
            if (test["program"] in UNITS) != units:
                continue
            batch = waiting.setdefault(test["program"], [])
            batch.append(test)
            if sum(t["seconds"] for t in batch) > TOGETHER or TESTS[test["program"]]:
                yield waiting.pop(test["program"])
        yield from waiting.values()


def attempt(mutant, programs, tests, most):
    """The tests that kill a mutant, whether one failed or took too long, and the seconds that passed; None and why if none does."""
    spent = 0
    for batch in batches([test for test in tests if mutant["id"] in test["reached"]]):
        name, seconds = batch[0]["program"], sum(test["seconds"] for test in batch)
        args = batch[0]["args"] if TESTS[name] else [test["args"][0] for test in batch]
        start = time.monotonic()
        passed = call(name, programs, args, {"UEXT4_MUTANT": str(mutant["id"])}, seconds * PATIENCE + 10)
        spent += time.monotonic() - start
        if not passed:
            return name, "failed" if passed is False else "took too long", spent
        if spent > most:
            break
    return None, "survived" if spent else "not reached", spent


def read(path):
    return {key(line): line for line in map(json.loads, path.read_text().splitlines())}


def run(seconds, paths, again=False):
    built = json.loads(LIST.read_text())
    mutants, programs, done, listed = numbered(built["mutants"]), built["programs"], read(RESULTS), read(LISTED)
    if again:
        done = {place: line for place, line in done.items() if line["killed_by"] or not line["file"].startswith(paths)}
    tests = json.loads(REACHED.read_text())
    for test in tests:
        test["reached"] = set(test["reached"])
    # What is no longer in the source counts no more.
    known = {key(mutant) for mutant in mutants}
    done = {place: line for place, line in done.items() if place in known}
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in done.values()))
    end = time.monotonic() + seconds
    left = [mutant for mutant in mutants if key(mutant) not in done | listed and mutant["file"].startswith(paths)]
    # At random, so that a part of them says what all would; those that no test reaches come last.
    random.Random(0).shuffle(left)
    reached = set().union(*(test["reached"] for test in tests))
    left.sort(key=lambda mutant: mutant["id"] not in reached)
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()

    def one(mutant):
        if time.monotonic() < end:
            killer, how, spent = attempt(mutant, programs, tests, AGAIN if again else FIRST)
            line = {name: mutant[name] for name in ("file", "line", "function", "what", "nth")}
            with open(RESULTS, "a") as out:
                out.write(json.dumps(line | {"killed_by": killer, "how": how, "seconds": round(spent, 1), "date": date}) + "\n")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, left))
    tried = [line for place, line in read(RESULTS).items() if place in known]
    killed = sum(line["killed_by"] is not None for line in tried)
    late = sum(line["how"] == "took too long" for line in tried)
    print(f"{len(mutants)} mutants, {len(tried)} tried, {killed} killed, {late} of them as a test took too long; {len(listed.keys() & known)} listed")


def survivors(paths):
    listed = read(LISTED)
    for place, line in sorted(read(RESULTS).items()):
        if line["killed_by"] is None and place not in listed and line["file"].startswith(paths):
            print(f"{line['file']}:{line['line']}: {line['function']}: {line['what']}: {line['how']}")


match sys.argv[1:]:
    case ["build", *names]:
        build(names)
        reach()
    case ["run", seconds, *paths]:
        run(int(seconds), tuple(paths) or "")
    case ["again", seconds, *paths]:
        run(int(seconds), tuple(paths) or "", again=True)
    case ["list", *paths]:
        survivors(tuple(paths) or "")
    case _:
        sys.exit(__doc__)
