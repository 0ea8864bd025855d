//===- EmulateTest.cpp - GPU kernels on the emulated device ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that kernels that are written in MLIR compute the specified bits after
// they are lowered, and that the emulated device detects errors of kernels.
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "SampleKernels.h"

#include "kiln/Target/Gpu/Emulate.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace kiln::test;
using namespace kiln;
using kiln::runtime::EmuArgument;
using kiln::runtime::EmuCounts;
using kiln::runtime::EmuDevice;
using kiln::runtime::EmuLaunch;

namespace {

/// An array in device memory.
template <typename T> class DeviceArray {
public:
  DeviceArray(EmuDevice &device, size_t count)
      : bytes((count * sizeof(T) + 511) / 256 * 256),
        data(static_cast<T *>(std::aligned_alloc(256, bytes))), count(count) {
    std::memset(static_cast<void *>(data), 0xff, bytes);
    EXPECT_TRUE(device.addMemory(reinterpret_cast<char *>(data), bytes).ok());
  }
  ~DeviceArray() { std::free(data); }
  DeviceArray(const DeviceArray &) = delete;

  void fill(EmuDevice &device, llvm::function_ref<T(size_t)> value) {
    for (size_t i = 0; i < count; ++i)
      data[i] = value(i);
    EXPECT_TRUE(device.markInitialised(data, count * sizeof(T)).ok());
  }
  T &operator[](size_t i) { return data[i]; }
  EmuArgument argument(bool isWritten, size_t skip = 0) {
    return {reinterpret_cast<char *>(data + skip),
            reinterpret_cast<char *>(data + count), isWritten, ""};
  }

private:
  size_t bytes;
  T *data;
  size_t count;
};

float sample(size_t i) { return std::sin(float(i) * 0.7f + 1.0f) * 3.0f; }

class Emulate : public testing::Test {
protected:
  /// Compiles `text` for emulation.
  void load(const std::string &text) {
    module = kernels.parse(text);
    ASSERT_TRUE(!!module);
    loaded = std::make_unique<EmulatedKernels>(*module);
  }
  Status launch(const std::string &name, std::vector<EmuArgument> arguments,
                std::vector<int64_t> immediates, int64_t units,
                int64_t unitsPerBlock, int64_t threads,
                int64_t sharedBytes = 0) {
    EmuLaunch launch;
    launch.kernel = loaded->find(name);
    launch.name = name;
    launch.arguments = std::move(arguments);
    launch.immediates = std::move(immediates);
    launch.units = units;
    launch.unitsPerBlock = unitsPerBlock;
    launch.threads = threads;
    launch.sharedBytes = sharedBytes;
    Result<EmuCounts> result = device.launch(launch);
    if (!result.ok())
      return result.status();
    counts = *result;
    return Status();
  }
  /// Returns the error of lowering `text` and checks that the host module is
  /// unchanged.
  std::string refusal(const std::string &text) {
    module = kernels.parse(text);
    if (!module)
      return "";
    mlir::OwningOpRef<mlir::ModuleOp> into =
        mlir::ModuleOp::create(module->getLoc());
    llvm::Error error = gpu::lowerForEmulation(*module, *into);
    EXPECT_TRUE(into->getBody()->empty());
    return llvm::toString(std::move(error));
  }

  KernelContext kernels;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<EmulatedKernels> loaded;
  EmuDevice device{1};
  EmuCounts counts;
};

TEST_F(Emulate, ElementwiseWithTail) {
  load(curveKernel());
  constexpr size_t units = 700; // Three blocks; the last one is partial.
  DeviceArray<float> x(device, units), y(device, units);
  x.fill(device, sample);
  Status status = launch("curve", {x.argument(false), y.argument(true)}, {},
                         units, 256, 64);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < units; ++i)
    ASSERT_EQ(y[i], std::sqrt(std::fabs(x[i] * 2.5f + x[i] / 3.0f))) << i;
  // The kernel reads and writes 2,800 bytes, which are 88 sectors, with 16-byte
  // accesses only.
  EXPECT_EQ(counts.readSectors, 88);
  EXPECT_EQ(counts.writeSectors, 88);
}

TEST_F(Emulate, ScalarTail) {
  load(curveKernel());
  DeviceArray<float> x(device, 7), y(device, 7);
  x.fill(device, sample);
  Status status =
      launch("curve", {x.argument(false), y.argument(true)}, {}, 7, 256, 64);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < 7; ++i)
    EXPECT_EQ(y[i], std::sqrt(std::fabs(x[i] * 2.5f + x[i] / 3.0f))) << i;
}

/// Computes a row sum in the order of rowSumKernel.
float rowSum(const float *row, size_t cols) {
  float warps[2];
  for (size_t warp : {0, 1}) {
    float lanes[32];
    for (size_t lane = 0; lane < 32; ++lane) {
      float sums[4] = {0, 0, 0, 0};
      for (size_t j = 4 * (32 * warp + lane); j < cols; j += 256)
        for (size_t k = 0; k < 4; ++k)
          sums[k] += row[j + k];
      lanes[lane] = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    }
    for (size_t distance : {16, 8, 4, 2, 1}) {
      float next[32];
      for (size_t lane = 0; lane < 32; ++lane)
        next[lane] = lanes[lane] + lanes[lane ^ distance];
      std::memcpy(lanes, next, sizeof(lanes));
    }
    warps[warp] = lanes[0];
  }
  return warps[0] + warps[1];
}

TEST_F(Emulate, RowSumsWithSharedMemoryAndShuffles) {
  load(rowSumKernel());
  constexpr size_t rows = 5, cols = 772;
  DeviceArray<float> x(device, rows * cols), y(device, rows);
  x.fill(device, sample);
  Status status = launch("row_sums", {x.argument(false), y.argument(true)},
                         {cols}, rows, 1, 64, 8);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t r = 0; r < rows; ++r)
    EXPECT_EQ(y[r], rowSum(&x[r * cols], cols)) << r;
}

TEST_F(Emulate, FindsAMissingBarrier) {
  std::string text = rowSumKernel();
  size_t at = text.find("gpu.barrier");
  text.erase(at, strlen("gpu.barrier"));
  load(text);
  DeviceArray<float> x(device, 256), y(device, 1);
  x.fill(device, sample);
  Status status = launch("row_sums", {x.argument(false), y.argument(true)},
                         {256}, 1, 1, 64, 8);
  EXPECT_FALSE(status.ok());
}

TEST_F(Emulate, FindsAnAccessOutOfBounds) {
  load(curveKernel());
  DeviceArray<float> x(device, 64), y(device, 60);
  x.fill(device, sample);
  Status status =
      launch("curve", {x.argument(false), y.argument(true)}, {}, 64, 256, 64);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("16 bytes"), std::string::npos)
      << status.message();
}

TEST_F(Emulate, FindsAlignmentThatIsPromisedButNotKept) {
  load(curveKernel());
  DeviceArray<float> x(device, 65), y(device, 64);
  x.fill(device, sample);
  Status status = launch("curve", {x.argument(false, 1), y.argument(true)}, {},
                         64, 256, 64);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("aligned"), std::string::npos)
      << status.message();
}

TEST_F(Emulate, AccessesAreAsWideAsTheirAlignment) {
  // An access of 16 bytes with a declared alignment of 4 bytes is split into
  // four accesses, so it may begin at any float.
  std::string text = curveKernel();
  for (size_t at; (at = text.find("alignment = 16")) != std::string::npos;)
    text.replace(at, strlen("alignment = 16"), "alignment = 4");
  load(text);
  DeviceArray<float> x(device, 65), y(device, 64);
  x.fill(device, sample);
  Status status = launch("curve", {x.argument(false, 1), y.argument(true)}, {},
                         64, 256, 64);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(y[63], std::sqrt(std::fabs(x[64] * 2.5f + x[64] / 3.0f)));
  // Each of the four accesses of 4 bytes counts the sectors that it touches,
  // even if another of the four accesses touches them, too.
  EXPECT_GE(counts.readSectors, 4 * 8);
}

TEST_F(Emulate, ShufflesOfEveryWidth) {
  auto shuffle = [](std::string type, std::string mode, std::string operand,
                    std::string pointer) {
    return "    %v" + pointer + " = llvm.load %p" + pointer +
           " {alignment = 1 : i64} : !llvm.ptr<1> -> " + type + "\n    %w" +
           pointer + ", %ok" + pointer + " = gpu.shuffle " + mode + " %v" +
           pointer + ", %" + operand + ", %width : " + type +
           "\n    llvm.store %w" + pointer + ", %p" + pointer +
           " {alignment = 1 : i64} : " + type + ", !llvm.ptr<1>\n";
  };
  std::string body = R"(
    %width = arith.constant 32 : i32
    %three = arith.constant 3 : i32
    %five = arith.constant 5 : i32
    %pa = llvm.getelementptr %a[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f64
    %pb = llvm.getelementptr %b_[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i16
    %pc = llvm.getelementptr %c[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
)" + shuffle("f64", "xor", "three", "a") +
                     shuffle("bf16", "xor", "five", "b") +
                     shuffle("vector<2xf32>", "idx", "five", "c");
  load(kernel("mix", "%a: !llvm.ptr<1>, %b_: !llvm.ptr<1>, %c: !llvm.ptr<1>",
              32, body));
  DeviceArray<double> a(device, 32);
  DeviceArray<uint16_t> b(device, 32);
  DeviceArray<float> c(device, 64);
  a.fill(device, [](size_t i) { return 1.0 / (double(i) + 3); });
  b.fill(device, [](size_t i) { return uint16_t(0xbf80 + i); });
  c.fill(device, sample);
  Status status =
      launch("mix", {a.argument(true), b.argument(true), c.argument(true)}, {},
             1, 1, 32);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(a[i], 1.0 / (double(i ^ 3) + 3));
    EXPECT_EQ(b[i], 0xbf80 + (i ^ 5));
    EXPECT_EQ(c[2 * i], sample(10));
    EXPECT_EQ(c[2 * i + 1], sample(11));
  }
}

/// Rounds f32 to bf16, ties to even.
uint16_t toBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value))
    return 0x7fc0;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

TEST_F(Emulate, BFloat16StorageNeedsNoLibrary) {
  load(kernel("halve", "%x: !llvm.ptr<1>, %y: !llvm.ptr<1>", 32, R"(
    %i = arith.muli %t, %c8 : i64
    %px = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %py = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v = llvm.load %px {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xf32>
    %n = arith.truncf %v : vector<8xf32> to vector<8xbf16>
    %w = arith.extf %n : vector<8xbf16> to vector<8xf32>
    %half = arith.constant dense<0.5> : vector<8xf32>
    %h = arith.mulf %w, %half : vector<8xf32>
    %r = arith.truncf %h : vector<8xf32> to vector<8xbf16>
    llvm.store %r, %py {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
)"));
  DeviceArray<float> x(device, 256);
  DeviceArray<uint16_t> y(device, 256);
  x.fill(device, [](size_t i) {
    if (i == 7)
      return NAN;
    if (i == 8)
      return -INFINITY;
    if (i == 9)
      return 1.00390625f; // Halfway between 1 and the next bf16.
    if (i == 10)
      return 1.01171875f; // Halfway; the lower neighbor is odd.
    return sample(i);
  });
  Status status =
      launch("halve", {x.argument(false), y.argument(true)}, {}, 256, 256, 32);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < 256; ++i) {
    uint32_t bits = uint32_t(toBFloat16(x[i])) << 16;
    float rounded;
    std::memcpy(&rounded, &bits, 4);
    EXPECT_EQ(y[i], toBFloat16(rounded * 0.5f)) << i;
  }
}

TEST_F(Emulate, SharedGlobalsLieOneAfterTheOther) {
  module = kernels.parse(R"(
  llvm.mlir.global internal @a() {addr_space = 3 : i32, alignment = 16} : !llvm.array<3 x f32>
  llvm.mlir.global internal @other() {addr_space = 3 : i32, alignment = 16} : !llvm.array<64 x f32>
  llvm.mlir.global internal @b() {addr_space = 3 : i32, alignment = 128} : !llvm.array<5 x bf16>
)" + kernel("two", "%x: !llvm.ptr<1>", 32, R"(
    %pb = llvm.mlir.addressof @b : !llvm.ptr<3>
    %pa = llvm.mlir.addressof @a : !llvm.ptr<3>
)"));
  ASSERT_TRUE(!!module);
  mlir::gpu::GPUFuncOp function;
  module->walk([&](mlir::gpu::GPUFuncOp op) { function = op; });
  llvm::Expected<int64_t> bytes = gpu::getSharedBytes(function);
  ASSERT_TRUE(!!bytes);
  EXPECT_EQ(*bytes, 138);
}

TEST_F(Emulate, RefusesAlignmentThatSharedMemoryIsNotDeclaredWith) {
  // The emulated device aligns every global to 16 bytes, but a GPU aligns a
  // global only as declared.
  auto withBody = [&](const std::string &declared, const std::string &body) {
    return refusal("llvm.mlir.global internal @s() {addr_space = 3 : i32" +
                   declared + "} : !llvm.array<64 x f32>\n" +
                   kernel("k", "%x: !llvm.ptr<1>", 32,
                          "%s = llvm.mlir.addressof @s : !llvm.ptr<3>\n"
                          "%e = llvm.getelementptr %s[4] : (!llvm.ptr<3>) -> "
                          "!llvm.ptr<3>, f32\n" +
                              body));
  };
  std::string load = "%v = llvm.load %e {alignment = 16 : i64} : "
                     "!llvm.ptr<3> -> vector<4xf32>\n",
              store = "%f = arith.constant dense<1.0> : vector<4xf32>\n"
                      "llvm.store %f, %e : vector<4xf32>, !llvm.ptr<3>\n",
              matrices = "%m = nvvm.ldmatrix %e {num = 4 : i32, layout = "
                         "#nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_"
                         "shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_"
                         "elt_type<b16>} : (!llvm.ptr<3>) -> !llvm.struct<"
                         "(i32, i32, i32, i32)>\n",
              copy = "nvvm.cp.async.shared.global %e, %x, 16, cache = ca : "
                     "!llvm.ptr<3>, !llvm.ptr<1>\n";
  std::string why = " promises an alignment of 16 bytes, but accesses shared "
                    "memory that is declared with an alignment of 8";
  for (auto [op, body] : {std::pair("llvm.load", load),
                          {"llvm.store", store},
                          {"nvvm.ldmatrix", matrices},
                          {"nvvm.cp.async.shared.global", copy}}) {
    EXPECT_EQ(withBody(", alignment = 8", body),
              "kernel 'k': '" + std::string(op) + "'" + why);
  }
  // Without an alignment attribute, a global has the alignment of an element.
  EXPECT_EQ(withBody("", load),
            "kernel 'k': 'llvm.load' promises an alignment of 16 bytes, but "
            "accesses shared memory that is declared with an alignment of 4");
  // The select makes it unknown to which global the address points, so the
  // lowest alignment applies.
  EXPECT_EQ(withBody(", alignment = 8",
                     "%c = arith.cmpi eq, %t, %b : i64\n"
                     "%a = arith.select %c, %e, %s : !llvm.ptr<3>\n"
                     "%v = llvm.load %a {alignment = 16 : i64} : "
                     "!llvm.ptr<3> -> vector<4xf32>\n"),
            "kernel 'k': 'llvm.load'" + why);
}

TEST_F(Emulate, RefusesWhatTheDeviceCannotCheck) {
  auto withBody = [&](const std::string &body) {
    return refusal(kernel("k", "%x: !llvm.ptr<1>", 32, body));
  };
  EXPECT_EQ(withBody("%f = arith.constant 1.0 : f32\n"
                     "%v = llvm.atomicrmw fadd %x, %f monotonic : "
                     "!llvm.ptr<1>, f32\n"),
            "kernel 'k': 'llvm.atomicrmw' is an op that cuda-emu does not "
            "emulate");
  EXPECT_EQ(withBody("%g = llvm.addrspacecast %x : !llvm.ptr<1> to !llvm.ptr\n"
                     "%v = llvm.load %g : !llvm.ptr -> f32\n"),
            "kernel 'k': 'llvm.addrspacecast' is an op that cuda-emu does "
            "not emulate");
  EXPECT_EQ(withBody("%v = llvm.load %x : !llvm.ptr<1> -> i1\n"),
            "kernel 'k': 'llvm.load' accesses a value that is not a scalar or "
            "vector with a whole number of bytes");
  EXPECT_EQ(withBody("%v = gpu.thread_id y\n"),
            "kernel 'k': 'gpu.thread_id' is the thread index of dimension y or "
            "z, but thread blocks have only dimension x");
  EXPECT_EQ(withBody("%v = gpu.lane_id\n"),
            "kernel 'k': 'gpu.lane_id' is not supported in a GPU kernel");
  EXPECT_EQ(withBody("nvvm.cp.async.bulk.commit.group\n"),
            "kernel 'k': 'nvvm.cp.async.bulk.commit.group' is an op that "
            "cuda-emu does not emulate");
  EXPECT_EQ(withBody("%o = arith.constant 1 : i32\n"
                     "%w = arith.constant 16 : i32\n"
                     "%v, %p = gpu.shuffle xor %o, %o, %w : i32\n"),
            "kernel 'k': 'gpu.shuffle' has a width other than 32");
  EXPECT_EQ(
      refusal("gpu.func @k(%x: !llvm.ptr<1>, %n: i32) kernel {\n"
              "gpu.return\n}\n"),
      "kernel 'k' has parameters other than a table or pointers to global "
      "memory followed by i64 immediates and the units");
}

} // namespace
