#!/usr/bin/env bash
# Installs what Cargo built: the command, its manual pages and completions, the library of message queues and its
# header, and uext4-bench if it was built.
# usage: install.sh BUILT PREFIX   BUILT: Cargo's directory of the profile; DESTDIR goes before PREFIX
set -euo pipefail
built=$1
root=${DESTDIR-}$2
header=$(dirname "$0")/../include/uext4_mq.h
place() {
  install -D -m "$1" "$2" "$3"
  echo "$3"
}
place 755 "$built/uext4" "$root/bin/uext4"
if [ -x "$built/uext4-bench" ]; then place 755 "$built/uext4-bench" "$root/bin/uext4-bench"; fi
place 755 "$built/libuext4_mq.so" "$root/lib/libuext4_mq.so"
place 644 "$header" "$root/include/uext4_mq.h"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$built/uext4" man "$work"
for page in "$work"/*.1; do place 644 "$page" "$root/share/man/man1/${page##*/}"; done
completions() {
  "$built/uext4" completions "$1" >"$work/$1"
  place 644 "$work/$1" "$root/share/$2"
}
completions bash bash-completion/completions/uext4
completions zsh zsh/site-functions/_uext4
completions fish fish/vendor_completions.d/uext4.fish
