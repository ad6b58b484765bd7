#!/usr/bin/env bash
# The site of the documentation, target/site: the pages of docs/, the README, and the help of every command. Fails if a link in it leads nowhere.
# usage: site.sh UEXT4
set -euo pipefail
uext4=$(realpath "$1")
cd "$(dirname "$0")/.."
version=0.5.4
mdbook=$(command -v mdbook || true)
if [ -z "$mdbook" ]; then
  cargo install --quiet --locked --root target/mdbook "mdbook@$version"
  mdbook=target/mdbook/bin/mdbook
fi

pages=target/site-pages
rm -rf "$pages"; mkdir -p target
cp -rL docs "$pages"
# Pages of the root of the tree, whose links begin there.
page() { sed -E 's#\]\(docs/#](#g; s#\]\((examples|tests|crates)[^)]*\)#]#g' "$1" >"$pages/$2"; }
page README.md INTRODUCTION.md
for name in SECURITY CONTRIBUTING CHANGELOG; do page "$name.md" "$name.md"; done
cat >>"$pages/SUMMARY.md" <<'END'
- [Security](SECURITY.md)
- [Contributing](CONTRIBUTING.md)
- [Changes](CHANGELOG.md)
END

# The help of a command, and of those below it.
help() {
  local text
  text=$("$uext4" help "$@")
  printf '\n## %s\n\n```text\n%s\n```\n' "${*:-uext4}" "$text"
  # What is indented below "Commands:".
  sed -n '/^Commands:/,/^$/p' <<<"$text" | awk '/^  [a-z]/ {print $1}' | while read -r below; do
    [ "$below" = help ] || help "$@" "$below"
  done
}
commands() { "$uext4" help | sed -n '/^Build:/,/^Topics:/p' | awk '/^  [a-z]/ {print $1}' | grep -vx help | sort; }
mkdir -p "$pages/reference"
{
  echo '# Commands'
  for command in $(commands); do help "$command"; done
} >"$pages/reference/commands.md"

sed 's#"../target/site"#"../site"#' docs/book.toml >"$pages/book.toml"
"$mdbook" build "$pages"
tools/links.py target/site
