//===- InitialValues.h - Initial values of states ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the initial values of states. Each element is a function of (seed,
// state name, element index) only. Any rank can therefore compute any slice, in
// any order. Arithmetic is in f64; the result is rounded once to the element
// type.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_INITIALVALUES_H
#define KILN_RUNTIME_FILES_INITIALVALUES_H

#include "kiln/Support/ElementType.h"
#include "kiln/Support/Status.h"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::runtime {

struct InitialValue {
  /// Nf4Table is the table of kiln/Support/Nf4.h: the values of the 256 scale
  /// codes, followed by the values of the 16 codes.
  enum class Kind { Constant, Normal, Uniform, RopeCos, RopeSin, Nf4Table };
  Kind kind = Kind::Constant;
  // The comment of each member names the kinds that use the member.
  double value = 0.0;              ///< Constant
  double mean = 0.0, stddev = 1.0; ///< Normal
  /// Normal: index of the row whose elements are set to zero; nullopt: no row.
  std::optional<int64_t> zeroRow;
  double low = 0.0, high = 1.0; ///< Uniform: values are in [low, high).
  double scale = 1.0;           ///< RopeCos, RopeSin
  /// RopeCos: element [t, i] = scale * cos(t * inverseFrequencies[i]). RopeSin:
  /// element [t, i] = scale * sin(t * inverseFrequencies[i]).
  std::vector<double> inverseFrequencies;
};

/// Reads the "init" object of a state. `where` names the state in error
/// messages.
Result<InitialValue> parseInitialValue(const nlohmann::json &init,
                                       const std::string &where);

/// Computes elements [begin, end) of the row-major tensor. `type` is F64, F32,
/// F16 or BF16. If `init` is a Constant of zero, `type` may be any type whose
/// elements have whole bytes. `destination` points to element `begin`. Fails if
/// `init` does not match the shape.
Status fillInitialValue(const InitialValue &init, uint64_t seed,
                        std::string_view stateName,
                        const std::vector<int64_t> &shape, ElementType type,
                        int64_t begin, int64_t end, void *destination);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_INITIALVALUES_H
