//===- Registration.cpp - Registration of dialects and passes ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Registration.h"

#include "kiln/Compiler/Passes.h"
#include "kiln/Compiler/Pipelines.h"
#include "kiln/Conversion/KilnToKilnRT/Passes.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Target/AllTargets.h"
#include "kiln/Target/Common/Passes.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "mlir/Transforms/Passes.h"

using namespace kiln;

void kiln::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<KilnDialect, rt::KilnRTDialect>();
  registerAllTargets(registry);
}

Result<const TargetBackend *> kiln::findTarget(mlir::MLIRContext &context,
                                               llvm::StringRef name) {
  const TargetRegistry &targets =
      TargetRegistry::of(*context.getOrLoadDialect<KilnDialect>());
  if (const TargetBackend *backend = targets.find(name))
    return backend;
  return Status(ExitCode::Usage,
                "--target is '" + name.str() + "', expected " +
                    targets.listNames([](auto &) { return true; }));
}

void kiln::registerAllPasses() {
  // Of the upstream passes, register only those that apply to all dialects. The
  // passes for a specific upstream dialect would not change kiln programs.
  mlir::registerTransformsPasses();
  registerKilnPasses();
  registerKilnConversionPasses();
  registerKilnTargetPasses();
  registerKilnCompilerPasses();
  registerPipelines();
}
