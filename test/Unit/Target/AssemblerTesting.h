//===- AssemblerTesting.h - Tests that need an assembler --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ASSEMBLERTESTING_H
#define KILN_TEST_UNIT_TARGET_ASSEMBLERTESTING_H

#include "kiln/Target/Gpu/Cubin.h"

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

/// Ends a test if `result` has no value: skips it if no assembler is installed,
/// and fails if an assembler reports an error.
#define KILN_REQUIRE_ASSEMBLED(result)                                         \
  if (!(result)) {                                                             \
    llvm::Error error = (result).takeError();                                  \
    bool isMissing = error.isA<kiln::gpu::NoAssembler>();                      \
    std::string text = llvm::toString(std::move(error));                       \
    if (isMissing)                                                             \
      GTEST_SKIP() << text;                                                    \
    FAIL() << text;                                                            \
  }                                                                            \
  static_assert(true, "takes a semicolon")

#endif // KILN_TEST_UNIT_TARGET_ASSEMBLERTESTING_H
