#!/usr/bin/env bash
# Makes sure that a machine has what sgclaw's demo and tests need: Go,
# Chromium or Chrome, PostgreSQL's server programs, and Node.js for the panel.
# Installs what is missing with the system's package manager when it may, else
# says what to run. Only the panel needs Node.js, so that doing without it is
# no failure.
#
#   setup.sh            check, install what is missing
#   setup.sh --check    check only
#   setup.sh --node     check Node.js only, and fail without it
set -euo pipefail

check_only=${1:-}
say() { printf 'setup: %s\n' "$*" >&2; }

have_go() { command -v go >/dev/null 2>&1; }

have_chromium() {
  [ -n "${SGCLAW_CHROME:-}" ] && [ -x "${SGCLAW_CHROME}" ] && return 0
  local c
  for c in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$c" >/dev/null 2>&1 && return 0
  done
  [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] || [ -x "/Applications/Chromium.app/Contents/MacOS/Chromium" ]
}

have_postgres() {
  command -v initdb >/dev/null 2>&1 && return 0
  local d
  for d in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
    [ -x "$d/initdb" ] && return 0
  done
  return 1
}

# The panel's build asks for these versions.
have_node() {
  command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 && node -e '
    const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(major > 22 || major === 22 && minor >= 12 || major === 20 && minor >= 19 ? 0 : 1)'
}

node_hint() {
  say "the panel needs Node.js 20.19, 22.12 or newer, with npm; here is ${1:-none}. See https://nodejs.org, or your system's packages."
}
node_version() { node --version 2>/dev/null || true; }

if [ "$check_only" = --node ]; then
  have_node || { node_hint "$(node_version)"; exit 1; }
  exit 0
fi

missing=()
have_go || missing+=(go)
have_chromium || missing+=(chromium)
have_postgres || missing+=(postgresql)
# A Node.js that is there and too old is its owner's to replace.
if ! have_node; then
  if command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1; then
    node_hint "$(node_version)"
  else
    missing+=(nodejs)
  fi
fi
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

# The packages' names by package manager; Go is not taken from there, because
# what systems package is usually too old.
install=()
if command -v apt-get >/dev/null 2>&1; then
  install=(apt-get install -y --no-install-recommends)
elif command -v dnf >/dev/null 2>&1; then
  install=(dnf install -y)
elif command -v pacman >/dev/null 2>&1; then
  install=(pacman -S --noconfirm)
elif command -v brew >/dev/null 2>&1; then
  install=(brew install)
fi

packages=()
for m in "${missing[@]}"; do
  case "$m" in
    go) say "Go is missing. Install Go 1.26 or newer: https://go.dev/doc/install"; exit 1 ;;
    chromium)
      packages+=(chromium)
      # Without it Chinese pages are drawn as boxes on pictures.
      [ "${install[0]:-}" = apt-get ] && packages+=(fonts-noto-cjk) ;;
    postgresql)
      case "${install[0]:-}" in
        dnf) packages+=(postgresql-server) ;;
        *) packages+=(postgresql) ;;
      esac ;;
    nodejs)
      case "${install[0]:-}" in
        brew) packages+=(node) ;;
        *) packages+=(nodejs npm) ;;
      esac ;;
  esac
done

# without_node ends well if Node.js is all that is missing.
without_node() {
  if [ "${missing[*]}" = nodejs ]; then
    node_hint "$(node_version)"
    exit 0
  fi
}

if [ ${#install[@]} -eq 0 ]; then
  without_node
  say "missing: ${missing[*]}. No known package manager here; install them by hand."
  exit 1
fi
run=("${install[@]}" "${packages[@]}")
if [ "$check_only" = --check ]; then
  say "missing: ${missing[*]}. Run: ${run[*]}"
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ] && [ "${install[0]}" != brew ]; then
  if sudo -n true 2>/dev/null; then
    sudo=(sudo -n)
  else
    without_node
    say "missing: ${missing[*]}, and installing needs root. Run: sudo ${run[*]}"
    exit 1
  fi
fi
say "installing ${packages[*]} (a minute or two) ..."
export DEBIAN_FRONTEND=noninteractive
fetch() {
  if [ "${install[0]}" = apt-get ]; then
    ${sudo[@]+"${sudo[@]}"} apt-get update -qq || return
  fi
  ${sudo[@]+"${sudo[@]}"} "${run[@]}" >/dev/null
}
if ! fetch; then
  without_node
  say "that failed. Missing: ${missing[*]}"
  exit 1
fi
say "installed"
have_node || node_hint "$(node_version)"
