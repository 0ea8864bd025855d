//===- TestFiles.h - Temporary files for tests ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Provides TestDirectory, a temporary directory that the destructor removes,
// and functions that read and write files.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_SUPPORT_TESTFILES_H
#define KILN_TEST_UNIT_SUPPORT_TESTFILES_H

#include "kiln/Support/Status.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

class TestDirectory {
public:
  TestDirectory() {
    // Prefer a file system in memory, because thousands of syncs take minutes
    // on a disk.
    for (std::string parent : {"/dev/shm", "/tmp"}) {
      std::string pattern = parent + "/kiln-test-XXXXXX";
      if (::mkdtemp(pattern.data())) {
        path_ = pattern;
        return;
      }
    }
    std::abort();
  }
  TestDirectory(const TestDirectory &) = delete;
  TestDirectory &operator=(const TestDirectory &) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string &path() const { return path_; }
  std::string operator/(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }
  /// Writes a file and returns its path.
  std::string put(std::string_view name, std::string_view bytes) const {
    std::string path = *this / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  /// Returns the sorted names of the files in the directory.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

private:
  std::string path_;
};

inline std::string readBytes(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Returns the low `count` bytes of `value` in little-endian order.
inline std::string littleEndian(uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += char(value >> (8 * i));
  return bytes;
}

/// Returns the bytes of a .safetensors file: length, header and data.
inline std::string safeTensors(std::string_view header,
                               std::string_view data = "") {
  return littleEndian(header.size(), 8) + std::string(header) +
         std::string(data);
}

/// Expects a failure with ExitCode::BadInput and a one-line message that
/// contains `fragment`.
inline void expectBadInput(const Status &status, std::string_view fragment) {
  ASSERT_FALSE(status.ok()) << "expected: " << fragment;
  EXPECT_EQ(status.code(), ExitCode::BadInput) << status.message();
  EXPECT_NE(status.message().find(fragment), std::string::npos)
      << "message:  " << status.message() << "\nexpected: " << fragment;
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

inline void expectOk(const Status &status) {
  EXPECT_TRUE(status.ok()) << status.message();
}

} // namespace kiln

#endif // KILN_TEST_UNIT_SUPPORT_TESTFILES_H
