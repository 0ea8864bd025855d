//===- Arena.h - The memory of a program ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A memory mapping for the device arena or the host arena, which are ordinary
// memory on a CPU. Pages use no memory until the first access. A margin follows
// the planned bytes. Programs never access it, so that the memory check can
// detect writes beyond the end.
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
  /// Returns the bytes of resident pages.
  int64_t residentBytes() const;

private:
  void *mapping_ = nullptr;
  int64_t mappedBytes_ = 0;
  char *data_ = nullptr;
  int64_t bytes_ = 0;
};

inline constexpr ArenaKind arenaKinds[] = {ArenaKind::Device, ArenaKind::Host};

/// The arenas of a program. The host arena is not mapped if nothing is stored
/// on the host.
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
