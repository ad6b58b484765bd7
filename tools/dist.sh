#!/usr/bin/env bash
# Makes what a release consists of, in target/dist: the same bytes from the same commit, whichever machine it is on.
# usage: dist.sh [PART...]   source, crates, static, oci, deb, wheel, sbom; all of them without names. PROFILE is that of the builds, release by default
#
# | file | is |
# | --- | --- |
# | uext4-VERSION.tar.gz | the source |
# | crates/ | the crates for crates.io; `order` names them in the order in which they are published |
# | uext4-VERSION-ARCH-linux-static | the command as one static program |
# | uext4-VERSION-ARCH-oci.tar | a container image that has that program alone, an archive of an OCI layout |
# | uext4_VERSION_ARCH.deb | the Debian package |
# | uext4-VERSION-*.whl | the wheel of the Python package |
# | uext4-VERSION.cdx.json | what all these are linked from, as CycloneDX |
# | SHA256SUMS | their sums |
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${*:-source crates static oci deb wheel sbom}
if [ -n "$(git status --porcelain)" ] && [ -z "${DIRTY-}" ]; then
  echo "dist: files differ from the commit; commit them, or DIRTY=1 for packages that cannot be made again" >&2
  exit 1
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
profile=${PROFILE:-release}
arch=$(uname -m)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
dist=$(realpath -m target/dist)
static=$dist/uext4-$version-$arch-linux-static
sbom=$dist/uext4-$version.cdx.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$dist"

wanted() { [[ " $parts " == *" $1 "* ]]; }
# The directory of what Cargo builds for a target.
built() {
  local directory=$profile
  if [ "$profile" = dev ]; then directory=debug; fi
  echo "$target/$1/$directory"
}
build() {
  tools/reproducible.sh "$1" cargo build --locked --profile "$profile" --target "$1" "${@:2}"
}

if wanted source; then
  git archive --format=tar --prefix="uext4-$version/" HEAD | gzip -9n >"$dist/uext4-$version.tar.gz"
fi

if wanted crates; then
  mkdir -p "$dist/crates"
  tools/publish_order.py >"$dist/crates/order"
  mapfile -t names < <(sed 's/^/-p\n/' "$dist/crates/order")
  cargo package --quiet --locked --no-verify ${DIRTY:+--allow-dirty} --target-dir "$work/package" "${names[@]}"
  cp -t "$dist/crates" "$work/package/package"/*.crate
fi

if wanted sbom || wanted deb; then
  tools/sbom.py "$arch-unknown-linux-gnu" uext4-cli uext4-mq uext4-c uext4-python >"$sbom"
fi

if wanted static || wanted oci; then
  build "$arch-unknown-linux-musl" -p uext4-cli
  install -m 755 "$(built "$arch-unknown-linux-musl")/uext4" "$static"
fi

if wanted oci; then
  tools/oci.sh "$static" "${static%-linux-static}-oci.tar"
fi

if wanted deb; then
  # What tools/install.sh installs.
  build "$arch-unknown-linux-gnu" -p uext4-cli -p uext4-mq -p uext4-c
  tools/deb.sh "$(built "$arch-unknown-linux-gnu")" "$dist" "$sbom"
fi

if wanted wheel; then
  python3 -m venv "$work/venv"
  # Another version of maturin may pack other bytes.
  "$work/venv/bin/pip" install -q maturin==1.16.0
  # As old a glibc as the library can be linked with: the tag of the wheel names it.
  tools/reproducible.sh "$arch-unknown-linux-gnu" "$work/venv/bin/maturin" build --locked --profile "$profile" --target "$arch-unknown-linux-gnu" \
    -m bindings/python/Cargo.toml --out "$dist"
fi

(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >"$work/sums" && install -m 644 "$work/sums" SHA256SUMS && cat SHA256SUMS)
if wanted crates; then
  echo "crates.io takes them in this order: for name in $(tr '\n' ' ' <"$dist/crates/order"); do cargo publish -p \$name; done"
fi
