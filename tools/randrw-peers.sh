#!/usr/bin/env bash
# uext4 bench randrw beside fio, in turn (A B A B), with minimum, median and maximum of both and their ratio:
#   1. an image on tmpfs, in process, beside the kernel's ext4 on a loop device over tmpfs;
#   2. an image on a real disk with O_DIRECT, beside fio on a raw file on that disk.
# Both: direct, 50 % reads, one file of the same size that is fully written, the same threads, time-based.
# fio's engine is psync. Root, loop devices; installs fio where it is missing. Leaves nothing behind.
# usage: randrw-peers.sh UEXT4     environment: THREADS=24 BS=4K SIZE=512M SECONDS_EACH=3 ROUNDS=5
#                                  DISK=/var/tmp (a directory on the disk; `none` leaves it out) ARM=(default)
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,8p "$0"; exit 2; }
uext4=$1
threads=${THREADS:-24} bs=${BS:-4K} size=${SIZE:-512M} each=${SECONDS_EACH:-3} rounds=${ROUNDS:-5}
disk=${DISK:-/var/tmp} arm=${ARM:-}
command -v fio >/dev/null || { apt-get update -q && apt-get install -qy fio; } >&2
shm=$(mktemp -d -p /dev/shm) disk_dir='' mounted=''
cleanup() {
  [ -z "$mounted" ] || umount "$shm/mnt" || umount -l "$shm/mnt"
  rm -rf "$shm" ${disk_dir:+"$disk_dir"}
}
trap cleanup EXIT

# One document of fio or of ours on standard input; prints reads plus writes per second.
total() {
  python3 -c '
import json, sys
document = json.load(sys.stdin)
if "jobs" in document:
    print(sum(job[way]["iops"] for job in document["jobs"] for way in ("read", "write")))
else:
    print(sum(row["ops_per_s"]["median"] for row in document["rows"]))'
}
ours() { # IMAGE [OPTION…]: the image is made, used and removed
  "$uext4" bench randrw --device "file:$1" --bs "$bs" --threads "$threads" --size "$size" --time "$each" \
    -i 1 --json "${@:2}" ${arm:+--dio-lock "$arm"} | total
}
theirs() { # FILE
  fio --name=r --filename="$1" --size="$size" --rw=randrw --bs="$bs" --direct=1 --ioengine=psync --thread \
    --numjobs="$threads" --runtime="$each" --time_based --group_reporting --output-format=json | total
}
fill() { fio --name=fill --filename="$1" --size="$size" --rw=write --bs=1M --direct=1 --end_fsync=1 >/dev/null; }
compare() { # TITLE NAME-OF-THE-PEER OURS THEIRS
  python3 - "$@" <<'PYTHON'
import statistics, sys
title, peer, *figures = sys.argv[1:]
ours, theirs = ([float(f) for f in figure.split()] for figure in figures)
print(title)
print(f'{"reads + writes per second":<28}{"min":>12}{"median":>12}{"max":>12}')
for name, all in (('uext4', ours), (peer, theirs)):
    print(f'{name:<28}{min(all):>12,.0f}{statistics.median(all):>12,.0f}{max(all):>12,.0f}')
print(f'ratio of the medians: {statistics.median(ours) / statistics.median(theirs):.2f}, '
      f'of each round: {", ".join(f"{a / b:.2f}" for a, b in zip(ours, theirs))}\n')
PYTHON
}
interleaved() { # TITLE NAME-OF-THE-PEER FILE-OF-THE-PEER IMAGE [OPTION…]
  local a=() b=()
  for _ in $(seq "$rounds"); do
    a+=("$(ours "${@:4}")")
    b+=("$(theirs "$3")")
  done
  compare "$1" "$2" "${a[*]}" "${b[*]}"
}

what="$threads threads, $bs, $size, $each s, $rounds rounds"
mkdir "$shm/mnt"
truncate -s 3G "$shm/kernel.img"
mkfs.ext4 -q "$shm/kernel.img"
mount -o loop,dioread_nolock "$shm/kernel.img" "$shm/mnt"
mounted=yes
fill "$shm/mnt/f"
sync -f "$shm/mnt/f"
interleaved "image on tmpfs: $what" "kernel ext4 on loop" "$shm/mnt/f" "$shm/u.img"

[ "$disk" = none ] && exit 0
disk_dir=$(mktemp -d -p "$disk")
fill "$disk_dir/raw"
sync -f "$disk_dir/raw"
interleaved "file on $disk, O_DIRECT: $what" "fio on a raw file" "$disk_dir/raw" "$disk_dir/u.img" --direct --journal-size 64M
