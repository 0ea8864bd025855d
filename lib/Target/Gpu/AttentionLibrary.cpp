//===- AttentionLibrary.cpp - Attention calls of a vendor library ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLibrary.h"

#include "kiln/Dialect/Kiln/IR/AttentionLibrary.h"
#include "kiln/Target/Common/KernelShapes.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

static std::optional<VendorAttention> describe(const AttentionShape &shape,
                                               bool isGradient,
                                               std::array<int64_t, 8> strides) {
  if (!shape.elementType.isBF16() || shape.takesRng || shape.dropout != 0)
    return std::nullopt;
  VendorAttention attention;
  attention.isGradient = isGradient;
  attention.causal = shape.causal;
  attention.sequences = shape.sequences;
  attention.length = shape.length;
  attention.heads = shape.heads;
  attention.kvHeads = shape.kvHeads;
  attention.headDim = shape.headDim;
  attention.strides = strides;
  return suitsVendorLibrary(attention) ? std::optional(attention)
                                       : std::nullopt;
}

std::optional<VendorAttention>
kiln::gpu::libraryAttentionOf(rt::KernelOp kernel) {
  KernelOpInterface op = kernel.getSingleOp();
  if (!isa_and_nonnull<AttentionOp, AttentionGradOp>(op.getOperation()) ||
      !kernel->getParentOfType<ModuleOp>()->hasAttr(kAttentionAttr))
    return std::nullopt;
  if (isa<AttentionOp>(op)) {
    AttentionShape of = readAttention(SingleOp(kernel));
    return describe(of, /*isGradient=*/false,
                    {of.qStride, of.kStride, of.vStride, of.oStride});
  }
  AttentionGradShape of = readAttentionGrad(SingleOp(kernel));
  return describe(of, /*isGradient=*/true,
                  {of.qStride, of.kStride, of.vStride, of.oStride,
                   of.doutStride, of.dqStride, of.dkStride, of.dvStride});
}
