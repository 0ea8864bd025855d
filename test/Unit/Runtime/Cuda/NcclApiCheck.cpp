//===- NcclApiCheck.cpp - Check of the declared NCCL functions ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares NcclApi.h with NVIDIA's header. Compiled only if NVIDIA's header is
// installed.
//
//===----------------------------------------------------------------------===//

#include "NcclApi.h"

#include <nccl.h>
#include <type_traits>

using namespace kiln::runtime::cuda;

namespace {

/// True if two functions have the same number of parameters with the same
/// sizes.
template <typename A, typename B> struct Alike;
template <typename R, typename... P, typename S, typename... Q>
struct Alike<R(P...), S(Q...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(P) != sizeof...(Q) || sizeof(R) != sizeof(S))
      return false;
    else
      return ((sizeof(P) == sizeof(Q)) && ...);
  }
};

#define KILN_CHECK_NCCL(symbol, ...)                                           \
  static_assert(                                                               \
      Alike<std::remove_pointer_t<decltype(NcclApi::symbol.function)>,         \
            std::remove_pointer_t<decltype(&::symbol)>>::compare(),            \
      #symbol);
KILN_NCCL_FUNCTIONS(KILN_CHECK_NCCL)

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclId) == NCCL_UNIQUE_ID_BYTES);
static_assert(ncclOk == ncclSuccess && ncclOngoing == ncclInProgress);
static_assert(ncclAdd == ncclSum);
static_assert(ncclTypeI8 == ncclInt8 && ncclTypeF16 == ncclFloat16);
static_assert(ncclTypeF32 == ncclFloat32 && ncclTypeF64 == ncclFloat64);
static_assert(ncclTypeBF16 == ncclBfloat16);

} // namespace
