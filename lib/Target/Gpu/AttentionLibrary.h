//===- AttentionLibrary.h - Attention that a library may do -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A module with the attribute `kiln.attention`, which kilnc sets, allows a
// vendor library to compute its attention. The description of such a call
// follows from the kernel that it replaces.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ATTENTIONLIBRARY_H
#define KILN_LIB_TARGET_GPU_ATTENTIONLIBRARY_H

#include "kiln/Abi/VendorAttention.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include <optional>

namespace kiln::gpu {

/// Describes the call that may replace `kernel`. Returns nothing if the module
/// does not ask for it, or if the library cannot compute what the kernel does:
/// it has dropout or not suitsVendorLibrary().
std::optional<abi::VendorAttention> libraryAttentionOf(rt::KernelOp kernel);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ATTENTIONLIBRARY_H
