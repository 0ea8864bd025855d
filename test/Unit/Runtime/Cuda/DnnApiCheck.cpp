//===- DnnApiCheck.cpp - Check of the declared cuDNN functions ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares DnnApi.h with cuDNN's headers. Compiled only if cuDNN's headers are
// installed.
//
//===----------------------------------------------------------------------===//

#include "DnnApi.h"

#include <cudnn_graph.h>
#include <type_traits>

using namespace kiln::runtime::cuda;

namespace {

/// True if two functions have the same number of parameters with the same
/// sizes.
template <typename A, typename B> struct Alike;
template <typename R, typename... P, typename S, typename... Q>
struct Alike<R(P...), S(Q...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(P) != sizeof...(Q) ||
                  std::is_void_v<R> != std::is_void_v<S>)
      return false;
    else
      return ((sizeof(P) == sizeof(Q)) && ...);
  }
};

#define KILN_CHECK(symbol, ...)                                                \
  static_assert(                                                               \
      Alike<std::remove_pointer_t<decltype(DnnApi::symbol.function)>,          \
            std::remove_pointer_t<decltype(&::symbol)>>::compare(),            \
      #symbol);
KILN_DNN_FUNCTIONS(KILN_CHECK)

#define KILN_SAME(ours, theirs) static_assert(int(dnn::ours) == int(theirs))
KILN_SAME(Pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
KILN_SAME(Engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
KILN_SAME(EngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
KILN_SAME(EngineHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
KILN_SAME(ExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
KILN_SAME(OperationPointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
KILN_SAME(OperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
KILN_SAME(VariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
KILN_SAME(Tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
KILN_SAME(Matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
KILN_SAME(OperationMatmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
KILN_SAME(Reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
KILN_SAME(OperationReduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
KILN_SAME(OperationReshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

KILN_SAME(PointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
KILN_SAME(PointwiseMathType, CUDNN_ATTR_POINTWISE_MATH_PREC);
KILN_SAME(PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
KILN_SAME(HeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
KILN_SAME(HeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
KILN_SAME(HeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
KILN_SAME(EngineConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
KILN_SAME(PlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
KILN_SAME(PlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
KILN_SAME(PlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
KILN_SAME(OperationPointwiseDesc, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
KILN_SAME(OperationPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
KILN_SAME(OperationPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
KILN_SAME(OperationPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
KILN_SAME(OperationPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
KILN_SAME(GraphHandle_, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
KILN_SAME(GraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
KILN_SAME(TensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
KILN_SAME(TensorType_, CUDNN_ATTR_TENSOR_DATA_TYPE);
KILN_SAME(TensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
KILN_SAME(TensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
KILN_SAME(TensorUniqueId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
KILN_SAME(TensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
KILN_SAME(TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
KILN_SAME(PackUniqueIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
KILN_SAME(PackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
KILN_SAME(PackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
KILN_SAME(EngineNumericalNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
KILN_SAME(MatmulType, CUDNN_ATTR_MATMUL_COMP_TYPE);
KILN_SAME(OperationMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
KILN_SAME(OperationMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
KILN_SAME(OperationMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
KILN_SAME(OperationMatmulDesc, CUDNN_ATTR_OPERATION_MATMUL_DESC);
KILN_SAME(ReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR);
KILN_SAME(ReductionType, CUDNN_ATTR_REDUCTION_COMP_TYPE);
KILN_SAME(OperationReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
KILN_SAME(OperationReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
KILN_SAME(OperationReductionDesc, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
KILN_SAME(OperationReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
KILN_SAME(OperationReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);

KILN_SAME(IsHandle, CUDNN_TYPE_HANDLE);
KILN_SAME(IsDataType, CUDNN_TYPE_DATA_TYPE);
KILN_SAME(IsBoolean, CUDNN_TYPE_BOOLEAN);
KILN_SAME(IsInt64, CUDNN_TYPE_INT64);
KILN_SAME(IsPointer, CUDNN_TYPE_VOID_PTR);
KILN_SAME(IsHeuristicsMode, CUDNN_TYPE_HEUR_MODE);
KILN_SAME(IsNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
KILN_SAME(IsPointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
KILN_SAME(IsDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
KILN_SAME(IsReductionOperator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);

KILN_SAME(F32, CUDNN_DATA_FLOAT);
KILN_SAME(I32, CUDNN_DATA_INT32);
KILN_SAME(BF16, CUDNN_DATA_BFLOAT16);
KILN_SAME(Boolean, CUDNN_DATA_BOOLEAN);

KILN_SAME(Add, CUDNN_POINTWISE_ADD);
KILN_SAME(Mul, CUDNN_POINTWISE_MUL);
KILN_SAME(Div, CUDNN_POINTWISE_DIV);
KILN_SAME(Sub, CUDNN_POINTWISE_SUB);
KILN_SAME(Exp, CUDNN_POINTWISE_EXP);
KILN_SAME(Log, CUDNN_POINTWISE_LOG);
KILN_SAME(Identity, CUDNN_POINTWISE_IDENTITY);
KILN_SAME(GreaterEqual, CUDNN_POINTWISE_CMP_GE);
KILN_SAME(GenIndex, CUDNN_POINTWISE_GEN_INDEX);
KILN_SAME(Select, CUDNN_POINTWISE_BINARY_SELECT);
KILN_SAME(Sum, CUDNN_REDUCE_TENSOR_ADD);
KILN_SAME(Max, CUDNN_REDUCE_TENSOR_MAX);
KILN_SAME(heuristicsA, CUDNN_HEUR_MODE_A);
KILN_SAME(heuristicsFallback, CUDNN_HEUR_MODE_FALLBACK);
KILN_SAME(nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
static_assert(dnn::numericalNotes == CUDNN_NUMERICAL_NOTE_TYPE_COUNT);

} // namespace
