# SPDX-License-Identifier: MIT
#
# What scripts/run and scripts/test share: errors, Debian packages, build directories.
# Sourced by bash; the caller has set `root` (the top of the tree) and `me` (its own name).
# Nothing is installed, and the network is not touched, while nothing is missing.

say() { printf '%s: %s\n' "$me" "$*" >&2; }
die() { say "$*"; exit 1; }

# packages SECTION: the lines of one section of scripts/packages.txt.
packages() {
  awk -v want="[$1]" '
    /^[[:space:]]*(#|$)/ { next }
    /^\[/ { inside = ($0 == want); next }
    inside { print }' "$root/scripts/packages.txt"
}

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# No pipe into `grep -q` here: it would end before apt-cache has written all, and pipefail would
# then see apt-cache die of SIGPIPE now and then.
has_candidate() {
  local policy
  policy=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null) && [[ $policy == *"Candidate: "[!\(]* ]]
}

# missing_packages SECTION...: the lines of which no alternative is installed.
missing_packages() {
  local section line name found
  for section in "$@"; do
    while read -r line; do
      found=no
      for name in ${line//|/ }; do
        if is_installed "$name"; then found=yes; break; fi
      done
      [ "$found" = yes ] || printf '%s\n' "$line"
    done < <(packages "$section")
  done
}

# Runs a command as root; answers 1 without a word where we cannot become root. Without a terminal
# sudo must not stop and ask.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    return 1
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get -q \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1 -o Acquire::http::Timeout=30 "$@" \
    </dev/null >>"$apt_log" 2>&1
}

# choose LINE: the alternative of a package line to install; nothing if the distribution has none.
choose() {
  local name
  for name in ${1//|/ }; do
    if has_candidate "$name"; then printf '%s\n' "$name"; return; fi
  done
}

# try_install LINE...: installs package lines. 1 and a sentence in `install_error` if it cannot.
try_install() {
  local line name names=()
  install_error=
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    install_error="this is not a Debian system: install what scripts/packages.txt lists yourself"
    return 1
  fi
  if [ "$(id -u)" -ne 0 ] && ! as_root true 2>/dev/null; then
    install_error="installing packages needs root: run this as root or set up sudo"
    return 1
  fi
  apt_log=$(mktemp)
  # Package lists that cannot be fetched may still be good enough, so only what follows decides.
  apt_get update || true
  for line in "$@"; do
    name=$(choose "$line")
    if [ -z "$name" ]; then
      install_error="no package called ${line// | / or } is to be had (is the network there?)"
    else
      names+=("$name")
    fi
  done
  if [ "${#names[@]}" -gt 0 ] && ! apt_get install -y --no-install-recommends "${names[@]}"; then
    install_error="apt-get could not install ${names[*]}: $(apt_first_error)"
  fi
  rm -f "$apt_log"
  [ -z "$install_error" ]
}

# apt prefixes the line that matters with "E: ".
apt_first_error() {
  grep -m1 '^E: ' "$apt_log" || echo "no reason given (is the network there?)"
}

# install_required SECTION...: everything of these sections, or the end.
install_required() {
  local lines=()
  command -v dpkg-query >/dev/null ||
    die "this is not a Debian system: build by hand as HACKING.md says"
  mapfile -t lines < <(missing_packages "$@")
  [ "${#lines[@]}" -gt 0 ] || return 0
  say "installing ${lines[*]}"
  try_install "${lines[@]}" || die "$install_error"
}

# install_optional SECTION: what is to be had; a sentence about the rest.
install_optional() {
  local lines=()
  mapfile -t lines < <(missing_packages "$1")
  [ "${#lines[@]}" -gt 0 ] || return 0
  say "installing ${lines[*]} (optional)"
  try_install "${lines[@]}" || say "going on without some optional packages: $install_error"
}

# install_npm DIR: the packages of npm, into DIR/node_modules, if npm is there; a sentence if they are
# not to be had.
install_npm() {
  local line name missing=() dir=$1
  command -v npm >/dev/null || return 0
  while read -r line; do
    name=${line%@*}
    [ -e "$dir/node_modules/$name" ] || missing+=("$line")
  done < <(packages npm-optional)
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "installing ${missing[*]} (optional)"
  mkdir -p "$dir"
  timeout 300 npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix "$dir" \
    "${missing[@]}" </dev/null >/dev/null 2>&1 ||
    say "going on without ${missing[*]}: npm could not install them"
}

# A compiler is the same one for ccache if its bytes are, in the new machine of scripts/fresh, too. What
# a source includes the compiler says itself: nothing is preprocessed beforehand to find that out.
export CCACHE_COMPILERCHECK=content CCACHE_DEPEND=1

# What both commands make build/ with. Lines and functions are all that a report of a crash or a profile
# of shadowprof itself needs to know, and compiling takes three quarters of the time with that alone. That
# each source includes what it needs a build by hand shows (HACKING.md).
usual_build=(--buildtype=debugoptimized -Doptimization=2 -Dcpp_args=-g1 -Dbig_sources=true)

# configure DIR MESON_OPTION...: makes a build directory unless it is there and ours. ninja itself
# configures again when a meson.build changes.
configure() {
  local dir=$1
  shift
  if [ -e "$dir" ] && [ ! -w "$dir" ]; then
    die "$dir belongs to $(stat -c %U "$dir"): remove it, or run this as that user"
  fi
  local args=()
  if [ -f "$dir/build.ninja" ]; then
    # A directory that was copied or moved along with its tree builds the old tree.
    grep -qF "\"source\": \"$root\"" "$dir/meson-info/meson-info.json" && return 0
    args=(--wipe)
  fi
  meson setup "${args[@]}" "$dir" "$root" "$@"
}

# The value of the option `tests` (meson_options.txt) in a build directory; nothing if the directory
# is older than that option.
tests_option() {
  /usr/bin/python3 -c 'import json, sys
for option in json.load(open(sys.argv[1] + "/meson-info/intro-buildoptions.json")):
    if option["name"] == "tests":
        print(option["value"])' "$1"
}

# set_tests_option DIR VALUE: meson forgets which headers it did not find before it looks again.
set_tests_option() {
  [ "$(tests_option "$1")" != "$2" ] || return 0
  meson configure --clearcache "$1" && meson setup --reconfigure -Dtests="$2" "$1" "$root"
}
