#!/usr/bin/env python3
"""Counts the workloads of the five mechanisms with `uext4-bench transfers`, and writes what the page of the benchmarks shows.
usage: tools/transfers.py UEXT4-BENCH FILE"""
import json
import subprocess
import sys

# Where N CPUs wait for one lock, an operation takes N times as long to count: up to 64 says it.
FEW = "--cpus 1,2,4,8,16,32,48,64"
MECHANISMS = {
    "ialloc": [f"--workload mdtest --ialloc retry-unlocked,retry-locked {FEW}", "--workload mdtest --ialloc lock-free"],
    "generation": ["--workload create-unlink --generation spinlock,atomic,percpu-range,beyond"],
    "icache": [
        f"--workload create-unlink --icache global,global-nowait --lazytime on {FEW}",
        "--workload create-unlink --icache per-bucket,per-bucket-nohint --lazytime on",
    ],
    "dio": ["--workload randrw --dio-lock all"],
    "registry": ["--workload clone --mqueue-super all"],
}
OPERATIONS = "50"


def short(value):
    return round(value, 3) if isinstance(value, float) else value


def row(one):
    kept = {key: short(value) for key, value in one.items() if key not in ("locks", "places")}
    kept["places"] = {place["place"]: short(place["transfers"]) for place in one["places"]}
    return kept


def counted(bench, options):
    print(f"uext4-bench transfers {options} -n {OPERATIONS}", file=sys.stderr, flush=True)
    command = [bench, "transfers", "--json", "-n", OPERATIONS, *options.split()]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rows"]


def main(bench, file):
    mechanisms = []
    for mechanism, runs in MECHANISMS.items():
        rows = [json.dumps(row(one)) for options in runs for one in counted(bench, options)]
        mechanisms.append(f'"{mechanism}": {{"rows": [\n' + ",\n".join(rows) + "\n]}")
    with open(file, "w", encoding="utf-8") as out:
        out.write("{" + ",\n".join(mechanisms) + "}\n")


main(*sys.argv[1:])
