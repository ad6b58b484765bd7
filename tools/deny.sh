#!/usr/bin/env bash
# Checks the dependencies with cargo-deny (deny.toml): licences, duplicate versions, sources. With ADVISORIES=1 also the
# RustSec advisories and yanked versions, for which it fetches their database from GitHub.
# Installs cargo-deny where it is missing and what it reads differs from what it accepted last (deny.accepted): a debug build, as
# it runs for seconds and builds in minutes. With LATER=1 it installs nothing, and leaves that to `make nightly`.
set -euo pipefail
cd "$(dirname "$0")/.."
accepted=tools/deny.accepted
sum=$(git ls-files Cargo.lock deny.toml '*Cargo.toml' tools/deny.sh | xargs cat | sha256sum | cut -d' ' -f1)
if [ -z "${ADVISORIES-}${ALWAYS-}" ] && [ "$sum" = "$(cat "$accepted")" ]; then
  echo "deny: the dependencies are those that cargo-deny accepted last"
  exit
fi
if ! cargo deny --version >/dev/null 2>&1; then
  if [ -n "${LATER-}" ]; then
    echo "deny: NOT CHECKED: the dependencies differ from those accepted last; please run make deny, and commit $accepted"
    exit
  fi
  echo "deny: installing cargo-deny in $(dirname "$(command -v cargo)"), about three minutes"
  cargo install cargo-deny --version 0.20.2 --locked --debug --quiet
fi
checks=(licenses bans sources)
if [ -n "${ADVISORIES-}" ]; then checks+=(advisories); else echo "deny: advisories are not checked without ADVISORIES=1"; fi
cargo deny --log-level warn check --hide-inclusion-graph "${checks[@]}"
echo "$sum" >"$accepted"
