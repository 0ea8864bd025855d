//===- Images.cpp - Selection of GPU machine code -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Images.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cstring>
#include <string_view>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

std::vector<const GpuImage *>
kiln::runtime::cuda::suitableImages(const GpuImages &images,
                                    int64_t architecture) {
  std::vector<const GpuImage *> suitable;
  for (int64_t i = 0; i < images.count; ++i) {
    const GpuImage &image = images.first[i];
    if (image.architecture <= architecture &&
        (image.isPtx || image.architecture / 10 == architecture / 10))
      suitable.push_back(&image);
  }
  std::sort(suitable.begin(), suitable.end(),
            [](const GpuImage *a, const GpuImage *b) {
              if (a->isPtx != b->isPtx)
                return b->isPtx != 0;
              if (a->architecture != b->architecture)
                return a->architecture > b->architecture;
              return a < b; // Preserve the order of `images`.
            });
  return suitable;
}

/// Lists the images, such as "machine code for 8.0, machine code for 9.0, PTX
/// for 8.0".
static std::string listOf(const GpuImages &images) {
  std::string list;
  for (int64_t i = 0; i < images.count; ++i)
    list += (i ? ", " : "") +
            std::string(images.first[i].isPtx ? "PTX" : "machine code") +
            " for " + capabilityText(images.first[i].architecture);
  return list.empty() ? "no code" : list;
}

/// Returns the version of an image's `.version` directive, or an empty string
/// if the image is not PTX.
static std::string ptxVersion(const GpuImage &image) {
  std::string_view text(static_cast<const char *>(image.bytes),
                        std::size_t(image.bytesSize));
  constexpr std::string_view directive = "\n.version ";
  std::size_t begin = text.find(directive);
  if (!image.isPtx || begin == std::string_view::npos)
    return "";
  begin += directive.size();
  std::size_t end = text.find_first_not_of("0123456789.", begin);
  return std::string(text.substr(begin, end - begin));
}

/// The oldest architecture that kilnc supports, compute capability 8.0.
static constexpr int64_t oldestArchitecture = 80;

/// Returns true if `code` means that the installed driver rejects the image and
/// that a newer driver may accept the image.
static bool isTooNew(int code) {
  return code == invalidImage || code == noBinaryForGpu || code == invalidPtx ||
         code == unsupportedPtxVersion;
}

Result<LoadedModule> kiln::runtime::cuda::loadImage(const Gpu &gpu,
                                                    const GpuImages &images) {
  const Driver &driver = gpu.driver();
  std::vector<const GpuImage *> suitable =
      suitableImages(images, gpu.architecture());
  if (suitable.empty())
    return Status::error(
        "this executable has " + listOf(images) + ", but the GPU " +
        inQuotes(gpu.name()) + " has compute capability " +
        capabilityText(gpu.architecture()) + "; compile with " +
        (gpu.architecture() >= oldestArchitecture
             ? "--gpu-arch=sm_" + std::to_string(gpu.architecture()) + ", or "
             : "") +
        "--target=cpu");
  std::string refusals;
  for (const GpuImage *image : suitable) {
    char log[4096] = "";
    int options[] = {jitErrorLogBuffer, jitErrorLogBufferBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
    Module module = nullptr;
    int code = driver.api().cuModuleLoadDataEx.function(&module, image->bytes,
                                                        2, options, values);
    if (code == success)
      return LoadedModule(module, driver.api().cuModuleUnload);
    if (!isTooNew(code))
      return driver.failure(code, "cuModuleLoadDataEx");
    std::string version = ptxVersion(*image);
    std::string_view said(log, ::strnlen(log, sizeof(log)));
    refusals += (refusals.empty() ? "" : "; ") +
                std::string(image->isPtx ? "PTX" : "machine code") +
                (version.empty() ? "" : " " + version) + " for " +
                capabilityText(image->architecture) + ": " +
                driver.codeText(code) +
                (said.empty() ? "" : " " + inQuotes(said, 200));
  }
  return Status::error("the NVIDIA driver, which supports CUDA " +
                       driver.version() + ", rejects the code for the GPU " +
                       inQuotes(gpu.name()) + " (" + refusals +
                       "); install a driver that is at least as new as the "
                       "CUDA toolkit of kilnc" +
                       runElsewhere);
}
