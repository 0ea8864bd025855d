//===- Passes.td - Passes on schedules for a target --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_PASSES_TD
#define KILN_TARGET_COMMON_PASSES_TD

include "mlir/Pass/PassBase.td"

def GroupLaunches : Pass<"kiln-group-launches", "::mlir::ModuleOp"> {
  let summary = "Group independent launches of one GPU kernel";
  let description = [{
    A step ends with an update of every parameter, and many parameters are small.
    Launching a kernel takes a GPU several microseconds, in which it could update
    a hundred small tensors. The pass reorders independent launches of the same
    kernel so that they are adjacent, and sets `group` of the first one to their
    number. The runtime executes a group as one launch. Each launch remains a
    command of its own.

    The pass runs after kiln-schedule. It moves no buffer. It updates the
    lifetimes of slots to the new order and verifies the schedule before and
    after, as kiln-verify-schedule does. Modules for a CPU are not changed.
  }];
}

def PrintRowPrograms : Pass<"kiln-print-row-programs", "::mlir::ModuleOp"> {
  let summary = "Print the row programs of dispatches and kernels";
  let description = [{
    Prints the row programs of a module to standard output and does not change
    the module. At the dispatched level, these are the programs of dispatches of
    family `row` and of the epilogues of dispatches of family `gemm`; at the
    scheduled level, those of the row kernels. docs/reference/row-programs.md
    defines the format. A comment before each program names the dispatch or
    kernel. The pass reports an error for a dispatch or kernel of these families
    without a row program.

    ```
    kiln-opt --kiln-form-dispatches --kiln-print-row-programs -o /dev/null model.mlir
    ```
  }];
  let options = [
    Option<"checkText", "check-text", "bool", "false", "Also parse each printed program, and fail if the result differs from the program.">,
  ];
}

#endif // KILN_TARGET_COMMON_PASSES_TD
