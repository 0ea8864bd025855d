//===- Passes.td - Passes of the compiler ------------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_PASSES_TD
#define KILN_COMPILER_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"kiln-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Find the fastest step whose arena fits a budget";
  let description = [{
    Chooses what the backward pass of `@train` recomputes, which activations are
    offloaded to the host, and which states are stored or updated there, so that the arena of the scheduled program fits
    `budget` and the predicted step is as fast as possible. Each proposal is
    applied to a copy of the module, which the passes of the remaining pipeline
    then dispatch and schedule; `fuse`, `epilogues` and `max-threads` must be
    those that these passes run with. The module's attribute `kiln.plan` holds
    the prediction.

    The pass runs on the planned level. It is exact: it changes no attribute
    that affects rounding. It fails if no plan fits, and reports the smallest
    budget that does. Times are computed from the figures of `machine`.
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "std::numeric_limits<int64_t>::max()", "maximum size of the device arena in bytes, including states">,
    Option<"hostBudget", "host-budget", "int64_t", "std::numeric_limits<int64_t>::max()", "maximum size of the host arena in bytes">,
    Option<"machine", "machine", "std::string", "\"default-cpu\"", "a machine file, or the name of one that ships with kiln">,
    Option<"link", "link", "std::string", "\"\"", "rate of the machine's link, such as 120MB/s; empty: as in the machine file">,
    Option<"policy", "policy", "std::string", "\"optimal\"", "what is recomputed: none, full, blocks, sqrt or poor, as in kiln-recompute, or optimal (the planner chooses)">,
    Option<"offloadActivations", "offload-activations", "bool", "false", "allow activations to be offloaded to the host">,
    Option<"offloadStates", "offload-states", "bool", "false", "allow states to be stored or updated on the host; has no effect with several micro-batches">,
    Option<"fuse", "fuse", "bool", "true", "as in kiln-form-dispatches">,
    Option<"epilogues", "epilogues", "bool", "true", "as in kiln-form-dispatches">,
    Option<"maxThreads", "max-threads", "int64_t", "2", "as in kiln-schedule">,
    Option<"suggestMicrobatches", "suggest-microbatches", "bool", "false", "on failure, suggest other numbers of micro-batches">,
  ];
  let dependentDialects = ["::kiln::KilnDialect", "::kiln::rt::KilnRTDialect"];
}

#endif // KILN_COMPILER_PASSES_TD
