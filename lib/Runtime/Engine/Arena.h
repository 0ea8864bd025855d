//===- Arena.h - The memory of a program ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A memory mapping for the device arena or the host arena. On a CPU, both
// arenas are ordinary memory. A page uses no physical memory until its first
// access. The mapping has a margin after the planned bytes, which programs must
// not access. The memory check reads the margin to detect writes beyond the end
// of the arena.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_ARENA_H
#define KILN_LIB_RUNTIME_ENGINE_ARENA_H

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace kiln::runtime {

class Arena {
public:
  static constexpr int64_t marginBytes = 64 * 1024;

  Arena() = default;
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Maps `bytes` zeroed bytes. Must be called only once.
  Status map(int64_t bytes);

  char *data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Returns the total size of the resident pages in bytes.
  int64_t residentBytes() const;

private:
  void *mapping_ = nullptr;
  int64_t mappedBytes_ = 0;
  char *data_ = nullptr;
  int64_t bytes_ = 0;
};

inline constexpr ArenaKind arenaKinds[] = {ArenaKind::Device, ArenaKind::Host};

/// The arenas of a program. If the program stores nothing on the host, the host
/// arena is not mapped.
class Arenas {
public:
  Arena &of(ArenaKind kind) { return arenas_[std::size_t(kind)]; }
  const Arena &of(ArenaKind kind) const { return arenas_[std::size_t(kind)]; }
  char *at(const Place &place) const {
    return of(place.arena).data() + place.offset;
  }

private:
  Arena arenas_[std::size(arenaKinds)]; ///< Indexed by ArenaKind.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_ARENA_H
