#!/usr/bin/env bash
# Packs what `make install` installs as a Debian package.
# usage: deb.sh BUILT DIR [SBOM]   BUILT: Cargo's directory of the profile; prints the package, which is made in DIR
# SOURCE_DATE_EPOCH is the newest time of a file in it; DEBFULLNAME and DEBEMAIL name its maintainer.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
built=$(realpath "$1")
to=$(realpath "$2")
sbom=${3+$(realpath "$3")}
maintainer="${DEBFULLNAME:-The uext4 authors} <${DEBEMAIL:-uext4@packages.invalid}>"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")
arch=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$work/bin" "$root/DEBIAN" "$work/debian"

# No program of benchmarks, which the directory may have.
for file in "$built"/uext4 "$built"/lib*.so "$built"/lib*.a; do
  if [ -e "$file" ]; then ln -s "$file" "$work/bin/"; fi
done
DESTDIR=$root "$source/tools/install.sh" "$work/bin" /usr >/dev/null

# Debian's places of libraries and completions.
mkdir -p "$root/usr/lib/$multiarch" "$root/usr/share/zsh/vendor-completions"
find "$root/usr/lib" -mindepth 1 -maxdepth 1 \( -name 'lib*' -o -name pkgconfig \) -exec mv -t "$root/usr/lib/$multiarch" {} +
find "$root/usr/lib/$multiarch" -name '*.pc' -exec sed -i "s|^libdir=.*|libdir=/usr/lib/$multiarch|" {} +
mv -t "$root/usr/share/zsh/vendor-completions" "$root/usr/share/zsh/site-functions/_uext4"
rmdir "$root/usr/share/zsh/site-functions"
mkdir "$root/lib"
mv "$root/usr/lib/systemd" "$root/lib/systemd"

find "$root" -type f \( -name uext4 -path '*/bin/*' -o -name 'lib*.so*' \) -exec strip --strip-unneeded --remove-section=.comment --remove-section=.note {} +
find "$root" -type f -name 'lib*.so*' -exec chmod 644 {} +
find "$root" -type f -name 'lib*.a' -exec strip --strip-debug --enable-deterministic-archives {} +
find "$root/usr/share/man" -type f -exec gzip -9n {} +

doc=$root/usr/share/doc/uext4
mkdir -p "$doc" "$root/usr/share/lintian/overrides"
{
  cat "$source/packaging/copyright"
  # The texts as the format has them: a dot for an empty line.
  echo "License: MIT"
  sed '1,2d; s/^$/./; s/^/ /' "$source/LICENSE-MIT"
  echo
  echo "License: Unicode-3.0"
  sed 's/^$/./; s/^/ /' "$source/docs/UNICODE-LICENSE"
} >"$doc/copyright"
if [ -n "$sbom" ]; then install -m 644 "$sbom" "$doc/sbom.cdx.json"; fi
gzip -9nc "$source/CHANGELOG.md" >"$doc/NEWS.md.gz"
# Those that `uext4 help` names.
install -m 644 "$source"/{SECURITY,docs/MECHANISMS,docs/C,docs/GO,docs/PYTHON}.md "$doc"
install -Dm 644 -t "$doc/mechanisms" "$source"/docs/mechanisms/*.md
gzip -9nc >"$doc/changelog.gz" <<END
uext4 ($version) unstable; urgency=medium

  * Release $version; /usr/share/doc/uext4/NEWS.md.gz says what changed.

 -- $maintainer  $(LC_ALL=C date -uRd "@$SOURCE_DATE_EPOCH")
END
install -m 644 "$source/packaging/lintian-overrides" "$root/usr/share/lintian/overrides/uext4"

# What the programs need, by the symbols that they use.
printf 'Source: uext4\n\nPackage: uext4\nArchitecture: any\n' >"$work/debian/control"
mapfile -t programs < <(find "$root/usr" -type f \( -name uext4 -path '*/bin/*' -o -name 'lib*.so*' \))
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info "${programs[@]}" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<END
Package: uext4
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Recommends: fuse3
Suggests: e2fsprogs
Section: utils
Priority: optional
Description: ext4 in user space
 Builds, checks, repairs, inspects, changes and mounts ext4 images without a
 kernel driver and without root. Images are files or block devices, raw or
 qcow2, or what an NBD server has. They are journaled, and what e2fsck and
 Linux read.
 .
 The package has the command, a helper for mount(8), so that lines of
 /etc/fstab work, a unit of systemd, and libraries for programs in C:
 libuext4_mq.so has mq_open(3) and the other calls on message queues of mounts.
END
(cd "$root" && find usr lib -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
for library in "$root/usr/lib/$multiarch"/lib*.so.*; do
  name=$(basename "$library")
  echo "${name%%.so.*} ${name##*.so.} uext4 (>= $version)"
done >"$root/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
package=$to/uext4_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --threads-max=1 -b "$root" "$package" >/dev/null
echo "$package"
