#!/usr/bin/env python3
"""Prints what a crate's rustdoc JSON, on standard input, says of its interface: a line for each item, sorted, without
documentation, places in the source, hints to inline and the numbers that rustdoc gave the items.
usage: api_listing.py <crate.json
"""
import json
import sys

api = json.load(sys.stdin)
LEFT_OUT = {"id", "docs", "links", "span", "crate_id", "impls", "implementations"}
PARTS = {"items", "fields", "variants", "tuple"}
# Their order says nothing.
UNORDERED = {"items"}


def show(value, parts=False, ordered=True):
    """A value without numbers of items; in the lists that name the parts of an item, the parts."""
    if isinstance(value, dict):
        return {key: show(of, key in PARTS, key not in UNORDERED) for key, of in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        shown = [show(of, parts) for of in value if not (isinstance(of, dict) and "Inline" in str(of.get("other")))]
        return shown if ordered else sorted(shown, key=lambda part: json.dumps(part, sort_keys=True))
    if parts and isinstance(value, int):
        # Of another module's items the index has none.
        return show(api["index"].get(str(value)))
    return value


print(api["crate_version"], api["format_version"])
for line in sorted(json.dumps(show(item), sort_keys=True) for item in api["index"].values() if item["crate_id"] == 0):
    print(line)
