//===- KilnPlanAttrs.td - Attributes of memory plans -------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Module attributes that record the decisions of the planner and the encodings
// of residuals. Reports, the program description and later passes read them.
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
  let summary = "the decisions of a plan for one stage of the forward pass";
  let description = [{
    The stage runs `forward_runs` times in a step. `keeps` are the names of ops whose
    results are stored for the backward pass, `offloads` are those of `keeps` that
    are stored on the host, and `repeats` are the names of ops that are recomputed.
    `kept_bytes`, `offloaded_bytes` and `repeated_bytes` are the sizes of the tensors
    that are stored, offloaded and recomputed, for one micro-batch. `repeated_ms` is
    the predicted time of all recomputed ops in a step, priced without fusion.
  }];
  let parameters = (ins "int64_t":$stage, "::mlir::StringAttr":$layer,
    "int64_t":$forward_runs, "bool":$keeps_input, "::mlir::ArrayAttr":$keeps,
    "::mlir::ArrayAttr":$offloads, "::mlir::ArrayAttr":$repeats,
    "int64_t":$kept_bytes, "int64_t":$offloaded_bytes, "int64_t":$repeated_bytes,
    "::mlir::FloatAttr":$repeated_ms);
}

def Kiln_PlanAttr : Kiln_FactAttr<"Plan", "plan"> {
  let summary = "the prediction and the decisions of a memory plan";
  let description = [{
    The attribute `kiln.plan` of a module, set by `kiln-plan-memory`. The predicted
    peaks are the exact sizes of the arenas in bytes; the times are predictions for
    one step. The *unplanned* step recomputes and offloads nothing. `budget` and
    `host_budget` are in bytes, and are absent if that memory was not limited.
    `choices` has one `#kiln.stage` per stage.

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
  let summary = "a residual that is stored encoded";
  let description = [{
    An element of the attribute `kiln.encoded` of a module, which
    `kiln-compress-residuals` and `kiln-quantize-residuals` set. `value` is the name
    of the residual and `as` its encoding. If `lossy` is true, the encoding makes gradients approximate. `bytes`
    and `encoded_bytes` are the sizes for one micro-batch, without and with the
    encoding.

    Example: `#kiln.encoded<value = "h.0.gelu", as = "fewbit:2", lossy = true, bytes = 2048, encoded_bytes = 128>`
  }];
  let parameters = (ins "::mlir::StringAttr":$value, "::mlir::StringAttr":$as,
    "bool":$lossy, "int64_t":$bytes, "int64_t":$encoded_bytes);
}

#endif // KILN_DIALECT_KILN_IR_KILNPLANATTRS_TD
