//===- Cubin.h - From PTX to machine code -----------------------*- C++ -*-===//
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

/// What the assembler reports of a kernel. Spills are of the kernel and the
/// functions it calls, in bytes. Shared memory may include the assembler's own.
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

/// PTX and the architecture to assemble it for.
struct PtxText {
  std::string chip;
  std::string text;
};

/// Where an assembler is looked for, in this order: programs that behave as
/// ptxas, by path; then libraries that have nvJitLink's functions, as dlopen
/// takes them.
struct AssemblerSearch {
  std::vector<std::string> programs;
  std::vector<std::string> libraries;

  /// PATH, or the loader's search path; then CUDA_HOME, CUDA_PATH and the
  /// toolkit's usual place.
  static AssemblerSearch standard();
};

/// The error where no assembler is installed; it says what is missing, and that
/// PTX works alone.
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

/// Assembles each text, in parallel. The assembler is no part of kiln: see
/// NoAssembler.
llvm::Expected<std::vector<Cubin>>
assemble(llvm::ArrayRef<PtxText> texts,
         const AssemblerSearch &search = AssemblerSearch::standard());

llvm::Expected<Cubin>
assemble(llvm::StringRef ptx, llvm::StringRef chip,
         const AssemblerSearch &search = AssemblerSearch::standard());

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_CUBIN_H
