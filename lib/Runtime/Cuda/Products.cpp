//===- Products.cpp - Matrix products through cuBLASLt --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::cuda;

/// The library looks at no more than that.
static constexpr int64_t largestAlignment = 256;

Status Products::failure(int code, const char *function) const {
  const char *name = api_.cublasLtGetStatusName.function(code);
  const char *text = api_.cublasLtGetStatusString.function(code);
  return Status::error(
      "cuBLASLt's " + std::string(function) + " failed: " +
      (name ? std::string(name) : "status " + std::to_string(code)) +
      (text ? " (" + std::string(text) + ")" : std::string()) +
      "; install the cuBLAS library of a CUDA toolkit that the driver "
      "supports");
}

Result<Products> Products::open(const std::vector<std::string> &libraries,
                                int64_t workspaceBytes) {
  Result<Library> library = Library::open(libraries);
  if (!library.ok())
    return Status::error(
        "this executable computes matrix products with NVIDIA's cuBLASLt, "
        "which cannot be loaded: " +
        library.status().message() +
        "; install the cuBLAS library of CUDA 12 or 13, or add its folder to "
        "LD_LIBRARY_PATH");
  Products products;
  products.workspaceBytes_ = workspaceBytes;
  const char *missing = nullptr;
  auto find = [&](auto &entry) {
    if (!library->find(entry) && !missing)
      missing = entry.name;
  };
#define KILN_PRODUCT_FIND(symbol, ...) find(products.api_.symbol);
  KILN_PRODUCT_FUNCTIONS(KILN_PRODUCT_FIND)
#undef KILN_PRODUCT_FIND
  if (missing)
    return Status::error(library->name() + " lacks " + missing +
                         "; install the cuBLAS library of CUDA 12 or 13");
  ProductsHandle handle = nullptr;
  Status status = products.call(products.api_.cublasLtCreate, &handle);
  if (!status.ok())
    return status;
  products.handle_ = {handle, products.api_.cublasLtDestroy};
  auto version = int64_t(products.api_.cublasLtGetVersion.function());
  products.name_ = "cuBLASLt " + std::to_string(version / 10000) + "." +
                   std::to_string(version % 10000 / 100) + "." +
                   std::to_string(version % 100);
  return products;
}

/// Of an operand with `rows` rows in memory. The library sees it transposed.
Status Products::makeLayout(Owned<LayoutHandle> &layout, const Command &command,
                            const GemmOperand &operand, int64_t rows,
                            int64_t columns) {
  LayoutHandle handle = nullptr;
  int type = command.type == TensorType::F64 ? typeF64 : typeF32;
  Status status = call(api_.cublasLtMatrixLayoutCreate, &handle, type,
                       uint64_t(columns), uint64_t(rows), operand.ld);
  if (!status.ok())
    return status;
  layout = {handle, api_.cublasLtMatrixLayoutDestroy};
  if (command.batch == 1)
    return status;
  auto count = int32_t(command.batch);
  status = call(api_.cublasLtMatrixLayoutSetAttribute, handle, layoutBatchCount,
                &count, sizeof(count));
  if (status.ok())
    status =
        call(api_.cublasLtMatrixLayoutSetAttribute, handle, layoutBatchStride,
             &operand.batchStride, sizeof(operand.batchStride));
  return status;
}

Status Products::describe(const Command &command, Choice &choice) {
  choice.isF64 = command.type == TensorType::F64;
  ProductDescHandle desc = nullptr;
  Status status = call(api_.cublasLtMatmulDescCreate, &desc,
                       choice.isF64 ? computeF64 : computeF32,
                       choice.isF64 ? typeF64 : typeF32);
  if (!status.ok())
    return status;
  choice.desc = {desc, api_.cublasLtMatmulDescDestroy};
  // The operands change their places.
  int32_t transA = command.b.trans, transB = command.a.trans;
  for (auto [attribute, value] :
       {std::pair(descTransA, &transA), std::pair(descTransB, &transB)})
    if (status.ok())
      status = call(api_.cublasLtMatmulDescSetAttribute, desc, attribute, value,
                    sizeof(*value));
  auto layout = [&](Owned<LayoutHandle> &to, const GemmOperand &operand,
                    int64_t rows, int64_t columns) {
    if (operand.trans)
      std::swap(rows, columns);
    if (status.ok())
      status = makeLayout(to, command, operand, rows, columns);
  };
  layout(choice.a, command.b, command.k, command.n);
  layout(choice.b, command.a, command.m, command.k);
  layout(choice.c, command.c, command.m, command.n);
  return status;
}

Status Products::propose(const Problem &problem, Choice &choice) {
  PreferenceHandle preference = nullptr;
  Status status = call(api_.cublasLtMatmulPreferenceCreate, &preference);
  if (!status.ok())
    return status;
  Owned<PreferenceHandle> owner(preference,
                                api_.cublasLtMatmulPreferenceDestroy);
  auto prefer = [&](int attribute, auto value) {
    if (status.ok())
      status = call(api_.cublasLtMatmulPreferenceSetAttribute, preference,
                    attribute, &value, sizeof(value));
  };
  prefer(preferWorkspaceBytes, uint64_t(workspaceBytes_));
  prefer(preferReductionSchemes, uint32_t(0));
  // The library's a, b, c and the result, which takes the place of c.
  const int64_t *alignments = problem.data() + problem.size() - 3;
  const int64_t ofOperands[] = {alignments[1], alignments[0], alignments[2],
                                alignments[2]};
  for (int i = 0; i < 4; ++i)
    prefer(preferAlignmentA + i, uint32_t(ofOperands[i]));
  Proposal proposal = {};
  int found = 0;
  if (status.ok())
    status =
        call(api_.cublasLtMatmulAlgoGetHeuristic, handle_.get(),
             choice.desc.get(), choice.a.get(), choice.b.get(), choice.c.get(),
             choice.c.get(), preference, 1, &proposal, &found);
  if (!status.ok())
    return status;
  if (found < 1 || proposal.status != 0)
    return Status::error(name_ +
                         " knows no way to compute this product within "
                         "its workspace of " +
                         std::to_string(workspaceBytes_) +
                         " bytes; install a newer cuBLAS library");
  choice.algorithm = proposal.algorithm;
  return Status();
}

static int64_t alignmentOf(DevicePointer pointer) {
  return std::min(int64_t(pointer & (~pointer + 1)), largestAlignment);
}

Result<std::size_t> Products::choose(const Command &command,
                                     const ProductPlaces &places) {
  Problem problem = {int64_t(command.type),
                     command.m,
                     command.n,
                     command.k,
                     command.batch,
                     command.a.trans,
                     command.b.trans,
                     command.a.ld,
                     command.b.ld,
                     command.c.ld,
                     command.a.batchStride,
                     command.b.batchStride,
                     command.c.batchStride,
                     alignmentOf(places.a),
                     alignmentOf(places.b),
                     alignmentOf(places.c)};
  auto [entry, isNew] = chosen_.try_emplace(problem, choices_.size());
  if (!isNew)
    return entry->second;
  Choice choice;
  Status status = describe(command, choice);
  if (status.ok())
    status = propose(problem, choice);
  if (!status.ok())
    return status;
  choices_.push_back(std::move(choice));
  return entry->second;
}

Status Products::run(std::size_t index, const ProductPlaces &places,
                     bool accumulate, DevicePointer workspace,
                     StreamHandle stream) const {
  const Choice &choice = choices_[index];
  const float ones[] = {0, 1};
  const double wideOnes[] = {0, 1};
  auto scalar = [&](bool one) {
    return choice.isF64 ? static_cast<const void *>(&wideOnes[one])
                        : static_cast<const void *>(&ones[one]);
  };
  return call(api_.cublasLtMatmul, handle_.get(), choice.desc.get(),
              scalar(true), places.b, choice.a.get(), places.a, choice.b.get(),
              scalar(accumulate), places.c, choice.c.get(), places.c,
              choice.c.get(), &choice.algorithm, workspace,
              std::size_t(workspaceBytes_), stream);
}
