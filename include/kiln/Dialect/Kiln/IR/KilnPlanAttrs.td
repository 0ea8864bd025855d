//===- KilnPlanAttrs.td - decisions of a plan --------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Facts that one pass decides and that reports, the program description and
// later passes read: they are attributes of the module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNPLANATTRS_TD
#define KILN_DIALECT_KILN_IR_KILNPLANATTRS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"

class Kiln_FactAttr<string name, string attrMnemonic> : AttrDef<Kiln_Dialect, name> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kiln_StageChoiceAttr : Kiln_FactAttr<"StageChoice", "stage"> {
  let summary = "what a plan does with one stage of the forward pass";
  let description = [{
    A stage runs `forward_runs` times in a step. `keeps` and `repeats` are the names
    of ops whose results the backward pass reads from memory and computes again;
    `offloads` are those of `keeps` that are stored on the host meanwhile. Bytes are
    those of one micro-batch: of the tensors that the forward pass leaves for the
    backward pass, of those on the host, and of those that it would leave if nothing
    was repeated. `repeated_ms` is the predicted time of all repeated ops in a step,
    as single ops.
  }];
  let parameters = (ins "int64_t":$stage, "::mlir::StringAttr":$layer,
    "int64_t":$forward_runs, "bool":$keeps_input, "::mlir::ArrayAttr":$keeps,
    "::mlir::ArrayAttr":$offloads, "::mlir::ArrayAttr":$repeats,
    "int64_t":$kept_bytes, "int64_t":$offloaded_bytes, "int64_t":$repeated_bytes,
    "::mlir::FloatAttr":$repeated_ms);
}

def Kiln_PlanAttr : Kiln_FactAttr<"Plan", "plan"> {
  let summary = "a plan's prediction, and how it was reached";
  let description = [{
    The attribute `kiln.plan` of a module, set by `kiln-plan-memory`. Peaks are the
    bytes of the arenas, exactly; times are predictions for one step. *Unplanned* is
    the step in which nothing is repeated or offloaded. `budget` and `host_budget`
    are bytes, and absent if they were not limited. `choices` has one `#kiln.stage`
    per stage.

    Example: `#kiln.plan<budget = 4096, predicted_peak_bytes = 4032, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = 2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = []>`
  }];
  let parameters = (ins OptionalParameter<"::std::optional<int64_t>">:$budget,
    OptionalParameter<"::std::optional<int64_t>">:$host_budget,
    "int64_t":$predicted_peak_bytes, "int64_t":$predicted_host_bytes,
    "::mlir::FloatAttr":$predicted_step_ms, "::mlir::FloatAttr":$lower_bound_ms,
    "::mlir::FloatAttr":$unplanned_step_ms, "int64_t":$unplanned_peak_bytes,
    "::mlir::ArrayAttr":$choices);
  let extraClassDeclaration = [{
    auto getStages() const { return getChoices().template getAsRange<StageChoiceAttr>(); }
  }];
}

def Kiln_EncodedAttr : Kiln_FactAttr<"Encoded", "encoded"> {
  let summary = "a residual that is stored as an encoding";
  let description = [{
    An element of the attribute `kiln.encoded` of a module, set by
    `kiln-compress-residuals`: the residual's name, its encoding, whether gradients
    become estimates by it, and the bytes of one micro-batch without and with it.

    Example: `#kiln.encoded<value = "h.0.gelu", as = "fewbit:2", lossy = true, bytes = 2048, encoded_bytes = 128>`
  }];
  let parameters = (ins "::mlir::StringAttr":$value, "::mlir::StringAttr":$as,
    "bool":$lossy, "int64_t":$bytes, "int64_t":$encoded_bytes);
}

#endif // KILN_DIALECT_KILN_IR_KILNPLANATTRS_TD
