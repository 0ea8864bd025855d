//===- TestArenas.h - Arenas with given contents ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_TESTARENAS_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_TESTARENAS_H

#include "Arena.h"

#include "gtest/gtest.h"

#include <cstring>
#include <vector>

namespace kiln::runtime {

/// Zeroed arenas of `device` and `host` bytes, with access to their contents.
class TestArenas {
public:
  explicit TestArenas(int64_t device, int64_t host = 0) {
    map(ArenaKind::Device, device);
    if (host > 0)
      map(ArenaKind::Host, host);
  }

  operator const Arenas &() const { return arenas_; }
  char *data(ArenaKind kind = ArenaKind::Device) {
    return arenas_.of(kind).data();
  }

  template <typename T>
  void write(const std::vector<T> &elements,
             ArenaKind kind = ArenaKind::Device) {
    std::memcpy(data(kind), elements.data(), elements.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> read(ArenaKind kind = ArenaKind::Device) const {
    const Arena &arena = arenas_.of(kind);
    std::vector<T> elements(std::size_t(arena.bytes()) / sizeof(T));
    std::memcpy(elements.data(), arena.data(), elements.size() * sizeof(T));
    return elements;
  }

private:
  void map(ArenaKind kind, int64_t bytes) {
    Status status = arenas_.of(kind).map(bytes);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  Arenas arenas_;
};

} // namespace kiln::runtime

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_TESTARENAS_H
