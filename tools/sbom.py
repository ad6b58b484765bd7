#!/usr/bin/env python3
"""Prints what the named packages are linked from, as CycloneDX 1.5: crates with licences, checksums and what depends on what.
usage: sbom.py TRIPLE PACKAGE...   SOURCE_DATE_EPOCH is the time that it says
Source: CycloneDX 1.5 JSON reference; Package URL specification, type cargo."""
import datetime
import json
import os
import subprocess
import sys
import tomllib


def cargo(*words):
    return subprocess.run(["cargo", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def purl(name, version):
    return f"pkg:cargo/{name}@{version.replace('+', '%2B')}"


def edges(triple, package):
    """Each crate and those it links, as `cargo tree` has them for the features in use: a crate's own are below its first line."""
    tree = cargo("tree", "--locked", "-p", package, "-e", "normal,no-proc-macro", "--target", triple, "--prefix", "depth", "--format", "|{p}")
    above, linked = [], {}
    for line in tree.splitlines():
        depth, crate = line.split("|")
        name, version = crate.split()[:2]
        reference = purl(name, version.removeprefix("v"))
        above[int(depth):] = [reference]
        linked.setdefault(reference, set())
        if int(depth) > 0:
            linked[above[-2]].add(reference)
    return above[0], linked


def component(package, checksums):
    reference = purl(package["name"], package["version"])
    made = {"type": "library", "bom-ref": reference, "name": package["name"], "version": package["version"], "purl": reference}
    if package["description"]:
        made["description"] = " ".join(package["description"].split())
    if package["license"]:
        # Before SPDX had OR, a slash stood for it.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def main(triple, *packages):
    linked, roots = {}, []
    for package in packages:
        root, more = edges(triple, package)
        roots.append(root)
        for crate, below in more.items():
            linked.setdefault(crate, set()).update(below)
    with open("Cargo.lock", "rb") as lock:
        checksums = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.load(lock)["package"]}
    every = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    components = sorted((component(package, checksums) for package in every), key=lambda one: one["bom-ref"])
    components = [one for one in components if one["bom-ref"] in linked]
    version = next(one["version"] for one in components if one["bom-ref"] == roots[0])
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    whole = {"type": "application", "bom-ref": "uext4", "name": "uext4", "version": version}
    json.dump({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": whole},
        "components": components,
        "dependencies": [{"ref": "uext4", "dependsOn": roots}] + [{"ref": crate, "dependsOn": sorted(linked[crate])} for crate in sorted(linked)],
    }, sys.stdout, indent=1)
    print()


main(*sys.argv[1:])
