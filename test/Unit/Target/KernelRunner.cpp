//===- KernelRunner.cpp - Compiles and calls kernels ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "kiln/Target/Cpu/CodeGen.h"

#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

using namespace llvm;

namespace kiln::test {

static std::string findLinker() {
  for (StringRef name : {"clang-22", "clang", "cc"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return *path;
  return "";
}

static std::vector<std::string> undefinedSymbolsOf(StringRef object) {
  std::vector<std::string> names;
  auto file =
      object::ObjectFile::createObjectFile(MemoryBufferRef(object, "kernels"));
  if (!file) {
    ADD_FAILURE() << toString(file.takeError());
    return names;
  }
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    Expected<uint32_t> flags = symbol.getFlags();
    Expected<StringRef> name = symbol.getName();
    if (flags && name && (*flags & object::SymbolRef::SF_Undefined) &&
        !name->empty())
      names.push_back(name->str());
    consumeError(flags.takeError());
    consumeError(name.takeError());
  }
  llvm::sort(names);
  return names;
}

LoadedKernels::LoadedKernels(mlir::ModuleOp module, const char *mcpu) {
  Expected<Processor> processor = cpu::getProcessor(mcpu);
  if (!processor) {
    ADD_FAILURE() << toString(processor.takeError());
    return;
  }
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  auto object = cpu::compileToObject(*copy, *processor);
  if (!object) {
    ADD_FAILURE() << toString(object.takeError());
    return;
  }
  undefined = undefinedSymbolsOf(StringRef(object->data(), object->size()));

  SmallString<128> objectPath, libraryPath;
  if (sys::fs::createTemporaryFile("kernels", "o", objectPath) ||
      sys::fs::createTemporaryFile("kernels", "so", libraryPath)) {
    ADD_FAILURE() << "cannot create temporary files";
    return;
  }
  {
    std::error_code error;
    raw_fd_ostream stream(objectPath, error);
    stream.write(object->data(), object->size());
  }
  std::string linker = findLinker();
  SmallVector<StringRef> command = {linker,      "-shared",  "-o",
                                    libraryPath, objectPath, "-lm"};
  if (StringRef(linker).contains("clang"))
    command.push_back("-fuse-ld=lld");
  int status = sys::ExecuteAndWait(linker, command);
  if (status == 0)
    library = dlopen(libraryPath.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    ADD_FAILURE() << "cannot link or load the kernels";
  sys::fs::remove(objectPath);
  sys::fs::remove(libraryPath);
}

LoadedKernels::~LoadedKernels() {
  if (library)
    dlclose(library);
}

Kernel LoadedKernels::find(const std::string &name) const {
  void *symbol = library ? dlsym(library, name.c_str()) : nullptr;
  EXPECT_NE(symbol, nullptr) << "missing kernel " << name;
  return reinterpret_cast<Kernel>(symbol);
}

} // namespace kiln::test
