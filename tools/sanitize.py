#!/usr/bin/env python3
"""Runs tests under a sanitizer of the nightly toolchain, and notes what it found.
usage: tools/sanitize.py thread|address|miri...

Results: a line for each in crates/testkit/results/sanitizers.jsonl. The exit status is 1 if a sanitizer reported anything or a test failed."""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "crates/testkit/results/sanitizers.jsonl"
TARGET = "x86_64-unknown-linux-gnu"


def nightly(name, what, *args):
    return ["cargo", "+nightly", what, "--target", TARGET, "--target-dir", f"target/{name}", *args]


# What runs under each, with its variables.
RUNS = {
    "thread": [
        (
            nightly("tsan", "test", "-p", "uext4-testkit", "--test", "model", "stress", "--", "--nocapture"),
            {
                "RUSTFLAGS": "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
                "UEXT4_STRESS_SECONDS": "20",
                "TSAN_OPTIONS": f"halt_on_error=0 suppressions={ROOT}/tools/tsan.supp",
            },
        ),
    ],
    "address": [
        (nightly("asan", "test", "-p", "uext4-block", "-p", "uext4-fuse", "-p", "uext4-mqueue", "-p", "uext4-mq", "--lib"), {"RUSTFLAGS": "-Zsanitizer=address"}),
        (nightly("asan", "test", "-p", "uext4-testkit", "--test", "device"), {"RUSTFLAGS": "-Zsanitizer=address"}),
        (nightly("asan", "build", "-p", "uext4-cli"), {"RUSTFLAGS": "-Zsanitizer=address --cfg sanitized"}),
        (
            ["cargo", "test", "-p", "uext4-testkit", "--test", "mount", "fsx"],
            # The sanitizer's own address space is larger than what a server may have.
            {"UEXT4_BIN": f"{ROOT}/target/asan/{TARGET}/debug/uext4", "UEXT4_MOUNTED_OPTIONS": "memory=100000G"},
        ),
    ],
    "miri": [
        (["rustup", "component", "add", "--toolchain", "nightly", "miri", "rust-src"], {}),
        (["cargo", "+nightly", "miri", "test", "--target-dir", "target/miri", "-p", "uext4-sync", "--lib"], {"MIRIFLAGS": "-Zmiri-disable-isolation"}),
    ],
}
# How each begins a report.
REPORT = re.compile(r"WARNING: ThreadSanitizer|ERROR: (?:Address|Leak)Sanitizer|error: Undefined Behavior|error: memory leaked")


def said(*args):
    return subprocess.run(args, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def run(name):
    """Runs all of a sanitizer: its line of results."""
    passed = failed = reports = 0
    for command, variables in RUNS[name]:
        with subprocess.Popen(
            command, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                reports += bool(REPORT.search(line))
                if found := re.match(r"test result: \w+\. (\d+) passed; (\d+) failed", line):
                    passed, failed = passed + int(found[1]), failed + int(found[2])
        if process.returncode != 0:
            failed = max(failed, 1)
            break
    dirty = "-dirty" if said("git", "status", "--porcelain") else ""
    commit = said("git", "rev-parse", "--short=10", "HEAD") + dirty
    return {"sanitizer": name, "tests": passed, "failed": failed, "reports": reports, "date": str(datetime.date.today()), "commit": commit}


def main():
    names = sys.argv[1:]
    if not names or any(name not in RUNS for name in names):
        sys.exit(__doc__)
    lines = {}
    if RESULTS.exists():
        lines = {line["sanitizer"]: line for line in map(json.loads, RESULTS.read_text().splitlines())}
    for name in names:
        lines[name] = run(name)
        print(json.dumps(lines[name]), flush=True)
        RESULTS.write_text("".join(json.dumps(lines[name]) + "\n" for name in sorted(lines)))
    sys.exit(any(lines[name]["failed"] or lines[name]["reports"] for name in names))


main()
