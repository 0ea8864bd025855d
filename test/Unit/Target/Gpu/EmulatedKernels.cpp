//===- EmulatedKernels.cpp - Runs kernels on the emulated GPU -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"

#include "kiln/Target/Cpu/CodeGen.h"
#include "kiln/Target/Gpu/Emulate.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace kiln::test {

static Expected<std::unique_ptr<orc::LLJIT>> load(mlir::ModuleOp module) {
  mlir::OwningOpRef<mlir::ModuleOp> host =
      mlir::ModuleOp::create(module.getLoc());
  if (Error error = gpu::lowerForEmulation(module, *host))
    return error;
  if (failed(mlir::verify(*host)))
    return createStringError("the lowered kernels do not verify");
  Expected<Processor> processor = cpu::getProcessor("");
  if (!processor)
    return processor.takeError();
  auto object = cpu::compileToObject(*host, *processor);
  if (!object)
    return object.takeError();
  auto jit = orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();

  // Define only the following symbols, because kernels need no host libraries.
  orc::SymbolMap symbols;
  auto define = [&](StringRef name, auto *function) {
    symbols[(*jit)->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(function), JITSymbolFlags::Exported};
  };
  define("kiln_emu_thread_id", kiln_emu_thread_id);
  define("kiln_emu_block_id", kiln_emu_block_id);
  define("kiln_emu_member_id", kiln_emu_member_id);
  define("kiln_emu_barrier", kiln_emu_barrier);
  define("kiln_emu_shuffle_xor", kiln_emu_shuffle_xor);
  define("kiln_emu_shuffle_idx", kiln_emu_shuffle_idx);
  define("kiln_emu_shared", kiln_emu_shared);
  define("kiln_emu_global_access", kiln_emu_global_access);
  define("kiln_emu_shared_access", kiln_emu_shared_access);
  define("kiln_emu_load_matrices", kiln_emu_load_matrices);
  define("kiln_emu_multiply_matrices", kiln_emu_multiply_matrices);
  define("kiln_emu_copy_async", kiln_emu_copy_async);
  define("kiln_emu_copy_commit", kiln_emu_copy_commit);
  define("kiln_emu_copy_wait", kiln_emu_copy_wait);
  define("kiln_emu_exp2", kiln_emu_exp2);
  if (Error error =
          (*jit)->getMainJITDylib().define(orc::absoluteSymbols(symbols)))
    return error;
  if (Error error = (*jit)->addObjectFile(MemoryBuffer::getMemBufferCopy(
          StringRef(object->data(), object->size()))))
    return error;
  return jit;
}

EmulatedKernels::EmulatedKernels(mlir::ModuleOp module) {
  auto loaded = load(module);
  if (loaded)
    jit = std::move(*loaded);
  else
    ADD_FAILURE() << toString(loaded.takeError());
}

EmulatedKernels::~EmulatedKernels() = default;

EmuKernel EmulatedKernels::find(const std::string &name) const {
  if (!jit)
    return nullptr;
  auto symbol = jit->lookup(name);
  if (symbol)
    return symbol->toPtr<EmuKernel>();
  ADD_FAILURE() << toString(symbol.takeError());
  return nullptr;
}

} // namespace kiln::test
