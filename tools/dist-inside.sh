#!/usr/bin/env bash
# What dist-check.sh runs inside the minimal system.
# usage: dist-inside.sh debian             installs, tries and removes the package in /root
#        dist-inside.sh mount TRANSPORT    makes and mounts /root/mounted.img by the static program in /root
set -euo pipefail
# Waits until nothing serves a mount: umount(8) returns before.
served() { cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^uext4' || true; }

debian() {
  dpkg -i /root/uext4_*.deb
  uext4 --version

  uext4 mkfs -q /tmp/disk.img --size 64M
  mkdir -p /tmp/dir
  mount -t fuse.uext4 -o noatime /tmp/disk.img /tmp/dir
  grep -q ' /tmp/dir fuse.uext4 ' /proc/mounts
  echo content >/tmp/dir/file
  umount /tmp/dir
  for _ in $(seq 300); do
    if [ "$(served)" = 0 ]; then break; fi
    sleep 0.1
  done
  e2fsck -fn /tmp/disk.img >/dev/null 2>&1
  echo "/tmp/disk.img /tmp/dir fuse.uext4 ro 0 0" >/tmp/fstab
  mount -T /tmp/fstab /tmp/dir
  [ "$(cat /tmp/dir/file)" = content ]
  uext4 umount /tmp/dir

  for page in uext4 uext4-mkfs uext4-mount mount.fuse.uext4 umount.fuse.uext4; do
    MANWIDTH=80 man "$page" 2>/tmp/man | grep -q uext4
    [ ! -s /tmp/man ] || { cat /tmp/man; exit 1; }
  done
  bash -ic '
    . /usr/share/bash-completion/bash_completion
    _completion_loader uext4 || [ $? = 124 ]
    complete -p uext4 >/dev/null
    COMP_WORDS=(uext4 mk) COMP_CWORD=1 COMP_LINE="uext4 mk" COMP_POINT=8
    function=$(complete -p uext4 | sed "s/.*-F \([^ ]*\) .*/\1/")
    "$function" uext4 mk uext4
    printf "%s\n" "${COMPREPLY[@]}" | grep -q "^mkfs"' 2>/tmp/bash || { cat /tmp/bash; exit 1; }
  zsh -c 'autoload -Uz compinit && compinit -D && [ "${_comps[uext4]}" = _uext4 ]'
  systemd-analyze verify --man=no uext4@disk.service
  LD_PRELOAD=libuext4_mq.so.0 true

  dpkg -P uext4
  rm -rf /tmp/dir
}

mounted() {
  local docs=/usr/share/zsh
  mkdir -p /tmp/dir
  /root/uext4 mkfs -q --force /root/mounted.img --size 256M
  /root/uext4 mount -o "transport=$1" /root/mounted.img /tmp/dir
  grep -q ' /tmp/dir fuse.uext4 ' /proc/mounts
  /root/uext4 stats /tmp/dir | grep -i transport
  cp -a "$docs" /tmp/dir/copy
  diff -r "$docs" /tmp/dir/copy
  if [ "$1" = dev ]; then
    /root/uext4 freeze /tmp/dir
    /root/uext4 thaw /tmp/dir
  fi
  /root/uext4 umount /tmp/dir
  /root/uext4 check /root/mounted.img
}

case $1 in
  debian) debian ;;
  mount) mounted "$2" ;;
esac
