//===- BlasLt.h - Matmuls through cuBLASLt ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt uses column-major matrices, whereas programs use row-major matrices.
// The row-major C = A B is computed as the column-major C^T = B^T A^T on the
// same bytes, without a copy.
//
// The algorithm of each distinct matmul problem is chosen once, before any run,
// among the algorithms that fit into the workspace and accumulate in a fixed
// order in the compute type. The fixed order ensures that equal runs give equal
// bits; accumulation in the compute type ensures that a result is rounded only
// once.
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

/// The addresses of the matrices, the workspace, and the bias and aux operands
/// of a gemm command (see GemmEpilogue.h). The address of an operand that the
/// command lacks is 0.
struct MatmulPlaces {
  DevicePointer a = 0, b = 0, c = 0, workspace = 0, bias = 0, aux = 0;
};

class BlasLt {
public:
  /// Loads the first of `libraries` that exists and creates a handle.
  static Result<BlasLt> open(const std::vector<std::string> &libraries);

  /// Returns the name and version, such as "cuBLASLt 13.1.0".
  const std::string &name() const { return name_; }
  /// Returns a hash of the algorithms chosen so far as 8 hexadecimal digits.
  std::string hash() const;

  /// Chooses the algorithm for a command with operands at the addresses
  /// `places`, and returns the index of the choice, which is a parameter of
  /// run(). If `search` is not null, it measures the proposals, which
  /// overwrites the operands. If `search` is null, cuBLASLt's first proposal is
  /// used.
  Result<std::size_t> choose(const Command &command, const MatmulPlaces &places,
                             AlgorithmSearch *search, StreamHandle stream);
  /// Returns the algorithms of all choices, in the order in which choose() made
  /// them.
  std::vector<Algorithm> algorithms() const;
  /// Replaces the algorithms of all choices by `algorithms`, the result of
  /// algorithms() in another process. That process must have called choose()
  /// for the same problems, in the same order, on the same kind of GPU.
  void setAlgorithms(const std::vector<Algorithm> &algorithms);
  Status run(std::size_t choice, const MatmulPlaces &places, bool accumulate,
             StreamHandle stream) const {
    return run(choices_[choice], choices_[choice].algorithm, places, accumulate,
               stream);
  }

private:
  /// The key of a choice: types, workspace, shape, layouts, epilogue and
  /// alignments.
  using Problem = std::array<int64_t, 21>;
  static std::string textOf(const Problem &problem);
  struct Choice {
    Owned<MatmulDescHandle> desc;
    /// The layouts of cuBLASLt's matrices A, B and C. A is the operand b of the
    /// command, and B is the operand a of the command.
    Owned<LayoutHandle> a, b, c;
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
