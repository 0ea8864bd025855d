//===- CodeGenTest.cpp - The in-process compiler --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that object files do not depend on the thread that compiles them, and
// that processors are selected by name.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Target/Common/VectorMath.h"

#include "kiln/Target/Cpu/CodeGen.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <thread>

using namespace kiln;
using namespace kiln::cpu;

namespace {

/// Compiles y = exp(x) on vectors in a separate context.
std::string compileExp() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadKernelDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  KernelBuilder k(*module, "exp_kernel", 2, 0);
  k.loop(k.begin(), k.end(), kLanes, [&](mlir::Value i) {
    mlir::Value x = k.loadVector(k.element(k.arg(0), k.f32(), i), k.f32());
    k.storeVector(emitExp(k, x), k.element(k.arg(1), k.f32(), i));
  });
  k.finish();
  llvm::Expected<Processor> processor = getProcessor("");
  if (!processor)
    return llvm::toString(processor.takeError());
  auto object = compileToObject(*module, *processor);
  if (!object)
    return llvm::toString(object.takeError());
  return std::string(object->begin(), object->end());
}

TEST(CodeGen, CompilesInParallelToTheSameBytes) {
  std::string objects[4];
  std::vector<std::thread> threads;
  for (std::string &object : objects)
    threads.emplace_back([&object] { object = compileExp(); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(objects[0].substr(0, 4), "\177ELF");
  for (const std::string &object : objects)
    EXPECT_EQ(object, objects[0]);
}

/// Rounds a vector to bf16, stores two elements one by one, and stores a vector
/// of zeros.
const char *narrowKernel = R"(
  llvm.func @narrow_kernel(%from: !llvm.ptr, %to: !llvm.ptr) {
    %wide = llvm.load %from {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
    %narrow = arith.truncf %wide : vector<4xf32> to vector<4xbf16>
    %zeros = arith.constant dense<0.0> : vector<4xbf16>
    %one = arith.constant 1.0 : bf16
    %i = arith.constant 1 : index
    %kept = vector.insert %one, %narrow[0] : bf16 into vector<4xbf16>
    %last = vector.extract %kept[3] : bf16 from vector<4xbf16>
    llvm.store %last, %to {alignment = 2 : i64} : bf16, !llvm.ptr
    %first = vector.extract %kept[%i] : bf16 from vector<4xbf16>
    %next = llvm.getelementptr %to[1] : (!llvm.ptr) -> !llvm.ptr, bf16
    llvm.store %first, %next {alignment = 2 : i64} : bf16, !llvm.ptr
    llvm.store %zeros, %from {alignment = 2 : i64} : vector<4xbf16>, !llvm.ptr
    llvm.return
  })";

TEST(CodeGen, NothingOfBFloat16IsLeftToTheBackEnd) {
  for (const char *name : {"x86-64-v3", "x86-64-v4", "sapphirerapids"}) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    loadKernelDialects(context);
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(narrowKernel, &context);
    ASSERT_TRUE(module);
    llvm::Expected<Processor> processor = getProcessor(name);
    ASSERT_TRUE(bool(processor)) << llvm::toString(processor.takeError());
    auto object = compileToObject(*module, *processor);
    ASSERT_TRUE(bool(object)) << llvm::toString(object.takeError());
    EXPECT_EQ(std::string(object->begin(), object->end()).find("bf2"),
              std::string::npos)
        << name;
  }
}

TEST(CodeGen, ProcessorsByName) {
  auto host = getProcessor("native");
  ASSERT_TRUE(!!host);
  EXPECT_FALSE(host->name.empty());
  EXPECT_FALSE(host->features.empty());

#ifdef __x86_64__
  auto haswell = getProcessor("haswell");
  ASSERT_TRUE(!!haswell);
  EXPECT_EQ(haswell->name, "haswell");
  auto has = [&](const char *feature) {
    return llvm::is_contained(haswell->features, feature);
  };
  EXPECT_TRUE(has("avx2") && has("fma"));
  EXPECT_FALSE(has("avx512f"));
  // Tuning hints must not be listed as required features.
  EXPECT_FALSE(has("fast-variable-perlane-shuffle"));
#endif

  auto unknown = getProcessor("abacus");
  ASSERT_FALSE(!!unknown);
  std::string message = llvm::toString(unknown.takeError());
  EXPECT_EQ(message.rfind("unknown processor 'abacus'", 0), 0u) << message;
}

} // namespace
