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
# Runs ninja in build/. On a terminal, ninja shows its one-line progress;
# otherwise, the output is one line per tenth of the build steps, and compiler
# diagnostics.
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
