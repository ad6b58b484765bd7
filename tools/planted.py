#!/usr/bin/env python3
"""Plants the bugs of crates/testkit/planted.json, one after the other, and counts how many seeds the simulation takes to find each.
usage: tools/planted.py [NAME...]    all bugs, or those named

A bug replaces one text of one file, in a copy of the tracked files below target/planted/tree. The outcome of each is a line of
crates/testkit/results/planted.jsonl, which replaces an older one. The unchanged copy must pass first. A bug that is not found within 1,000
seeds, or that only the time limit ends, fails the script."""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "target/planted/tree"
BUILD = ROOT / "target/planted/build"
BUGS = ROOT / "crates/testkit/planted.json"
RESULTS = ROOT / "crates/testkit/results/planted.jsonl"
SEEDS = 1000
CONTROL_SEEDS = 250
SECONDS = 15 * 60
MESSAGE_CHARS = 160


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def copy_tree():
    """Makes the copy what the tracked files are; what has not changed keeps its time, and is not built again."""
    tracked = [name for name in git("ls-files", "-z").split("\0") if name and (ROOT / name).is_file()]
    old = {path for path in TREE.rglob("*") if path.is_file()}
    for path in old - {TREE / name for name in tracked}:
        path.unlink()
    for name in tracked:
        source, copy = ROOT / name, TREE / name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
            copy.chmod(source.stat().st_mode)


def build():
    command = ["cargo", "build", "--quiet", "--profile", "simulate", "--target-dir", BUILD, "-p", "uext4-testkit", "--bin", "simulate"]
    environment = os.environ | {
        "RUSTC_WORKSPACE_WRAPPER": str(TREE / "tools/cfg/shuttle"),
        # A bug changes a line: most of a crate is not compiled again.
        "CARGO_PROFILE_SIMULATE_INCREMENTAL": "true",
        "CARGO_PROFILE_SIMULATE_CODEGEN_UNITS": "256",
        "CARGO_PROFILE_SIMULATE_DEBUG": "0",
    }
    built = subprocess.run(command, cwd=TREE, env=environment, stderr=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(f"does not compile:\n{built.stderr}")


def simulate(seeds):
    """The seed that failed and what it said; None if all passed. What else ends the program, or its time, is said with no seed."""
    command = [BUILD / "simulate/simulate", "--seeds", f"0..{seeds}", "--minimise", "0", "--jobs", "2"]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, "not found: the simulation did not end in time"
    if run.returncode == 0:
        return None, f"not found in {seeds} seeds"
    seed = re.search(r"^  simulate --seed (\d+)", run.stdout, re.M)
    message = re.search(r"^failed: (.*)", run.stdout, re.M)
    if seed is None or message is None:
        return None, f"not reported: the simulation ended with {run.returncode}"
    return int(seed[1]), message[1][:MESSAGE_CHARS]


def try_bug(bug):
    path = TREE / bug["file"]
    text = path.read_text()
    if text.count(bug["old"]) != 1:
        sys.exit(f"{bug['name']}: the text to replace is in {bug['file']} {text.count(bug['old'])} times")
    path.write_text(text.replace(bug["old"], bug["new"]))
    try:
        build()
        return simulate(SEEDS)
    finally:
        path.write_text(text)


def record(bugs, line):
    lines = [json.loads(old) for old in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    by_name = {old["name"]: old for old in lines} | {line["name"]: line}
    kept = [by_name[bug["name"]] for bug in bugs if bug["name"] in by_name]
    RESULTS.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept))


def main(names):
    bugs = json.loads(BUGS.read_text())
    unknown = set(names) - {bug["name"] for bug in bugs}
    if unknown:
        sys.exit(f"no such bugs: {', '.join(sorted(unknown))}")
    copy_tree()
    build()
    seed, message = simulate(CONTROL_SEEDS)
    if seed is not None or not message.startswith("not found in"):
        sys.exit(f"the unchanged tree fails: {message}")
    commit = git("rev-parse", "--short=10", "HEAD").strip()
    table, missed = [], False
    for bug in bugs:
        if names and bug["name"] not in names:
            continue
        seed, message = try_bug(bug)
        seeds = None if seed is None else seed + 1
        line = {key: bug[key] for key in ("name", "what", "race")}
        line |= {"seeds": seeds, "message": message, "date": datetime.date.today().isoformat(), "commit": commit}
        record(bugs, line)
        missed |= seeds is None
        table.append(f"{bug['name']:40} {'race' if bug['race'] else '':5} {seeds or '-':>5}  {message}")
        print(table[-1], flush=True)
    print("\n" + "\n".join(table))
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
