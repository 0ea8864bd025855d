#!/usr/bin/env bash
# ===- setup.sh - Install dependencies and configure build/ ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
#
# For Debian 12, as root or with sudo. It may be run repeatedly: installed packages
# are unchanged, and no network is needed if all are installed. The packages of
# LLVM 22 come from Debian's security archive, which every installation includes.
#
# ===-----------------------------------------------------------------------=== #
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  echo "usage: tools/setup.sh     installs Debian packages and configures build/"
  exit 0
elif (($#)); then
  echo "setup.sh: unknown argument '$1' (see --help)" >&2
  exit 2
fi

packages=(
  clang-22 lld-22 cmake ninja-build ccache                                # tools
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools                  # the compiler
  libopenblas-openmp-dev libgomp1                                         # the runtime
  nlohmann-json3-dev libcli11-dev libxxhash-dev libzstd-dev zlib1g-dev    # files and flags
  libgtest-dev python3 openmpi-bin                                        # tests
)

missing=()
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done

if ((${#missing[@]})); then
  as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup.sh: needs root or sudo to install: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  # $1: message; the rest: a command whose output is shown only if it fails.
  quietly() {
    echo "-- $1"
    shift
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
      tail -n 20 "$log" >&2
      echo "setup.sh: '$*' failed; kiln is set up on Debian 12 (bookworm) with its security archive" >&2
      exit 1
    fi
  }
  quietly "updating the package lists" apt-get -q update
  quietly "installing ${missing[*]}" apt-get -q install -y --no-install-recommends "${missing[@]}"
else
  echo "-- packages: all ${#packages[@]} are installed"
fi

if [[ -f build/build.ninja ]]; then
  echo "-- build/ is configured"
else
  echo "-- configuring build/"
  cmake --preset release --log-level=WARNING
fi
