#!/usr/bin/env bash
# The main job on a real tree: build an image, check it, read it back, compare every byte and attribute,
# and time mke2fs -d beside it; then short benchmarks of the arms.  usage: demo.sh UEXT4 [TREE]
set -euo pipefail
uext4=$1; tree=${2:-/usr/share}
work=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$work"' EXIT
now() { echo "$EPOCHREALTIME"; }
took() { python3 -c "print(f'{$2-$1:.2f}')"; }
rate() { python3 -c "print(f'{$1/$2:,.0f}')"; }
step() { printf '\n== %s\n' "$*"; }

entries=$(find "$tree" -xdev 2>/dev/null | wc -l)
megabytes=$(du -sm --apparent-size "$tree" 2>/dev/null | cut -f1)
step "$tree: $entries entries, $megabytes MB"
find "$tree" -type f -exec cat {} + >/dev/null 2>&1 || true   # both builders start from a warm cache

step "uext4 mkfs --from $tree"
a=$(now); "$uext4" mkfs "$work/u.img" --from "$tree"; b=$(now)
ours=$(took "$a" "$b")
size=$(stat -c %s "$work/u.img")

step "uext4 check, and e2fsck -fn"
"$uext4" check "$work/u.img"
e2fsck -fn "$work/u.img" >"$work/fsck.log" 2>&1 || { cat "$work/fsck.log"; exit 1; }
tail -n 1 "$work/fsck.log"

step "read back: uext4 cp -a, then compared with $tree"
mkdir "$work/out"
a=$(now); "$uext4" cp -a "$work/u.img:/" "$work/out/tree"; b=$(now)
back=$(took "$a" "$b")
tools/compare.py "$tree" "$work/out/tree"

step "mke2fs -d beside it (this takes about half a minute)"
a=$(now); mke2fs -q -t ext4 -d "$tree" "$work/m.img" $((megabytes * 3 / 2 + 64))M >/dev/null 2>&1 || echo "mke2fs -d failed"; b=$(now)
theirs=$(took "$a" "$b")

step "result"
printf '%-24s %8s s %12s files/s %8s MB/s\n' \
  "uext4 mkfs --from" "$ours" "$(rate "$entries" "$ours")" "$(rate "$megabytes" "$ours")" \
  "uext4 cp -a (read back)" "$back" "$(rate "$entries" "$back")" "$(rate "$megabytes" "$back")" \
  "mke2fs -d" "$theirs" "$(rate "$entries" "$theirs")" "$(rate "$megabytes" "$theirs")"
printf 'image: %s MB for %s MB of files; %s times as fast as mke2fs -d\n' \
  "$((size >> 20))" "$megabytes" "$(python3 -c "print(f'{$theirs/$ours:.0f}')")"

step "what a lock costs: mdtest with each arm of inode allocation, interleaved; images are checked"
"$uext4" bench mdtest --np 8 -n 2000 -F -C -r -u -i 3 --ialloc all

step "the same while transactions close (journal calls sleep 100us): locks and stages of a create"
"$uext4" bench mdtest --np 16 -n 100 -F -C -u -i 1 --ialloc all --journal-delay 100us --lock-stat |
  sed -n '/^ median/,$p'

step "create+unlink with three arms of inode generation"
"$uext4" bench create-unlink --generation spinlock,atomic,beyond --tasks 2,16,128 --time 0.2 -i 3

step "direct I/O and the inode lock: what the threads gain, on a modelled device (80 us, 32 requests at a time)"
"$uext4" bench randrw --device-latency 80us --device-parallelism 32 --bs 4K --threads 1,4,8,24 \
  --dio-lock exclusive-first,shared-first,range --time 0.25 -i 3 --size 64M

kernel=(); [ "$(id -u)" -ne 0 ] || kernel=(--peer kernel)   # unshare needs root
step "what an IPC namespace with its message queues costs while others are alive, beside the kernel's"
"$uext4" bench clone --live 10,100,1000,10000 --time 0.2 -i 3 "${kernel[@]}" | sed '/^latency in us/,$d'

step "64-byte messages from thread to thread, beside the kernel's queues"
"$uext4" bench mq --op stream --queues 1,4 --time 0.3 -i 3 "${kernel[@]}"
