#!/usr/bin/env bash
# Installs what Cargo built: the command, its manual pages and completions, the libraries for programs in C with their
# headers and uext4.pc, the helpers of mount(8) and umount(8), the unit of systemd, and uext4-bench if it was built.
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
place 755 "$built/libuext4_mq.so" "$root/lib/libuext4_mq.so.0"
ln -sf libuext4_mq.so.0 "$root/lib/libuext4_mq.so"
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

# What mount(8), umount(8) and systemd start. The first two look in /sbin alone.
packaging=$source/packaging
mkdir -p "$root/sbin"
for helper in mount.fuse.uext4 umount.fuse.uext4; do
  ln -sfn ../bin/uext4 "$root/sbin/$helper"
  echo "$root/sbin/$helper"
  place 644 "$packaging/mount.fuse.uext4.8" "$root/share/man/man8/$helper.8"
done
sed "s|@PREFIX@|$2|" "$packaging/uext4@.service" >"$work/unit"
place 644 "$work/unit" "$root/lib/systemd/system/uext4@.service"
