//===- StepCost.cpp - What ops and commands cost on a machine ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepCost.h"

using namespace mlir;
using namespace kiln;

static NumberType numberTypeOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isF64())
    return NumberType::F64;
  if (element.isBF16())
    return NumberType::BF16;
  return element.isF16() ? NumberType::F16 : NumberType::F32;
}

static int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * (tensor.getElementTypeBitWidth() / 8);
}

/// Seconds of the ops that no traffic explains, or nothing.
static std::optional<double> computeSeconds(Operation *op,
                                            const Machine &machine) {
  auto attention = [&](Value q, int64_t heads, int64_t sequences, bool causal,
                       bool backward) {
    auto shape = tensorTypeOf(q).getShape();
    return machine.attentionSeconds(numberTypeOf(q.getType()),
                                    sequences * heads, shape[0] / sequences,
                                    shape[1] / heads, causal, backward);
  };
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return machine.gemmSeconds(numberTypeOf(matmul.getResult().getType()),
                               matmul.getBatch(), matmul.getM(), matmul.getN(),
                               matmul.getK());
  if (auto forward = dyn_cast<AttentionOp>(op))
    return attention(forward.getQ(), forward.getHeads(), forward.getSequences(),
                     forward.getCausal(), false);
  if (auto backward = dyn_cast<AttentionGradOp>(op))
    return attention(backward.getQ(), backward.getHeads(),
                     backward.getSequences(), backward.getCausal(), true);
  return std::nullopt;
}

double kiln::opSeconds(Operation *op, const Machine &machine) {
  if (auto seconds = computeSeconds(op, machine))
    return *seconds;
  auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
  if (!dispatchable || dispatchable.getFamily() == Family::View ||
      dispatchable.getFamily() == Family::Structure)
    return 0;
  // A fused neighbour reads the result from a register: what is written counts,
  // what is read mostly does not.
  double bytes = 0;
  for (Type type : op->getResultTypes())
    bytes += bytesOf(type);
  return machine.memorySeconds(bytes);
}

/// Bytes a kernel touches: a row kernel reads of an operand at most what its
/// rows and columns can hold, however large the table that it gathers from.
static double bytesTouched(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto space = kernel.getSpace();
  double bytes = 0;
  for (Type type : body.getArgumentTypes()) {
    double whole = bytesOf(type);
    if (space && kernel.getFamily() == Family::Row) {
      double width = cast<RankedTensorType>(type).getElementTypeBitWidth() / 8;
      bool gathers = llvm::any_of(
          body, [](Operation &op) { return isa<EmbeddingOp>(op); });
      if (gathers)
        whole =
            std::min(whole, double((*space)[0]) * double((*space)[1]) * width);
    }
    bytes += whole;
  }
  for (Value value : body.getTerminator()->getOperands())
    bytes += bytesOf(value.getType());
  return bytes;
}

static double launchSeconds(rt::KernelOp kernel, const Machine &machine) {
  Block &body = kernel.getBody().front();
  double operations = 0;
  for (Operation &op : body.without_terminator()) {
    if (auto seconds = computeSeconds(&op, machine))
      return machine.launchSeconds + *seconds;
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      operations += double(dispatchable.getFlops());
  }
  return machine.kernelSeconds(bytesTouched(kernel), operations);
}

/// An epilogue finds its tile of the product in the cache and writes a result
/// over it: what else it touches goes to memory.
static double epilogueSeconds(rt::GemmOp gemm, rt::KernelOp kernel,
                              const Machine &machine) {
  Block &body = kernel.getBody().front();
  double operations = 0;
  for (Operation &op : body.without_terminator())
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      operations += double(dispatchable.getFlops());
  double product = bytesOf(body.getArgument(0).getType());
  double bytes = bytesTouched(kernel) - product;
  auto results = gemm.getEpilogueSlots().drop_front(body.getNumArguments() - 1);
  if (llvm::is_contained(results, gemm.getC()))
    bytes -= product;
  return std::max(machine.memorySeconds(bytes),
                  operations / machine.vectorFlops);
}

static double blockSeconds(Block &block, const Machine &machine,
                           llvm::StringMap<double> &kernels) {
  double seconds = 0;
  for (Operation &op : block) {
    if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      auto [it, isNew] = kernels.insert({launch.getKernel(), 0});
      if (isNew)
        it->second = launchSeconds(
            cast<rt::KernelOp>(SymbolTable::lookupNearestSymbolFrom(
                launch, launch.getKernelAttr())),
            machine);
      seconds += it->second;
    } else if (auto gemm = dyn_cast<rt::GemmOp>(op)) {
      seconds +=
          machine.gemmSeconds(numberTypeOf(gemm.getElement()), gemm.getBatch(),
                              gemm.getM(), gemm.getN(), gemm.getK());
      if (gemm.getEpilogue())
        seconds += epilogueSeconds(
            gemm,
            cast<rt::KernelOp>(SymbolTable::lookupNearestSymbolFrom(
                gemm, gemm.getEpilogueAttr())),
            machine);
    } else if (auto fill = dyn_cast<rt::FillOp>(op)) {
      seconds += machine.kernelSeconds(double(fill.getBytes()));
    } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      seconds += machine.kernelSeconds(2 * double(copy.getBytes()));
    } else if (auto loop = dyn_cast<rt::LoopOp>(op)) {
      seconds += double(loop.getCount()) *
                 blockSeconds(loop.getBody().front(), machine, kernels);
    }
  }
  return seconds;
}

double kiln::programSeconds(rt::ProgramOp program, const Machine &machine) {
  llvm::StringMap<double> kernels;
  return blockSeconds(program.getBody().front(), machine, kernels);
}
