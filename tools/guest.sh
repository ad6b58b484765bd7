#!/usr/bin/env bash
# Runs commands in a QEMU guest (no KVM) that boots Debian's kernel, over images of the host. Installs what it needs from Debian's packages and keeps
# the kernel in ~/.cache/uext4-guest. Prints what the commands print, and exits with their status. A boot takes about six seconds.
# usage: guest.sh [-d IMAGE]... [-f FILE]... [-k MODULES] [-m MiB] COMMANDS
#        guest.sh -r [-d IMAGE]... [-f FILE]... [-k MODULES] [-m MiB] COMMANDS LATER
#   COMMANDS run in BusyBox's `sh -e` as root. The images are /dev/vda, /dev/vdb, ...; each FILE is in /; MODULES, and those that they need,
#   are loaded before.
#   -r: /dev/vda is the root file system. Its `sh -e` runs COMMANDS as the first process; each FILE is in /run. Then its /sbin/init,
#   which is systemd, boots the system, runs LATER in the same way, and powers off.
#   GUEST_TIMEOUT: seconds until the guest is killed, 900 by default
set -euo pipefail
mem=512; boot=; disks=(); files=(); modules="virtio_pci virtio_blk"
while getopts rd:f:m:k: option; do
  case $option in
    r) boot=1 ;;
    d) disks+=("$OPTARG") ;;
    f) files+=("$OPTARG") ;;
    m) mem=$OPTARG ;;
    k) modules+=" $OPTARG" ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
commands=${1:?commands}; later=${2-}

"$(dirname "$0")/setup.sh" guest >&2
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/uext4-guest; mkdir -p "$cache"
if [ ! -e "$cache/vmlinuz" ]; then
  (
    mkdir "$work/debs"; cd "$work/debs"
    apt-get update -qq
    image=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/{print $2; exit}')
    apt-get download -qq "$image" busybox-static 2>/dev/null
    for deb in *.deb; do dpkg-deb -x "$deb" x; done
    rm -rf "$cache/modules"
    mv x/lib/modules/* "$cache/modules"
    cp x/bin/busybox "$cache/busybox"
    # The last, as it marks that the others are there.
    cp x/boot/vmlinuz-* "$cache/vmlinuz.new"; mv "$cache/vmlinuz.new" "$cache/vmlinuz"
  )
fi

root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,mnt,tmp,mods,files}
cp "$cache/busybox" "$root/bin/busybox"
"$cache/busybox" --list | while read -r applet; do [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"; done
# Copies a module after those that it needs, so that `order` lists them as they must be loaded.
: >"$work/order"; seen=" "
add_module() {
  local name=${1//-/_} path needed
  case $seen in *" $name "*) return ;; esac
  seen+="$name "
  path=$(find "$cache/modules" -name "$name.ko" -o -name "${name//_/-}.ko" | head -1)
  [ -n "$path" ] || return 0
  for needed in $(modinfo -F depends "$path" | tr ',' ' '); do add_module "$needed"; done
  cp "$path" "$root/mods/$name.ko"; echo "$name" >>"$work/order"
}
for module in $modules; do add_module "$module"; done
if [ -n "$boot" ]; then kept=$root/files; else kept=$root; fi
for file in "${files[@]}"; do cp -a "$file" "$kept/"; done
printf '%s\n' "$commands" >"$root/commands"
printf '%s\n' "$later" >"$root/later"
cat >"$root/end" <<'END'
echo "GUEST-END $1"; sync; echo o >/proc/sysrq-trigger; sleep 9
END
cat >"$root/first" <<'END'
mount -t proc proc /proc; mount -t sysfs sys /sys
echo; echo GUEST-BEGIN
sh -e /run/commands || { set -- $?; . /run/end; }
exec /sbin/init </dev/console
END
cat >"$root/booted" <<'END'
sh -e /run/later >/run/printed 2>&1
echo "GUEST-END $?" >>/run/printed
# systemd hangs up the console when it starts a login there, and a write at that moment fails.
until cat /run/printed >/dev/console; do sleep 1; done
END
{
  echo '#!/bin/sh'
  echo 'export PATH=/bin; mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev'
  while read -r module; do echo "insmod /mods/$module.ko"; done <"$work/order"
  if [ ${#disks[@]} -gt 0 ]; then
    last=/dev/vd$(printf '%b' "\\x$(printf %x $((96 + ${#disks[@]})))")
    echo "i=0; while [ ! -b $last ] && [ \$i -lt 50 ]; do sleep 0.2; i=\$((i + 1)); done"
  fi
  if [ -n "$boot" ]; then
    echo 'mount -t ext4 /dev/vda /mnt && mount -t tmpfs -o mode=755 run /mnt/run && cp -a /files/. /first /end /commands /later /booted /mnt/run &&'
    echo '  mount --move /dev /mnt/dev && exec switch_root -c /dev/console /mnt /bin/sh /run/first'
  else
    echo 'echo; echo GUEST-BEGIN; sh -e /commands; set -- $?'
  fi
  echo '. /end $1'
} >"$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

drives=()
for disk in "${disks[@]}"; do drives+=(-drive "file=$disk,format=raw,if=virtio,cache=writeback"); done
after="systemd.show_status=0 systemd.run=\"/bin/sh /run/booted\" systemd.run_success_action=poweroff systemd.run_failure_action=poweroff"
out=$work/out
timeout "${GUEST_TIMEOUT:-900}" qemu-system-x86_64 -accel tcg -smp 2 -m "$mem" -kernel "$cache/vmlinuz" -initrd "$work/initrd" \
  -append "console=ttyS0 quiet loglevel=3 panic=-1 ${boot:+$after}" "${drives[@]}" -nographic -no-reboot </dev/null 2>&1 | tr -d '\r' >"$out" || true
sed -n '/^GUEST-BEGIN$/,/^GUEST-END/p' "$out" | sed '1d;/^GUEST-END/d'
status=$(sed -n 's/^GUEST-END \([0-9]*\)$/\1/p' "$out" | tail -1)
[ -n "$status" ] || { echo "guest.sh: the guest did not finish:" >&2; tail -15 "$out" >&2; exit 125; }
exit "$status"
