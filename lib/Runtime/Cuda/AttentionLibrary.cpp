//===- AttentionLibrary.cpp - Choice of cuDNN for attention ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLibrary.h"

#include "AttentionCheck.h"

#include <algorithm>
#include <cstring>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

AttentionLibrary::AttentionLibrary(const Driver &driver,
                                   const std::vector<std::string> &libraries,
                                   StreamHandle stream)
    : driver_(driver), stream_(stream) {
  Result<Dnn> dnn = Dnn::open(libraries);
  if (!dnn.ok()) {
    refuse(dnn.status().message() +
           "; install cuDNN 9.6 or newer, or add its folder to "
           "LD_LIBRARY_PATH");
    return;
  }
  Status status = dnn->start(stream);
  if (status.ok())
    dnn_.emplace(std::move(*dnn));
  else
    refuse(status.message());
}

void AttentionLibrary::refuse(const std::string &why) {
  if (why_.empty())
    why_ = why;
}

std::string AttentionLibrary::name() const {
  bool isUsed =
      std::any_of(choices_.begin(), choices_.end(), [](const auto &entry) {
        return entry.second.attention.has_value();
      });
  return isUsed ? dnn_->name() : "";
}

std::optional<std::string> AttentionLibrary::notice() const {
  bool isDeterministic =
      std::all_of(choices_.begin(), choices_.end(), [](const auto &entry) {
        return !entry.second.attention ||
               entry.second.attention->isDeterministic();
      });
  std::string text;
  if (!why_.empty())
    text =
        "not all attention uses cuDNN, the rest uses kiln's kernels: " + why_;
  if (!isDeterministic)
    text += (text.empty() ? "" : "; ") + dnn_->name() +
            " accumulates gradients of attention in no fixed order, so that "
            "equal runs may differ in their last bits; compile with "
            "--attention=generated for reproducible results";
  return text.empty() ? std::nullopt : std::optional(text);
}

/// Returns true if all addresses are aligned to 16 bytes, as cuDNN's vectorized
/// accesses require.
static bool isAligned(const std::vector<DevicePointer> &places) {
  return std::all_of(places.begin(), places.end(),
                     [](DevicePointer place) { return place % 16 == 0; });
}

Status AttentionLibrary::decide(const VendorAttention &attention, double scale,
                                const std::vector<DevicePointer> &places,
                                DevicePointer workspace,
                                const std::function<Status()> &kernel,
                                Choice &choice) {
  Result<DnnAttention> found = DnnAttention::plan(*dnn_, attention, scale);
  if (!found.ok()) {
    refuse(dnn_->name() + " cannot compute " +
           (attention.isGradient ? "gradients of " : "") + "attention with " +
           std::to_string(attention.heads) + " heads of " +
           std::to_string(attention.headDim) +
           " elements: " + found.status().message());
    return Status();
  }
  AttentionCheck check(driver_, stream_, attention, scale, places);
  Result<std::string> difference =
      check.run(kernel, [&] { return found->run(places, workspace); });
  if (!difference.ok()) {
    // Keep the cuDNN plan, because work that it queued may still be running.
    choice.attention.emplace(std::move(*found));
    return difference.status();
  }
  if (!difference->empty())
    refuse(dnn_->name() +
           " computes results that differ from those of kiln's kernel: " +
           *difference);
  else
    choice.attention.emplace(std::move(*found));
  return Status();
}

Result<const DnnAttention *>
AttentionLibrary::choose(const VendorAttention &attention, double scale,
                         const std::vector<DevicePointer> &places,
                         DevicePointer workspace,
                         const std::function<Status()> &kernel) {
  const DnnAttention *none = nullptr;
  if (!dnn_)
    return none;
  if (!isAligned(places)) {
    refuse("a matrix of an attention op is not aligned to 16 bytes");
    return none;
  }
  if (AttentionCheck::overlap(attention, places)) {
    refuse("a result of an attention op overlaps an operand");
    return none;
  }
  std::vector<int64_t> key = {attention.isGradient, attention.causal,
                              attention.sequences,  attention.length,
                              attention.heads,      attention.kvHeads,
                              attention.headDim};
  key.insert(key.end(), attention.strides.begin(), attention.strides.end());
  int64_t bits = 0;
  std::memcpy(&bits, &scale, sizeof(bits));
  key.push_back(bits);
  auto [entry, isNew] = choices_.try_emplace(key);
  if (isNew) {
    Status status =
        decide(attention, scale, places, workspace, kernel, entry->second);
    if (!status.ok())
      return status;
  }
  const std::optional<DnnAttention> &chosen = entry->second.attention;
  return chosen ? &*chosen : none;
}
