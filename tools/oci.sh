#!/usr/bin/env bash
# Makes a container image of a static uext4, with that program itself: a tree becomes an image, which is exported as the one layer of an OCI layout.
# usage: oci.sh UEXT4 FILE.tar   SOURCE_DATE_EPOCH is the time of what is in it
set -euo pipefail
program=$(realpath "$1")
to=$(realpath -m "$2")
tools=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
umask 022
# A program that mounts needs a directory for its sockets, and one to mount on.
mkdir -p root/usr/bin root/etc root/tmp root/mnt root/run
chmod 1777 root/tmp
install -m 755 "$program" root/usr/bin/uext4
echo 'root:x:0:0:root:/:/usr/bin/uext4' >root/etc/passwd
echo 'root:x:0:' >root/etc/group
find root -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
"$program" mkfs -q image --from root --owner 0:0 --uuid 00000000-0000-4000-8000-000000000000
"$program" export -q --compress gzip image oci:layout:latest
"$tools/oci_entrypoint.py" layout /usr/bin/uext4
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -C layout -cf "$to" .
