//===- DnnApi.h - Declarations of the cuDNN backend API ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions and constants of libcudnn that operation graphs need, declared
// from NVIDIA's documentation, so that kiln can be built without cuDNN. The
// declarations are the same in all 9.x versions of cuDNN. Every object of the
// API is a descriptor: it is created, its attributes are set, and then it is
// finalized.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_DNNAPI_H
#define KILN_LIB_RUNTIME_CUDA_DNNAPI_H

#include "DriverApi.h"

namespace kiln::runtime::cuda {

using DnnHandle = struct DnnObject *;
using DnnDescriptor = void *;

/// Values of cuDNN's enumerations, in a namespace to avoid name clashes.
namespace dnn {

// cudnnBackendDescriptorType_t.
enum Descriptor : int {
  Pointwise = 0,
  EngineConfig = 3,
  EngineHeuristics = 4,
  ExecutionPlan = 5,
  Engine = 2,
  OperationPointwise = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  Matmul = 18,
  OperationMatmul = 19,
  Reduction = 21,
  OperationReduction = 22,
  OperationReshape = 31,
};

// cudnnBackendAttributeName_t.
enum Attribute : int {
  PointwiseMode = 0,
  PointwiseMathType = 1,
  PointwiseAxis = 9,
  HeuristicsMode = 200,
  HeuristicsGraph = 201,
  HeuristicsResults = 202,
  EngineConfigEngine = 300,
  PlanHandle = 400,
  PlanConfig = 401,
  PlanWorkspace = 402,
  OperationPointwiseDesc = 750,
  OperationPointwiseX = 751,
  OperationPointwiseB = 752,
  OperationPointwiseY = 753,
  OperationPointwiseT = 758,
  GraphHandle_ = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorType_ = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorUniqueId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackUniqueIds = 1000,
  PackPointers = 1001,
  PackWorkspace = 1003,
  EngineNumericalNotes = 1303,
  MatmulType = 1500,
  OperationMatmulA = 1520,
  OperationMatmulB = 1521,
  OperationMatmulC = 1522,
  OperationMatmulDesc = 1523,
  ReductionOperator = 1600,
  ReductionType = 1601,
  OperationReductionX = 1610,
  OperationReductionY = 1611,
  OperationReductionDesc = 1612,
  OperationReshapeX = 2200,
  OperationReshapeY = 2201,
};

// cudnnBackendAttributeType_t.
enum Type : int {
  IsHandle = 0,
  IsDataType = 1,
  IsBoolean = 2,
  IsInt64 = 3,
  IsPointer = 6,
  IsHeuristicsMode = 8,
  IsNumericalNote = 11,
  IsPointwiseMode = 14,
  IsDescriptor = 15,
  IsReductionOperator = 18,
};

// cudnnDataType_t.
enum Data : int { F32 = 0, I32 = 4, BF16 = 9, Boolean = 11 };

// cudnnPointwiseMode_t.
enum Mode : int {
  Add = 0,
  Mul = 1,
  Div = 6,
  Sub = 9,
  Exp = 13,
  Log = 15,
  Identity = 21,
  GreaterEqual = 303,
  GenIndex = 501,
  Select = 601,
};

// cudnnReduceTensorOp_t.
enum Reduce : int { Sum = 0, Max = 3 };

// cudnnBackendHeurMode_t: the best heuristic, and the fallback for graphs that
// the best heuristic does not support.
inline constexpr int heuristicsA = 3;
inline constexpr int heuristicsFallback = 2;

// cudnnBackendNumericalNote_t: the number of values, and the value for
// nondeterministic engines.
inline constexpr int numericalNotes = 10;
inline constexpr int nondeterministic = 4;

} // namespace dnn

#define KILN_DNN_FUNCTIONS(FUNCTION)                                           \
  FUNCTION(cudnnGetErrorString, const char *(int))                             \
  FUNCTION(cudnnGetLastErrorString, void(char *, std::size_t))                 \
  FUNCTION(cudnnGetVersion, std::size_t())                                     \
  FUNCTION(cudnnCreate, int(DnnHandle *))                                      \
  FUNCTION(cudnnDestroy, int(DnnHandle))                                       \
  FUNCTION(cudnnSetStream, int(DnnHandle, StreamHandle))                       \
  FUNCTION(cudnnBackendCreateDescriptor, int(int, DnnDescriptor *))            \
  FUNCTION(cudnnBackendDestroyDescriptor, int(DnnDescriptor))                  \
  FUNCTION(cudnnBackendFinalize, int(DnnDescriptor))                           \
  FUNCTION(cudnnBackendSetAttribute,                                           \
           int(DnnDescriptor, int, int, int64_t, const void *))                \
  FUNCTION(cudnnBackendGetAttribute,                                           \
           int(DnnDescriptor, int, int, int64_t, int64_t *, void *))           \
  FUNCTION(cudnnBackendExecute, int(DnnHandle, DnnDescriptor, DnnDescriptor))

struct DnnApi {
#define KILN_DNN_ENTRY(symbol, ...) Entry<__VA_ARGS__> symbol{#symbol};
  KILN_DNN_FUNCTIONS(KILN_DNN_ENTRY)
#undef KILN_DNN_ENTRY
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_DNNAPI_H
