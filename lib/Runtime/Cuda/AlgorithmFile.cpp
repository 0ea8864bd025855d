//===- AlgorithmFile.cpp - File of fastest matmul algorithms --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmFile.h"

#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputFile.h"

#include <cstdlib>
#include <filesystem>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;
using Json = nlohmann::json;

/// The maximum numbers of devices, and of problems per device. When a limit is
/// reached, add() first removes all devices, or all problems of the device.
static constexpr std::size_t mostDevices = 64, mostProblems = 4096;

static constexpr const char *digits = "0123456789abcdef";

static std::string textOf(const Algorithm &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.words)
    for (int shift = 60; shift >= 0; shift -= 4)
      text += digits[word >> shift & 15];
  return text;
}

static std::optional<Algorithm> parse(const std::string &text) {
  constexpr std::size_t perWord = 16;
  Algorithm algorithm = {};
  if (text.size() != perWord * std::size(algorithm.words) ||
      text.find_first_not_of(digits) != std::string::npos)
    return std::nullopt;
  for (std::size_t i = 0; i < std::size(algorithm.words); ++i)
    algorithm.words[i] =
        std::strtoull(text.substr(perWord * i, perWord).c_str(), nullptr, 16);
  return algorithm;
}

Result<AlgorithmFile> AlgorithmFile::open(std::string path,
                                          std::string device) {
  AlgorithmFile file(std::move(path), std::move(device));
  std::error_code error;
  if (!std::filesystem::exists(file.path_, error))
    return file;
  Result<Json> json = readJsonFile(file.path_);
  if (!json.ok())
    return json.status();
  auto refuse = [&](const std::string &problem) {
    return Status(ExitCode::BadInput,
                  inQuotes(file.path_) +
                      " is not an algorithm file: " + problem +
                      "; remove it, or name another file with "
                      "--gpu-algorithms=FILE");
  };
  if (!json->is_object() || json->value("format", Json()) != 1)
    return refuse("expected \"format\": 1");
  Json devices = json->value("devices", Json());
  if (!devices.is_object() || devices.size() > mostDevices)
    return refuse("expected an object \"devices\" with at most " +
                  std::to_string(mostDevices) + " entries");
  for (auto &[name, problems] : devices.items()) {
    if (!problems.is_object() || problems.size() > mostProblems)
      return refuse("expected an object with at most " +
                    std::to_string(mostProblems) + " problems for device " +
                    inQuotes(name, 60));
    for (auto &[problem, algorithm] : problems.items()) {
      if (!algorithm.is_string() || !parse(algorithm.get<std::string>()))
        return refuse(
            "expected 128 lower-case hexadecimal digits for problem " +
            inQuotes(problem, 60));
      file.devices_[name][problem] = algorithm.get<std::string>();
    }
  }
  return file;
}

std::optional<Algorithm> AlgorithmFile::find(const std::string &problem) const {
  auto device = devices_.find(device_);
  if (device == devices_.end())
    return std::nullopt;
  auto found = device->second.find(problem);
  return found == device->second.end() ? std::nullopt : parse(found->second);
}

void AlgorithmFile::add(const std::string &problem,
                        const Algorithm &algorithm) {
  if (devices_.size() >= mostDevices && devices_.count(device_) == 0)
    devices_.clear();
  Problems &problems = devices_[device_];
  if (problems.size() >= mostProblems)
    problems.clear();
  problems[problem] = textOf(algorithm);
  isChanged_ = true;
}

Status AlgorithmFile::save() const {
  if (!isChanged_)
    return Status();
  std::error_code error;
  std::filesystem::path directory = std::filesystem::path(path_).parent_path();
  // If the directory cannot be created, writeFile() reports the error.
  if (!directory.empty())
    std::filesystem::create_directories(directory, error);
  Json json = {{"format", 1}, {"devices", devices_}};
  return writeFile(path_, json.dump(1) + "\n");
}

std::string kiln::runtime::cuda::defaultAlgorithmFile() {
  // The XDG Base Directory specification requires that relative paths are
  // ignored.
  auto folder = [](const char *variable) {
    const char *value = std::getenv(variable);
    return value && *value == '/' ? std::string(value) : std::string();
  };
  std::string cache = folder("XDG_CACHE_HOME");
  if (cache.empty() && !folder("HOME").empty())
    cache = folder("HOME") + "/.cache";
  return cache.empty() ? cache : cache + "/kiln/gpu-algorithms.json";
}
