//===- KernelCache.cpp - Object code of earlier compilations --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCache.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <dlfcn.h>

using namespace llvm;
using namespace kiln;

/// Maximum size of a cache. Compilations of one model take about 1 MB.
static constexpr uint64_t kMostBytes = uint64_t(512) << 20;

using Hash = BLAKE3Result<>;

static Hash hashOf(StringRef contents) {
  return BLAKE3::hash<>(arrayRefFromStringRef(contents));
}

static StringRef textOf(const Hash &hash) {
  return toStringRef(ArrayRef<uint8_t>(hash));
}

Status KernelCache::createDirectory(StringRef directory) {
  std::error_code failure = sys::fs::create_directories(directory);
  if (!failure && !sys::fs::is_directory(directory))
    failure = std::make_error_code(std::errc::not_a_directory);
  if (failure)
    return Status::error(
        "cannot create '" + directory.str() +
        "', the directory of the kernel cache: " + failure.message());
  return Status();
}

Result<KernelCache> KernelCache::open(StringRef directory, StringRef compiler) {
  if (Status status = createDirectory(directory); !status.ok())
    return status;
  CachePruningPolicy policy;
  policy.MaxSizeBytes = kMostBytes;
  pruneCache(directory, policy);
  KernelCache cache;
  cache.directory = directory.str();
  cache.compiler = compiler.str();
  return cache;
}

std::string KernelCache::pathOf(StringRef source) const {
  // Hash the parts separately, so that no two pairs of parts are confused.
  BLAKE3 hasher;
  for (StringRef part : {StringRef(compiler), source})
    hasher.update(textOf(hashOf(part)));
  SmallString<128> path(directory);
  // pruneCache() removes only files whose names start like this.
  sys::path::append(path, "llvmcache-" + toHex(textOf(hasher.final<>()),
                                               /*LowerCase=*/true));
  return path.str().str();
}

std::optional<SmallVector<char, 0>> KernelCache::load(StringRef source) const {
  // Read the file instead of mapping it: if a mapped file is truncated, reading
  // it kills the process.
  auto file = MemoryBuffer::getFile(pathOf(source), /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false,
                                    /*IsVolatile=*/true);
  if (!file || (*file)->getBufferSize() <= sizeof(Hash))
    return std::nullopt;
  StringRef contents = (*file)->getBuffer(),
            object = contents.drop_back(sizeof(Hash));
  if (textOf(hashOf(object)) != contents.take_back(sizeof(Hash)))
    return std::nullopt;
  return SmallVector<char, 0>(object.begin(), object.end());
}

Status KernelCache::store(StringRef source, ArrayRef<char> object) const {
  std::string path = pathOf(source);
  auto report = [&](std::string reason) {
    return Status::error("cannot write '" + path + "': " + reason);
  };
  // Write a temporary file and rename it, so that an entry appears only when it
  // is complete.
  auto file = sys::fs::TempFile::create(path + ".%%%%%%");
  if (!file)
    return report(toString(file.takeError()));
  raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
  StringRef text(object.data(), object.size());
  stream << text << textOf(hashOf(text));
  stream.flush();
  if (std::error_code failure = stream.error()) {
    stream.clear_error();
    consumeError(file->discard());
    return report(failure.message());
  }
  if (Error error = file->keep(path))
    return report(toString(std::move(error)));
  return Status();
}

/// Appends the size and the modification time of the library that has a
/// function at `address`.
static Status addLibrary(const void *address, std::string &text) {
  Dl_info library;
  sys::fs::file_status status;
  if (!dladdr(address, &library) || sys::fs::status(library.dli_fname, status))
    return Status::error("cannot find the libraries of kilnc, on which "
                         "the kernel cache depends; compile without it");
  auto time = status.getLastModificationTime().time_since_epoch().count();
  text += " " + std::to_string(status.getSize()) + " " + std::to_string(time);
  return Status();
}

Result<std::string> KernelCache::thisCompiler() {
  std::string text = LLVM_VERSION_STRING;
  auto file = MemoryBuffer::getFile("/proc/self/exe", /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false);
  if (!file)
    return Status::error("cannot read the file of kilnc, on which the kernel "
                         "cache depends: " +
                         file.getError().message() + "; compile without it");
  text += " " + toHex(textOf(hashOf((*file)->getBuffer())));
  auto translate = static_cast<std::unique_ptr<Module> (*)(
      mlir::Operation *, LLVMContext &, StringRef, bool)>(
      &mlir::translateModuleToLLVMIR);
  for (auto *address : {reinterpret_cast<const void *>(&sys::getProcessTriple),
                        reinterpret_cast<const void *>(translate)})
    if (Status status = addLibrary(address, text); !status.ok())
      return status;
  return text;
}
