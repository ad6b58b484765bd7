#!/usr/bin/env bash
# Makes links in a directory by which the command is the programs of e2fsprogs, and pages of the manual for them. A file that is there stays.
# usage: names.sh COMMAND DIR [MANDIR]   COMMAND: uext4 as it is installed; DESTDIR goes before DIR and MANDIR, and links lead to COMMAND without it
set -euo pipefail
if [ $# -lt 2 ] || [ -z "$2" ]; then
  echo "usage: make install-e2fsprogs-names DIR=/usr/local/sbin [PREFIX=/usr/local] [MANDIR=/usr/local/share/man]" >&2
  exit 2
fi
command=$1
dir=${DESTDIR-}$2
if [ ! -x "${DESTDIR-}$command" ]; then
  echo "${DESTDIR-}$command: is not there; make install, or name it: COMMAND=/path/to/uext4" >&2
  exit 1
fi
pages=${3:+${DESTDIR-}$3}
# By this line a page that is there is one of these.
mark='.\" made by make install-e2fsprogs-names of uext4'
page() {
  local made
  made=$(mktemp)
  { echo "$mark" && "$(dirname "$0")/names_page.sh" "${DESTDIR-}$command" "$1"; } >"$made"
  local to=$pages/man${section[$1]:-8}/$1.${section[$1]:-8}
  if [ -e "$to.gz" ] || { [ -e "$to" ] && [ "$(head -n 1 "$to")" != "$mark" ]; }; then
    echo "$to: is there already, left as it is" >&2
  else
    install -D -m 644 "$made" "$to"
    echo "$to"
  fi
  rm "$made"
}
declare -A section=([chattr]=1 [lsattr]=1 [fuse2fs]=1)
mkdir -p "$dir"
names=$(sed -n '/^const NAMES/,/^];/s/^    ("\([a-z0-9.]*\)",.*/\1/p' "$(dirname "$0")/../crates/cli/src/names/mod.rs")
for name in $names; do
  link=$dir/$name
  if [ "$(readlink -f "$link")" = "$(readlink -f "${DESTDIR-}$command")" ]; then
    echo "$link"
  elif [ -e "$link" ] || [ -L "$link" ]; then
    echo "$link: is there already, left as it is" >&2
    continue
  else
    ln -s "$command" "$link"
    echo "$link"
  fi
  if [ -n "$pages" ]; then page "$name"; fi
done
