//===- CudaBackend.cpp - The target cuda ----------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLibrary.h"
#include "GpuBackend.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/Ptx.h"
#include "kiln/Target/Gpu/Targets.h"
#include "kiln/Target/Interface/TargetRegistry.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::gpu;
using namespace kiln;

namespace {

/// Compiles kernels to machine code and PTX, which the GPU driver loads.
class CudaCodeGenerator : public GpuCodeGenerator {
public:
  CodeTraits getTraits() const override {
    CodeTraits traits = GpuCodeGenerator::getTraits();
    traits.images = true;
    return traits;
  }

  llvm::Expected<DeviceImages>
  compileImages(ModuleOp device, ArrayRef<std::string> chips) const override;

  llvm::ArrayRef<llvm::StringLiteral> getRuntimeArchives() const override {
    static constexpr llvm::StringLiteral archives[] = {"libKilnCudaRuntime.a"};
    return archives;
  }
};

class CudaBackend : public GpuBackend {
public:
  StringRef getName() const override { return "cuda"; }

  /// Lets cuDNN compute attention.
  FusionRules getFusionRules() const override {
    FusionRules rules = GpuBackend::getFusionRules();
    rules.libraryAttention = true;
    return rules;
  }

  int64_t getScratchBytes(rt::KernelOp kernel, int64_t) const override {
    std::optional<VendorAttention> call = libraryAttentionOf(kernel);
    return call ? attentionWorkspaceBytes(*call) : 0;
  }

  std::optional<VendorAttention>
  getLibraryAttention(rt::KernelOp kernel) const override {
    return libraryAttentionOf(kernel);
  }

  /// The default machine file describes a GPU, since the machine file of a host
  /// does not describe GPU memory.
  StringRef getDefaultMachine() const override { return "h100"; }

  const CodeGenerator &getCodeGenerator() const override {
    static const CudaCodeGenerator generator;
    return generator;
  }
};

} // namespace

/// Returns the architecture number of a chip, such as 90 for "sm_90a".
static int64_t architectureOf(StringRef chip) {
  int64_t number = 0;
  chip.consume_front("sm_");
  (void)chip.consumeInteger(10, number);
  return number;
}

/// Returns PTX for the first chip and, if an assembler is installed, machine
/// code for each of `chips`. A driver can compile the PTX for other chips.
llvm::Expected<DeviceImages>
CudaCodeGenerator::compileImages(ModuleOp device,
                                 ArrayRef<std::string> chips) const {
  auto texts = kiln::gpu::compileToPtx(device, chips);
  if (!texts)
    return texts.takeError();
  std::vector<PtxText> sources;
  for (auto [chip, text] : llvm::zip(chips, *texts))
    sources.push_back({chip, text});
  DeviceImages result;
  auto cubins = assemble(sources);
  if (!cubins) {
    llvm::Error other =
        llvm::handleErrors(cubins.takeError(), [&](const NoAssembler &missing) {
          result.note = "the executable has no machine code for GPUs, only "
                        "PTX: " +
                        missing.message();
        });
    if (other)
      return std::move(other);
  } else {
    for (Cubin &cubin : *cubins)
      result.images.push_back(
          {architectureOf(cubin.chip), false,
           std::string(cubin.image.begin(), cubin.image.end())});
  }
  result.images.push_back(
      {architectureOf(chips.front()), true, texts->front()});
  return result;
}

void kiln::registerCudaTarget(DialectRegistry &registry) {
  registerTarget<CudaBackend>(registry);
}
