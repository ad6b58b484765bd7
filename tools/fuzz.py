#!/usr/bin/env python3
"""Fuzzes on both cores, a target after the other, and notes what that came to.
usage: tools/fuzz.py SECONDS [TARGET...]

Inputs that are worth keeping stay in fuzz/corpus; what fails is in fuzz/artifacts, and the exit status is 1. Results: a line for each target in
crates/testkit/results/fuzz.jsonl, with the seconds since its last finding."""
import datetime
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "crates/testkit/results/fuzz.jsonl"
BUILD = ["cargo", "+nightly", "fuzz", "build", "--sanitizer", "none"]
# Far more than an input takes, and than the images.
LIMITS = ["-timeout=30", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=600"]


def said(*args):
    return subprocess.run(args, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def fuzz(target, seconds):
    """Runs a target: its executions, coverage, corpus and findings."""
    corpus, artifacts = (ROOT / "fuzz" / name / target for name in ("corpus", "artifacts"))
    for path in (corpus, artifacts):
        path.mkdir(parents=True, exist_ok=True)
    before = set(artifacts.iterdir())
    program = ROOT / "fuzz/target/x86_64-unknown-linux-gnu/release" / target
    run = subprocess.run(
        [program, corpus, "-fork=2", f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/", *LIMITS],
        cwd=ROOT / "fuzz", capture_output=True, text=True, errors="replace")
    last = [line for line in run.stderr.splitlines() if re.match(r"#\d+: cov: ", line)]
    number = lambda name: int(re.search(name + r":? (\d+)", last[-1])[1]) if last else 0
    found = sorted(path.name for path in set(artifacts.iterdir()) - before)
    if run.returncode or found:
        (artifacts / "log").write_text(run.stderr)
    executions = int(re.match(r"#(\d+)", last[-1])[1]) if last else 0
    return {"executions": executions, "edges": number("cov"), "inputs": number("corp"), "found": found}


def main():
    seconds, names = int(sys.argv[1]), sys.argv[2:]
    targets = names or sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))
    subprocess.run(BUILD, cwd=ROOT, check=True)
    lines = {}
    if RESULTS.exists():
        lines = {line["target"]: line for line in map(json.loads, RESULTS.read_text().splitlines())}
    failed = False
    for target in targets:
        done = fuzz(target, seconds)
        old = lines.get(target, {"seconds": 0, "executions": 0, "findings": 0, "seconds_since": 0})
        lines[target] = {
            "target": target,
            "seconds": old["seconds"] + seconds,
            "seconds_since": 0 if done["found"] else old["seconds_since"] + seconds,
            "executions": old["executions"] + done["executions"],
            "edges": done["edges"],
            "inputs": done["inputs"],
            "findings": old["findings"] + len(done["found"]),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "commit": said("git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"),
        }
        print(json.dumps(lines[target] | {"found": done["found"]}), flush=True)
        RESULTS.write_text("".join(json.dumps(lines[name]) + "\n" for name in sorted(lines)))
        failed |= bool(done["found"])
    sys.exit(failed)


main()
