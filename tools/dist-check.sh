#!/usr/bin/env bash
# Tries the packages of `make dist` where nothing else is: the Debian package in a minimal Debian system, the static program in an empty root
# and as a container. Needs root, and the network for mmdebstrap and lintian, which it installs where they are missing.
# usage: dist-check.sh [DIR]   DIR: what dist.sh made, target/dist by default
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:-target/dist}")
system=$(realpath -m target/debian-root.tar)
inside=$(realpath tools/dist-inside.sh)
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
step() { printf '== %s\n' "$*"; }

# Runs a command in a root of its own: DIR COMMAND... Mounts in it end with the command.
within() {
  local root=$1
  shift
  unshare --mount --pid --net --ipc --fork --propagation private bash -euc '
    root=$1; shift
    mount --bind "$root" "$root"
    if [ -d "$root/proc" ]; then mount -t proc proc "$root/proc"; fi
    if [ -d "$root/dev" ]; then
      mount -t tmpfs none "$root/dev"
      for node in null zero urandom fuse; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
    fi
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ chroot "$root" "$@"' within "$root" "$@"
}

step "sums"
(cd "$dist" && sha256sum --quiet -c SHA256SUMS)

step "lintian"
lintian --fail-on error,warning "$dist"/uext4_*.deb

step "the Debian package in a minimal system"
if [ ! -e "$system" ]; then
  mmdebstrap -q --variant=minbase --include=man-db,bash-completion,fuse3,mount,e2fsprogs,zsh,systemd \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$system.new"
  mv "$system.new" "$system"
fi
mkdir "$work/debian"
tar -C "$work/debian" --numeric-owner -xf "$system"
# Pages and completions are tested, so they must be unpacked.
rm -f "$work"/debian/etc/dpkg/dpkg.cfg.d/*
cp "$dist"/uext4_*.deb "$inside" "$work/debian/root/"
# What dpkg, man-db and ldconfig keep for themselves changes.
list() {
  (cd "$work/debian" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./root \) -prune \
    -o -type d -printf '%p %m\n' -o -printf '%p %m %s %l\n' | LC_ALL=C sort)
}
list >"$work/before"
within "$work/debian" bash /root/dist-inside.sh debian
list >"$work/after"
if ! diff "$work/before" "$work/after"; then
  echo "dist-check: dpkg -P left something" >&2
  exit 1
fi

step "the static program in an empty root"
mkdir "$work/empty"
static=$(echo "$dist"/uext4-*-linux-static)
install -m 755 "$static" "$work/empty/uext4"
within "$work/empty" /uext4 --version
# What it reads and makes.
mkdir -p "$work/empty/tree/sub"
echo content >"$work/empty/tree/sub/file"
within "$work/empty" /uext4 mkfs -q /made.img --size 64M
within "$work/empty" /uext4 mkfs -q /tree.img --from /tree
for image in made tree; do
  within "$work/empty" /uext4 info "/$image.img" >/dev/null
  within "$work/empty" /uext4 check "/$image.img"
  e2fsck -fn "$work/empty/$image.img" >/dev/null
done
[ "$(within "$work/empty" /uext4 cat /tree.img:/sub/file)" = content ]

step "the container image"
mkdir "$work/layout"
tar -C "$work/layout" -xf "$(echo "$dist"/uext4-*-oci.tar)"
skopeo inspect "oci:$work/layout:latest" >/dev/null
umoci unpack --image "$work/layout:latest" "$work/bundle" >/dev/null 2>&1
root=$work/bundle/rootfs
cmp "$static" "$root/usr/bin/uext4"
mapfile -t start < <(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["process"]["args"], sep="\n")' "$work/bundle/config.json")
within "$root" "${start[@]}" >/dev/null

step "mounts by the static program, over both transports"
mkdir -p "$root/proc" "$root/dev"
cp "$work/empty/tree.img" "$root/tree.img"
cp "$inside" "$work/debian/root/"
for transport in dev uring; do
  if [ "$transport" = uring ] && [ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ]; then
    echo "skipped: this kernel has no FUSE over io_uring"
    continue
  fi
  install -m 755 "$static" "$work/debian/root/uext4"
  cp "$work/empty/tree.img" "$work/debian/root/tree.img"
  within "$work/debian" bash /root/dist-inside.sh mount "$transport"
  e2fsck -fn "$work/debian/root/tree.img" >/dev/null
done
step "all packages work"
