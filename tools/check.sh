#!/usr/bin/env bash
# ===- check.sh - Set up, build, and pass every test -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
#
# Checks a working tree; continuous integration runs exactly this command.
# `--long` adds the slow tests, which are enabled by KILN_LONG.
#
# ===-----------------------------------------------------------------------=== #
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for argument in "$@"; do
  case $argument in
    --long) export KILN_LONG=1 ;;
    --help | -h)
      echo "usage: tools/check.sh [--long]     sets up, builds, runs every test"
      exit 0
      ;;
    *)
      echo "check.sh: unknown argument '$argument' (see --help)" >&2
      exit 2
      ;;
  esac
done

bash tools/setup.sh
echo "-- building"
bash tools/build.sh
echo "-- testing"
exec ctest --test-dir build --output-on-failure -j "$(nproc)" --no-tests=error
