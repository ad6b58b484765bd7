#!/usr/bin/env bash
# Checks what other programs depend on: the library's interface beside the stored one (cargo-semver-checks), the packages
# as crates.io takes them, and targets other than this machine's.
# usage: api.sh [baseline]   baseline: stores the interface as it is now, which belongs to a new version
# Installs cargo-semver-checks where it is missing and the interface differs from the one that it accepted last (accepted): a debug
# build, as it runs for seconds and builds in minutes. With LATER=1 it installs nothing and leaves what that needs, packages and other targets to `make nightly`.
set -euo pipefail
cd "$(dirname "$0")/.."
stored=tools/api.json.gz
accepted=tools/api.accepted
# The interface without the feature `unstable`. Rust's JSON is behind a flag, and its format that of one toolchain.
target=${CARGO_TARGET_DIR:-target}
RUSTDOC=$PWD/tools/rustdoc-unstable cargo rustdoc -q -p uext4 --lib --target-dir "$target" -- -Zunstable-options --output-format json
# What rustdoc does not read: bodies, which must not need that feature.
cargo check -q -p uext4 --lib --target-dir "$target"
now=$target/doc/uext4.json
if [ "${1-}" = baseline ]; then
  # Without the paths of this machine.
  python3 -c 'import json, sys
api = json.load(sys.stdin)
for crate in api["external_crates"].values(): crate["path"] = ""
json.dump(api, sys.stdout, separators=(",", ":"), sort_keys=True)' <"$now" | gzip -9 -n >"$stored"
  exit
fi
sum=$({ cat "$stored" tools/api.sh; tools/api_listing.py <"$now"; } | sha256sum | cut -d' ' -f1)
if [ -z "${ALWAYS-}" ] && [ "$sum" = "$(cat "$accepted")" ]; then
  echo "api: the interface is the one that cargo-semver-checks accepted last"
elif [ -n "${LATER-}" ] && ! cargo semver-checks --version >/dev/null 2>&1; then
  echo "api: NOT COMPARED: the interface differs from the one accepted last; please run make api, and commit $accepted"
else
  if ! cargo semver-checks --version >/dev/null 2>&1; then
    echo "api: installing cargo-semver-checks in $(dirname "$(command -v cargo)"), three to eight minutes"
    cargo install cargo-semver-checks --version 0.51.0 --locked --debug --quiet
  fi
  gunzip -c "$stored" >"$target/stored.json"
  cargo semver-checks --baseline-rustdoc "$target/stored.json" --current-rustdoc "$now"
  echo "$sum" >"$accepted"
  echo "api: accepted; please commit $accepted"
fi

compiles() {
  local triple=$1
  if ! rustup target list --installed | grep -qx "$triple" && ! rustup target add "$triple"; then
    echo "SKIPPED: rustup cannot install $triple"
    return
  fi
  echo "api: cargo check --target $triple"
  # Nothing is linked, so that C in dependencies needs no compiler for the target.
  env "CC_${triple//-/_}=true" "AR_${triple//-/_}=true" RUSTFLAGS="-D warnings" cargo check -q -p uext4 -p uext4-cli --target "$triple"
}

# The system that differs most.
compiles x86_64-pc-windows-gnu
if [ -n "${LATER-}" ]; then
  echo "api: packages and the targets but Windows are left to make nightly"
  exit
fi

echo "api: cargo publish --dry-run"
# --allow-dirty: the packages' content is what is checked, not the checkout.
if ! said=$(cargo publish --workspace --dry-run --no-verify --allow-dirty 2>&1); then
  echo "$said"
  exit 1
fi
for triple in aarch64-unknown-linux-gnu aarch64-apple-darwin; do
  compiles "$triple"
done
