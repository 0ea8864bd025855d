//===- PrintRowPrograms.cpp - Prints the row programs of a module ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/Passes.h"

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"
#include "kiln/Dialect/Kiln/IR/RowPrograms.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/Support/raw_ostream.h"

namespace kiln {
#define GEN_PASS_DEF_PRINTROWPROGRAMS
#include "kiln/Target/Common/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

struct PrintRowProgramsPass
    : kiln::impl::PrintRowProgramsBase<PrintRowProgramsPass> {
  using PrintRowProgramsBase::PrintRowProgramsBase;

  void runOnOperation() override {
    std::string text;
    llvm::raw_string_ostream os(text);
    for (Operation &op : getOperation().getOps()) {
      LogicalResult printed = success();
      if (auto kernel = dyn_cast<rt::KernelOp>(op))
        printed = printKernel(os, kernel);
      else if (auto program = dyn_cast<ProgramOp>(op))
        printed = printDispatches(os, program);
      if (failed(printed))
        return signalPassFailure();
    }
    // Print all programs at once, so that no other output interleaves.
    llvm::outs() << text;
    llvm::outs().flush();
    markAllAnalysesPreserved();
  }

  LogicalResult printKernel(raw_ostream &os, rt::KernelOp kernel) {
    if (kernel.getFamily() != Family::Row)
      return success();
    auto space = kernel.getSpace();
    if (!space || space->size() != 2)
      return kernel.emitOpError(
          "must have a 'space' with two dimensions, rows and columns");
    os << "// " << (kernel.getEpilogue() ? "epilogue" : "kernel") << " @"
       << kernel.getSymName() << "\n";
    return print(os, kernel,
                 rowOpsOf(kernel.getBody().front(), (*space)[0], (*space)[1]));
  }

  /// Prints the row programs of dispatches. The number of a dispatch is its
  /// index among all dispatches of the program, including those that have no
  /// row program.
  LogicalResult printDispatches(raw_ostream &os, ProgramOp program) {
    int64_t number = 0;
    WalkResult walk = program.walk([&](DispatchOp dispatch) {
      int64_t own = number++;
      bool isEpilogue = dispatch.getFamily() == Family::Gemm;
      if (!isEpilogue && dispatch.getFamily() != Family::Row)
        return WalkResult::advance();
      os << "// " << (isEpilogue ? "epilogue of dispatch " : "dispatch ") << own
         << " of @" << program.getSymName();
      if (StringRef name = getLocationName(dispatch.getLoc()); !name.empty())
        os << " (" << name << ")";
      os << "\n";
      return WalkResult(print(os, dispatch, rowOpsOf(dispatch)));
    });
    return failure(walk.wasInterrupted());
  }

  LogicalResult print(raw_ostream &os, Operation *op, const RowOps &source) {
    const row::RowProgram *program = getAnalysis<RowPrograms>().get(source);
    if (!program)
      return op->emitOpError("cannot be expressed as a row program");
    std::string text;
    llvm::raw_string_ostream stream(text);
    row::print(stream, *program);
    os << text << "\n";
    if (!checkText)
      return success();
    auto parsed = row::parse(text);
    if (!parsed)
      return op->emitOpError(
                 "has a row program whose printed form does not parse: ")
             << llvm::toString(parsed.takeError());
    if (!(*parsed == *program))
      return op->emitOpError(
          "has a row program that changes when it is printed and parsed");
    return success();
  }
};

} // namespace
