#!/usr/bin/env bash
# Installs what Cargo built: the command, its manual pages and completions, the libraries for programs in C with their
# headers and uext4.pc, and uext4-bench if it was built.
# usage: install.sh BUILT PREFIX   BUILT: Cargo's directory of the profile; DESTDIR goes before PREFIX
set -euo pipefail
built=$1
root=${DESTDIR-}$2
source=$(dirname "$0")/..
place() {
  install -D -m "$1" "$2" "$3"
  echo "$3"
}
place 755 "$built/uext4" "$root/bin/uext4"
if [ -x "$built/uext4-bench" ]; then place 755 "$built/uext4-bench" "$root/bin/uext4-bench"; fi
place 755 "$built/libuext4_mq.so" "$root/lib/libuext4_mq.so"
place 644 "$source/include/uext4_mq.h" "$root/include/uext4_mq.h"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$built/uext4" --version)
sed -e "s|@PREFIX@|$2|" -e "s|@VERSION@|${version##* }|" "$source/bindings/c/uext4.pc.in" >"$work/uext4.pc"
place 755 "$built/libuext4.so" "$root/lib/libuext4.so.0"
ln -sf libuext4.so.0 "$root/lib/libuext4.so"
place 644 "$built/libuext4.a" "$root/lib/libuext4.a"
place 644 "$source/bindings/c/include/uext4.h" "$root/include/uext4.h"
place 644 "$work/uext4.pc" "$root/lib/pkgconfig/uext4.pc"
"$built/uext4" man "$work"
for page in "$work"/*.1; do place 644 "$page" "$root/share/man/man1/${page##*/}"; done
completions() {
  "$built/uext4" completions "$1" >"$work/$1"
  place 644 "$work/$1" "$root/share/$2"
}
completions bash bash-completion/completions/uext4
completions zsh zsh/site-functions/_uext4
completions fish fish/vendor_completions.d/uext4.fish
