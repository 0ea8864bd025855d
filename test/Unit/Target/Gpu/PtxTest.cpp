//===- PtxTest.cpp - PTX and machine code of GPU kernels ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the PTX contains the instructions that determine the speed and
// the rounding of kernels. PTX is generated in this process. Tests of machine
// code are skipped if no assembler is installed.
//
//===----------------------------------------------------------------------===//

#include "../AssemblerTesting.h"
#include "AssemblerReport.h"
#include "SampleKernels.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/Ptx.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::gpu;
using namespace kiln::test;

namespace {

class Ptx : public testing::Test {
protected:
  std::string compile(const std::string &text, const char *chip = "sm_90") {
    auto module = kernels.parse(text);
    if (!module)
      return "";
    auto ptx = compileToPtx(*module, chip);
    return ptx ? *ptx : llvm::toString(ptx.takeError());
  }
  static size_t count(const std::string &text, const std::string &what) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
      ++found;
    return found;
  }

  KernelContext kernels;
};

TEST_F(Ptx, WideAccessesAndExactRounding) {
  for (const char *chip : {"sm_80", "sm_90"}) {
    std::string ptx = compile(curveKernel(), chip);
    EXPECT_EQ(count(ptx, "ld.global.v4"), 1u) << ptx;
    EXPECT_EQ(count(ptx, "st.global.v4"), 1u);
    EXPECT_NE(count(ptx, "mul.rn.f32"), 0u);
    EXPECT_NE(count(ptx, "add.rn.f32"), 0u);
    EXPECT_NE(count(ptx, "div.rn.f32"), 0u);
    EXPECT_NE(count(ptx, "sqrt.rn.f32"), 0u);
    EXPECT_EQ(count(ptx, "fma"), 0u);
    EXPECT_EQ(count(ptx, "approx"), 0u);
    EXPECT_EQ(count(ptx, ".ftz"), 0u);
    EXPECT_EQ(count(ptx, ".reqntid 64"), 1u);
    EXPECT_EQ(count(ptx, std::string(".target ") + chip), 1u);
  }
}

TEST_F(Ptx, BarriersShufflesAndSharedMemory) {
  std::string ptx = compile(rowSumKernel());
  EXPECT_EQ(count(ptx, "shfl.sync.bfly.b32"), 5u) << ptx;
  EXPECT_EQ(count(ptx, "bar.sync") + count(ptx, "barrier.sync"), 1u);
  EXPECT_EQ(count(ptx, ".shared .align 16 .b8"), 1u);
  EXPECT_EQ(count(ptx, "ld.shared.v2"), 1u);
  EXPECT_EQ(count(ptx, "fma"), 0u);
}

TEST_F(Ptx, LoadsAreNotMovedOverABarrier) {
  // Only thread 5 writes; the other threads must read its value.
  std::string ptx = compile(R"(
  llvm.mlir.global internal @s() {addr_space = 3 : i32, alignment = 16} : !llvm.array<1 x i32>
)" + kernel("k", "%x: !llvm.ptr<1>", 64, R"(
    %s = llvm.mlir.addressof @s : !llvm.ptr<3>
    %seven = arith.constant 7 : i32
    %zero = arith.constant 0 : i32
    %five = arith.constant 5 : i64
    %first = arith.cmpi eq, %t, %c0 : i64
    scf.if %first {
      llvm.store %zero, %s : i32, !llvm.ptr<3>
    }
    gpu.barrier
    %before = llvm.load %s : !llvm.ptr<3> -> i32
    gpu.barrier
    %writes = arith.cmpi eq, %t, %five : i64
    scf.if %writes {
      llvm.store %seven, %s : i32, !llvm.ptr<3>
    }
    gpu.barrier
    %after = llvm.load %s : !llvm.ptr<3> -> i32
    %sum = arith.addi %before, %after : i32
    %p = llvm.getelementptr %x[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    llvm.store %sum, %p : i32, !llvm.ptr<1>
)"));
  EXPECT_EQ(count(ptx, "ld.shared"), 2u) << ptx;
}

TEST_F(Ptx, ShufflesOf64BitsAndBFloat16Storage) {
  std::string ptx = compile(kernel("k", "%x: !llvm.ptr<1>", 32, R"(
    %width = arith.constant 32 : i32
    %one = arith.constant 1 : i32
    %p = llvm.getelementptr %x[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f64
    %v = llvm.load %p : !llvm.ptr<1> -> f64
    %w, %ok = gpu.shuffle idx %v, %one, %width : f64
    %n = arith.truncf %w : f64 to f32
    %h = arith.truncf %n : f32 to bf16
    llvm.store %h, %p : bf16, !llvm.ptr<1>
)"));
  EXPECT_EQ(count(ptx, "shfl.sync.idx.b32"), 2u) << ptx;
  EXPECT_EQ(count(ptx, "cvt.rn.bf16.f32"), 1u);
}

TEST_F(Ptx, ChipsCompileInParallelToTheSameText) {
  auto module = kernels.parse(curveKernel() + rowSumKernel());
  auto both = compileToPtx(*module, {"sm_80", "sm_90"});
  ASSERT_TRUE(!!both);
  ASSERT_EQ(both->size(), 2u);
  EXPECT_EQ((*both)[0], compile(curveKernel() + rowSumKernel(), "sm_80"));
  EXPECT_EQ((*both)[1], compile(curveKernel() + rowSumKernel(), "sm_90"));
}

TEST_F(Ptx, RefusesLibraryFunctions) {
  auto withBody = [&](const std::string &body, const std::string &before = "") {
    return compile(before +
                   kernel("k", "%x: !llvm.ptr<1>", 32,
                          "%v = llvm.load %x : !llvm.ptr<1> -> f32\n" + body +
                              "llvm.store %w, %x : f32, "
                              "!llvm.ptr<1>\n"));
  };
  EXPECT_EQ(withBody("%w = llvm.call @__nv_expf(%v) : (f32) -> f32\n",
                     "llvm.func @__nv_expf(f32) -> f32\n"),
            "kernel 'k' calls '__nv_expf', which PTX has no instruction for");
  EXPECT_EQ(withBody("%w = llvm.intr.exp(%v) : (f32) -> f32\n"),
            "kernel 'k' calls 'llvm.exp.f32', which PTX has no instruction "
            "for");
  EXPECT_EQ(withBody("%w = llvm.intr.tanh(%v) : (f32) -> f32\n"),
            "kernel 'k' calls 'llvm.tanh.f32', which PTX has no instruction "
            "for");
}

TEST_F(Ptx, RefusesWhatIsNotEmulated) {
  EXPECT_EQ(compile(kernel("k", "%x: !llvm.ptr<1>", 32,
                           "nvvm.cp.async.bulk.commit.group\n")),
            "kernel 'k': 'nvvm.cp.async.bulk.commit.group' is an op that "
            "cuda-emu does not emulate");
}

TEST_F(Ptx, Chips) {
  EXPECT_FALSE(checkChip("sm_80"));
  EXPECT_FALSE(checkChip("sm_90a"));
  EXPECT_EQ(llvm::toString(checkChip("sm_70")),
            "GPU architecture 'sm_70' is too old, expected sm_80 or newer");
  for (const char *chip : {"sm_81", "abacus", "", "sm_", "90"}) {
    std::string message = llvm::toString(checkChip(chip));
    EXPECT_EQ(message.rfind(std::string("unknown GPU architecture '") + chip +
                                "', expected one of sm_80, ",
                            0),
              0u)
        << message;
  }
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

class Cubins : public Ptx {
protected:
  std::vector<PtxText> texts() {
    std::vector<PtxText> texts;
    for (const char *chip : {"sm_80", "sm_90"})
      texts.push_back({chip, compile(curveKernel() + rowSumKernel(), chip)});
    return texts;
  }
  static void check(const std::vector<Cubin> &cubins) {
    ASSERT_EQ(cubins.size(), 2u);
    for (const Cubin &cubin : cubins) {
      ASSERT_GT(cubin.image.size(), 64u);
      EXPECT_EQ(std::string(cubin.image.data(), 4), "\177ELF");
      ASSERT_EQ(cubin.kernels.size(), 2u);
      for (const KernelResources &kernel : cubin.kernels) {
        EXPECT_GT(kernel.registers, 4);
        EXPECT_LT(kernel.registers, 64);
        EXPECT_EQ(kernel.spillStores, 0) << kernel.kernel;
        EXPECT_EQ(kernel.spillLoads, 0) << kernel.kernel;
        EXPECT_GE(kernel.sharedBytes, kernel.kernel == "row_sums" ? 8 : 0);
        EXPECT_LT(kernel.sharedBytes, 64);
      }
    }
    EXPECT_EQ(cubins[0].chip, "sm_80");
    EXPECT_EQ(cubins[1].chip, "sm_90");
  }
};

TEST_F(Cubins, ByTheLibrary) {
  AssemblerSearch search = AssemblerSearch::standard();
  search.programs.clear();
  auto cubins = assemble(texts(), search);
  KILN_REQUIRE_ASSEMBLED(cubins);
  check(*cubins);
  auto again = assemble(texts(), search);
  ASSERT_TRUE(!!again);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ((*cubins)[i].image, (*again)[i].image);
}

TEST_F(Cubins, ByTheProgram) {
  AssemblerSearch search = AssemblerSearch::standard();
  search.libraries.clear();
  auto cubins = assemble(texts(), search);
  KILN_REQUIRE_ASSEMBLED(cubins);
  check(*cubins);
}

TEST_F(Cubins, BadPtxIsOneLine) {
  for (bool useLibrary : {true, false}) {
    AssemblerSearch search = AssemblerSearch::standard();
    if (useLibrary)
      search.programs.clear();
    else
      search.libraries.clear();
    auto cubin = assemble("not ptx", "sm_90", search);
    ASSERT_FALSE(!!cubin);
    std::string message = llvm::toString(cubin.takeError());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    if (message.rfind("no assembler", 0) != 0) {
      EXPECT_EQ(message.rfind("PTX does not assemble for sm_90", 0), 0u)
          << message;
    }
  }
}

TEST_F(Cubins, WithoutAnAssembler) {
  AssemblerSearch search;
  search.libraries = {"libnvJitLink.so.nowhere"};
  search.programs = {"/nowhere/ptxas"};
  auto cubin = assemble("", "sm_90", search);
  ASSERT_FALSE(!!cubin);
  std::string message = llvm::toString(cubin.takeError());
  EXPECT_EQ(message.rfind("no assembler for NVIDIA GPUs: no ptxas in PATH or "
                          "CUDA_HOME/bin; libnvJitLink.so.nowhere: cannot open",
                          0),
            0u)
      << message;
  EXPECT_NE(message.find("only PTX"), std::string::npos);

  // Use a library that exists but is not nvJitLink.
  search.libraries = {"libc.so.6"};
  cubin = assemble("", "sm_90", search);
  ASSERT_FALSE(!!cubin);
  message = llvm::toString(cubin.takeError());
  EXPECT_NE(message.find("libc.so.6 has no nvJitLinkVersion"),
            std::string::npos)
      << message;
}

TEST(AssemblerReport, CountsSpillsOfCalledFunctions) {
  auto kernels = parseAssemblerReport(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
ptxas info    : Function properties for helper
    0 bytes stack frame, 16 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 64 bytes smem
)",
                                      2);
  ASSERT_TRUE(!!kernels);
  ASSERT_EQ(kernels->size(), 2u);
  EXPECT_EQ((*kernels)[0].kernel, "a");
  EXPECT_EQ((*kernels)[0].registers, 255);
  EXPECT_EQ((*kernels)[0].spillStores, 20);
  EXPECT_EQ((*kernels)[0].spillLoads, 12);
  EXPECT_EQ((*kernels)[0].sharedBytes, 0);
  EXPECT_EQ((*kernels)[1].kernel, "b");
  EXPECT_EQ((*kernels)[1].sharedBytes, 64);
}

TEST(AssemblerReport, MissingFiguresAreAnError) {
  auto kernels = parseAssemblerReport(
      "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
      "ptxas info    : Used 12 registers\n",
      1);
  ASSERT_FALSE(!!kernels);
  EXPECT_EQ(llvm::toString(kernels.takeError()),
            "the assembler's report has no registers or spills for kernel 'a'");
  kernels = parseAssemblerReport("", 3);
  ASSERT_FALSE(!!kernels);
  EXPECT_EQ(llvm::toString(kernels.takeError()),
            "the assembler reports on 0 kernels, expected 3");
}

} // namespace
