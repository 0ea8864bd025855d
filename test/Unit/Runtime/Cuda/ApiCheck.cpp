//===- ApiCheck.cpp - Check of the declared CUDA functions ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares DriverApi.h and BlasLtApi.h with NVIDIA's headers. Compiled only if
// NVIDIA's headers are installed.
//
//===----------------------------------------------------------------------===//

#include "BlasLtApi.h"

#include <cublasLt.h>
#include <cuda.h>
#include <type_traits>

using namespace kiln::runtime::cuda;

// The headers of CUDA 13 redirect this name to its successor, which older
// drivers lack.
#undef cuEventElapsedTime
extern "C" CUresult cuEventElapsedTime(float *, CUevent, CUevent);

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

#define KILN_CHECK(api, symbol)                                                \
  static_assert(Alike<std::remove_pointer_t<decltype(api::symbol.function)>,   \
                      std::remove_pointer_t<decltype(&::symbol)>>::compare(),  \
                #symbol);
#define KILN_CHECK_DRIVER(symbol, ...) KILN_CHECK(DriverApi, symbol)
#define KILN_CHECK_PRODUCTS(symbol, ...) KILN_CHECK(BlasLtApi, symbol)
KILN_CUDA_FUNCTIONS(KILN_CHECK_DRIVER)
KILN_PRODUCT_FUNCTIONS(KILN_CHECK_PRODUCTS)

static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(int(outOfMemory) == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(int(stubLibrary) == CUDA_ERROR_STUB_LIBRARY);
static_assert(int(notReady) == CUDA_ERROR_NOT_READY);
static_assert(int(noDevice) == CUDA_ERROR_NO_DEVICE);
static_assert(int(invalidImage) == CUDA_ERROR_INVALID_IMAGE);
static_assert(int(noBinaryForGpu) == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(int(invalidPtx) == CUDA_ERROR_INVALID_PTX);
static_assert(int(unsupportedPtxVersion) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(int(illegalAddress) == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(int(launchTimeout) == CUDA_ERROR_LAUNCH_TIMEOUT);
static_assert(int(assertFailed) == CUDA_ERROR_ASSERT);
static_assert(int(hardwareStackError) == CUDA_ERROR_HARDWARE_STACK_ERROR);
static_assert(int(launchFailed) == CUDA_ERROR_LAUNCH_FAILED);
static_assert(computeCapabilityMajor ==
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(computeCapabilityMinor ==
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(jitErrorLogBuffer == CU_JIT_ERROR_LOG_BUFFER);
static_assert(jitErrorLogBufferBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(streamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(eventDefault == CU_EVENT_DEFAULT);
static_assert(eventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(captureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Proposal) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Proposal, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Proposal, status) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(typeF32 == CUDA_R_32F && typeF64 == CUDA_R_64F);
static_assert(typeBF16 == CUDA_R_16BF);
static_assert(computeF32 == CUBLAS_COMPUTE_32F);
static_assert(computeF64 == CUBLAS_COMPUTE_64F);
static_assert(descTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(descTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(descEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(descBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(epilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(layoutBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(layoutBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(preferWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(preferReductionSchemes ==
              CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(preferAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(preferAlignmentA + 3 ==
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(reduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(CUBLAS_OP_T == 1);

} // namespace
