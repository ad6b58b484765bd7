#!/usr/bin/env python3
"""Prints what `uext4 bench compare` reads of a report: the rates, without locks, latencies and the model.
usage: baseline.py REPORT.json"""
import json
import sys

ROW = ("arm", "op", "threads", "block_size", "live", "queues", "workload", "clients", "journal_delay")
WHOLE = ("benchmark", "host", "version", "date", "seconds", "quick")


def row(full):
    kept = {key: full[key] for key in ROW if full.get(key) is not None}
    return kept | {"ops_per_s": {key: round(rate, 1) for key, rate in full["ops_per_s"].items()}}


def section(full):
    kept = {key: full[key] for key in ("name", "command", "skipped", "failed") if key in full}
    document = full.get("document")
    if document:
        rows = [row(one) for one in document["rows"]]
        kept["document"] = {"benchmark": document["benchmark"], "host": document["host"], "rows": rows}
    return kept


with open(sys.argv[1]) as file:
    report = json.load(file)
kept = {key: report[key] for key in WHOLE}
head = json.dumps(kept)[:-1]
print(head + ', "sections": [')
print(",\n".join(json.dumps(section(one)) for one in report["sections"]))
print("]}")
