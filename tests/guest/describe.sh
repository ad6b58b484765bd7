# Prints all that a tree has: kind, permission, owners, size, time, links, target, devices, digests and extended attributes of each file, by name.
# usage: describe.sh DIRECTORY
set -eu
export LC_ALL=C
cd "$1"
files() { find . -path ./lost+found -prune -o "$@"; }
files \( -type d -printf '%p %y%m %U:%G %T@\n' -o -printf '%p %y%m %U:%G %T@ %s %n %l\n' \) | sort
files \( -type b -o -type c \) -print0 | sort -z | xargs -0r stat -c '%n %t:%T'
files -type f -print0 | sort -z | xargs -0r sha256sum
files -print0 | sort -z | xargs -0r getfattr -h -d -m - -e hex
