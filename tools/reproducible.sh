#!/usr/bin/env bash
# Runs a command that builds, so that the same source gives the same bytes wherever it and the registry lie, without debug information.
# usage: reproducible.sh TRIPLE COMMAND...   in the root of the source; for musl it installs the target and musl-gcc where they are missing
set -euo pipefail
triple=$1
shift
if ! rustup target list --installed | grep -qx "$triple"; then rustup target add "$triple" >&2; fi
case $triple in
  *-musl)
    if ! command -v musl-gcc >/dev/null; then
      if [ "$(id -u)" != 0 ]; then
        echo "musl-gcc is missing; please install musl-tools" >&2
        exit 1
      fi
      { apt-get update -qq && apt-get install -y -qq --no-install-recommends musl-tools; } >&2
    fi
    export "CC_${triple//-/_}=musl-gcc"
    ;;
esac

# Paths of this machine get into messages of panics and into assertions of C.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
registry=$(realpath -m "${CARGO_HOME:-$HOME/.cargo}")/registry/src
sysroot=$(rustc --print sysroot)
flags=() c_flags=
for pair in "$PWD=/uext4" "$target=/target" "$registry=/registry" "$sysroot=/rust"; do
  flags+=("--remap-path-prefix=$pair")
  c_flags+=" -ffile-prefix-map=$pair"
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export CARGO_ENCODED_RUSTFLAGS SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0 "CFLAGS_${triple//-/_}=${c_flags# }"
for profile in RELEASE DEV; do export "CARGO_PROFILE_${profile}_DEBUG=0" "CARGO_PROFILE_${profile}_STRIP=debuginfo"; done
exec "$@"
