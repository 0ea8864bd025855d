//===- Arena.h - The memory of a program ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mapping that holds planned memory: that of the device or, where a program
// keeps something on the host, that of the host. On a cpu both are alike. Pages
// cost nothing until they are touched. Behind the planned bytes lies a margin
// that no program touches, where the memory check can see writes beyond the
// end.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_ARENA_H
#define KILN_LIB_RUNTIME_ENGINE_ARENA_H

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/Status.h"

#include <cstdint>

namespace kiln::runtime {

class Arena {
public:
  static constexpr int64_t marginBytes = 64 * 1024;

  Arena() = default;
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Maps `bytes` zeroed bytes. Called once.
  Status map(int64_t bytes);

  char *data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes of pages in memory.
  int64_t residentBytes() const;

private:
  void *mapping_ = nullptr;
  int64_t mappedBytes_ = 0;
  char *data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Where the bytes of a program are.
struct Arenas {
  Arena device;
  Arena host; ///< Not mapped where nothing lives on the host.

  Arena &of(ArenaKind kind) { return kind == ArenaKind::Host ? host : device; }
  const Arena &of(ArenaKind kind) const {
    return kind == ArenaKind::Host ? host : device;
  }
  char *at(const Place &place) const {
    return of(place.arena).data() + place.offset;
  }
};

inline constexpr ArenaKind arenaKinds[] = {ArenaKind::Device, ArenaKind::Host};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_ARENA_H
