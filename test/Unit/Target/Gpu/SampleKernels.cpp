//===- SampleKernels.cpp - Small GPU kernels for tests --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace kiln::test {

KernelContext::KernelContext()
    : context(mlir::MLIRContext::Threading::DISABLED) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::gpu::GPUDialect,
                      mlir::LLVM::LLVMDialect, mlir::NVVM::NVVMDialect,
                      mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
}

mlir::OwningOpRef<mlir::ModuleOp>
KernelContext::parse(const std::string &kernels) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      "gpu.module @kernels {\n" + kernels + "}\n", &context);
  EXPECT_TRUE(!!module) << kernels;
  return module;
}

std::string kernel(const std::string &name, const std::string &parameters,
                   int threads, const std::string &body) {
  std::string text =
      "gpu.func @" + name + "(" + parameters +
      ", %units: i64) kernel attributes {nvvm.reqntid = array<i32: " +
      std::to_string(threads) + ", 1, 1>} {\n" + R"(
    %tid = gpu.thread_id x
    %bid = gpu.block_id x
    %t = arith.index_cast %tid : index to i64
    %b = arith.index_cast %bid : index to i64
    %c0 = arith.constant 0 : i64
)";
  for (int power = 1; power <= 1024; power *= 2) {
    std::string number = std::to_string(power);
    text += "    %c" + number + " = arith.constant " + number + " : i64\n";
  }
  return text + body + "    gpu.return\n}\n";
}

/// Returns the code of sqrt(|x * 2.5 + x / 3|) for values of `type`, with names
/// that end in `suffix`.
static std::string curve(const std::string &type, const std::string &suffix) {
  std::string text = R"(
      %k# = arith.constant K2.5X : TYPE
      %d# = arith.constant K3.0X : TYPE
      %m# = arith.mulf %v#, %k# : TYPE
      %q# = arith.divf %v#, %d# : TYPE
      %s# = arith.addf %m#, %q# : TYPE
      %a# = llvm.intr.fabs(%s#) : (TYPE) -> TYPE
      %r# = llvm.intr.sqrt(%a#) : (TYPE) -> TYPE
)";
  bool isVector = type != "f32";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  };
  replace("TYPE", type);
  replace("#", suffix);
  replace("K", isVector ? "dense<" : "");
  replace("X", isVector ? ">" : "");
  return text;
}

std::string curveKernel() {
  return kernel("curve", "%x: !llvm.ptr<1>, %y: !llvm.ptr<1>", 64, R"(
    %t4 = arith.muli %t, %c4 overflow<nsw, nuw> : i64
    %b256 = arith.muli %b, %c256 overflow<nsw, nuw> : i64
    %i = arith.addi %t4, %b256 overflow<nsw, nuw> : i64
    %end = arith.addi %i, %c4 overflow<nsw, nuw> : i64
    %whole = arith.cmpi sle, %end, %units : i64
    scf.if %whole {
      %px = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %py = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %v0 = llvm.load %px {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
)" + curve("vector<4xf32>", "0") + R"(
      llvm.store %r0, %py {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    } else {
      scf.for %j = %i to %units step %c1 : i64 {
      %px = llvm.getelementptr %x[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %py = llvm.getelementptr %y[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %v1 = llvm.load %px {alignment = 4 : i64} : !llvm.ptr<1> -> f32
)" + curve("f32", "1") + R"(
      llvm.store %r1, %py {alignment = 4 : i64} : f32, !llvm.ptr<1>
      }
    }
)");
}

std::string rowSumKernel() {
  std::string shuffles;
  std::string sum = "%sum0";
  for (int distance = 16; distance > 0; distance /= 2) {
    std::string d = std::to_string(distance);
    shuffles += "    %m" + d + " = arith.constant " + d + " : i32\n    %o" + d +
                ", %p" + d + " = gpu.shuffle xor " + sum + ", %m" + d +
                ", %width : f32\n    %sum" + d + " = arith.addf " + sum +
                ", %o" + d + " : f32\n";
    sum = "%sum" + d;
  }
  return R"(
  llvm.mlir.global internal @row_sums_smem0()
      {addr_space = 3 : i32, alignment = 16} : !llvm.array<2 x f32>
)" + kernel("row_sums", "%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %cols: i64", 64,
            R"(
    %t4 = arith.muli %t, %c4 overflow<nsw, nuw> : i64
    %start = arith.muli %b, %cols : i64
    %row = llvm.getelementptr %x[%start] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %acc = scf.for %j = %t4 to %cols step %c256 iter_args(%a = %zero) -> (vector<4xf32>) : i64 {
      %p = llvm.getelementptr %row[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %v = llvm.load %p {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
      %n = arith.addf %a, %v : vector<4xf32>
      scf.yield %n : vector<4xf32>
    }
    %low = vector.extract_strided_slice %acc {offsets = [0], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
    %high = vector.extract_strided_slice %acc {offsets = [2], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
    %pair = arith.addf %low, %high : vector<2xf32>
    %e0 = vector.extract %pair[0] : f32 from vector<2xf32>
    %e1 = vector.extract %pair[1] : f32 from vector<2xf32>
    %sum0 = arith.addf %e0, %e1 : f32
    %width = arith.constant 32 : i32
)" + shuffles + R"(
    %lane = arith.remui %t, %c32 : i64
    %warp = arith.divui %t, %c32 : i64
    %smem = llvm.mlir.addressof @row_sums_smem0 : !llvm.ptr<3>
    %first = arith.cmpi eq, %lane, %c0 : i64
    scf.if %first {
      %own = llvm.getelementptr %smem[%warp] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
      llvm.store )" +
                sum + R"(, %own {alignment = 4 : i64} : f32, !llvm.ptr<3>
    }
    gpu.barrier
    %leader = arith.cmpi eq, %t, %c0 : i64
    scf.if %leader {
      %sums = llvm.load %smem {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
      %w0 = vector.extract %sums[0] : f32 from vector<2xf32>
      %w1 = vector.extract %sums[1] : f32 from vector<2xf32>
      %total = arith.addf %w0, %w1 : f32
      %out = llvm.getelementptr %y[%b] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      llvm.store %total, %out {alignment = 4 : i64} : f32, !llvm.ptr<1>
    }
)");
}

} // namespace kiln::test
