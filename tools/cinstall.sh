#!/usr/bin/env bash
# Installs the C library with cargo-c in target/cinstall, and checks that it is the one that `make install` installs: the header, the soname and
# uext4.pc are the same, and an example links with each library and runs.
# usage: cinstall.sh   PROFILE is that of the build, dev by default
# Installs cargo-c where it is missing: a debug build, as it runs for seconds and builds in minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo cinstall --version >/dev/null 2>&1; then
  echo "cinstall: installing cargo-c in $(dirname "$(command -v cargo)"), about five minutes"
  cargo install cargo-c --version 0.10.24 --locked --debug --quiet
fi
# One place: cargo-c builds everything again for another.
root=$(realpath -m "${CARGO_TARGET_DIR:-target}/cinstall")
rm -rf "$root"
cargo cinstall --locked --profile "${PROFILE:-dev}" -p uext4-c --prefix=/usr --destdir="$root"
lib=$(dirname "$(find "$root" -name libuext4.a)")

cmp bindings/c/include/uext4.h "$root/usr/include/uext4.h"
diff <(echo libuext4.so.0) <(readelf --dynamic "$lib/libuext4.so" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# libdir is the architecture's where the system has one. The programs below are linked by it.
diff <(sed -e "s|@PREFIX@|/usr|" -e "s|@VERSION@|$version|" -e '/^libdir=/d' bindings/c/uext4.pc.in | sort) \
  <(sed '/^\(exec_prefix\|libdir\)=/d' "$lib/pkgconfig/uext4.pc" | sort)

export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$lib/pkgconfig
flags() { pkg-config --cflags --libs "$@" uext4; }
cc examples/c/write_file.c -o "$root/shared" $(flags)
LD_LIBRARY_PATH=$lib "$root/shared" "$root/image"
cc examples/c/write_file.c -o "$root/static" -l:libuext4.a -Wl,--as-needed $(flags --static)
"$root/static" "$root/image"
