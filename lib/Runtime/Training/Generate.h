//===- Generate.h - Text generation -----------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_GENERATE_H
#define KILN_LIB_RUNTIME_TRAINING_GENERATE_H

#include "ProgramInputs.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Training/Options.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime {

class InputTensors;

/// Samples a token from softmax(logits / temperature), restricted to the `topK`
/// largest logits (0: all logits). `uniform` is a random number in [0, 1). If
/// `temperature` is 0, returns the token with the largest logit; if several
/// tokens have this logit, returns the one with the lowest id. Reorders
/// `logits`.
int64_t sampleToken(std::vector<std::pair<double, int64_t>> &logits,
                    double temperature, int64_t topK, double uniform);

/// Generates options.generate tokens after options.prompt, each byte of which
/// is one token. Passes the prompt and the text of each generated token to
/// `emit`. A token id above 255 has the text <|id|>. `tensors` has the values
/// of the inputs that the model declares; null if it declares none. Runs with
/// equal seeds generate equal text. `run` runs the program of `inputs`. Calls
/// `stops` before each run of the program, and fails with ExitCode::Stopped if
/// it returns true. Also returns the errors of `stops`, `run` and `emit`.
Status generateText(const std::function<Status()> &run, ProgramInputs &inputs,
                    const Options &options, uint64_t seed,
                    const InputTensors *tensors,
                    const std::function<Result<bool>()> &stops,
                    const std::function<Status(const std::string &)> &emit);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_GENERATE_H
