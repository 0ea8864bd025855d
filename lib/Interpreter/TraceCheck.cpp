//===- TraceCheck.cpp - Compiled ops against interpreted ones -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/TraceCheck.h"

#include "kiln/Interpreter/ScheduledEngine.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace mlir;

namespace kiln {

namespace {

/// Walks the bytes of a trace; every read checks that they are there.
class TraceReader {
public:
  TraceReader(StringRef bytes, std::string path)
      : bytes(bytes), path(std::move(path)) {}

  bool atEnd() const { return bytes.empty(); }
  Status number(uint64_t &value) {
    StringRef taken;
    Status status = take(sizeof(value), taken);
    if (status.ok())
      std::memcpy(&value, taken.data(), sizeof(value));
    return status;
  }
  Status take(uint64_t size, StringRef &taken) {
    if (size > bytes.size())
      return wrong("ends in the middle of a record");
    taken = bytes.take_front(size);
    bytes = bytes.drop_front(size);
    return {};
  }
  Status wrong(const std::string &what) const {
    return Status::badInput(path + ": " + what +
                            "; make the trace with --check-ops of an "
                            "executable of exactly this module");
  }

private:
  StringRef bytes;
  std::string path;
};

/// The comparisons of one kind of command.
struct KindSummary {
  int64_t compared = 0;
  double worst = 0;     ///< Difference over what is allowed.
  double worstUlps = 0; ///< Difference over eps * |result|.
  std::string where;
};

class TraceChecker {
public:
  TraceChecker(ModuleOp module, TraceReader reader)
      : module(module), reader(std::move(reader)), own(module, EvalType::Own),
        exact(module, EvalType::F64) {}
  Status run(llvm::raw_ostream &out);

private:
  Status checkProgram();
  Status checkRecord(const ScheduledProgram &program, uint64_t index,
                     std::string &image);
  Status applyWrites(const ScheduledProgram &program, std::string &image);
  SmallVector<HostTensor> operandsOf(const ScheduledProgram &program,
                                     const ScheduledCommand &command,
                                     int64_t iteration, StringRef image);
  LogicalResult compareOps(const ScheduledProgram &program,
                           const ScheduledCommand &command, int64_t iteration,
                           ArrayRef<HostTensor> operands, StringRef image);
  void note(const ScheduledProgram &program, const ScheduledCommand &command,
            double difference, double allowed, double unit);
  void print(llvm::raw_ostream &out);

  ModuleOp module;
  TraceReader reader;
  Interpreter own, exact;
  std::map<std::string, KindSummary> kinds;
};

} // namespace

/// The longest sum that an op adds up.
static int64_t longestSum(Operation &op) {
  auto last = [](Value x) { return getColumnCount(tensorTypeOf(x)); };
  return TypeSwitch<Operation *, int64_t>(&op)
      .Case([](MatmulOp op) { return op.getK(); })
      .Case<AttentionOp, AttentionGradOp>([](auto op) {
        auto q = tensorTypeOf(op.getQ());
        int64_t length = q.getDimSize(0) / op.getSequences();
        int64_t group = op.getHeads() / op.getKvHeads();
        return std::max<int64_t>(length * group,
                                 q.getDimSize(1) / op.getHeads());
      })
      .Case([](EmbeddingGradOp op) {
        return tensorTypeOf(op.getTokens()).getNumElements();
      })
      .Case<SoftmaxOp, LayerNormOp, RmsNormOp>(
          [&](auto op) { return last(op.getX()); })
      .Case<SoftmaxGradOp, LayerNormGradOp, RmsNormGradOp>(
          [&](auto op) { return last(op.getDy()); })
      .Case([&](SoftmaxCrossEntropyOp op) { return last(op.getLogits()); })
      .Case<ReduceOp, ReducePartialOp, ReduceCombineOp, ScaledTotalOp,
            SumSquaresOp, ClipFactorOp>([](auto op) {
        int64_t results = tensorTypeOf(op->getResult(0)).getNumElements();
        int64_t terms = tensorTypeOf(op->getOperand(0)).getNumElements();
        return std::max<int64_t>(terms / std::max<int64_t>(results, 1), 1);
      })
      .Default([](Operation *) { return 1; });
}

static double epsilonOf(Type element) {
  return element.isF32() ? std::ldexp(1., -23) : std::ldexp(1., -52);
}

/// The coarsest rounding that results of the body, seen from outside, may have
/// gone through: their own, or that of a value inside a fused kernel.
static double bodyEpsilon(Block &body, Type result) {
  double epsilon = epsilonOf(result);
  if (llvm::hasSingleElement(body.without_terminator()))
    return epsilon;
  for (Operation &op : body.without_terminator())
    for (Type type : op.getResultTypes())
      epsilon = std::max(
          epsilon, epsilonOf(cast<RankedTensorType>(type).getElementType()));
  return epsilon;
}

static std::string kindOf(const ScheduledCommand &command) {
  if (command.kind == ScheduledCommand::Kind::Fill)
    return "fill";
  if (command.kind == ScheduledCommand::Kind::Copy)
    return "copy";
  auto ops = command.body->without_terminator();
  if (llvm::hasSingleElement(ops))
    return (*ops.begin()).getName().stripDialect().str();
  return "fused rows";
}

static double distance(ArrayRef<double> a, ArrayRef<double> b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    sum += (x - y) * (x - y);
  }
  return std::sqrt(sum);
}

static double norm(ArrayRef<double> x) {
  double sum = 0;
  for (double element : x)
    sum += element * element;
  return std::sqrt(sum);
}

/// Moves every element by `epsilon` of itself, up or down.
static void perturb(HostTensor &tensor, double epsilon) {
  uint64_t bits = 0x9E3779B97F4A7C15;
  for (double &element : tensor.reals) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    element *= bits >> 63 ? 1 + epsilon : 1 - epsilon;
  }
}

static SmallVector<TensorHandle> handlesFor(const Interpreter &interpreter,
                                            ArrayRef<HostTensor> tensors,
                                            double perturbation) {
  SmallVector<TensorHandle> handles;
  for (const HostTensor &tensor : tensors) {
    HostTensor copy = tensor;
    copy.type = interpreter.evaluationType(tensor.type);
    if (perturbation > 0)
      perturb(copy, perturbation);
    handles.push_back(std::make_shared<const HostTensor>(std::move(copy)));
  }
  return handles;
}

void TraceChecker::note(const ScheduledProgram &program,
                        const ScheduledCommand &command, double difference,
                        double allowed, double unit) {
  KindSummary &kind = kinds[kindOf(command)];
  ++kind.compared;
  double ratio = difference == 0 ? 0 : difference / allowed;
  if (unit > 0)
    kind.worstUlps = std::max(kind.worstUlps, difference / unit);
  // A difference that is no number is beyond all bounds.
  if (!(ratio <= kind.worst)) {
    kind.worst = std::isnan(ratio) ? HUGE_VAL : ratio;
    rt::ProgramOp op = program.op;
    kind.where = ("@" + op.getSymName() + " command " +
                  llvm::Twine(&command - program.commands.data()))
                     .str();
    if (auto launch = dyn_cast<rt::LaunchOp>(command.op))
      kind.where += " @" + launch.getKernel().str();
  }
}

SmallVector<HostTensor>
TraceChecker::operandsOf(const ScheduledProgram &program,
                         const ScheduledCommand &command, int64_t iteration,
                         StringRef image) {
  SmallVector<HostTensor> operands;
  bool readsSum = readsAccumulated(command, iteration);
  for (auto [i, place] : llvm::enumerate(command.operands)) {
    rt::SlotOp slot = program.slots[place.slot];
    int64_t at = slot.getOffset() + place.offset + place.loopStride * iteration;
    bool zeros = static_cast<int>(i) == command.accumulated && !readsSum;
    operands.push_back(zeros ? HostTensor(place.type)
                             : loadTensor(place, image.data() + at));
  }
  return operands;
}

LogicalResult TraceChecker::compareOps(const ScheduledProgram &program,
                                       const ScheduledCommand &command,
                                       int64_t iteration,
                                       ArrayRef<HostTensor> operands,
                                       StringRef image) {
  auto truth = evaluateCommand(exact, command, handlesFor(exact, operands, 0));
  auto rounded = evaluateCommand(own, command, handlesFor(own, operands, 0));
  if (failed(truth) || failed(rounded))
    return failure();
  int64_t length = 1;
  for (Operation &op : command.body->without_terminator())
    length = std::max(length, longestSum(op));
  for (auto [i, place] : llvm::enumerate(command.results)) {
    rt::SlotOp slot = program.slots[place.slot];
    int64_t at = slot.getOffset() + place.offset + place.loopStride * iteration;
    HostTensor got = loadTensor(place, image.data() + at);
    if (!got.isReal())
      continue;
    double epsilon = bodyEpsilon(*command.body, place.type.getElementType());
    auto moved =
        evaluateCommand(exact, command, handlesFor(exact, operands, epsilon));
    if (failed(moved))
      return failure();
    ArrayRef<double> expected = (*truth)[i]->reals;
    double sensitivity = std::max(distance(expected, (*rounded)[i]->reals),
                                  distance(expected, (*moved)[i]->reals));
    double unit = epsilon * norm(expected);
    note(program, command, distance(expected, got.reals),
         8 * std::sqrt(static_cast<double>(length)) * (unit + sensitivity),
         unit);
  }
  return success();
}

Status TraceChecker::applyWrites(const ScheduledProgram &program,
                                 std::string &image) {
  uint64_t count = 0;
  if (Status status = reader.number(count); !status.ok())
    return status;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t index = 0;
    if (Status status = reader.number(index); !status.ok())
      return status;
    if (index >= program.slots.size())
      return reader.wrong("writes slot " + std::to_string(index) + " of " +
                          std::to_string(program.slots.size()));
    rt::SlotOp slot = program.slots[index];
    StringRef bytes;
    if (Status status = reader.take(slot.getBytes(), bytes); !status.ok())
      return status;
    std::copy(bytes.begin(), bytes.end(), image.begin() + slot.getOffset());
  }
  return {};
}

Status TraceChecker::checkRecord(const ScheduledProgram &program,
                                 uint64_t index, std::string &image) {
  uint64_t iteration = 0;
  if (Status status = reader.number(iteration); !status.ok())
    return status;
  int64_t iterations = 1;
  for (uint64_t i = 0; i < index && i < program.commands.size(); ++i) {
    const ScheduledCommand &before = program.commands[i];
    if (before.kind == ScheduledCommand::Kind::LoopBegin)
      iterations = before.count;
    else if (before.kind == ScheduledCommand::Kind::LoopEnd)
      iterations = 1;
  }
  if (index >= program.commands.size() ||
      iteration >= static_cast<uint64_t>(iterations))
    return reader.wrong("has command " + std::to_string(index) +
                        ", iteration " + std::to_string(iteration) +
                        ", which the module has not");
  const ScheduledCommand &command = program.commands[index];
  if (command.kind == ScheduledCommand::Kind::LoopBegin ||
      command.kind == ScheduledCommand::Kind::LoopEnd)
    return reader.wrong("says that a loop wrote memory");
  SmallVector<HostTensor> operands =
      operandsOf(program, command, iteration, image);
  if (Status status = applyWrites(program, image); !status.ok())
    return status;
  if (command.body)
    return withDiagnostics(module.getContext(), [&] {
      return compareOps(program, command, iteration, operands, image);
    });
  const SlotTensor &to = command.results.front();
  rt::SlotOp slot = program.slots[to.slot];
  int64_t at = slot.getOffset() + to.offset + to.loopStride * iteration;
  HostTensor got = loadTensor(to, image.data() + at);
  bool same = operands.empty()
                  ? llvm::all_of(got.integers, [](int64_t x) { return x == 0; })
                  : got.integers == operands.front().integers;
  note(program, command, same ? 0 : 1, 0, 0);
  return {};
}

Status TraceChecker::checkProgram() {
  uint64_t size = 0, arena = 0;
  StringRef name, bytes;
  for (Status status : {reader.number(size), reader.take(size, name),
                        reader.number(arena), reader.take(arena, bytes)})
    if (!status.ok())
      return status;
  rt::ProgramOp found;
  for (rt::ProgramOp op : module.getOps<rt::ProgramOp>())
    if (op.getSymName() == name)
      found = op;
  if (!found)
    return reader.wrong("has a program that the module has not");
  std::optional<ScheduledProgram> program;
  Status status = withDiagnostics(module.getContext(), [&]() -> LogicalResult {
    auto built = ScheduledProgram::build(found);
    if (failed(built))
      return failure();
    program.emplace(std::move(*built));
    return success();
  });
  if (!status.ok())
    return status;
  rt::ArenaOp arenaOp = *module.getOps<rt::ArenaOp>().begin();
  if (arenaOp.getHeight() != arena)
    return reader.wrong("has an arena of " + std::to_string(arena) +
                        " bytes, the module one of " +
                        std::to_string(arenaOp.getHeight()));
  std::string image = bytes.str();
  while (true) {
    uint64_t index = 0;
    if (Status status = reader.number(index); !status.ok())
      return status;
    if (index == UINT64_MAX)
      return {};
    if (Status status = checkRecord(*program, index, image); !status.ok())
      return status;
  }
}

void TraceChecker::print(llvm::raw_ostream &out) {
  out << "op                        compared   worst difference / allowed\n";
  for (auto &[name, kind] : kinds)
    out << (kind.worst > 1 ? "FAIL  " : "ok    ")
        << llvm::format("%-20s %7lld   %10.3g   (%.3g eps of the norm)  ",
                        name.c_str(), static_cast<long long>(kind.compared),
                        kind.worst, kind.worstUlps)
        << kind.where << "\n";
}

Status TraceChecker::run(llvm::raw_ostream &out) {
  StringRef magic;
  if (!reader.take(8, magic).ok() || magic != "KILNOPS1")
    return reader.wrong("is no trace of ops");
  while (!reader.atEnd())
    if (Status status = checkProgram(); !status.ok())
      return status;
  print(out);
  for (auto &[name, kind] : kinds)
    if (kind.worst > 1)
      return Status::error("--check-trace: compiled " + name + " at " +
                           kind.where + " differs from its interpretation");
  return {};
}

Status checkTrace(ModuleOp module, const std::string &path,
                  llvm::raw_ostream &out) {
  if (!ScheduledEngine::accepts(module))
    return Status::badInput("--check-trace needs a scheduled module: make it "
                            "with kilnc --emit=schedule and the flags of the "
                            "executable");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return Status::badInput("cannot read " + path + ": " +
                            buffer.getError().message());
  return TraceChecker(module, TraceReader((*buffer)->getBuffer(), path))
      .run(out);
}

} // namespace kiln
