//===- Cubin.h - Assembles PTX to machine code ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_CUBIN_H
#define KILN_TARGET_GPU_CUBIN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::gpu {

/// The resource usage of a kernel as the assembler reports it. Spills are in
/// bytes and include those of called functions. Shared memory may include bytes
/// reserved by the assembler.
struct KernelResources {
  std::string kernel;
  int64_t registers = 0;
  int64_t spillStores = 0;
  int64_t spillLoads = 0;
  int64_t sharedBytes = 0;
};

/// Machine code for one architecture.
struct Cubin {
  std::string chip;
  std::vector<char> image;
  std::vector<KernelResources> kernels;
};

/// A PTX module and the architecture to assemble it for.
struct PtxText {
  std::string chip;
  std::string text;
};

/// The candidates for the assembler, in search order: the paths of programs
/// compatible with ptxas, then the dlopen names of libraries with the functions
/// of nvJitLink.
struct AssemblerSearch {
  std::vector<std::string> programs;
  std::vector<std::string> libraries;

  /// Returns the default search path: PATH (for libraries, the search path of
  /// the loader), then CUDA_HOME, CUDA_PATH and the default directory of the
  /// CUDA toolkit.
  static AssemblerSearch standard();
};

/// The error for a missing assembler. The message names the missing program or
/// library and suggests an executable with only PTX, which needs no assembler.
class NoAssembler : public llvm::ErrorInfo<NoAssembler> {
public:
  static char ID;
  explicit NoAssembler(std::string text) : text(std::move(text)) {}
  void log(llvm::raw_ostream &stream) const override { stream << text; }
  std::error_code convertToErrorCode() const override {
    return std::make_error_code(std::errc::no_such_file_or_directory);
  }

private:
  std::string text;
};

/// Assembles the given PTX modules in parallel. Returns a NoAssembler error if
/// no assembler is installed.
llvm::Expected<std::vector<Cubin>>
assemble(llvm::ArrayRef<PtxText> texts,
         const AssemblerSearch &search = AssemblerSearch::standard());

llvm::Expected<Cubin>
assemble(llvm::StringRef ptx, llvm::StringRef chip,
         const AssemblerSearch &search = AssemblerSearch::standard());

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_CUBIN_H
