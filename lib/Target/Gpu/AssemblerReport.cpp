//===- AssemblerReport.cpp - Parser of the ptxas report -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Example of a report:
//
//   ptxas info    : Compiling entry function 'add' for 'sm_90'
//   ptxas info    : Function properties for add
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 12 registers, used 1 barriers, 64 bytes smem
//
// nvJitLink starts every line with "ptxas". The lines of a kernel follow the
// line that names it. The last line may omit figures that are zero.
//
//===----------------------------------------------------------------------===//

#include "AssemblerReport.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace kiln::gpu {

namespace {

/// Reads the number before `what` in `line`, such as 12 before "registers".
bool numberBefore(StringRef line, StringRef what, int64_t &number) {
  size_t at = line.find(what);
  if (at == StringRef::npos)
    return false;
  StringRef digits = line.take_front(at);
  digits = digits.take_back(digits.size() -
                            digits.find_last_not_of("0123456789") - 1);
  return !digits.getAsInteger(10, number);
}

} // namespace

llvm::Expected<std::vector<KernelResources>>
parseAssemblerReport(StringRef report, size_t numKernels) {
  std::vector<KernelResources> kernels;
  bool hasSpills = true, hasRegisters = true;
  auto missing = [&] {
    return llvm::createStringError(
        "the assembler's report has no registers or spills for kernel '" +
        kernels.back().kernel + "'");
  };
  llvm::SmallVector<StringRef> lines;
  report.split(lines, '\n');
  for (StringRef line : lines) {
    size_t entry = line.find("Compiling entry function '");
    if (entry != StringRef::npos) {
      if (!hasSpills || !hasRegisters)
        return missing();
      hasSpills = hasRegisters = false;
      StringRef name = line.drop_front(line.find('\'') + 1);
      kernels.push_back(
          {name.take_until([](char c) { return c == '\''; }).str()});
      continue;
    }
    if (kernels.empty())
      continue;
    KernelResources &kernel = kernels.back();
    int64_t stores = 0, loads = 0;
    if (numberBefore(line, " bytes spill stores", stores) &&
        numberBefore(line, " bytes spill loads", loads)) {
      kernel.spillStores += stores;
      kernel.spillLoads += loads;
      hasSpills = true;
    }
    if (line.contains("Used ") &&
        numberBefore(line, " registers", kernel.registers)) {
      hasRegisters = true;
      numberBefore(line, " bytes smem", kernel.sharedBytes);
    }
  }
  if (!hasSpills || !hasRegisters)
    return missing();
  if (kernels.size() != numKernels)
    return llvm::createStringError(
        "the assembler reports on " + llvm::Twine(kernels.size()) +
        " kernels, expected " + llvm::Twine(numKernels));
  return kernels;
}

} // namespace kiln::gpu
