//===- BlasLtApi.h - Declarations of the cuBLASLt API -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions and constants of libcublasLt that matmuls need, declared from
// NVIDIA's documentation, so that kiln can be built without a CUDA toolkit. The
// declarations are the same in versions 12 and 13.
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
inline constexpr int typeF16 = 2;
inline constexpr int typeBF16 = 14;
// cublasComputeType_t. computeF32 does not round f32 operands to TF32, and
// accumulates bf16 and f16 operands in f32.
inline constexpr int computeF32 = 68;
inline constexpr int computeF64 = 70;
// cublasLtMatmulDescAttributes_t with int32_t values; 1 transposes the operand.
inline constexpr int descTransA = 3;
inline constexpr int descTransB = 4;
// descEpilogue has a uint32_t value, a cublasLtEpilogue_t. descBiasPointer has
// a void * value, the address of the bias. The bias has the element type of the
// result. cuBLASLt adds the bias to every column of its result, which is a row
// of kiln's result.
inline constexpr int descEpilogue = 7;
inline constexpr int descBiasPointer = 8;
// descAuxPointer has a void * value, the address of the aux operand. descAuxLd
// has an int64_t value, the leading dimension of the aux operand in elements, a
// multiple of 8. The aux operand has the element type of the result. A and B in
// the names of epilogues are cuBLASLt's operands: cuBLASLt's A is kiln's B, and
// cuBLASLt's B is kiln's A.
inline constexpr int descAuxPointer = 11;
inline constexpr int descAuxLd = 12;
inline constexpr uint32_t epilogueBias = 4;
inline constexpr uint32_t epilogueGeluBias = 32 | epilogueBias;
inline constexpr uint32_t epilogueGeluAuxBias = 128 | epilogueGeluBias;
inline constexpr uint32_t epilogueGeluGrad = 64 | 128;
inline constexpr uint32_t epilogueSumsOfA = 256;
inline constexpr uint32_t epilogueSumsOfB = 512;
// cublasLtMatrixLayoutAttribute_t. layoutBatchCount has an int32_t value,
// layoutBatchStride an int64_t value.
inline constexpr int layoutBatchCount = 5;
inline constexpr int layoutBatchStride = 6;
// cublasLtReductionScheme_t, a bit mask. This bit permits split-K algorithms
// that store partial sums in the workspace, in the compute type, and then add
// them in a fixed order.
inline constexpr uint32_t reduceInComputeType = 2;
// cublasLtMatmulPreferenceAttributes_t. preferWorkspaceBytes has a uint64_t
// value; the others have uint32_t values.
inline constexpr int preferWorkspaceBytes = 1;
inline constexpr int preferReductionSchemes = 3;
inline constexpr int preferAlignmentA = 5; ///< 6 for B, 7 for C, 8 for D.

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
