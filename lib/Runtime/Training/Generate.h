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

/// Samples from the softmax of logits / temperature over the `topK` largest
/// logits (0: all), with `uniform` in [0, 1). Temperature 0 selects the largest
/// logit and, among equals, the first. Reorders `logits`.
int64_t sampleToken(std::vector<std::pair<double, int64_t>> &logits,
                    double temperature, int64_t topK, double uniform);

/// Extends options.prompt by options.generate tokens, where each byte is one
/// token, and passes each piece of text to `emit`. Token ids above 255 are
/// printed as <|id|>. `tensors` provides the values of declared inputs and may
/// be null. Equal seeds give equal text. Fails with ExitCode::Stopped after a
/// signal, and with the error of `emit` if that fails.
Status generateText(Engine &engine, ProgramInputs &inputs,
                    const Options &options, uint64_t seed,
                    const InputTensors *tensors,
                    const std::function<Status(const std::string &)> &emit);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_GENERATE_H
