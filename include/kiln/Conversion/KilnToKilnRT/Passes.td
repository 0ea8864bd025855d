//===- Passes.td - The pass that schedules -----------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_CONVERSION_KILNTOKILNRT_PASSES_TD
#define KILN_CONVERSION_KILNTOKILNRT_PASSES_TD

include "mlir/Pass/PassBase.td"

def Schedule : Pass<"kiln-schedule", "::mlir::ModuleOp"> {
  let summary = "Give every value a slot and every program its commands";
  let description = [{
    From dispatched to scheduled: program order becomes the order of commands,
    updates of a state move behind its other readers, every value gets a slot
    with a lifetime, and the arena planner assigns offsets. States lie in front,
    at the same offsets in every program. Equal dispatches share a kernel.
  }];
  let options = [
    Option<"maxThreads", "max-threads", "int64_t", "2", "threads that get scratch memory">,
  ];
  let dependentDialects = ["::kiln::rt::KilnRTDialect"];
}

def VerifySchedule : Pass<"kiln-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "Prove that no memory is reused too early";
  let description = [{
    For every scheduled program: slots that share bytes live one after the other,
    and while a copy between device and host is under way, both of its slots
    live, nothing writes its source and nothing touches its destination.
    kiln-schedule ends with this check.
  }];
}

#endif // KILN_CONVERSION_KILNTOKILNRT_PASSES_TD
