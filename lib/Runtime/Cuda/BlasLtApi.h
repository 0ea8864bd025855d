//===- BlasLtApi.h - Functions of cuBLASLt --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of libcublasLt that matrix products need, declared from its
// documented binary interface; it is the same in versions 12 and 13.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_BLASLTAPI_H
#define KILN_LIB_RUNTIME_CUDA_BLASLTAPI_H

#include "DriverApi.h"

namespace kiln::runtime::cuda {

using BlasLtHandle = struct BlasLtObject *;
using MatmulDescHandle = struct MatmulDescObject *;
using LayoutHandle = struct LayoutObject *;
using PreferenceHandle = struct PreferenceObject *;

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t words[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct Proposal {
  Algorithm algorithm;
  std::size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Proposal) == 96);

// cudaDataType_t.
inline constexpr int typeF32 = 0;
inline constexpr int typeF64 = 1;
inline constexpr int typeBF16 = 14;
// cublasComputeType_t. That of f32 does not round operands of f32 to TF32, and
// adds up products of bf16 in f32.
inline constexpr int computeF32 = 68;
inline constexpr int computeF64 = 70;
// cublasLtMatmulDescAttributes_t, int32_t each; 1 is a transposed operand.
inline constexpr int descTransA = 3;
inline constexpr int descTransB = 4;
// uint32_t: cublasLtEpilogue_t, where a bias is a column of the library's own
// result, which is a row of kiln's, and of its type; void *.
inline constexpr int descEpilogue = 7;
inline constexpr int descBiasPointer = 8;
// void *; int64_t: the elements between columns, a multiple of 8. Its type is
// the result's. The library's own a is kiln's b.
inline constexpr int descAuxPointer = 11;
inline constexpr int descAuxLd = 12;
inline constexpr uint32_t epilogueBias = 4;
inline constexpr uint32_t epilogueGeluBias = 32 | epilogueBias;
inline constexpr uint32_t epilogueGeluAuxBias = 128 | epilogueGeluBias;
inline constexpr uint32_t epilogueGeluGrad = 64 | 128;
inline constexpr uint32_t epilogueSumsOfA = 256;
inline constexpr uint32_t epilogueSumsOfB = 512;
// cublasLtMatrixLayoutAttribute_t: int32_t, int64_t.
inline constexpr int layoutBatchCount = 5;
inline constexpr int layoutBatchStride = 6;
// cublasLtReductionScheme_t, a mask: parts of a sum are kept in f32 (or f64) in
// the workspace, and added up when all are there, always in the same order.
inline constexpr uint32_t reduceInComputeType = 2;
// cublasLtMatmulPreferenceAttributes_t: uint64_t, then uint32_t.
inline constexpr int preferWorkspaceBytes = 1;
inline constexpr int preferReductionSchemes = 3;
inline constexpr int preferAlignmentA = 5; ///< 6: B, 7: C, 8: D.

#define KILN_PRODUCT_FUNCTIONS(FUNCTION)                                       \
  FUNCTION(cublasLtGetStatusName, const char *(int))                           \
  FUNCTION(cublasLtGetStatusString, const char *(int))                         \
  FUNCTION(cublasLtGetVersion, std::size_t())                                  \
  FUNCTION(cublasLtCreate, int(BlasLtHandle *))                                \
  FUNCTION(cublasLtDestroy, int(BlasLtHandle))                                 \
  FUNCTION(cublasLtMatmulDescCreate, int(MatmulDescHandle *, int, int))        \
  FUNCTION(cublasLtMatmulDescDestroy, int(MatmulDescHandle))                   \
  FUNCTION(cublasLtMatmulDescSetAttribute,                                     \
           int(MatmulDescHandle, int, const void *, std::size_t))              \
  FUNCTION(cublasLtMatrixLayoutCreate,                                         \
           int(LayoutHandle *, int, uint64_t, uint64_t, int64_t))              \
  FUNCTION(cublasLtMatrixLayoutDestroy, int(LayoutHandle))                     \
  FUNCTION(cublasLtMatrixLayoutSetAttribute,                                   \
           int(LayoutHandle, int, const void *, std::size_t))                  \
  FUNCTION(cublasLtMatmulPreferenceCreate, int(PreferenceHandle *))            \
  FUNCTION(cublasLtMatmulPreferenceDestroy, int(PreferenceHandle))             \
  FUNCTION(cublasLtMatmulPreferenceSetAttribute,                               \
           int(PreferenceHandle, int, const void *, std::size_t))              \
  FUNCTION(cublasLtMatmulAlgoGetHeuristic,                                     \
           int(BlasLtHandle, MatmulDescHandle, LayoutHandle, LayoutHandle,     \
               LayoutHandle, LayoutHandle, PreferenceHandle, int, Proposal *,  \
               int *))                                                         \
  FUNCTION(cublasLtMatmul,                                                     \
           int(BlasLtHandle, MatmulDescHandle, const void *, DevicePointer,    \
               LayoutHandle, DevicePointer, LayoutHandle, const void *,        \
               DevicePointer, LayoutHandle, DevicePointer, LayoutHandle,       \
               const Algorithm *, DevicePointer, std::size_t, StreamHandle))

struct BlasLtApi {
#define KILN_PRODUCT_ENTRY(symbol, ...) Entry<__VA_ARGS__> symbol{#symbol};
  KILN_PRODUCT_FUNCTIONS(KILN_PRODUCT_ENTRY)
#undef KILN_PRODUCT_ENTRY
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_BLASLTAPI_H
