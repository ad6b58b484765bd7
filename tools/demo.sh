#!/usr/bin/env bash
# The main job on a real tree: build an image, check it, read it back, compare every byte and attribute,
# and time mke2fs -d beside it; then every workload and variant, on one page.  usage: demo.sh UEXT4 [TREE]
# The page is written to target/report, or where UEXT4_REPORT says.
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

step "mke2fs -d beside it (up to half a minute)"
a=$(now); mke2fs -q -t ext4 -d "$tree" "$work/m.img" $((megabytes * 3 / 2 + 64))M >/dev/null 2>&1 || echo "mke2fs -d failed"; b=$(now)
theirs=$(took "$a" "$b")

step "result"
printf '%-24s %8s s %12s files/s %8s MB/s\n' \
  "uext4 mkfs --from" "$ours" "$(rate "$entries" "$ours")" "$(rate "$megabytes" "$ours")" \
  "uext4 cp -a (read back)" "$back" "$(rate "$entries" "$back")" "$(rate "$megabytes" "$back")" \
  "mke2fs -d" "$theirs" "$(rate "$entries" "$theirs")" "$(rate "$megabytes" "$theirs")"
printf 'image: %s MB for %s MB of files; %s times as fast as mke2fs -d\n' \
  "$((size >> 20))" "$megabytes" "$(python3 -c "print(f'{$theirs/$ours:.0f}')")"

report=${UEXT4_REPORT:-target/report}
step "what a lock costs: every workload and variant, beside the peers that this machine has (three to five minutes)"
"$uext4" bench all --quick --report "$report"
printf '\nThe page: %s\n' "$report/report.html"
