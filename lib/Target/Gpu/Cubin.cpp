//===- Cubin.cpp - Assembles PTX to machine code --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVIDIA ships its assembler as a program, ptxas, and as a library, nvJitLink.
// The program is preferred if both are installed, because the library generates
// relocatable code, which calls functions for division and square root and uses
// at least 32 registers per kernel. The library is loaded at run time and its
// functions are declared here, so kiln builds without a CUDA toolkit and works
// with any installed release. The program and the library get the same options:
// no contraction of multiplications and additions, and a report of resources.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Gpu/Cubin.h"

#include "AssemblerReport.h"
#include "PerArchitecture.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using llvm::StringRef;

namespace kiln::gpu {

namespace {

/// Joins the lines of an assembler log into one line.
std::string oneLine(StringRef log) {
  std::string line;
  llvm::SmallVector<StringRef> lines;
  log.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef part : lines) {
    part = part.trim(" \t\r\0");
    if (!part.empty())
      line += (line.empty() ? "" : "; ") + part.str();
  }
  return line;
}

size_t numKernels(const PtxText &text) {
  return StringRef(text.text).count(".visible .entry ");
}

class Assembler {
public:
  virtual ~Assembler() = default;
  virtual llvm::Expected<Cubin> assemble(const PtxText &text) const = 0;
};

//===----------------------------------------------------------------------===//
// nvJitLink
//===----------------------------------------------------------------------===//

/// The functions of nvJitLink, as declared by its header in every release so
/// far.
class JitLink : public Assembler {
public:
  /// Loads the library. Returns null if it is missing or is not nvJitLink, and
  /// sets `why` to the reason.
  static std::unique_ptr<JitLink> open(const std::string &library,
                                       std::string &why) {
    // The library is never closed, since its threads and exit handlers may
    // still run.
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      why = dlerror();
      return nullptr;
    }
    auto link = std::make_unique<JitLink>();
    link->resolve(handle, "nvJitLinkVersion", link->version);
    if (link->version)
      link->version(&link->major, &link->minor);
    link->resolve(handle, "nvJitLinkCreate", link->create);
    link->resolve(handle, "nvJitLinkDestroy", link->destroy);
    link->resolve(handle, "nvJitLinkAddData", link->addData);
    link->resolve(handle, "nvJitLinkComplete", link->complete);
    link->resolve(handle, "nvJitLinkGetLinkedCubinSize", link->cubinSize);
    link->resolve(handle, "nvJitLinkGetLinkedCubin", link->getCubin);
    link->resolve(handle, "nvJitLinkGetErrorLogSize", link->errorLogSize);
    link->resolve(handle, "nvJitLinkGetErrorLog", link->getErrorLog);
    link->resolve(handle, "nvJitLinkGetInfoLogSize", link->infoLogSize);
    link->resolve(handle, "nvJitLinkGetInfoLog", link->getInfoLog);
    if (link->missing.empty())
      return link;
    why = library + " has no " + link->missing;
    return nullptr;
  }

  llvm::Expected<Cubin> assemble(const PtxText &text) const override {
    std::string arch = "-arch=" + text.chip;
    const char *options[] = {arch.c_str(), "-O3", "-fma=0", "-Xptxas=-v"};
    Handle handle = nullptr;
    if (int code = create(&handle, std::size(options), options))
      return llvm::createStringError(
          "nvJitLink " + llvm::Twine(major) + "." + llvm::Twine(minor) +
          " cannot assemble PTX for " + text.chip + " (error " +
          llvm::Twine(code) + "); try a newer CUDA toolkit");
    llvm::Expected<Cubin> cubin = assemble(text, handle);
    destroy(&handle);
    return cubin;
  }

private:
  using Handle = void *;
  static constexpr int kInputPtx = 2;

  llvm::Expected<Cubin> assemble(const PtxText &text, Handle handle) const {
    // Pass the text with its terminating zero, as the examples of nvJitLink do.
    int code = addData(handle, kInputPtx, text.text.c_str(),
                       text.text.size() + 1, "kernels.ptx");
    if (!code)
      code = complete(handle);
    size_t size = 0;
    if (!code)
      code = cubinSize(handle, &size);
    Cubin cubin;
    cubin.chip = text.chip;
    cubin.image.resize(size);
    if (!code)
      code = getCubin(handle, cubin.image.data());
    if (code)
      return llvm::createStringError(
          "PTX does not assemble for " + text.chip + " (nvJitLink error " +
          llvm::Twine(code) +
          "): " + oneLine(log(handle, errorLogSize, getErrorLog)));
    llvm::Expected<std::vector<KernelResources>> kernels = parseAssemblerReport(
        log(handle, infoLogSize, getInfoLog), numKernels(text));
    if (!kernels)
      return kernels.takeError();
    cubin.kernels = std::move(*kernels);
    return cubin;
  }

  static std::string log(Handle handle, int (*sizeOf)(Handle, size_t *),
                         int (*get)(Handle, char *)) {
    size_t size = 0;
    if (sizeOf(handle, &size) || size == 0)
      return "";
    std::string text(size + 1, '\0');
    if (get(handle, text.data()))
      return "";
    return text.c_str();
  }

  /// Resolves the function `name`. If the library lacks `name`, resolves the
  /// versioned name, to which the headers of some releases rename the function.
  template <typename Function>
  void resolve(void *library, const std::string &name, Function &function) {
    void *symbol = dlsym(library, name.c_str());
    if (!symbol && version) {
      std::string renamed = "__" + name + "_" + std::to_string(major) + "_" +
                            std::to_string(minor);
      symbol = dlsym(library, renamed.c_str());
    }
    if (!symbol && missing.empty())
      missing = name;
    function = reinterpret_cast<Function>(symbol);
  }

  std::string missing; ///< The first function that the library lacks.
  unsigned major = 0, minor = 0;
  int (*version)(unsigned *, unsigned *) = nullptr;
  int (*create)(Handle *, uint32_t, const char **) = nullptr;
  int (*destroy)(Handle *) = nullptr;
  int (*addData)(Handle, int, const void *, size_t, const char *) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubinSize)(Handle, size_t *) = nullptr;
  int (*getCubin)(Handle, void *) = nullptr;
  int (*errorLogSize)(Handle, size_t *) = nullptr;
  int (*getErrorLog)(Handle, char *) = nullptr;
  int (*infoLogSize)(Handle, size_t *) = nullptr;
  int (*getInfoLog)(Handle, char *) = nullptr;
};

//===----------------------------------------------------------------------===//
// ptxas
//===----------------------------------------------------------------------===//

class Ptxas : public Assembler {
public:
  explicit Ptxas(std::string path) : path(std::move(path)) {}

  llvm::Expected<Cubin> assemble(const PtxText &text) const override {
    llvm::SmallString<128> ptxPath, cubinPath, logPath;
    if (auto code = llvm::sys::fs::createTemporaryFile("kiln", "ptx", ptxPath))
      return noFile(code);
    llvm::FileRemover removePtx(ptxPath);
    if (auto code =
            llvm::sys::fs::createTemporaryFile("kiln", "cubin", cubinPath))
      return noFile(code);
    llvm::FileRemover removeCubin(cubinPath);
    if (auto code = llvm::sys::fs::createTemporaryFile("kiln", "log", logPath))
      return noFile(code);
    llvm::FileRemover removeLog(logPath);
    {
      std::error_code code;
      llvm::raw_fd_ostream stream(ptxPath, code);
      stream << text.text;
      stream.close();
      if (code || stream.has_error())
        return noFile(code ? code : stream.error());
    }

    std::string arch = "-arch=" + text.chip;
    llvm::SmallVector<StringRef> command = {
        path, arch, "-O3", "-fmad=false", "-v", "-o", cubinPath, ptxPath};
    std::string failure;
    int status = llvm::sys::ExecuteAndWait(
        path, command, std::nullopt,
        {StringRef(""), StringRef(logPath), StringRef(logPath)}, 0, 0,
        &failure);
    auto log = llvm::MemoryBuffer::getFile(logPath);
    StringRef report = log ? (*log)->getBuffer() : StringRef();
    if (status != 0)
      return llvm::createStringError(
          "PTX does not assemble for " + text.chip + " (" + path +
          "): " + (failure.empty() ? oneLine(report) : failure));
    auto image = llvm::MemoryBuffer::getFile(cubinPath);
    if (!image)
      return noFile(image.getError());
    llvm::Expected<std::vector<KernelResources>> kernels =
        parseAssemblerReport(report, numKernels(text));
    if (!kernels)
      return kernels.takeError();
    Cubin cubin;
    cubin.chip = text.chip;
    cubin.image.assign((*image)->getBufferStart(), (*image)->getBufferEnd());
    cubin.kernels = std::move(*kernels);
    return cubin;
  }

private:
  static llvm::Error noFile(std::error_code code) {
    return llvm::createStringError(
        "cannot create a temporary file for the PTX assembler: " +
        code.message());
  }

  std::string path;
};

llvm::Expected<std::unique_ptr<Assembler>>
findAssembler(const AssemblerSearch &search) {
  for (const std::string &program : search.programs)
    if (llvm::sys::fs::can_execute(program))
      return std::make_unique<Ptxas>(program);
  std::string why;
  for (const std::string &library : search.libraries) {
    std::string reason;
    if (std::unique_ptr<Assembler> link = JitLink::open(library, reason))
      return link;
    if (why.empty())
      why = reason;
  }
  return llvm::make_error<NoAssembler>(
      "no assembler for NVIDIA GPUs: no ptxas in PATH or CUDA_HOME/bin" +
      (why.empty() ? "" : "; " + why) +
      "; install the CUDA toolkit's compiler (Debian's or NVIDIA's package of "
      "ptxas, or pip's nvidia-cuda-nvcc or nvidia-nvjitlink), or use only PTX, "
      "which the GPU driver compiles when the program starts");
}

} // namespace

char NoAssembler::ID = 0;

AssemblerSearch AssemblerSearch::standard() {
  AssemblerSearch search;
  std::vector<std::string> toolkits;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto path = llvm::sys::Process::GetEnv(variable))
      toolkits.push_back(*path);
  toolkits.push_back("/usr/local/cuda");
  if (auto path = llvm::sys::findProgramByName("ptxas"))
    search.programs.push_back(*path);
  for (const std::string &toolkit : toolkits)
    search.programs.push_back(toolkit + "/bin/ptxas");
  const char *names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12",
                         "libnvJitLink.so"};
  for (const char *name : names)
    search.libraries.push_back(name);
  for (const std::string &toolkit : toolkits)
    for (const char *name : names)
      search.libraries.push_back(toolkit + "/lib64/" + name);
  return search;
}

llvm::Expected<std::vector<Cubin>> assemble(llvm::ArrayRef<PtxText> texts,
                                            const AssemblerSearch &search) {
  llvm::Expected<std::unique_ptr<Assembler>> assembler = findAssembler(search);
  if (!assembler)
    return assembler.takeError();
  return inParallel<Cubin>(
      texts.size(), [&](size_t i) { return (*assembler)->assemble(texts[i]); });
}

llvm::Expected<Cubin> assemble(StringRef ptx, StringRef chip,
                               const AssemblerSearch &search) {
  llvm::Expected<std::vector<Cubin>> cubins =
      assemble(PtxText{chip.str(), ptx.str()}, search);
  if (!cubins)
    return cubins.takeError();
  return std::move(cubins->front());
}

} // namespace kiln::gpu
