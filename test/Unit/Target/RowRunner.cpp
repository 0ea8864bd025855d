//===- RowRunner.cpp - Compares row kernels with the reference ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowRunner.h"

#include "RowOnGpu.h"
#include "RowSteps.h"

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"
#include "kiln/Support/ElementConversion.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace kiln::support;
using kiln::runtime::EmuCounts;
using kiln::runtime::EmuDevice;

namespace kiln::test {

//===----------------------------------------------------------------------===//
// Buffer
//===----------------------------------------------------------------------===//

Buffer::Buffer(RankedTensorType type, int64_t stride)
    : type(type), columns(getColumnCount(type)),
      rowStride(stride ? stride : columns),
      elementSize(type.getElementType().getIntOrFloatBitWidth() / 8) {
  // Fill the buffer with 0xff bytes, so that an element that is read before it
  // is written is NaN or an out-of-bounds index.
  bytes.assign(2 * kGuard + getRowCount(type) * rowStride * elementSize,
               static_cast<char>(0xff));
}

Buffer::Buffer(const HostTensor &tensor, int64_t stride)
    : Buffer(tensor.type, stride) {
  Type element = type.getElementType();
  for (int64_t i = 0, e = tensor.size(); i < e; ++i) {
    char *to = bytes.data() + offsetOf(i);
    auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
    if (isa<FloatType>(element))
      convertElements(ElementType::F64, &tensor.reals[i],
                      elementTypeOf(element), to, 1);
    else if (element.isInteger(64))
      put(tensor.integers[i]);
    else if (element.isInteger(8))
      put(static_cast<int8_t>(tensor.integers[i]));
    else
      put(static_cast<int32_t>(tensor.integers[i]));
  }
}

int64_t Buffer::offsetOf(int64_t element) const {
  return kGuard +
         (element / columns * rowStride + element % columns) * elementSize;
}

HostTensor Buffer::read() const {
  HostTensor tensor(type);
  for (int64_t i = 0, e = tensor.size(); i < e; ++i) {
    const char *from = bytes.data() + offsetOf(i);
    if (type.getElementType().isInteger(8)) {
      int8_t value;
      std::memcpy(&value, from, sizeof(value));
      tensor.integers[i] = value;
      continue;
    }
    if (type.getElementType().isInteger(32)) {
      int32_t value;
      std::memcpy(&value, from, sizeof(value));
      tensor.integers[i] = value;
      continue;
    }
    convertElements(elementTypeOf(type.getElementType()), from,
                    ElementType::F64, &tensor.reals[i], 1);
  }
  return tensor;
}

bool Buffer::hasIntactGuards() const {
  std::vector<bool> inside(bytes.size(), false);
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i)
    std::fill_n(inside.begin() + offsetOf(i), elementSize, true);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (!inside[i] && bytes[i] != static_cast<char>(0xff))
      return false;
  return true;
}

bool Buffer::operator==(const Buffer &other) const {
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i)
    if (std::memcmp(bytes.data() + offsetOf(i),
                    other.bytes.data() + other.offsetOf(i), elementSize) != 0)
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

static bool isNarrow(StringRef type) { return type == "bf16" || type == "f16"; }

static std::string substitute(std::string text, int64_t rows, int64_t columns,
                              const char *type) {
  auto replace = [&](StringRef name, const std::string &value) {
    for (size_t at; (at = text.find(name.str())) != std::string::npos;)
      text.replace(at, name.size(), value);
  };
  replace("$R", std::to_string(rows));
  replace("$C", std::to_string(columns));
  replace("$T", type);
  replace("$F", isNarrow(type) ? "f32" : type);
  return text;
}

/// Splits "%a : X, %b : Y" into {"%a, %b", "X, Y"}.
static std::pair<std::string, std::string> splitResults(StringRef results) {
  std::string names, types;
  SmallVector<StringRef> parts;
  results.split(parts, ", ");
  for (StringRef part : parts) {
    auto [name, type] = part.split(" : ");
    names += (names.empty() ? "" : ", ") + name.str();
    types += (types.empty() ? "" : ", ") + type.str();
  }
  return {names, types};
}

RowRunner::RowRunner() : context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<KilnDialect>();
  module = ModuleOp::create(UnknownLoc::get(&context));
  onGpu = std::make_unique<RowOnGpu>(context);
}

RowRunner::~RowRunner() = default;

std::optional<RowInstance> RowRunner::build(const RowCase &rowCase,
                                            int64_t rows, int64_t columns,
                                            const char *type) {
  auto [names, types] = splitResults(rowCase.results);
  std::string text = "kiln.program @f(" + rowCase.arguments + ") -> (" + types +
                     ") attributes {kind = #kiln.program_kind<forward>} {\n" +
                     rowCase.body + "\nkiln.return " + names + " : " + types +
                     "\n}";
  text = substitute(text, rows, columns, type);
  RowInstance instance;
  instance.module = parseSourceString<ModuleOp>(text, &context);
  if (!instance.module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return std::nullopt;
  }
  instance.program = *instance.module->getOps<ProgramOp>().begin();
  Block &block = instance.program.getBlock();
  llvm::append_range(instance.operands, block.getArguments());
  llvm::append_range(instance.results, block.getTerminator()->getOperands());

  // Use the row space of the first op whose row space is not flexible.
  RowSpace space;
  space.flexible = true;
  for (Operation &op : block.without_terminator())
    if (space.flexible)
      space = cast<RowOpInterface>(op).getRowSpace();
  RowBuilder builder(space.rows, space.cols);
  for (Operation &op : block.without_terminator())
    if (failed(cast<RowOpInterface>(op).buildRows(builder))) {
      ADD_FAILURE() << "no row space for " << op.getName().getStringRef().str()
                    << " in\n"
                    << text;
      return std::nullopt;
    }
  FailureOr<row::RowProgram> program =
      builder.finish(instance.operands, instance.results);
  if (failed(program)) {
    ADD_FAILURE() << "no row program for\n" << text;
    return std::nullopt;
  }
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  row::print(stream, *program);
  auto parsed = row::parse(printed);
  EXPECT_TRUE(bool(parsed)) << llvm::toString(parsed.takeError()) << " in\n"
                            << printed;
  EXPECT_TRUE(parsed && *parsed == *program) << printed;
  instance.rows = *program;
  return instance;
}

static std::vector<HostTensor> makeInputs(const RowInstance &instance,
                                          const RowCase &rowCase) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<HostTensor> inputs;
  for (auto [i, value] : llvm::enumerate(instance.operands)) {
    HostTensor tensor(tensorTypeOf(value));
    for (double &x : tensor.reals)
      x = normal(random);
    for (int64_t &x : tensor.integers)
      x = random() % instance.rows.rows;
    if (rowCase.fill)
      rowCase.fill(i, tensor);
    roundElements(tensor);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

static std::vector<HostTensor> evaluate(const RowInstance &instance,
                                        ArrayRef<HostTensor> inputs) {
  DenseMap<Value, HostTensor> known;
  for (auto [value, tensor] : llvm::zip_equal(instance.operands, inputs))
    known[value] = tensor;
  ProgramOp program = instance.program;
  for (Operation &op : program.getBlock().without_terminator()) {
    SmallVector<const HostTensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&known[operand]);
    std::vector<HostTensor> results;
    for (Value result : op.getResults())
      results.emplace_back(tensorTypeOf(result));
    if (failed(cast<ReferenceOpInterface>(op).evaluate(operands, results)))
      ADD_FAILURE() << "reference failed";
    for (auto [value, tensor] : llvm::zip_equal(op.getResults(), results))
      known[value] = std::move(tensor);
  }
  std::vector<HostTensor> results;
  for (Value result : instance.results)
    results.push_back(known[result]);
  return results;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static void compareCodes(const HostTensor &got, const HostTensor &want) {
  int64_t different = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    int code = static_cast<uint8_t>(got.integers[i]);
    int expected = static_cast<uint8_t>(want.integers[i]);
    different += code != expected;
    ASSERT_LE(std::abs(code - expected), 1)
        << "element " << i << ": " << code << ", expected " << expected;
  }
  EXPECT_LE(256 * different, got.size());
}

static void compare(const HostTensor &got, const HostTensor &want,
                    double tolerance) {
  if (want.type.getElementType().isInteger(32)) {
    EXPECT_EQ(got.integers, want.integers);
    return;
  }
  if (!want.isReal())
    return compareCodes(got, want);
  double largest = 1, worst = 0;
  int64_t where = 0;
  for (double x : want.reals)
    if (std::isfinite(x))
      largest = std::max(largest, std::abs(x));
  for (int64_t i = 0; i < got.size(); ++i) {
    double x = got.reals[i], y = want.reals[i];
    bool isSame = x == y || (std::isnan(x) && std::isnan(y));
    double error = isSame ? 0 : std::abs(x - y) / largest;
    if (error > worst || std::isnan(error)) {
      worst = error;
      where = i;
    }
  }
  EXPECT_LE(worst, tolerance) << "element " << where << ": " << got.reals[where]
                              << ", expected " << want.reals[where];
}

/// Compares bits; NaNs may have different payloads.
static void compareBits(const HostTensor &got, const HostTensor &want) {
  ASSERT_EQ(got.integers, want.integers);
  if (!want.isReal())
    return;
  for (int64_t i = 0; i < got.size(); ++i) {
    double x = got.reals[i], y = want.reals[i];
    bool isSame = std::isnan(y) ? std::isnan(x)
                                : x == y && std::signbit(x) == std::signbit(y);
    ASSERT_TRUE(isSame) << "element " << i << ": " << x << ", expected " << y;
  }
}

void RowRunner::run(const Compiled &compiled, const LoadedKernels &library) {
  Kernel kernel = library.find(compiled.name);
  const RowInstance &instance = compiled.instance;
  const cpu::KernelLaunch &launch = compiled.launch;
  ArrayRef<Layout> layouts = compiled.layouts;
  size_t numOperands = instance.operands.size();
  size_t numResults = instance.results.size();
  std::vector<HostTensor> inputs = makeInputs(instance, compiled.rowCase);
  // Runs the kernel with result `shared.second` in the buffer of operand
  // `shared.first`, or with separate buffers if `shared.first` is negative.
  auto runWith = [&](int64_t unitsPerCall, std::pair<int, int> shared) {
    std::vector<Buffer> buffers = makeBuffers(compiled, inputs);
    std::vector<char *> args;
    for (Buffer &buffer : buffers)
      args.push_back(buffer.data());
    if (shared.first >= 0)
      args[numOperands + shared.second] = args[shared.first];
    // Run units of work (rows or elements) in reverse, since the order of calls
    // must not matter.
    int64_t calls = llvm::divideCeil(launch.units, unitsPerCall);
    for (int64_t i = calls; i-- > 0;)
      kernel(args.data(), instance.rows.immediates.data(), i * unitsPerCall,
             std::min(launch.units, (i + 1) * unitsPerCall), nullptr);
    for (Buffer &buffer : buffers)
      EXPECT_TRUE(buffer.hasIntactGuards());
    if (shared.first >= 0)
      buffers[numOperands + shared.second] = buffers[shared.first];
    buffers.erase(buffers.begin(), buffers.begin() + numOperands);
    return buffers;
  };

  std::vector<Buffer> results = runWith(launch.units, {-1, -1});
  std::vector<HostTensor> expected =
      compiled.steps ? compiled.steps->run(library, instance, inputs)
                     : evaluate(instance, inputs);
  for (size_t i = 0; i < numResults; ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    if (compiled.steps) {
      compareBits(results[i].read(), expected[i]);
      continue;
    }
    bool isDouble = tensorTypeOf(instance.operands[0]).getElementType().isF64();
    compare(results[i].read(), expected[i],
            isDouble ? compiled.rowCase.tolerance64
                     : compiled.rowCase.tolerance32);
  }
  auto expectSame = [&](const std::vector<Buffer> &others, const char *how) {
    for (size_t i = 0; i < numResults; ++i)
      EXPECT_TRUE(results[i] == others[i]) << "result " << i << ", " << how;
  };
  bool isFlat = launch.units == instance.rows.rows * instance.rows.cols &&
                instance.rows.flat;
  expectSame(runWith(isFlat ? 64 : 1, {-1, -1}), "unit by unit");
  forEachShared(compiled, [&](std::pair<int, int> shared) {
    expectSame(runWith(isFlat ? 64 : 1, shared), "in place");
  });
  if (compiled.hasGpu)
    runOnGpu(compiled, inputs, results);
}

std::vector<Buffer> RowRunner::makeBuffers(const Compiled &compiled,
                                           ArrayRef<HostTensor> inputs) {
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < inputs.size(); ++i)
    buffers.emplace_back(inputs[i], compiled.layouts[i].rowStride);
  for (auto [i, result] : llvm::enumerate(compiled.instance.results))
    buffers.emplace_back(tensorTypeOf(result),
                         compiled.layouts[inputs.size() + i].rowStride);
  return buffers;
}

void RowRunner::forEachShared(
    const Compiled &compiled,
    llvm::function_ref<void(std::pair<int, int>)> body) {
  const RowInstance &instance = compiled.instance;
  size_t numOperands = instance.operands.size();
  for (size_t operand = 0; operand < numOperands; ++operand)
    for (size_t result = 0; result < instance.results.size(); ++result)
      if (compiled.layouts[operand].rowStride ==
              compiled.layouts[numOperands + result].rowStride &&
          row::mayShareSlot(instance.rows, operand, result))
        body({operand, result});
}

void RowRunner::runOnGpu(const Compiled &compiled, ArrayRef<HostTensor> inputs,
                         ArrayRef<Buffer> expected) {
  auto check = [&](bool isShifted, std::pair<int, int> shared, uint64_t seed) {
    std::vector<Buffer> buffers = makeBuffers(compiled, inputs);
    onGpu->run(compiled.name, isShifted, buffers, inputs.size(),
               compiled.instance.rows.immediates, shared, seed);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(buffers[inputs.size() + i] == expected[i])
          << "result " << i << " on the gpu" << (isShifted ? ", shifted" : "")
          << (shared.first >= 0 ? ", in place" : "");
  };
  for (uint64_t seed : {0, 1})
    check(/*isShifted=*/seed == 1, {-1, -1}, seed);
  forEachShared(compiled, [&](std::pair<int, int> shared) {
    check(/*isShifted=*/false, shared, 2);
  });
}

/// Describes the arguments of a case. A matrix may have padded rows if it has
/// as many columns as the row program. All other tensors are contiguous, and
/// the kernel may access each of them as a matrix with that number of columns.
RowRunner::Compiled RowRunner::describe(const RowCase &rowCase,
                                        RowInstance instance) {
  Compiled compiled;
  compiled.rowCase = rowCase;
  compiled.instance = std::move(instance);
  compiled.shape.program = compiled.instance.rows;
  auto addLayout = [&](Value value) {
    int64_t columns = compiled.shape.program.cols;
    bool isWide = getColumnCount(tensorTypeOf(value)) == columns;
    int64_t stride = columns + (isWide ? rowCase.padding : 0);
    compiled.shape.layouts.push_back({stride});
    compiled.layouts.push_back({isWide ? stride : 0});
  };
  llvm::for_each(compiled.instance.operands, addLayout);
  llvm::for_each(compiled.instance.results, addLayout);
  return compiled;
}

std::optional<RowShape> RowRunner::shapeOf(const RowCase &rowCase, int64_t rows,
                                           int64_t columns, const char *type) {
  std::optional<RowInstance> instance = build(rowCase, rows, columns, type);
  if (!instance)
    return std::nullopt;
  return describe(rowCase, std::move(*instance)).shape;
}

void RowRunner::add(const RowCase &rowCase,
                    ArrayRef<std::pair<int64_t, int64_t>> sizes) {
  for (auto [rows, columns] : sizes)
    for (StringRef type : {"f32", "f64", "bf16", "f16"}) {
      if ((isNarrow(type) && !rowCase.hasNarrowFloats) ||
          (type == "f64" && !rowCase.hasDoubles))
        continue;
      // The kernels of f16 differ from those of bf16 only in their conversions.
      if (type == "f16" && std::pair(rows, columns) != sizes.front())
        continue;
      std::optional<RowInstance> instance =
          build(rowCase, rows, columns, type.data());
      if (!instance)
        return;
      Compiled compiled = describe(rowCase, std::move(*instance));
      compiled.name = "kernel" + std::to_string(all.size());
      compiled.trace = rowCase.body + "\n" + std::to_string(rows) + "x" +
                       std::to_string(columns) + " " + type.str();
      compiled.launch =
          cpu::emitRowKernel(*module, compiled.name, compiled.shape);
      compiled.hasGpu = type != "f64";
      if (isNarrow(type))
        compiled.steps = std::make_unique<RowSteps>(*module, compiled.name,
                                                    compiled.instance);
      if (compiled.hasGpu)
        onGpu->add(compiled.name, compiled.shape);
      all.push_back(std::move(compiled));
    }
}

double RowRunner::sectorRatio(const RowCase &rowCase, int64_t rows,
                              int64_t columns, const char *type) {
  std::optional<RowInstance> instance = build(rowCase, rows, columns, type);
  if (!instance)
    return 0;
  Compiled compiled = describe(rowCase, std::move(*instance));
  RowOnGpu gpu(context);
  gpu.add("kernel", compiled.shape);
  gpu.compile();
  std::vector<HostTensor> inputs = makeInputs(compiled.instance, rowCase);
  std::vector<Buffer> buffers = makeBuffers(compiled, inputs);
  EmuCounts moved =
      gpu.run("kernel", /*isShifted=*/false, buffers, inputs.size(),
              compiled.instance.rows.immediates, {-1, -1}, /*seed=*/0);
  int64_t least = 0;
  for (Buffer &buffer : buffers)
    least += llvm::divideCeil(buffer.size(), EmuDevice::sectorBytes);
  return double(moved.readSectors + moved.writeSectors) / double(least);
}

void RowRunner::runAll() {
  LoadedKernels library(*module);
  onGpu->compile();
  for (const Compiled &compiled : all) {
    SCOPED_TRACE(compiled.trace);
    run(compiled, library);
  }
}

} // namespace kiln::test
