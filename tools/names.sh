#!/usr/bin/env bash
# Makes links in a directory by which the command is the programs of e2fsprogs. A file that is there stays.
# usage: names.sh COMMAND DIR   COMMAND: uext4 as it is installed; DESTDIR goes before DIR, and links lead to COMMAND without it
set -euo pipefail
if [ $# -ne 2 ] || [ -z "$2" ]; then
  echo "usage: make install-e2fsprogs-names DIR=/usr/local/sbin [PREFIX=/usr/local]" >&2
  exit 2
fi
command=$1
dir=${DESTDIR-}$2
if [ ! -x "${DESTDIR-}$command" ]; then
  echo "${DESTDIR-}$command: is not there; make install, or name it: COMMAND=/path/to/uext4" >&2
  exit 1
fi
mkdir -p "$dir"
names=$(sed -n '/^const NAMES/,/^];/s/^    ("\([a-z0-9.]*\)",.*/\1/p' "$(dirname "$0")/../crates/cli/src/names/mod.rs")
for name in $names; do
  link=$dir/$name
  if [ "$(readlink -f "$link")" = "$(readlink -f "${DESTDIR-}$command")" ]; then
    echo "$link"
  elif [ -e "$link" ] || [ -L "$link" ]; then
    echo "$link: is there already, left as it is" >&2
  else
    ln -s "$command" "$link"
    echo "$link"
  fi
done
