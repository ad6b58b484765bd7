#!/usr/bin/env python3
"""Prints the crates that crates.io takes, each behind those that it depends on.
usage: publish_order.py"""
import graphlib
import json
import subprocess

metadata = subprocess.run(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"], check=True, stdout=subprocess.PIPE, text=True)
packages = {one["name"]: one for one in json.loads(metadata.stdout)["packages"] if one["publish"] != []}
# What tests alone need without a version is left out of the package.
needs = {
    name: sorted({need["name"] for need in one["dependencies"] if need["name"] in packages and (need["kind"] != "dev" or need["req"] != "*")})
    for name, one in sorted(packages.items())
}
for name in graphlib.TopologicalSorter(needs).static_order():
    print(name)
