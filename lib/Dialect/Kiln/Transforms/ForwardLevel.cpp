//===- ForwardLevel.cpp - Verification of input models ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model may be an untrusted file. In addition to the op verifiers, the
// functions below check that the runtime can provide the inputs (names and
// types), that lookups do not read outside a table (the vocabulary size), and
// that sizes do not overflow the integers of later levels.
//
//===----------------------------------------------------------------------===//

#include "ForwardLevel.h"

#include "kiln/Dialect/Kiln/Transforms/Levels.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

/// Maximum extent of a dimension. BLAS uses 32-bit integers for rows and
/// columns.
static constexpr int64_t kMostExtent = INT32_MAX;
/// Maximum memory of a model. 256 TiB is more than any machine has, and sums of
/// a few such sizes still fit 64 bits.
static constexpr uint64_t kMostBytes = uint64_t(1) << 48;
/// Maximum number of tensors for a trainable state: the state itself, a
/// gradient and up to two moments.
static constexpr uint64_t kCopiesOfState = 4;

FailureOr<ProgramOp> kiln::findForward(ModuleOp module) {
  ProgramOp forward;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    if (program.getKind() != ProgramKind::Forward)
      continue;
    if (forward) {
      InFlightDiagnostic diagnostic = program.emitOpError(
          "is the second program of kind forward, expected exactly one");
      diagnostic.attachNote(forward.getLoc()) << "the first is here";
      return diagnostic;
    }
    forward = program;
  }
  if (!forward)
    return emitError(module.getLoc(),
                     "the module has no kiln.program of kind forward");
  return forward;
}

void kiln::nameByKind(ProgramOp program, ProgramKind kind,
                      SymbolTable &symbols) {
  StringAttr name =
      StringAttr::get(program.getContext(), stringifyProgramKind(kind));
  program.setKind(kind);
  program.setSymNameAttr(name);
  if (symbols.insert(program) == name)
    program->removeAttr(kNameAttr);
  else
    program->setAttr(kNameAttr, name);
}

std::optional<int64_t> kiln::findVocabulary(ProgramOp program) {
  std::optional<int64_t> smallest;
  auto bound = [&](RankedTensorType type, int64_t dim) {
    int64_t size = type.getDimSize(dim);
    smallest = std::min(smallest.value_or(size), size);
  };
  program.walk([&](Operation *op) {
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      bound(embedding.getTable().getType(), 0);
    else if (auto loss = dyn_cast<CrossEntropyOp>(op))
      bound(loss.getLogits().getType(), 1);
    else if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
      bound(loss.getWeight().getType(), 0);
  });
  return smallest;
}

llvm::DenseSet<StringAttr> kiln::findWritten(Operation *scope) {
  llvm::DenseSet<StringAttr> names;
  scope->walk(
      [&](WriteOp write) { names.insert(write.getStateAttr().getAttr()); });
  return names;
}

namespace {

class ForwardVerifier {
public:
  ForwardVerifier(ModuleOp module, ProgramOp program)
      : module(module), program(program) {}
  LogicalResult run();

private:
  LogicalResult checkSizes();
  LogicalResult checkInput(unsigned index);
  LogicalResult checkIntegers(Operation *op);
  LogicalResult checkData(StringRef name, InputAttr fact,
                          RankedTensorType type);
  LogicalResult checkSignature();
  LogicalResult checkOp(Operation *op);
  LogicalResult checkKey(Operation *op, int64_t key);
  LogicalResult checkSources();
  LogicalResult checkModel();

  ModuleOp module;
  ProgramOp program;
  DenseMap<int64_t, Operation *> keys;
};

} // namespace

/// Returns the bytes of a tensor type, or UINT64_MAX on overflow.
static uint64_t saturatedBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  uint64_t bytes = elementBytes(tensor);
  for (int64_t size : tensor.getShape())
    bytes = llvm::SaturatingMultiply(bytes, static_cast<uint64_t>(size));
  return bytes;
}

/// Checks that sizes are small enough for later levels, which multiply extents
/// without overflow checks.
LogicalResult ForwardVerifier::checkSizes() {
  uint64_t total = 0;
  for (StateOp state : module.getOps<StateOp>())
    total = llvm::SaturatingMultiplyAdd(saturatedBytes(state.getType()),
                                        kCopiesOfState, total);
  for (Type type : program.getArgumentTypes())
    total = llvm::SaturatingAdd(total, saturatedBytes(type));
  WalkResult walk = program.walk([&](Operation *op) -> WalkResult {
    if (op == program)
      return WalkResult::advance();
    for (Type type : op->getResultTypes())
      total = llvm::SaturatingAdd(total, saturatedBytes(type));
    if (!isa<MatmulOp, AttentionOp, EmbeddingOp, CrossEntropyOp,
             LinearCrossEntropyOp>(op))
      return WalkResult::advance();
    for (Type type : op->getOperandTypes())
      for (int64_t size : cast<RankedTensorType>(type).getShape())
        if (size > kMostExtent)
          return op->emitOpError("has an operand with an extent of ")
                 << size << ", expected at most " << kMostExtent;
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  if (total > kMostBytes)
    return program.emitOpError("needs more than ")
           << kMostBytes
           << " bytes for the values of the program and for copies of the "
              "states; make the model smaller";
  return success();
}

/// Checks the name and type of an input. The runtime identifies inputs by their
/// names.
LogicalResult ForwardVerifier::checkInput(unsigned index) {
  Builder b(program.getContext());
  StringRef name = program.getInputName(index);
  auto type = cast<RankedTensorType>(program.getArgumentTypes()[index]);
  auto expect = [&](bool holds, StringRef expected) -> LogicalResult {
    if (holds)
      return success();
    return program.emitOpError("input '")
           << name << "' has type " << type << ", expected " << expected;
  };
  for (unsigned other = 0; other < index; ++other)
    if (program.getInputName(other) == name)
      return program.emitOpError("has two inputs named '") << name << "'";
  InputAttr fact = program.getInputFact(index);
  if (!fact)
    return program.emitOpError("input ")
           << index << " has the kiln.name '" << name
           << "', expected tokens, targets, rng or loss_scale; declare an "
              "input with another name by kiln.input = #kiln.input<data>";
  switch (fact.getRole()) {
  case InputRole::Tokens:
    return expect(type.getRank() == 2 && type.getElementType().isInteger(32),
                  "i32 [batch, sequence length]");
  case InputRole::Targets: {
    BlockArgument tokens = program.getInput(InputRole::Tokens);
    return expect(!tokens || type == tokens.getType(), "the type of 'tokens'");
  }
  case InputRole::Rng:
    return expect(type == RankedTensorType::get({1, 3}, b.getI64Type()),
                  "i64 [1, 3]");
  case InputRole::LossScale:
    return expect(type == RankedTensorType::get({}, b.getF64Type()), "f64 []");
  case InputRole::Data:
    return checkData(name, fact, type);
  case InputRole::Rate:
  case InputRole::Step:
  case InputRole::Clip:
  case InputRole::Position:
  case InputRole::GradientScale:
  case InputRole::TensorRank:
    break;
  }
  return program.emitOpError("input ")
         << index << " has the kiln.name '" << name
         << "', a name that is reserved for programs that kilnc creates";
}

/// Checks an input that the model declares. The elements must be real numbers:
/// integers would be used as indices, and the runtime does not check that
/// indices are in range.
LogicalResult ForwardVerifier::checkData(StringRef name, InputAttr fact,
                                         RankedTensorType type) {
  if (name.empty())
    return program.emitOpError("has an input declared with ")
           << fact
           << ", but without kiln.name; set kiln.name to the name of the "
              "tensor in the data file from which the input is read";
  if (inputFactOfName(name, program.getContext()))
    return program.emitOpError("declares the input '")
           << name
           << "' with #kiln.input<data>, but this name is reserved; rename the "
              "input";
  if (!isa<FloatType>(type.getElementType()))
    return program.emitOpError("declares the input '")
           << name << "' of type " << type
           << ", expected a floating-point type";
  BlockArgument tokens = program.getInput(InputRole::Tokens);
  if (!fact.getBatchDim() || !tokens)
    return success();
  int64_t batch = tensorTypeOf(tokens).getDimSize(0);
  if (type.getRank() > 0 && type.getDimSize(0) == batch)
    return success();
  return program.emitOpError("declares the input '")
         << name << "' of type " << type << " with batch_dim = 0, expected "
         << batch << " rows, one per sequence of 'tokens'";
}

LogicalResult ForwardVerifier::checkSignature() {
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (failed(checkInput(i)))
      return failure();
  BlockArgument tokens = program.getInput(InputRole::Tokens);
  if (!tokens || tokens.use_empty())
    return program.emitOpError(tokens ? "does not use its input 'tokens'"
                                      : "has no input named 'tokens'")
           << ", but a model is trained on tokens";
  auto loss = RankedTensorType::get({}, Float64Type::get(program.getContext()));
  if (program.getResultTypes() != ArrayRef<Type>(loss))
    return program.emitOpError("has the function type ")
           << program.getFunctionType()
           << ", expected exactly one result, a loss of type " << loss;
  return success();
}

/// Checks that the random key of an op is unique, because ops with equal keys
/// have the same random bits.
LogicalResult ForwardVerifier::checkKey(Operation *op, int64_t key) {
  auto [it, inserted] = keys.insert({key, op});
  if (inserted)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("has the random key ")
                                  << key << ", which another op already has";
  diagnostic.attachNote(it->second->getLoc())
      << "the other op is here; keys must differ";
  return diagnostic;
}

/// Returns true if a tensor of indices may contain elements of an input. All
/// ops with index results move or replicate elements of their operands, so the
/// function follows all operands.
static bool hasElementsOf(BlockArgument input, Value indices) {
  SmallVector<Value> values = {indices};
  llvm::SmallDenseSet<Value> seen;
  while (!values.empty()) {
    Value value = values.pop_back_val();
    if (value == input)
      return true;
    if (Operation *op = value.getDefiningOp(); op && seen.insert(value).second)
      llvm::append_range(values, op->getOperands());
  }
  return false;
}

/// If elements of the tensor `integers` possibly come from a state, returns a
/// read of this state. Otherwise returns null.
static ReadOp readOfState(Value integers) {
  SmallVector<Value> values = {integers};
  llvm::SmallDenseSet<Value> seen;
  while (!values.empty()) {
    Operation *op = values.pop_back_val().getDefiningOp();
    if (auto read = dyn_cast_or_null<ReadOp>(op))
      return read;
    for (Value operand : op ? op->getOperands() : ValueRange())
      if (isa<IntegerType>(getElementTypeOrSelf(operand.getType())) &&
          seen.insert(operand).second)
        values.push_back(operand);
  }
  return {};
}

/// Checks that an op with floating-point results does not read integers from a
/// state. Such integers come from a file, and the runtime does not check that
/// they are valid indices.
LogicalResult ForwardVerifier::checkIntegers(Operation *op) {
  auto isInteger = [](Type type) {
    return isa<IntegerType>(getElementTypeOrSelf(type));
  };
  if (llvm::all_of(op->getResultTypes(), isInteger))
    return success();
  for (Value operand : op->getOperands())
    if (isInteger(operand.getType()))
      if (ReadOp read = readOfState(operand))
        return op->emitOpError("reads the integer state ")
               << read.getStateAttr()
               << ", whose values are not checked against the range of "
                  "indices; read 'tokens' or 'targets' instead";
  return success();
}

LogicalResult ForwardVerifier::checkOp(Operation *op) {
  if (failed(checkIntegers(op)))
    return failure();
  // Of the ops with indices, only those that findVocabulary() considers are
  // allowed, because the runtime checks indices against the vocabulary size.
  if (isa<MicrobatchesOp, RecomputeOp, DispatchOp, PhaseOp, CopyOutOp, CopyInOp,
          CopyWaitOp, CollectiveOpInterface, CollectiveStartOp,
          CollectiveWaitOp, TakeShardOp, ShareOp, ShardRowsOp, ShardPositionsOp,
          ShardSoftmaxOp, ShardCrossEntropyOp, EmbeddingGradOp, SelectRowOp,
          SoftmaxCrossEntropyOp, CrossEntropyGradOp, LinearCrossEntropyGradOp>(
          op))
    return op->emitOpError(
        "is an op that a model must not have, because kilnc itself adds "
        "such ops after the forward level");
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return checkKey(op, dropout.getKey());
  if (auto attention = dyn_cast<AttentionOp>(op))
    if (attention.getP().convertToDouble() > 0)
      return checkKey(op, attention.getKey());
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    if (BlockArgument targets = program.getInput(InputRole::Targets);
        targets && hasElementsOf(targets, embedding.getTokens()))
      return op->emitOpError("looks up 'targets', which contain ")
             << kIgnoreIndex
             << " at ignored positions; look up 'tokens' instead";
  if (auto write = dyn_cast<WriteOp>(op)) {
    auto state = module.lookupSymbol<StateOp>(write.getState());
    if (state.isTrainable())
      return op->emitOpError("writes the trainable state ")
             << write.getStateAttr()
             << ", which the optimizer updates; declare the state frozen, or "
                "do not write it";
  }
  return success();
}

/// Checks that states are saved under different names.
LogicalResult ForwardVerifier::checkSources() {
  llvm::StringMap<StateOp> states;
  for (StateOp state : module.getOps<StateOp>()) {
    // Names are keys of JSON objects, which must be UTF-8.
    SmallVector<StringRef> names{state.getSymName(),
                                 state.getSource().value_or("-")};
    if (auto aliases = state.getAliases())
      for (auto alias : aliases->getAsRange<StringAttr>())
        names.push_back(alias.getValue());
    for (StringRef name : names)
      if (name.empty() || name.contains('\0') || !llvm::json::isUTF8(name))
        return state.emitOpError("has a name, source or alias that is empty, "
                                 "contains a zero byte or is not UTF-8");
    StringRef name = state.getSource().value_or(state.getSymName());
    auto [it, inserted] = states.insert({name, state});
    if (inserted)
      continue;
    InFlightDiagnostic diagnostic =
        state.emitOpError("is saved under the name '")
        << name << "', and so is the state @" << it->second.getSymName()
        << "; give the two states different sources";
    diagnostic.attachNote(it->second.getLoc()) << "the other state is here";
    return diagnostic;
  }
  return success();
}

/// Checks that the attribute `kiln.model` agrees with the program.
LogicalResult ForwardVerifier::checkModel() {
  std::optional<int64_t> vocabulary = findVocabulary(program);
  if (!vocabulary)
    return program.emitOpError(
        "has no embedding and no loss, so its vocabulary size is unknown");
  auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  if (!model)
    return success();
  auto said = [&](StringRef key) {
    auto number = model.getAs<IntegerAttr>(key);
    return number ? std::optional(number.getInt()) : std::nullopt;
  };
  if (said("vocab_size") > vocabulary)
    return emitError(module.getLoc(), "kiln.model has vocab_size = ")
           << *said("vocab_size")
           << ", but the program has an embedding table with only "
           << *vocabulary << " rows or a loss with only " << *vocabulary
           << " classes";
  auto tokens = tensorTypeOf(program.getInput(InputRole::Tokens));
  for (auto [key, size] : {std::pair("batch", tokens.getDimSize(0)),
                           std::pair("sequence_length", tokens.getDimSize(1))})
    if (said(key).value_or(size) != size)
      return emitError(module.getLoc(), "kiln.model has ")
             << key << " = " << *said(key) << ", but 'tokens' has type "
             << tokens;
  return success();
}

LogicalResult ForwardVerifier::run() {
  if (failed(checkSizes()) || failed(checkSignature()))
    return failure();
  for (ProgramOp other : module.getOps<ProgramOp>())
    if (other != program)
      return other.emitOpError("is of kind ")
             << stringifyProgramKind(other.getKind())
             << "; a model must not have programs of this kind, because "
                "kilnc itself adds them after the forward level";
  for (StateOp state : module.getOps<StateOp>()) {
    if (memoryOf(state.getType()) != MemorySpace::Device ||
        state.getRole() == Role::Mirror)
      return state.emitOpError(
          "is in host memory or has the role 'mirror'; a model must not have "
          "such states, because kilnc adds them itself");
    if (state.getShard())
      return state.emitOpError("is a shard; a model must not have such states, "
                               "because kilnc divides "
                               "states over ranks itself");
    if (state->hasAttr(kResidencyAttr))
      return state.emitOpError("has the attribute '")
             << kResidencyAttr << "', which is not allowed in a model";
  }
  WalkResult walk = program.walk([&](Operation *op) -> WalkResult {
    for (StringRef name : {kOffloadAttr, kPrefetchAttr, kKeepAttr})
      if (op->hasAttr(name))
        return op->emitOpError("has the attribute '")
               << name << "', which is not allowed in a model";
    return checkOp(op);
  });
  if (walk.wasInterrupted())
    return failure();
  return success(succeeded(checkSources()) && succeeded(checkModel()));
}

LogicalResult kiln::checkForwardLevel(ModuleOp module) {
  FailureOr<ProgramOp> program = findForward(module);
  if (failed(program))
    return failure();
  return ForwardVerifier(module, *program).run();
}
