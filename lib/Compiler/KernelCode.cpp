//===- KernelCode.cpp - The kernels of a module as code -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCode.h"

#include "kiln/Target/Cpu/CodeGen.h"
#include "kiln/Target/Cpu/EmitKernel.h"
#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/EmitKernel.h"
#include "kiln/Target/Gpu/Emulate.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;

KernelCode::KernelCode(MLIRContext &context, ModuleOp scheduled,
                       TargetKind target)
    : scheduled(scheduled), target(target),
      host(ModuleOp::create(UnknownLoc::get(&context))),
      device(ModuleOp::create(UnknownLoc::get(&context))) {}

/// As a function of the cpu, which is renamed to `symbol`.
LogicalResult KernelCode::emitForHost(rt::KernelOp kernel,
                                      llvm::StringMap<TableEntry> &index,
                                      const std::string &symbol) {
  auto launch = cpu::emitKernel(*host, kernel);
  if (failed(launch))
    return failure();
  TableEntry &entry = index[kernel.getSymName()];
  entry.index = table.size();
  entry.units = launch->units;
  entry.grain = launch->grain;
  entry.scratchBytes = launch->scratchBytes;
  host->lookupSymbol<LLVM::LLVMFuncOp>(kernel.getSymName()).setSymName(symbol);
  table.push_back({symbol, false});
  return success();
}

LogicalResult KernelCode::emitForDevice(rt::KernelOp kernel) {
  auto launch =
      kiln::gpu::emitKernel(kiln::gpu::getKernelModule(*device), kernel);
  if (failed(launch))
    return failure();
  TableEntry &entry = entries.device[kernel.getSymName()];
  entry.index = table.size();
  entry.units = launch->units;
  entry.grain = launch->unitsPerBlock;
  entry.threads = launch->threads;
  entry.sharedBytes = launch->sharedBytes;
  entry.tableMembers = launch->tableMembers;
  table.push_back({kernel.getSymName().str(), target == TargetKind::Cuda});
  return success();
}

LogicalResult KernelCode::emit() {
  llvm::StringSet<> onHost, onDevice;
  scheduled.walk([&](rt::LaunchOp launch) {
    (rt::touchesHostMemory(launch) ? onHost : onDevice)
        .insert(launch.getKernel());
  });
  for (rt::KernelOp kernel : scheduled.getOps<rt::KernelOp>()) {
    StringRef name = kernel.getSymName();
    if (!isGpu(target)) {
      if (failed(emitForHost(kernel, entries.device, name.str())))
        return failure();
      continue;
    }
    if (onDevice.contains(name) && failed(emitForDevice(kernel)))
      return failure();
    if (onHost.contains(name) &&
        failed(emitForHost(kernel, entries.host, name.str() + ".host")))
      return failure();
  }
  // On the cpu both memories are one.
  if (!isGpu(target))
    entries.host = entries.device;
  return success();
}

llvm::Expected<SmallVector<char, 0>>
KernelCode::compile(const Processor &processor) {
  if (target == TargetKind::CudaEmu)
    if (llvm::Error error = kiln::gpu::lowerForEmulation(*device, *host))
      return std::move(error);
  return cpu::compileToObject(*host, processor);
}

/// Of "sm_90a": 90.
static int64_t architectureOf(StringRef chip) {
  int64_t number = 0;
  chip.consume_front("sm_");
  (void)chip.consumeInteger(10, number);
  return number;
}

llvm::Expected<std::string> KernelCode::compileToPtx(StringRef chip) {
  return kiln::gpu::compileToPtx(*device, chip);
}

llvm::Expected<std::vector<GpuImage>>
KernelCode::compileImages(ArrayRef<std::string> chips) {
  auto texts = kiln::gpu::compileToPtx(*device, chips);
  if (!texts)
    return texts.takeError();
  std::vector<kiln::gpu::PtxText> sources;
  for (auto [chip, text] : llvm::zip(chips, *texts))
    sources.push_back({chip, text});
  std::vector<GpuImage> images;
  auto cubins = kiln::gpu::assemble(sources);
  if (!cubins) {
    llvm::Error other = llvm::handleErrors(
        cubins.takeError(), [&](const kiln::gpu::NoAssembler &missing) {
          remark = "the executable has no machine code for gpus, only PTX: " +
                   missing.message();
        });
    if (other)
      return std::move(other);
  } else {
    for (kiln::gpu::Cubin &cubin : *cubins)
      images.push_back({architectureOf(cubin.chip), false,
                        std::string(cubin.image.begin(), cubin.image.end())});
  }
  images.push_back({architectureOf(chips.front()), true, texts->front()});
  return images;
}
