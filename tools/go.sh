#!/usr/bin/env bash
# Builds the C library and the Go module over it, and runs go vet and the module's tests, with the race detector.
# PROFILE is that of the build; COMPARE=1 prints figures beside go-diskfs, which it downloads.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
if ! command -v go >/dev/null; then
  echo "skipped: Go is not installed (package golang-go, or https://go.dev/dl)"
  exit 0
fi
profile=${PROFILE:-release}
cargo build --profile "$profile" -p uext4-c
built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
# Go keeps what pkg-config printed, and does not see that the library changed: the prefix stays, and a flag names the library's contents.
prefix=$(realpath "$built")/go
mkdir -p "$prefix/lib" "$prefix/include"
ln -sf "$(realpath "$built/libuext4.a")" "$prefix/lib"
ln -sf "$(realpath bindings/c/include/uext4.h)" "$prefix/include"
contents=$(cat "$built/libuext4.a" bindings/c/include/uext4.h | sha256sum | cut -c1-16)
export CGO_CFLAGS="${CGO_CFLAGS--O2 -g} -DLIBUEXT4_CONTENTS=0x$contents"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" bindings/c/uext4.pc.in >"$prefix/uext4.pc"
export PKG_CONFIG_PATH=$prefix${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
cd bindings/go
go version
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
  echo "not as gofmt has it: $unformatted" >&2
  exit 1
fi
go vet ./...
go test -race -count=1 ./...
go test -run '^$' -bench . -benchtime 20x
if [ -n "${COMPARE-}" ]; then
  cd compare
  need=$(sed -n 's/^go //p' go.mod)
  have=$(go env GOVERSION)
  if [ "$(printf '%s\n' "$need" "${have#go}" | sort -V | head -1)" = "$need" ]; then
    go vet .
    images=$(mktemp -d)
    trap 'rm -rf "$images"' EXIT
    go run . -dir "$images"
  else
    echo "skipped: go-diskfs needs Go $need, and this is $have"
  fi
fi
