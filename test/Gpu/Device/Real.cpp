//===- Real.cpp - Device tests on a real GPU ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"

using namespace kiln::runtime;
using namespace kiln;

cuda::Libraries devicetest::libraries() { return {}; }

bool devicetest::isReal() { return true; }

void devicetest::expectFault() {}

void devicetest::useTwoDevices() {}
