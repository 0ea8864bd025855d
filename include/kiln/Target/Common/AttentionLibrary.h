//===- AttentionLibrary.h - Attention that a library may do -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A module says by its attribute `kiln.attention`, which kilnc sets, that a
// library may compute attention on its GPU. What the runtime is told of a
// launch, and the memory that the plan has for it, follow from its kernel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_ATTENTIONLIBRARY_H
#define KILN_TARGET_COMMON_ATTENTIONLIBRARY_H

#include "kiln/Abi/VendorAttention.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include <optional>

namespace kiln {

/// Nothing where no library may do what the kernel does: not asked for, of
/// another target, with dropout, or not suitsVendorLibrary().
std::optional<abi::VendorAttention> libraryAttentionOf(rt::KernelOp kernel);

} // namespace kiln

#endif // KILN_TARGET_COMMON_ATTENTIONLIBRARY_H
