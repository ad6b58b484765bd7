#!/usr/bin/env python3
"""Counts the workloads of the five mechanisms with `uext4-bench transfers`, and writes what the page of the benchmarks shows.
usage: tools/transfers.py UEXT4-BENCH FILE"""
import json
import subprocess
import sys

MECHANISMS = {
    "ialloc": "--workload mdtest --ialloc all",
    "generation": "--workload create-unlink --generation spinlock,atomic,percpu-range,beyond",
    "icache": "--workload create-unlink --icache global,global-nowait,per-bucket --lazytime on",
    "dio": "--workload randrw --dio-lock all",
    "registry": "--workload clone --mqueue-super all",
}


def short(value):
    return round(value, 3) if isinstance(value, float) else value


def row(counted):
    kept = {key: short(value) for key, value in counted.items() if key not in ("locks", "places")}
    kept["places"] = {place["place"]: short(place["transfers"]) for place in counted["places"]}
    return kept


def main(bench, file):
    lines = []
    for mechanism, options in MECHANISMS.items():
        options += " -n 50"
        print(f"{mechanism}: uext4-bench transfers {options}", file=sys.stderr)
        run = subprocess.run([bench, "transfers", "--json", *options.split()], check=True, stdout=subprocess.PIPE)
        rows = ",\n".join(json.dumps(row(counted)) for counted in json.loads(run.stdout)["rows"])
        lines.append(f'"{mechanism}": {{"options": "{options}", "rows": [\n{rows}\n]}}')
    with open(file, "w", encoding="utf-8") as out:
        out.write("{" + ",\n".join(lines) + "}\n")


main(*sys.argv[1:])
