//===- BlasLt.cpp - Matmuls through cuBLASLt ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlasLt.h"

#include <algorithm>
#include <cstdio>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

/// The largest alignment that cuBLASLt's heuristic distinguishes, in bytes.
static constexpr int64_t largestAlignment = 256;

Status BlasLt::failure(int code, const char *function) const {
  const char *name = api_.cublasLtGetStatusName.function(code);
  const char *text = api_.cublasLtGetStatusString.function(code);
  return Status::error(
      "cuBLASLt's " + std::string(function) + " failed: " +
      (name ? std::string(name) : "status " + std::to_string(code)) +
      (text ? " (" + std::string(text) + ")" : std::string()) +
      "; install the cuBLAS library of a CUDA toolkit that the driver "
      "supports");
}

Result<BlasLt> BlasLt::open(const std::vector<std::string> &libraries) {
  Result<Library> library = Library::open(libraries);
  if (!library.ok())
    return Status::error(
        "this executable uses NVIDIA's cuBLASLt for matmuls, but it cannot be "
        "loaded: " +
        library.status().message() +
        "; install the cuBLAS library of CUDA 12 or 13, or add its folder to "
        "LD_LIBRARY_PATH");
  BlasLt products;
  const char *missing = nullptr;
  auto find = [&](auto &entry) {
    if (!library->find(entry) && !missing)
      missing = entry.name;
  };
#define KILN_BLASLT_FIND(symbol, ...) find(products.api_.symbol);
  KILN_PRODUCT_FUNCTIONS(KILN_BLASLT_FIND)
#undef KILN_BLASLT_FIND
  if (missing)
    return Status::error(library->name() + " lacks " + missing +
                         "; install the cuBLAS library of CUDA 12 or 13");
  BlasLtHandle handle = nullptr;
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

static int libraryType(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return typeF64;
  case ElementType::BF16:
    return typeBF16;
  case ElementType::F16:
    return typeF16;
  default:
    return typeF32;
  }
}

/// Creates the layout of a row-major rows x columns operand, which cuBLASLt
/// treats as its column-major transpose.
Status BlasLt::makeLayout(Owned<LayoutHandle> &layout, const Command &command,
                          const GemmOperand &operand, ElementType type,
                          int64_t rows, int64_t columns) {
  LayoutHandle handle = nullptr;
  Status status =
      call(api_.cublasLtMatrixLayoutCreate, &handle, libraryType(type),
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

/// Returns the cublasLtEpilogue_t of an epilogue. cuBLASLt's A is kiln's b, and
/// cuBLASLt's B is kiln's a, because cuBLASLt computes the transposed matmul.
/// BiasGradA therefore becomes cuBLASLt's epilogue for B.
static uint32_t numberOf(GemmEpilogue epilogue) {
  switch (epilogue) {
  case GemmEpilogue::None:
    break;
  case GemmEpilogue::Bias:
    return epilogueBias;
  case GemmEpilogue::GeluBias:
    return epilogueGeluBias;
  case GemmEpilogue::GeluAuxBias:
    return epilogueGeluAuxBias;
  case GemmEpilogue::GeluGrad:
    return epilogueGeluGrad;
  case GemmEpilogue::BiasGradA:
    return epilogueSumsOfB;
  case GemmEpilogue::BiasGradB:
    return epilogueSumsOfA;
  }
  return 1;
}

Status BlasLt::describeEpilogue(const Command &command, Choice &choice) const {
  choice.epilogue = command.library;
  if (choice.epilogue == GemmEpilogue::None)
    return Status();
  MatmulDescHandle desc = choice.desc.get();
  uint32_t number = numberOf(choice.epilogue);
  Status status = call(api_.cublasLtMatmulDescSetAttribute, desc, descEpilogue,
                       &number, sizeof(number));
  int64_t ld = command.n;
  if (status.ok() && hasAux(choice.epilogue))
    status = call(api_.cublasLtMatmulDescSetAttribute, desc, descAuxLd, &ld,
                  sizeof(ld));
  return status;
}

Status BlasLt::describe(const Command &command, Choice &choice) {
  choice.isF64 = command.type == ElementType::F64;
  choice.workspaceBytes = command.workspace.bytes;
  MatmulDescHandle desc = nullptr;
  Status status = call(api_.cublasLtMatmulDescCreate, &desc,
                       choice.isF64 ? computeF64 : computeF32,
                       choice.isF64 ? typeF64 : typeF32);
  if (!status.ok())
    return status;
  choice.desc = {desc, api_.cublasLtMatmulDescDestroy};
  // cuBLASLt's A is the command's B, and its B is the command's A.
  int32_t transA = command.b.trans, transB = command.a.trans;
  for (auto [attribute, value] :
       {std::pair(descTransA, &transA), std::pair(descTransB, &transB)})
    if (status.ok())
      status = call(api_.cublasLtMatmulDescSetAttribute, desc, attribute, value,
                    sizeof(*value));
  if (status.ok())
    status = describeEpilogue(command, choice);
  auto layout = [&](Owned<LayoutHandle> &to, const GemmOperand &operand,
                    ElementType type, int64_t rows, int64_t columns) {
    if (operand.trans)
      std::swap(rows, columns);
    if (status.ok())
      status = makeLayout(to, command, operand, type, rows, columns);
  };
  layout(choice.a, command.b, command.type, command.k, command.n);
  layout(choice.b, command.a, command.type, command.m, command.k);
  layout(choice.c, command.c, command.resultType, command.m, command.n);
  return status;
}

/// Sets the addresses of the bias and aux operands. Matmuls with the same
/// `choice` may have these operands at different addresses.
Status BlasLt::setPlaces(const Choice &choice,
                         const MatmulPlaces &places) const {
  Status status;
  auto set = [&](bool exists, int attribute, const DevicePointer &place) {
    if (status.ok() && exists)
      status = call(api_.cublasLtMatmulDescSetAttribute, choice.desc.get(),
                    attribute, &place, sizeof(place));
  };
  set(hasBias(choice.epilogue), descBiasPointer, places.bias);
  set(hasAux(choice.epilogue), descAuxPointer, places.aux);
  return status;
}

/// Returns up to `most` supported algorithms in cuBLASLt's order of preference.
/// Returns an error if there is none.
Result<std::vector<Algorithm>>
BlasLt::propose(const Problem &problem, const Choice &choice, int most) const {
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
  prefer(preferWorkspaceBytes, uint64_t(choice.workspaceBytes));
  prefer(preferReductionSchemes, reduceInComputeType);
  // The alignments of cuBLASLt's A, B, C and D; C and D are the same matrix.
  const int64_t *alignments = problem.data() + problem.size() - 3;
  const int64_t ofOperands[] = {alignments[1], alignments[0], alignments[2],
                                alignments[2]};
  for (int i = 0; i < 4; ++i)
    prefer(preferAlignmentA + i, uint32_t(ofOperands[i]));
  std::vector<Proposal> proposals(std::size_t(most), Proposal{});
  int found = 0;
  if (status.ok())
    status =
        call(api_.cublasLtMatmulAlgoGetHeuristic, handle_.get(),
             choice.desc.get(), choice.a.get(), choice.b.get(), choice.c.get(),
             choice.c.get(), preference, most, proposals.data(), &found);
  if (!status.ok())
    return status;
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < std::min(found, most); ++i)
    if (proposals[std::size_t(i)].status == 0)
      algorithms.push_back(proposals[std::size_t(i)].algorithm);
  bool hasEpilogue = choice.epilogue != GemmEpilogue::None;
  if (algorithms.empty())
    return Status::error(
        name_ + " has no algorithm for this matmul" +
        (hasEpilogue ? " with the epilogue '" +
                           std::string(nameOf(choice.epilogue)) + "'"
                     : std::string()) +
        " within a workspace of " + std::to_string(choice.workspaceBytes) +
        " bytes; install a newer cuBLAS library" +
        (hasEpilogue ? ", or compile with --library-epilogues=off" : ""));
  return algorithms;
}

static int64_t alignmentOf(DevicePointer pointer) {
  return std::min(int64_t(pointer & (~pointer + 1)), largestAlignment);
}

/// Returns the key of a problem in the algorithm file.
std::string BlasLt::textOf(const Problem &problem) {
  std::string text;
  for (int64_t number : problem)
    text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

Result<std::size_t> BlasLt::choose(const Command &command,
                                   const MatmulPlaces &places,
                                   AlgorithmSearch *search,
                                   StreamHandle stream) {
  Problem problem = {int64_t(command.type),
                     int64_t(command.resultType),
                     command.workspace.bytes,
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
                     int64_t(command.library),
                     command.bias.bytes > 0 ? alignmentOf(places.bias) : 0,
                     command.aux.bytes > 0 ? alignmentOf(places.aux) : 0,
                     alignmentOf(places.a),
                     alignmentOf(places.b),
                     alignmentOf(places.c)};
  auto known = chosen_.find(problem);
  if (known != chosen_.end())
    return known->second;
  Choice choice;
  Status status = describe(command, choice);
  // cuBLASLt derives the alignments of bias and aux from their addresses.
  if (status.ok())
    status = setPlaces(choice, places);
  if (!status.ok())
    return status;
  Result<std::vector<Algorithm>> proposals =
      propose(problem, choice, search ? AlgorithmSearch::mostProposals : 1);
  if (!proposals.ok())
    return proposals.status();
  std::size_t best = 0;
  if (search) {
    Result<std::size_t> found =
        search->choose(textOf(problem), *proposals, [&](std::size_t i) {
          return run(choice, (*proposals)[i], places, /*accumulate=*/false,
                     stream);
        });
    if (!found.ok())
      return found.status();
    best = *found;
  }
  choice.algorithm = (*proposals)[best];
  choices_.push_back(std::move(choice));
  chosen_[problem] = choices_.size() - 1;
  return choices_.size() - 1;
}

std::vector<Algorithm> BlasLt::algorithms() const {
  std::vector<Algorithm> result;
  for (const Choice &choice : choices_)
    result.push_back(choice.algorithm);
  return result;
}

void BlasLt::setAlgorithms(const std::vector<Algorithm> &algorithms) {
  for (std::size_t i = 0; i < choices_.size(); ++i)
    choices_[i].algorithm = algorithms[i];
}

std::string BlasLt::hash() const {
  // FNV-1a over the 64-bit words of the algorithms.
  uint64_t hash = 0xcbf29ce484222325;
  for (const Choice &choice : choices_)
    for (uint64_t word : choice.algorithm.words)
      hash = (hash ^ word) * 0x100000001b3;
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", unsigned(hash ^ hash >> 32));
  return text;
}

Status BlasLt::run(const Choice &choice, const Algorithm &algorithm,
                   const MatmulPlaces &places, bool accumulate,
                   StreamHandle stream) const {
  Status status = setPlaces(choice, places);
  if (!status.ok())
    return status;
  const float ones[] = {0, 1};
  const double wideOnes[] = {0, 1};
  auto scalar = [&](bool one) {
    return choice.isF64 ? static_cast<const void *>(&wideOnes[one])
                        : static_cast<const void *>(&ones[one]);
  };
  return call(api_.cublasLtMatmul, handle_.get(), choice.desc.get(),
              scalar(true), places.b, choice.a.get(), places.a, choice.b.get(),
              scalar(accumulate), places.c, choice.c.get(), places.c,
              choice.c.get(), &algorithm,
              choice.workspaceBytes > 0 ? places.workspace : 0,
              std::size_t(choice.workspaceBytes), stream);
}
