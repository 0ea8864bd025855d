//===- PlanBuilder.h - Builder of the buffer plan of a program --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// BufferPlaces.cpp assigns places (locations in buffers) to values.
// BufferPlan.cpp creates commands. MoveIntoMicrobatches.cpp then changes their
// order, and BufferLifetimes.cpp computes the lifetimes of the buffers.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_PLANBUILDER_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_PLANBUILDER_H

#include "kiln/Conversion/KilnToKilnRT/BufferPlan.h"
#include "kiln/Dialect/Kiln/IR/RowPrograms.h"
#include "kiln/Target/Interface/TargetBackend.h"

namespace kiln {

class PlanBuilder {
public:
  PlanBuilder(ProgramOp program, llvm::ArrayRef<StateOp> states,
              ScratchBytes scratchBytes, const TargetBackend &target,
              RowPrograms &rowPrograms)
      : states(states), scratchBytes(scratchBytes), target(target),
        rowPrograms(rowPrograms) {
    plan.program = program;
  }
  llvm::FailureOr<ProgramPlan> run();

private:
  void numberOps(mlir::Block &block);
  int64_t lastUse(mlir::Value value);
  void delayUpdates(mlir::Block &block);
  void placeConcats(mlir::Block &block);
  void placeSums(MicrobatchesOp op);
  void preplace(mlir::Value value, Place place);
  int32_t newBuffer(std::string name, rt::SlotClass slotClass, int64_t bytes,
                    std::string why);
  /// Creates a buffer for a tensor, in the memory that the type of the tensor
  /// specifies.
  int32_t newBuffer(std::string name, rt::SlotClass slotClass, mlir::Type type,
                    std::string why);
  Place densePlace(int32_t buffer, mlir::Type type);
  int64_t rowStrideOf(mlir::OpResult result);
  Place ownPlace(mlir::OpResult result, std::string name, std::string why);
  void setPlace(mlir::Value value, Place place);
  std::optional<Place> viewPlace(mlir::Operation *view);
  bool coversBuffer(const Place &place, mlir::Type type);
  bool hasPaddedRows(const Place &place) {
    return plan.buffers[place.buffer].rowPitch > 0;
  }
  llvm::LogicalResult visit(mlir::Operation *op);
  llvm::LogicalResult visitWork(mlir::Operation *op);
  llvm::LogicalResult visitMicrobatches(MicrobatchesOp op);
  void visitWrite(WriteOp write);
  llvm::LogicalResult visitCopy(mlir::Operation *copy);
  void visitWait(CopyWaitOp wait);
  void visitCollective(CollectiveStartOp start);
  void visitCollectiveWait(CollectiveWaitOp wait);
  void visitTakeShard(TakeShardOp take);
  Place placeSummed(CollectiveStartOp start, mlir::Value value,
                    llvm::ArrayRef<Place> earlier);
  Place densified(mlir::Operation *op, mlir::Value value);
  std::optional<Place> statePlace(mlir::OpResult result,
                                  mlir::Operation *start);
  bool isReadAfter(mlir::StringAttr state, mlir::Operation *op);
  bool mayWriteOver(DispatchOp dispatch, unsigned operand, unsigned result);
  std::optional<Place> writtenPlace(mlir::Operation *op, mlir::OpResult result);
  std::optional<Place> summedStatePlace(DispatchOp dispatch,
                                        mlir::OpResult result);
  void placeResults(mlir::Operation *op);
  llvm::LogicalResult checkEpilogue(GemmOpInterface gemm);
  Place placeMatrix(GemmOpInterface gemm);
  void classifyGradients(mlir::Operation *op);
  void classifyMaterialized(mlir::Operation *op);
  void emitCopy(Place from, Place to, mlir::Type type);
  void keepReturnedStates();
  void writeStates();
  llvm::LogicalResult findOwners();
  llvm::LogicalResult computeLifetimes();
  llvm::LogicalResult spanMicrobatches();

  llvm::ArrayRef<StateOp> states;
  ScratchBytes scratchBytes;
  const TargetBackend &target;
  RowPrograms &rowPrograms;
  ProgramPlan plan;
  llvm::DenseMap<mlir::Value, Place> &places = plan.places;
  llvm::DenseMap<mlir::StringAttr, int32_t> stateBuffers;
  /// The names of the mirrors, which are states that store copies of
  /// parameters.
  llvm::DenseSet<mlir::StringAttr> mirrors;
  /// Operands of all-reduces. Each of these operands is stored at the location
  /// of a state, because the sum is the new value of this state.
  llvm::DenseSet<mlir::Value> summedInStates;
  /// The reads of the value that each state has at the start of the program.
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<ReadOp, 2>> readsOf;
  llvm::DenseMap<mlir::Operation *, int64_t> order;
  /// Position in program order of the end of each kiln.microbatches.
  llvm::DenseMap<mlir::Operation *, int64_t> endOf;
  int64_t next = 0;
  struct StateCopy {
    Place from, to;
    mlir::Type type;
  };
  /// Copies of new values into states that were not updated in place.
  std::vector<StateCopy> stateCopies;
};

/// Moves waits for transfers from before the micro-batches into the first
/// execution of the forward or backward segment. Moves transfers and commands
/// that access host memory, and the commands that these depend on, from after
/// the micro-batches into the last execution of the backward segment. Must be
/// called before the lifetimes of the plan's buffers are computed.
void moveIntoMicrobatches(ProgramPlan &plan);

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_PLANBUILDER_H
