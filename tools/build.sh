#!/usr/bin/env bash
# ===- build.sh - Build with little output -----------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
#
# usage: tools/build.sh [TARGET...]
#
# Ninja in build/. A terminal gets ninja's own one moving line; a pipe or a file
# gets one line per tenth of the work, and what compilers say.
#
# ===-----------------------------------------------------------------------=== #
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -t 1 ]]; then
  NINJA_STATUS='[%f/%t  %es] ' exec ninja -C build "$@"
fi
NINJA_STATUS='@%f/%t@' ninja -C build "$@" | awk -F@ '
  /^@[0-9]+\/[0-9]+@/ {
    split($2, count, "/")
    tenth = int(10 * count[1] / count[2])
    if (tenth > shown) { print "   built " count[1] " of " count[2]; fflush(); shown = tenth }
    next
  }
  /^ninja: (Entering|no work)/ { next }
  { print; fflush() }'
