#!/usr/bin/env bash
# Installs the programs that the tests and the demo compare with, and prints which; nothing where they are there.
# usage: setup.sh [page|guest|remote|windows]   page: Chromium, which only `make page` uses; guest: QEMU and mmdebstrap, for `make guest`;
#   remote: Ceph, for `make test-remote`; windows: mingw-w64 and Wine, for `make windows`
set -euo pipefail
missing=()
command -v mke2fs >/dev/null && command -v e2fsck >/dev/null && command -v debugfs >/dev/null || missing+=(e2fsprogs)
command -v setfattr >/dev/null || missing+=(attr)
command -v setfacl >/dev/null || missing+=(acl)
command -v find >/dev/null || missing+=(findutils)
command -v tree >/dev/null || missing+=(tree)
for program in git jq fio sqlite3 rsync stress-ng umoci skopeo; do
  command -v "$program" >/dev/null || missing+=("$program")
done
command -v fsverity >/dev/null || missing+=(fsverity)
command -v veritysetup >/dev/null || [ -x /usr/sbin/veritysetup ] || missing+=(cryptsetup-bin)
command -v fusermount3 >/dev/null || missing+=(fuse3)
command -v fuse2fs >/dev/null || missing+=(fuse2fs)
command -v losetup >/dev/null || missing+=(mount)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v c++ >/dev/null || missing+=(g++)
command -v valgrind >/dev/null || missing+=(valgrind)
command -v pkg-config >/dev/null || missing+=(pkg-config)
command -v qemu-img >/dev/null || missing+=(qemu-utils)
command -v nbdkit >/dev/null || missing+=(nbdkit)
command -v certtool >/dev/null || missing+=(gnutls-bin)
command -v sfdisk >/dev/null || [ -x /usr/sbin/sfdisk ] || missing+=(fdisk)
command -v sgdisk >/dev/null || [ -x /usr/sbin/sgdisk ] || missing+=(gdisk)
command -v mkfs.xfs >/dev/null || [ -x /usr/sbin/mkfs.xfs ] || missing+=(xfsprogs)
command -v mkfs.btrfs >/dev/null || [ -x /usr/sbin/mkfs.btrfs ] || missing+=(btrfs-progs)
command -v unshare >/dev/null || missing+=(util-linux)
if [ "${1-}" = page ]; then
  command -v chromium >/dev/null || missing+=(chromium)
fi
if [ "${1-}" = windows ]; then
  command -v x86_64-w64-mingw32-gcc >/dev/null || missing+=(gcc-mingw-w64-x86-64-posix)
  [ -x /usr/lib/wine/wine64 ] || command -v wine >/dev/null || missing+=(wine64)
fi
if [ "${1-}" = guest ]; then
  command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
  command -v modinfo >/dev/null || [ -x /usr/sbin/modinfo ] || missing+=(kmod)
  for program in cpio mmdebstrap; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
fi
if [ "${1-}" = remote ]; then
  command -v ceph-mon >/dev/null || missing+=(ceph-mon)
  command -v ceph-osd >/dev/null || missing+=(ceph-osd)
  command -v rbd >/dev/null || missing+=(ceph-common)
  command -v radosgw >/dev/null || missing+=(radosgw)
  # What a host that is cut off sends is dropped by it.
  command -v iptables >/dev/null || [ -x /usr/sbin/iptables ] || missing+=(iptables)
fi
# What builds a module of Python from its source: the headers, pip, and what pip builds with.
python3 -c 'import os, sysconfig, pip; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
  missing+=(python3-dev python3-pip)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  if ! command -v apt-get >/dev/null; then
    echo "setup: please install: ${missing[*]}" >&2; exit 1
  fi
  echo "setup: installing ${missing[*]}"
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
# fusermount3 reads it; systemd makes it where there is one.
if [ ! -e /etc/mtab ]; then
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  echo "setup: linking /etc/mtab to /proc/self/mounts"
  $sudo ln -s ../proc/self/mounts /etc/mtab
fi
