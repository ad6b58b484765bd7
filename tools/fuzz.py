#!/usr/bin/env python3
"""Fuzzes on both cores, a target after the other, and notes what that came to.
usage: tools/fuzz.py SECONDS [TARGET...]
       tools/fuzz.py coverage [TARGET...]    runs the inputs that were kept, and counts the lines of each parser that they execute

Inputs that are worth keeping stay in fuzz/corpus; what fails is in fuzz/artifacts, and the exit status is 1. Results: a line for each target in
crates/testkit/results/fuzz.jsonl, with the time, of two CPUs, since its last finding, and one for each file in coverage.jsonl."""
import datetime
import json
import pathlib
import random
import re
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "crates/testkit/results/fuzz.jsonl"
COVERAGE = ROOT / "crates/testkit/results/coverage.jsonl"
# What parses the bytes that a target damages or writes.
PARSERS = {
    "archives": [
        "crates/build/src/source/archive/" + name
        for name in [
            "acl_text.rs", "attributes.rs", "compression.rs", "container.rs", "digest.rs", "layer.rs", "members.rs", "merge/finish.rs", "merge/mod.rs",
            "numbers.rs", "pax.rs", "sparse.rs", "spool.rs", "stream.rs"]],
    "attributes": ["crates/ondisk/src/xattr.rs", "crates/ondisk/src/xattr_list.rs", "crates/ondisk/src/acl.rs", "crates/ext4/src/attributes/"],
    "directories": ["crates/ondisk/src/dirent.rs", "crates/ondisk/src/htree.rs", "crates/ondisk/src/hash.rs", "crates/ext4/src/directory/"],
    "extents": [
        "crates/ondisk/src/extent.rs", "crates/ondisk/src/extent_node.rs", "crates/ondisk/src/block_map.rs", "crates/ext4/src/mapping/"],
    "fast_commit": ["crates/ondisk/src/fast_commit.rs", "crates/ext4/src/mount/fast_commit/"],
    "fuse": ["crates/fuse/src/abi/", "crates/fuse/src/request.rs", "crates/fuse/src/server/"],
    "image": [
        "crates/ondisk/src/raw_superblock.rs", "crates/ondisk/src/superblock.rs", "crates/ondisk/src/geometry.rs",
        "crates/ondisk/src/group_desc.rs", "crates/ondisk/src/inode.rs", "crates/ondisk/src/mmp.rs", "crates/ondisk/src/orphan_file.rs"],
    "inline": ["crates/ext4/src/inline/"],
    "queues": ["crates/mqueue/src/protocol.rs", "crates/mqueue/src/vfs_impl.rs", "crates/mqueue/src/node.rs"],
    "recovery": ["crates/ondisk/src/jbd2.rs", "crates/ondisk/src/jbd2_super.rs", "crates/ondisk/src/jbd2_tag.rs", "crates/jbd2/src/recovery.rs"],
}
# What no input reaches and no parser is: functions of such files that only write, only name something for a person, are the client's, or put
# directories of the host in place; and what sends to the kernel, as a target has no connection. docs/TESTING.md says so.
LEFT_OUT = {
    "crates/build/src/source/archive/merge/mod.rs": ["apply_scan"],
    "crates/ondisk/src/mmp.rs": ["encode_into"],
    "crates/ondisk/src/orphan_file.rs": ["orphan_block_init"],
    "crates/ondisk/src/raw_superblock.rs": ["zeroed", "set_\\w+", "label", "first_error"],
    "crates/ondisk/src/superblock.rs": ["uuid"],
    "crates/ondisk/src/jbd2_super.rs": ["names", "new_empty"],
    "crates/mqueue/src/protocol.rs": ["result_of", "received"],
    "crates/fuse/src/request.rs": ["fmt"],
    "crates/fuse/src/server/control.rs": ["statistics_json", "locks"],
    "crates/fuse/src/server/invalidation.rs": ["new", "drop_data", "wait", "invalidate_and_wait"],
    "crates/fuse/src/server/mod.rs": ["with_transport", "span", "stop"],
    "crates/fuse/src/server/nodes.rs": ["clear", "take_cached"],
}
HOST = "x86_64-unknown-linux-gnu"
BUILD = ["cargo", "+nightly", "fuzz", "build", "--sanitizer", "none"]
# A script of many operations.
LEN_MAX = 600
# Far more than an input takes, and than the images.
LIMITS = ["-timeout=30", "-rss_limit_mb=2048", "-malloc_limit_mb=512", f"-max_len={LEN_MAX}", "-len_control=0"]


def said(*args):
    return subprocess.run(args, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def cpu_seconds():
    """What the processes that ended took, so that a machine with other work counts only what it gave to this."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def was_slow_alone(program, path):
    """Whether an input takes too long on its own: beside other work it may have waited for a CPU. One that did not is removed."""
    if not path.name.startswith(("timeout-", "slow-unit-")) or subprocess.run([program, LIMITS[0], path], capture_output=True).returncode:
        return True
    path.unlink()
    return False


def fuzz(target, seconds):
    """Runs a target: its executions, coverage, corpus and findings."""
    corpus, artifacts = (ROOT / "fuzz" / name / target for name in ("corpus", "artifacts"))
    for path in (corpus, artifacts):
        path.mkdir(parents=True, exist_ok=True)
    # Scripts at random to begin with: what libFuzzer makes from nothing ends before most operations.
    draw = random.Random(target)
    for number in range(64):
        (corpus / f"first-{number}").write_bytes(draw.randbytes(LEN_MAX))
    before = set(artifacts.iterdir())
    program = ROOT / f"fuzz/target/{HOST}/release" / target
    start = cpu_seconds()
    run = subprocess.run(
        [program, corpus, "-fork=2", f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/", *LIMITS],
        cwd=ROOT / "fuzz", capture_output=True, text=True, errors="replace")
    last = [line for line in run.stderr.splitlines() if re.match(r"#\d+: cov: ", line)]
    number = lambda name: int(re.search(name + r":? (\d+)", last[-1])[1]) if last else 0
    made = set(artifacts.iterdir()) - before
    found = sorted(path.name for path in made if was_slow_alone(program, path))
    if run.returncode or found:
        (artifacts / "log").write_text(run.stderr)
    executions = int(re.match(r"#(\d+)", last[-1])[1]) if last else 0
    # What fails a second time has the artifact's name of the first.
    failed = bool((run.returncode and not made) or found or not last)
    done = {"executions": executions, "edges": number("cov"), "inputs": number("corp")}
    return done | {"seconds": round((cpu_seconds() - start) / 2), "found": found, "failed": failed}


def date_and_commit():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": said("git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"),
    }


def read(path):
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def lines_of(shown):
    """Of each file how often each line was executed that is code and no test, without the functions that are left out."""
    files, counts = {}, None
    for line in shown.splitlines():
        if line.startswith("/") and line.endswith(":"):
            name = line[:-1].removeprefix(f"{ROOT}/")
            counts, names = files.setdefault(name, []), "|".join(LEFT_OUT.get(name, []))
            skipped = re.compile(rf"^(\s*)(?:\w+(?:\(\w+\))? )*fn (?:{names})\b") if names else None
            indent = None
        parts = line.split("|", 2)
        if counts is None or len(parts) < 3 or not parts[0].strip().isdigit():
            continue
        code = parts[2]
        if indent is None and skipped and (begin := skipped.match(code)):
            indent = begin[1]
        elif indent is None and code.startswith("#[cfg(") and "test" in code:
            counts = None
            continue
        if indent is None and parts[1].strip():
            counts.append(0 if parts[1].strip() == "0" else 1)
        if indent is not None and code.startswith(indent + "}"):
            indent = None
    return files


def coverage(targets):
    """Executes the corpus of each target in a build that counts lines."""
    gone = [path for target in targets for path in PARSERS[target] if not (ROOT / path).exists()]
    assert not gone, f"no such files: {gone}"
    subprocess.run(["rustup", "component", "add", "--toolchain", "nightly", "llvm-tools"], check=True)
    llvm_cov = pathlib.Path(said("rustc", "+nightly", "--print", "target-libdir")).parent / "bin/llvm-cov"
    program = ROOT / f"target/{HOST}/coverage/{HOST}/release"
    for target in targets:
        kept = [line for line in read(COVERAGE) if line["target"] != target]
        subprocess.run(["cargo", "+nightly", "fuzz", "coverage", "--sanitizer", "none", target], cwd=ROOT, check=True)
        shown = said(
            llvm_cov, "show", "-show-instantiations=false", f"-instr-profile={ROOT}/fuzz/coverage/{target}/coverage.profdata", program / target,
            "-sources", *(ROOT / parser for parser in PARSERS[target]))
        for name, counts in lines_of(shown).items():
            if not counts:
                continue
            covered = sum(count > 0 for count in counts)
            kept.append({"target": target, "file": name, "lines": len(counts), "covered": covered} | date_and_commit())
            print(f"{target}: {name}: {covered} of {len(counts)} lines, {100 * covered // max(len(counts), 1)} %", flush=True)
        write(COVERAGE, sorted(kept, key=lambda line: (line["target"], line["file"])))


def main():
    what, names = sys.argv[1], sys.argv[2:]
    targets = names or sorted(PARSERS)
    if what == "coverage":
        return coverage(targets)
    seconds = int(what)
    subprocess.run(BUILD, cwd=ROOT, check=True)
    lines = {line["target"]: line for line in read(RESULTS)}
    failed = False
    for target in targets:
        done = fuzz(target, seconds)
        old = lines.get(target, {"seconds": 0, "executions": 0, "findings": 0, "seconds_since": 0})
        lines[target] = {
            "target": target,
            "seconds": old["seconds"] + done["seconds"],
            "seconds_since": 0 if done["failed"] else old["seconds_since"] + done["seconds"],
            "executions": old["executions"] + done["executions"],
            "edges": done["edges"],
            "inputs": done["inputs"],
            "findings": old["findings"] + len(done["found"]),
        } | date_and_commit()
        print(json.dumps(lines[target] | {"found": done["found"]}), flush=True)
        write(RESULTS, (lines[name] for name in sorted(lines)))
        failed |= done["failed"]
    sys.exit(failed)


main()
