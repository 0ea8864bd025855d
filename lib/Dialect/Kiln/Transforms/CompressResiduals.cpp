//===- CompressResiduals.cpp - Compressed encodings of residuals ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass finds all possible encodings, chooses a subset and applies the
// subset. The benefit of one encoding depends on other encodings. For example,
// the output of an activation is recomputed from the input at no cost as long
// as the input is kept. Encoding only the input or only the output therefore
// saves nothing, but encoding both saves memory. The pass therefore starts with
// all encodings. It then repeatedly removes a single encoding, or the encodings
// of the input and the output of an op, if this does not increase the bytes
// kept for the backward pass.
//
//===----------------------------------------------------------------------===//

#include "BlockCodes.h"
#include "ResidualEncoding.h"

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_COMPRESSRESIDUALS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class Compressor {
public:
  Compressor(ProgramOp program, const LossySpec &spec, bool rebuild)
      : program(program), spec(spec), rebuild(rebuild) {}
  /// Rewrites the program and returns the applied encodings.
  SmallVector<ResidualEncoding> run();

private:
  void findEncodings();
  void choose();
  bool giveUp(ArrayRef<Value> residuals);
  int64_t keptBytes(Value value);
  int64_t keptBytes(const llvm::SetVector<Value> &values);
  bool isRebuilt(Value value);
  SmallVector<Operation *> remainingReaders(Value value);
  bool isEncoded(Value residual, Operation *reader);

  ProgramOp program;
  const LossySpec &spec;
  bool rebuild;
  Operation *phase = nullptr;
  ResidualMap residuals;
  /// Chooses the values that kiln-quantize-residuals will encode.
  std::optional<BlockCodeChooser> quantized;
  /// The encodings that choose() has not removed, indexed by residual.
  llvm::MapVector<Value, ResidualEncoding> encodings;
};

} // namespace

void Compressor::findEncodings() {
  int64_t sequences = countSequences(program);
  // If an op reads several residuals, at most one of them is encoded: the first
  // residual in program order that has an encoding.
  llvm::DenseSet<Operation *> taken;
  for (auto &[residual, reads] : residuals) {
    if (llvm::any_of(reads, [&](const ResidualRead &read) {
          return taken.contains(read.reader);
        }))
      continue;
    auto encoding = findEncoding(residual, reads, spec, sequences);
    // An encoding that is computed in the backward pass saves no memory,
    // because the residual must be kept until then.
    if (!encoding || !encoding->through.getDefiningOp()->isBeforeInBlock(phase))
      continue;
    taken.insert(encoding->readers.begin(), encoding->readers.end());
    encodings.insert({residual, std::move(*encoding)});
  }
}

bool Compressor::isEncoded(Value residual, Operation *reader) {
  auto found = encodings.find(residual);
  return found != encodings.end() &&
         llvm::is_contained(found->second.readers, reader);
}

/// Returns the backward ops that read the value instead of its encoding, in
/// program order.
SmallVector<Operation *> Compressor::remainingReaders(Value value) {
  llvm::SetVector<Operation *> readers;
  for (Operation *user : value.getUsers())
    if (user->getBlock() == phase->getBlock() && phase->isBeforeInBlock(user) &&
        !isEncoded(viewedValue(value), user))
      readers.insert(user);
  SmallVector<Operation *> sorted = readers.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

/// Returns true if kiln-rebuild-activations will recompute `value`. That pass
/// recomputes a value f(x) before an op that reads x anyway.
bool Compressor::isRebuilt(Value value) {
  Operation *op = value.getDefiningOp();
  auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
  bool isNorm = isa<LayerNormOp, RmsNormOp>(op);
  if (!rebuild || value != op->getResult(0) ||
      !(isNorm || (dispatchable && dispatchable.isCheapToRebuild())))
    return false;
  SmallVector<Operation *> users = remainingReaders(value);
  if (users.empty() || users.size() != residuals[value].size())
    return false;
  bool hasReader = false;
  for (Value source : op->getOperands()) {
    if (tensorTypeOf(source).getNumElements() !=
        tensorTypeOf(value).getNumElements())
      continue;
    bool isKept = !source.getDefiningOp();
    for (Operation *reader : remainingReaders(source)) {
      if (llvm::is_contained(users, reader))
        continue;
      isKept = true;
      hasReader |= users.front()->isBeforeInBlock(reader);
    }
    if (!isKept)
      return false;
    if (isNorm)
      break;
  }
  return hasReader;
}

/// Returns the bytes of a value that are kept for the backward pass.
int64_t Compressor::keptBytes(Value value) {
  if (!residuals.contains(value))
    return 0;
  std::optional<BlockCodes> codes;
  if (auto found = encodings.find(value); found != encodings.end()) {
    if (found->second.isSketch())
      codes = quantized->find(found->second.getSketchType());
    return codes ? codes->bytes() : found->second.encodedBytes;
  }
  if (isRebuilt(value))
    return 0;
  codes = quantized->find(value, residuals[value]);
  return codes ? codes->bytes() : bytesOf(value.getType());
}

int64_t Compressor::keptBytes(const llvm::SetVector<Value> &values) {
  int64_t bytes = 0;
  for (Value value : values)
    bytes += keptBytes(value);
  return bytes;
}

/// Removes the encodings of the values in `given`, unless this increases the
/// kept bytes or one of the values has no encoding. Returns true if the
/// encodings were removed.
bool Compressor::giveUp(ArrayRef<Value> given) {
  // The values whose kept bytes may change: `given` and the results of their
  // users.
  llvm::SetVector<Value> affected;
  for (Value value : given) {
    if (!encodings.contains(value))
      return false;
    affected.insert(value);
    for (Operation *user : value.getUsers())
      for (Value result : user->getResults())
        affected.insert(result);
  }
  int64_t with = keptBytes(affected);
  auto before = encodings;
  encodings.remove_if(
      [&](auto &entry) { return llvm::is_contained(given, entry.first); });
  if (keptBytes(affected) <= with)
    return true;
  encodings = std::move(before);
  return false;
}

void Compressor::choose() {
  bool changed = true;
  while (changed) {
    changed = false;
    SmallVector<Value> remaining;
    for (auto &[residual, encoding] : encodings)
      remaining.push_back(residual);
    for (Value residual : remaining) {
      for (Operation *user : residual.getUsers())
        for (Value result : user->getResults())
          changed |= giveUp({residual, result});
      changed |= giveUp(residual);
    }
  }
}

SmallVector<ResidualEncoding> Compressor::run() {
  phase = findBackwardPhase(program);
  if (!phase)
    return {};
  residuals = findResiduals(program, phase);
  quantized.emplace(program, phase, spec.bits);
  findEncodings();
  choose();
  EncodingBuilder builder(program);
  SmallVector<ResidualEncoding> applied;
  for (auto &[residual, encoding] : encodings) {
    builder.apply(encoding);
    applied.push_back(encoding);
  }
  return applied;
}

namespace {

struct CompressResidualsPass
    : kiln::impl::CompressResidualsBase<CompressResidualsPass> {
  using CompressResidualsBase::CompressResidualsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::string error;
    auto spec = LossySpec::parse(lossy, error);
    if (!spec) {
      emitError(module.getLoc(), error);
      return signalPassFailure();
    }
    Builder builder(module.getContext());
    SmallVector<Attribute> done;
    for (ProgramOp program : module.getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        for (const ResidualEncoding &encoding :
             Compressor(program, *spec, rebuild).run())
          done.push_back(describeEncoding(encoding.residual,
                                          encoding.describe(), encoding.lossy,
                                          encoding.encodedBytes));
    module->removeAttr(kEncodedAttr);
    if (!done.empty())
      module->setAttr(kEncodedAttr, builder.getArrayAttr(done));
  }
};

} // namespace
