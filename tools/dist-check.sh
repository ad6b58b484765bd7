#!/usr/bin/env bash
# Tries the packages of `make dist` where nothing else is: the Debian package in a minimal Debian system, the static program in an empty root
# and as a container. Needs root, and the network for mmdebstrap and lintian, which it installs where they are missing.
# usage: dist-check.sh [DIR [PART...]]   DIR: what dist.sh made, target/dist by default; PART: sums, lintian, debian, empty, container, mounts
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:-target/dist}")
parts=${*:2}
system=$PWD/target/debian-root.tar
inside=$PWD/tools/dist-inside.sh
static=$(echo "$dist"/uext4-*-linux-static)
missing=()
for program in mmdebstrap lintian umoci skopeo; do command -v "$program" >/dev/null || missing+=("$program"); done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/dist-check.XXXXXX")
cleanup() {
  if grep -q " $work" /proc/self/mounts; then echo "dist-check: kept $work" >&2; else rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT
chmod 755 "$work"

# Runs a command in a root of its own: DIR COMMAND... What is mounted in it ends with the command. It has no network, and /sys with SYS=1.
within() {
  unshare --mount --pid --net --ipc --fork --kill-child --propagation private bash -euc '
    root=$1; shift
    mount --bind "$root" "$root"
    if [ -d "$root/proc" ]; then mount -t proc proc "$root/proc"; fi
    if [ -n "${SYS-}" ]; then mount -t sysfs -o ro sysfs "$root/sys"; fi
    for dir in tmp run; do if [ -d "$root/$dir" ]; then mount -t tmpfs none "$root/$dir"; fi; done
    if [ -d "$root/dev" ]; then
      mount -t tmpfs none "$root/dev"
      for node in null zero urandom fuse; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
      ln -s /proc/self/fd "$root/dev/fd"
    fi
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ chroot "$root" "$@"' within "$@"
}

# A minimal system in $work/debian, made once.
minimal_system() {
  if [ ! -e "$system" ]; then
    # mmdebstrap makes an archive where the name ends so.
    local new=${system%.tar}-new.tar
    mmdebstrap -q --variant=minbase --include=man-db,bash-completion,fuse3,mount,e2fsprogs,zsh,systemd \
      "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$new"
    mv "$new" "$system"
  fi
  if [ ! -d "$work/debian" ]; then
    mkdir "$work/debian"
    tar -C "$work/debian" --numeric-owner -xf "$system"
    cp "$inside" "$work/debian/root/"
  fi
}

# The files of the system, without what dpkg, man-db and ldconfig keep for themselves.
files() {
  (cd "$work/debian" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./root \) -prune \
    -o -type d -printf '%p %m\n' -o -printf '%p %m %s %l\n' | LC_ALL=C sort)
}

check_sums() { (cd "$dist" && sha256sum --quiet -c SHA256SUMS); }

check_lintian() { lintian --fail-on error,warning "$dist"/uext4_*.deb; }

check_debian() {
  minimal_system
  cp "$dist"/uext4_*.deb "$work/debian/root/"
  files >"$work/before"
  within "$work/debian" bash /root/dist-inside.sh debian
  files >"$work/after"
  if ! diff "$work/before" "$work/after"; then
    echo "dist-check: dpkg -P left or changed these" >&2
    exit 1
  fi
}

# Nothing but the program, and what it reads and makes.
check_empty() {
  local root=$work/empty image
  mkdir -p "$root/tree/sub"
  echo content >"$root/tree/sub/file"
  install -m 755 "$static" "$root/uext4"
  within "$root" /uext4 --version
  within "$root" /uext4 mkfs -q /made.img --size 64M
  within "$root" /uext4 mkfs -q /tree.img --from /tree
  for image in made tree; do
    within "$root" /uext4 info "/$image.img" >/dev/null
    within "$root" /uext4 check "/$image.img"
    e2fsck -fn "$root/$image.img" >/dev/null 2>&1
  done
  [ "$(within "$root" /uext4 cat /tree.img:/sub/file)" = content ]
}

check_container() {
  local start
  mkdir "$work/layout"
  tar -C "$work/layout" -xf "$(echo "$dist"/uext4-*-oci.tar)"
  skopeo inspect "oci:$work/layout:latest" >/dev/null
  umoci unpack --image "$work/layout:latest" "$work/bundle" >/dev/null 2>&1
  cmp "$static" "$work/bundle/rootfs/usr/bin/uext4"
  mapfile -t start < <(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["process"]["args"], sep="\n")' "$work/bundle/config.json")
  [ "${start[*]}" = "/usr/bin/uext4 help" ]
  within "$work/bundle/rootfs" "${start[@]}" >"$work/help"
  grep -q mkfs "$work/help"
}

check_mounts() {
  local transport
  minimal_system
  install -m 755 "$static" "$work/debian/root/uext4"
  for transport in dev uring; do
    if [ "$transport" = uring ] && [ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ]; then
      echo "skipped: this kernel has no FUSE over io_uring"
      continue
    fi
    SYS=$([ "$transport" = dev ] || echo 1) within "$work/debian" bash /root/dist-inside.sh mount "$transport"
    e2fsck -fn "$work/debian/root/mounted.img" >/dev/null 2>&1
  done
}

for part in ${parts:-sums lintian debian empty container mounts}; do
  printf '== %s\n' "$part"
  "check_$part"
done
echo "dist-check: all of it works"
