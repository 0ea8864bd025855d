//===- CheckWeights.cpp - Validation of weight files ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the tensors in the headers of weight files with the states of the
// model. An executable makes the same comparison when it loads the files, but
// this check reports a mismatch before compilation. Tensors that the model does
// not use cause a warning: the executable rejects them unless --init-ignore
// names them.
//
//===----------------------------------------------------------------------===//

#include "kiln/Import/HuggingFace.h"
#include "kiln/Import/ModelTensors.h"

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/UnusedTensors.h"

using namespace kiln::support;
using namespace kiln;
using namespace mlir;

static llvm::Error asError(const Status &status) {
  return llvm::make_error<ImportError>(status.code(), status.message());
}

static std::vector<std::string> namesIn(ArrayAttr attribute) {
  std::vector<std::string> names;
  if (attribute)
    for (auto name : attribute.getAsRange<StringAttr>())
      names.push_back(name.str());
  return names;
}

/// Sets the entry `storage` of the attribute `kiln.model` to the type that all
/// tensors have in the weight files, or removes it if their types differ.
static void setStorage(ModuleOp module,
                       const std::vector<const TensorInfo *> &tensors) {
  NamedAttrList model(module->getAttrOfType<DictionaryAttr>(kModelAttr));
  model.erase("storage");
  if (!tensors.empty() &&
      infoOf(tensors.front()->type).kind == ElementKind::Float &&
      llvm::all_of(tensors, [&](const TensorInfo *tensor) {
        return tensor->type == tensors.front()->type;
      }))
    model.set("storage", TypeAttr::get(irTypeOf(tensors.front()->type,
                                                module.getContext())));
  module->setAttr(kModelAttr, model.getDictionary(module.getContext()));
}

std::vector<StateOp> kiln::weightStates(ModuleOp module) {
  std::vector<StateOp> states;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == Role::Parameter || state.getRole() == Role::Buffer)
      states.push_back(state);
  return states;
}

ExpectedTensor kiln::expectedTensor(StateOp state) {
  ExpectedTensor tensor;
  tensor.name = state.getSource().value_or(state.getSymName()).str();
  tensor.aliases = namesIn(state.getAliasesAttr());
  tensor.copies = namesIn(state.getCopiesAttr());
  llvm::ArrayRef<int64_t> shape = state.getTensorType().getShape();
  tensor.shape.assign(shape.begin(), shape.end());
  return tensor;
}

std::vector<std::string> kiln::knownUnusedTensors(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  return model ? namesIn(model.getAs<ArrayAttr>("unused_tensors"))
               : std::vector<std::string>();
}

llvm::Error kiln::checkWeights(ModuleOp module, llvm::StringRef directory,
                               std::vector<std::string> &warnings) {
  if (!holdsWeights(directory.str()))
    return llvm::Error::success();

  std::vector<ExpectedTensor> expected;
  for (StateOp state : weightStates(module))
    expected.push_back(expectedTensor(state));
  Result<ModelWeights> weights = ModelWeights::open(directory.str());
  if (!weights.ok())
    return asError(weights.status());
  auto found = weights->match(expected);
  if (!found.ok())
    return asError(found.status());
  setStorage(module, *found);
  std::vector<std::string> unused =
      findUnusedTensors(*weights, expected, *found, knownUnusedTensors(module));
  if (!unused.empty())
    warnings.push_back(
        "'" + directory.str() + "' holds tensor " + inQuotes(unused.front()) +
        (unused.size() == 1
             ? std::string()
             : " and " + std::to_string(unused.size() - 1) + " others") +
        ", which the model does not use: --init of the executable refuses "
        "them unless --init-ignore names them");
  return llvm::Error::success();
}
