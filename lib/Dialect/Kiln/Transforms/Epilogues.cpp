//===- Epilogues.cpp - Formation of GEMM epilogues ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Epilogues.h"

#include "TileEpilogues.h"
#include "VendorEpilogues.h"
#include "kiln/Dialect/Kiln/IR/KilnVendor.h"
#include "kiln/Target/Interface/TargetRegistry.h"

using namespace mlir;
using namespace kiln;

LogicalResult kiln::formEpilogues(ModuleOp module, EpilogueKind kind,
                                  RowPrograms &rowPrograms) {
  if (kind == EpilogueKind::Vendor && !module->hasAttr(kVendorEpiloguesAttr))
    return success();
  const TargetBackend *target = backendOf(module);
  if (!target)
    return failure();
  if (target->getFusionRules().epilogues != kind)
    return success();
  if (kind == EpilogueKind::Vendor)
    formVendorEpilogues(module);
  else
    module.walk([&](Operation *op) {
      if (isa<ProgramOp, MicrobatchesOp>(op))
        formTileEpilogues(op->getRegion(0).front(), rowPrograms);
    });
  return success();
}
