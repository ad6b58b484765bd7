#!/usr/bin/env bash
# Builds uext4.exe with mingw-w64 and runs its image commands under Wine: a tree is copied into images and out of them again, and e2fsck
# and debugfs read what was made. Installs mingw-w64 and Wine; minutes with the build, then seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh windows
triple=x86_64-pc-windows-gnu
rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"
cargo build -p uext4-cli --target "$triple"
work=$(mktemp -d)
trap 'WINEPREFIX=$work/wine "$wineserver" -k || true; rm -rf "$work"' EXIT
wine=$(command -v wine64 wine /usr/lib/wine/wine64 | head -1)
wineserver=$(command -v wineserver /usr/lib/wine/wineserver64 /usr/lib/wine/wineserver | head -1)
cp "${CARGO_TARGET_DIR:-target}/$triple/debug/uext4.exe" "$work"
cd "$work"
export WINEPREFIX=$work/wine WINEDEBUG=-all LC_ALL=C.UTF-8
# Rust's std takes random numbers from a library that Wine has since version 8.19.
cat > random.c <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) { return SystemFunction036(data, (ULONG)len); }
C
x86_64-w64-mingw32-gcc -shared -o bcryptprimitives.dll random.c -ladvapi32
uext4() { timeout 120 "$wine" uext4.exe "$@"; }
# What debugfs and e2fsck find in an image that was made there.
same() {
  e2fsck -fn "$1" >e2fsck.log 2>&1 || { cat e2fsck.log; exit 1; }
  rm -rf read
  mkdir read
  debugfs -R "rdump $2 read" "$1" 2>debugfs.log
  rm -rf read/lost+found
  diff -r tree "read/${2#/}"
}

mkdir -p tree/sub/deep tree/empty
echo hello >tree/hello.txt
touch -d '2001-02-03 04:05:06.7 UTC' tree/hello.txt
seq 100000 >'tree/sub/deep/café x'
head -c 5000000 /dev/urandom >tree/sub/data
: >tree/zero

uext4 mkfs --quiet a.img --size 1G
uext4 cp -rp tree a.img:/
same a.img /tree
uext4 check a.img
uext4 cp -rp a.img:/tree out
diff -r tree out
[ "$(stat -c %Y out/hello.txt)" = "$(stat -c %Y tree/hello.txt)" ]
[ "$(uext4 ls a.img:/tree)" = "$(ls tree)" ]
uext4 cp - a.img:/piped <tree/sub/data
uext4 cat a.img:/piped | cmp - tree/sub/data
# Names that Windows has not, and what it cannot hold.
uext4 mkdir 'a.img:/a:b'
uext4 cp tree/hello.txt 'a.img:/a:b/ends with.'
debugfs -R 'cat "/a:b/ends with."' a.img 2>debugfs.log | cmp - tree/hello.txt
uext4 cp -r 'a.img:/a:b' held
cmp 'held/ends with'$'\uf02e' tree/hello.txt
uext4 mkfs --quiet c.img --from held
debugfs -R 'cat "/ends with."' c.img 2>debugfs.log | cmp - tree/hello.txt
uext4 ln -s hello.txt a.img:/tree/link
! uext4 cp -r a.img:/tree again 2>refused
grep -q 'link: is a symbolic link in the image' refused
uext4 rm a.img:/tree/link
uext4 mkfs --quiet --force a.img --from tree --size 64M
same a.img /
uext4 export --quiet a.img a.tar.zst
uext4 mkfs --quiet b.img --from a.tar.zst
same b.img /
uext4 resize --quiet b.img 200M
uext4 tune -L windows b.img
uext4 check -y --undo undo --quiet b.img
same b.img /
cp uext4.exe dumpe2fs.exe
[ "$(timeout 120 "$wine" dumpe2fs.exe -h b.img 2>dumpe2fs.log | tr -d '\r' | sed -n 's/^Filesystem volume name: *//p')" = windows ]
echo "windows: uext4.exe makes, reads, writes, resizes and checks images under $("$wine" --version)"
