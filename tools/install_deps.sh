#!/usr/bin/env bash
# Installs what Espalier is built with: Debian 12 packages, nothing from elsewhere. Asks for root only when something
# is missing, and needs no network when nothing is. Packages named as arguments are installed too; --list prints those
# of the build and installs nothing.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config            # the build
  libfmt-dev nlohmann-json3-dev libsimdjson-dev libtomlplusplus-dev
  libsqlite3-dev libxxhash-dev libpcre2-dev libutf8proc-dev
  libhwy-dev libdnnl-dev                      # vector loops and matrix products
  libgtest-dev                                # the tests
  python3                                     # its standard library is text that the demo learns from
)

if [[ ${1:-} == --list ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
packages+=("$@")

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "install_deps: this is no Debian system; install the counterparts of: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

echo "Installing Debian packages: ${missing[*]}"
as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo > /dev/null; then
    echo "install_deps: root is needed and sudo is not here; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "(sudo may ask for your password)"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }
apt update
apt install -y --no-install-recommends "${missing[@]}" > /dev/null
