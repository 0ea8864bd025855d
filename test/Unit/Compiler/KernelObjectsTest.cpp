//===- KernelObjectsTest.cpp - Object files of kernels and their cache ----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelObjects.h"

#include "kiln/Target/Cpu/CodeGen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

using namespace kiln;

namespace {

/// Returns a kernel that uses a table and an internal function.
std::string kernelNamed(const std::string &name) {
  return "llvm.func @" + name + R"((%p: !llvm.ptr) {
    %x = llvm.load %p : !llvm.ptr -> f64
    %y = llvm.call @shared(%x) : (f64) -> f64
    %t = llvm.mlir.addressof @table : !llvm.ptr
    %i = llvm.load %t : !llvm.ptr -> i32
    %n = llvm.sitofp %i : i32 to f64
    %z = llvm.fadd %y, %n : f64
    llvm.store %z, %p : f64, !llvm.ptr
    llvm.return
  }
)";
}

/// Returns a module with two equal kernels, and a third kernel.
std::string makeKernels() {
  return R"(
  llvm.func @sqrt(f64) -> f64
  llvm.func internal @shared(%x: f64) -> f64 attributes {no_inline} {
    %y = llvm.call @sqrt(%x) : (f64) -> f64
    llvm.return %y : f64
  }
  llvm.mlir.global internal constant @table(dense<[3, 4]> : tensor<2xi32>) : !llvm.array<2 x i32>
)" + kernelNamed("first") +
         kernelNamed("second") + R"(
  llvm.func @third(%p: !llvm.ptr) {
    %c = arith.constant 1.0 : f64
    llvm.store %c, %p : f64, !llvm.ptr
    llvm.return
  }
)";
}

class KernelObjectsTest : public testing::Test {
protected:
  KernelObjectsTest() {
    context.loadDialect<mlir::arith::ArithDialect, mlir::LLVM::LLVMDialect>();
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("kernels", directory));
  }
  ~KernelObjectsTest() override {
    (void)llvm::sys::fs::remove_directories(directory);
  }

  KernelCache openCache(llvm::StringRef compiler = "this") {
    auto cache = KernelCache::open(directory, compiler);
    EXPECT_TRUE(cache.ok());
    return *cache;
  }
  KernelObjects compile(const KernelCache *cache, const char *processor = "") {
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(makeKernels(), &context);
    auto objects = compileKernels(
        *module, llvm::cantFail(cpu::getProcessor(processor)), cache);
    if (!objects)
      ADD_FAILURE() << llvm::toString(objects.takeError());
    EXPECT_TRUE(objects->stored.ok()) << objects->stored.message();
    return std::move(*objects);
  }
  std::vector<std::string> entries() {
    std::vector<std::string> paths;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(directory, error), end;
         it != end && !error; it.increment(error))
      if (llvm::StringRef(it->path()).contains("llvmcache-"))
        paths.push_back(it->path());
    return paths;
  }

  mlir::MLIRContext context;
  llvm::SmallString<128> directory;
};

} // namespace

/// Returns the names of the symbols that an object file defines for others.
static std::vector<std::string> globalsOf(llvm::ArrayRef<char> object) {
  llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()),
                               "object");
  auto file = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(buffer));
  std::vector<std::string> names;
  for (const llvm::object::SymbolRef &symbol : file->symbols()) {
    uint32_t flags = llvm::cantFail(symbol.getFlags());
    if ((flags & llvm::object::SymbolRef::SF_Global) &&
        !(flags & llvm::object::SymbolRef::SF_Undefined))
      names.push_back(llvm::cantFail(symbol.getName()).str());
  }
  return names;
}

TEST_F(KernelObjectsTest, OneKernelPerFile) {
  KernelObjects objects = compile(nullptr);
  ASSERT_EQ(objects.files.size(), 3u);
  EXPECT_EQ(objects.fromCache, 0u);
  EXPECT_EQ(globalsOf(objects.files[0]), std::vector<std::string>{"first"});
  EXPECT_EQ(globalsOf(objects.files[1]), std::vector<std::string>{"second"});
  EXPECT_EQ(globalsOf(objects.files[2]), std::vector<std::string>{"third"});
}

TEST_F(KernelObjectsTest, FilesDoNotDependOnTheCache) {
  KernelCache cache = openCache();
  KernelObjects without = compile(nullptr), first = compile(&cache),
                second = compile(&cache);
  EXPECT_EQ(second.fromCache, 3u);
  EXPECT_EQ(without.files, first.files);
  EXPECT_EQ(without.files, second.files);
  // Equal kernels have one entry, although their names differ.
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(KernelObjectsTest, OtherCompilersAndProcessorsHaveOtherEntries) {
  KernelCache cache = openCache(), other = openCache("other");
  compile(&cache);
  EXPECT_EQ(compile(&other).fromCache, 0u);
  EXPECT_EQ(compile(&cache, "x86-64-v3").fromCache, 0u);
  EXPECT_EQ(compile(&cache).fromCache, 3u);
  auto compiler = KernelCache::thisCompiler();
  ASSERT_TRUE(compiler.ok());
  EXPECT_GT(compiler->size(), 64u);
}

TEST_F(KernelObjectsTest, DamagedEntriesAreReplaced) {
  KernelCache cache = openCache();
  KernelObjects whole = compile(&cache);
  for (const std::string &path : entries()) {
    auto contents = llvm::cantFail(llvm::errorOrToExpected(
        llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false,
                                    /*IsVolatile=*/true)));
    std::string damaged = contents->getBuffer().str();
    for (std::string bytes :
         {damaged.substr(0, damaged.size() / 2), std::string(),
          damaged.substr(0, 8) + '\x01' + damaged.substr(9)}) {
      std::error_code failure;
      llvm::raw_fd_ostream(path, failure) << bytes;
      ASSERT_FALSE(failure);
      KernelObjects again = compile(&cache);
      EXPECT_LT(again.fromCache, 3u);
      EXPECT_EQ(again.files, whole.files);
      EXPECT_EQ(compile(&cache).fromCache, 3u);
    }
  }
}

TEST_F(KernelObjectsTest, ADirectoryThatCannotBeWritten) {
  std::string file = (directory + "/file").str();
  std::error_code failure;
  llvm::raw_fd_ostream(file, failure) << "text";
  for (const std::string &path : {file, file + "/cache"}) {
    auto cache = KernelCache::open(path, "this");
    ASSERT_FALSE(cache.ok());
    EXPECT_NE(cache.status().message().find(path), std::string::npos);
  }

  // The directory disappears while the cache is open.
  KernelCache lost = openCache();
  (void)llvm::sys::fs::remove_directories(directory);
  auto module =
      mlir::parseSourceString<mlir::ModuleOp>(makeKernels(), &context);
  auto objects =
      compileKernels(*module, llvm::cantFail(cpu::getProcessor("")), &lost);
  ASSERT_TRUE(bool(objects));
  EXPECT_EQ(objects->files.size(), 3u);
  EXPECT_FALSE(objects->stored.ok());
}
