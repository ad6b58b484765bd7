#!/usr/bin/env bash
# Checks what changed since the branch left main, uncommitted files included: format, clippy with warnings
# denied, and the unit tests of the packages that changed. About a minute after a change in one file.
# usage: quick.sh [BASE]   BASE: the commit to compare with, instead of main
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git merge-base HEAD "${1:-main}" 2>/dev/null || git rev-parse HEAD)
changed=$(git diff --name-only "$base"; git ls-files --others --exclude-standard)

cargo fmt --all -- --check
# The package of each changed file: that of the longest directory that contains it; tests/ is built by testkit.
packages=$(cargo metadata --no-deps --format-version 1 | CHANGED="$changed" python3 -c '
import json, os, sys
metadata = json.load(sys.stdin)
root = metadata["workspace_root"] + "/"
places = {os.path.dirname(p["manifest_path"])[len(root):] + "/": p["name"] for p in metadata["packages"]}
places["tests/"] = places["crates/testkit/"]
names = {name for file in os.environ["CHANGED"].split() for place, name in places.items() if file.startswith(place)}
print(*sorted(names))')
if [ -z "$packages" ]; then
  echo "quick: no package changed since ${base:0:10}"
  exit 0
fi
echo "quick: changed since ${base:0:10}: $packages"
selected=()
for package in $packages; do selected+=(-p "$package"); done
cargo clippy "${selected[@]}" --all-targets -- -D warnings
# Without --lib for a command alone, which cargo refuses.
targets=(--bins); [ "$packages" = uext4-cli ] || targets+=(--lib)
cargo test "${selected[@]}" "${targets[@]}"
for mechanism in $(grep -o '^tests/[a-z]*' <<<"$changed" | sort -u | cut -d/ -f2); do
  echo "quick: not run: cargo test -p uext4-testkit --test $mechanism"
done
