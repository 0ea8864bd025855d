//===- KernelCode.cpp - Code generation of a module's kernels ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCode.h"

#include "kiln/Target/Cpu/CodeGen.h"
#include "kiln/Target/Cpu/KernelEmitters.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;

KernelCode::KernelCode(ModuleOp scheduled, const CodeGenerator &generator)
    : scheduled(scheduled), generator(generator), traits(generator.getTraits()),
      host(ModuleOp::create(UnknownLoc::get(scheduled.getContext()))),
      device(ModuleOp::create(UnknownLoc::get(scheduled.getContext()))) {}

/// Emits a host function for a kernel. The symbol of the function has the
/// suffix ".host", so that it differs from the symbol of the device kernel.
LogicalResult KernelCode::emitForHost(rt::KernelOp kernel) {
  auto launch = cpu::emitKernel(*host, kernel);
  if (failed(launch))
    return failure();
  std::string symbol =
      (kernel.getSymName() + "." + stringifyMemorySpace(MemorySpace::Host))
          .str();
  TableEntry &entry = entries.inMemory[MemorySpace::Host][kernel.getSymName()];
  entry.index = static_cast<int64_t>(table.size());
  entry.units = launch->units;
  entry.grain = launch->grain;
  entry.scratchBytes = launch->scratchBytes;
  host->lookupSymbol<LLVM::LLVMFuncOp>(kernel.getSymName()).setSymName(symbol);
  table.push_back({symbol, false});
  return success();
}

LogicalResult KernelCode::emitForDevice(rt::KernelOp kernel) {
  FailureOr<LaunchGeometry> geometry = generator.emitKernel(kernel, modules());
  if (failed(geometry))
    return failure();
  TableEntry &entry =
      entries.inMemory[MemorySpace::Device][kernel.getSymName()];
  static_cast<LaunchGeometry &>(entry) = *geometry;
  entry.index = static_cast<int64_t>(table.size());
  table.push_back({kernel.getSymName().str(), traits.images});
  return success();
}

LogicalResult KernelCode::emit() {
  llvm::EnumeratedArray<llvm::StringSet<>, MemorySpace, MemorySpace::Host>
      launched;
  scheduled.walk([&](rt::LaunchOp launch) {
    launched[rt::memoryOf(launch)].insert(launch.getKernel());
  });
  for (rt::KernelOp kernel : scheduled.getOps<rt::KernelOp>()) {
    StringRef name = kernel.getSymName();
    if ((traits.deviceIsHost || launched[MemorySpace::Device].contains(name)) &&
        failed(emitForDevice(kernel)))
      return failure();
    if (!traits.deviceIsHost && launched[MemorySpace::Host].contains(name) &&
        failed(emitForHost(kernel)))
      return failure();
  }
  if (traits.deviceIsHost)
    entries.inMemory[MemorySpace::Host] = entries.inMemory[MemorySpace::Device];
  return success();
}

llvm::Expected<SmallVector<char, 0>>
KernelCode::compileToObject(const Processor &processor) {
  if (llvm::Error error = generator.addHostFunctions(modules()))
    return std::move(error);
  return cpu::compileToObject(*host, processor);
}

llvm::Expected<KernelObjects> KernelCode::compile(const Processor &processor,
                                                  const KernelCache *cache) {
  if (llvm::Error error = generator.addHostFunctions(modules()))
    return std::move(error);
  return compileKernels(*host, processor, cache);
}
