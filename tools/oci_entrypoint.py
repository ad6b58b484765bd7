#!/usr/bin/env python3
"""Sets what the only image of an OCI layout starts, and when it was made: SOURCE_DATE_EPOCH.
usage: oci_entrypoint.py LAYOUT PROGRAM
Source: OCI image specification 1.1, "Image Configuration"."""
import datetime
import hashlib
import json
import os
import pathlib
import sys


def main(layout, program):
    layout = pathlib.Path(layout)
    blobs = layout / "blobs" / "sha256"

    def taken(descriptor):
        path = blobs / descriptor["digest"].removeprefix("sha256:")
        document = json.loads(path.read_text())
        path.unlink()
        return document

    def put(descriptor, document):
        data = json.dumps(document, separators=(",", ":")).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        descriptor |= {"digest": f"sha256:{digest}", "size": len(data)}

    index = json.loads((layout / "index.json").read_text())
    (image,) = index["manifests"]
    manifest = taken(image)
    config = taken(manifest["config"])
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    config |= {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "config": {"Entrypoint": [program], "Cmd": ["help"], "WorkingDir": "/"}}
    put(manifest["config"], config)
    put(image, manifest)
    (layout / "index.json").write_text(json.dumps(index, separators=(",", ":")))


main(*sys.argv[1:])
