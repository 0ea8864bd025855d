//===- BlasLt.h - Matrix products through cuBLASLt ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The library counts along columns first, and programs along rows: a row-major
// C = A B is the library's C^T = B^T A^T on the same bytes, without a copy.
//
// How a product is computed is chosen once for each distinct problem, before
// any run, among the ways that need no more than the product's workspace and
// add up in a fixed order, in the type of the arithmetic: so equal runs give
// equal bits, and a result is rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_BLASLT_H
#define KILN_LIB_RUNTIME_CUDA_BLASLT_H

#include "AlgorithmSearch.h"
#include "BlasLtApi.h"
#include "Gpu.h"
#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

/// Where the operands of a gemm command and its workspace begin, and its bias
/// and aux, if it has them.
struct MatmulPlaces {
  DevicePointer a = 0, b = 0, c = 0, workspace = 0, bias = 0, aux = 0;
};

class BlasLt {
public:
  /// Opens the first of `libraries`.
  static Result<BlasLt> open(const std::vector<std::string> &libraries);

  /// "cuBLASLt 13.1.0".
  const std::string &name() const { return name_; }
  /// Of the algorithms chosen so far, as 8 hexadecimal digits.
  std::string hash() const;

  /// Chooses how a command is computed at these places, by trials there, or,
  /// without a search, as the library proposes. The index is for run().
  Result<std::size_t> choose(const Command &command, const MatmulPlaces &places,
                             AlgorithmSearch *search, StreamHandle stream);
  Status run(std::size_t choice, const MatmulPlaces &places, bool accumulate,
             StreamHandle stream) const {
    return run(choices_[choice], choices_[choice].algorithm, places, accumulate,
               stream);
  }

private:
  /// What decides the choice.
  using Problem = std::array<int64_t, 21>;
  static std::string textOf(const Problem &problem);
  struct Choice {
    Owned<MatmulDescHandle> desc;
    Owned<LayoutHandle> a, b, c; ///< The library's own a and b.
    Algorithm algorithm;
    bool isF64 = false;
    abi::GemmEpilogue epilogue = abi::GemmEpilogue::None;
    int64_t workspaceBytes = 0;
  };

  BlasLt() = default;
  template <typename... Parameters, typename... Arguments>
  Status call(const Entry<int(Parameters...)> &entry,
              Arguments... arguments) const {
    int code = entry.function(arguments...);
    return code == 0 ? Status() : failure(code, entry.name);
  }
  Status failure(int code, const char *function) const;
  Status makeLayout(Owned<LayoutHandle> &layout, const Command &command,
                    const GemmOperand &operand, ElementType type, int64_t rows,
                    int64_t columns);
  Status describe(const Command &command, Choice &choice);
  Status describeEpilogue(const Command &command, Choice &choice) const;
  Status setPlaces(const Choice &choice, const MatmulPlaces &places) const;
  Result<std::vector<Algorithm>> propose(const Problem &problem,
                                         const Choice &choice, int most) const;
  Status run(const Choice &choice, const Algorithm &algorithm,
             const MatmulPlaces &places, bool accumulate,
             StreamHandle stream) const;

  BlasLtApi api_;
  std::string name_;
  Owned<BlasLtHandle> handle_;
  std::vector<Choice> choices_;
  std::map<Problem, std::size_t> chosen_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_BLASLT_H
