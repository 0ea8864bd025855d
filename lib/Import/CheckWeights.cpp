//===- CheckWeights.cpp - Weights on disk against a graph's states --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads headers only. The comparison is the one that an executable makes when
// it loads the same files, so that a mismatch is found before anything is
// compiled.
//
//===----------------------------------------------------------------------===//

#include "kiln/Import/HuggingFace.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Runtime/Files/ModelWeights.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace kiln;
using namespace mlir;

static llvm::Error asError(const Status &status) {
  return llvm::make_error<ImportError>(status.code(), status.message());
}

llvm::Error kiln::checkWeights(ModuleOp module, llvm::StringRef directory) {
  auto exists = [&](llvm::StringRef name) {
    llvm::SmallString<256> path(directory);
    llvm::sys::path::append(path, name);
    return llvm::sys::fs::exists(path);
  };
  if (!exists("model.safetensors") && !exists("model.safetensors.index.json"))
    return llvm::Error::success();

  std::vector<ExpectedTensor> expected;
  for (StateOp state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter && state.getRole() != Role::Buffer)
      continue;
    ExpectedTensor tensor;
    tensor.name = state.getSource().value_or(state.getSymName()).str();
    if (ArrayAttr aliases = state.getAliasesAttr())
      for (auto alias : aliases.getAsRange<StringAttr>())
        tensor.aliases.push_back(alias.str());
    llvm::ArrayRef<int64_t> shape = state.getTensorType().getShape();
    tensor.shape.assign(shape.begin(), shape.end());
    expected.push_back(std::move(tensor));
  }

  Result<ModelWeights> weights = ModelWeights::open(directory.str());
  if (!weights.ok())
    return asError(weights.status());
  auto found = weights->match(expected);
  if (!found.ok())
    return asError(found.status());
  return llvm::Error::success();
}
