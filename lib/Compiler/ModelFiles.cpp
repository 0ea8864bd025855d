//===- ModelFiles.cpp - Small files of a model directory ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelFiles.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Import/HuggingFace.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kiln;

Result<std::vector<std::pair<std::string, std::string>>>
kiln::readModelFiles(ModuleOp module, StringRef directory) {
  std::vector<std::pair<std::string, std::string>> files;
  if (!isModelDirectory(directory))
    return files;
  auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  auto names = model ? model.getAs<ArrayAttr>("files") : ArrayAttr();
  for (Attribute name : names ? names.getValue() : ArrayRef<Attribute>()) {
    StringRef file = cast<StringAttr>(name).getValue();
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, file);
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return Status::badInput("cannot read '" + path.str().str() +
                              "': " + buffer.getError().message());
    files.push_back({file.str(), (*buffer)->getBuffer().str()});
  }
  return files;
}
