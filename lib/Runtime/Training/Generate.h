//===- Generate.h - Text from a trained model -------------------*- C++ -*-===//
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

/// Draws from the softmax of logits / temperature over the `topK` largest (0:
/// all) with `uniform` in [0, 1); temperature 0 takes the largest, the first
/// one among equals. `logits` is reordered.
int64_t sampleToken(std::vector<std::pair<double, int64_t>> &logits,
                    double temperature, int64_t topK, double uniform);

/// Continues options.prompt by options.generate tokens, byte by byte, and hands
/// each piece of text to `emit`. Token ids above 255, which are no bytes, come
/// as <|id|>. `tensors` has the values of declared inputs, or is null. The same
/// seed gives the same text. Ends with ExitCode::Stopped after a signal, and
/// when `emit` fails.
Status generateText(Engine &engine, ProgramInputs &inputs,
                    const Options &options, uint64_t seed,
                    const InputTensors *tensors,
                    const std::function<Status(const std::string &)> &emit);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_GENERATE_H
