//===- AttentionLibrary.h - Attention calls of a vendor library -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If kilnc sets the module attribute `kiln.attention`, the executable is
// allowed to call a vendor library instead of an attention kernel. The
// description of the library call is derived from the kernel that the call
// replaces.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ATTENTIONLIBRARY_H
#define KILN_LIB_TARGET_GPU_ATTENTIONLIBRARY_H

#include "kiln/Abi/VendorAttention.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include <optional>

namespace kiln::gpu {

/// Returns the library call that may replace `kernel`. Returns std::nullopt if
/// the module lacks the attribute `kiln.attention`, if the kernel computes
/// neither attention nor its gradient, if the element type is not bf16, if
/// there is dropout, or if suitsVendorLibrary() is false.
std::optional<abi::VendorAttention> libraryAttentionOf(rt::KernelOp kernel);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ATTENTIONLIBRARY_H
