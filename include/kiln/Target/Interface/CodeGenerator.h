//===- CodeGenerator.h - From kernels to code -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of a target that the driver asks after the module is scheduled. The
// driver makes functions of the host's processor itself: of kernels whose
// launches work on the host's memory, and of everything that a target adds to
// the host's module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_INTERFACE_CODEGENERATOR_H
#define KILN_TARGET_INTERFACE_CODEGENERATOR_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// How the runtime runs a kernel.
struct LaunchGeometry {
  int64_t units = 0;        ///< Work units in all.
  int64_t grain = 1;        ///< Units of one call or, on a GPU, of a block.
  int64_t scratchBytes = 0; ///< Per thread of the host.
  int64_t threads = 0;      ///< Of a GPU's block; 0: a function of the host.
  int64_t sharedBytes = 0;  ///< Of a GPU's block.
  int64_t tableMembers = 0; ///< Room in a GPU kernel's table; 0: it has none.
};

/// The modules that kernels are emitted to. If the device is the host's
/// processor, both are the same module.
struct KernelModules {
  mlir::ModuleOp deviceCode;
  mlir::ModuleOp hostCode; ///< Functions of the host's processor.
};

/// Code of all kernels of a device, which the runtime loads.
struct DeviceImage {
  int64_t architecture = 0; ///< Compute capability 8.0 is 80.
  bool isPtx = false;       ///< Otherwise machine code of this architecture.
  std::string bytes;
};

struct DeviceImages {
  std::vector<DeviceImage> images;
  std::string note; ///< Something that the user should know; empty: nothing.
};

/// What code a target has.
struct CodeTraits {
  /// The device is the host's processor and memory: a kernel is emitted once,
  /// for launches on either side.
  bool deviceIsHost = false;
  /// The device's kernels are in images, where the runtime finds them by name;
  /// otherwise they are functions of the object file.
  bool images = false;
  /// The device's kernels can be written as PTX (--emit=ptx).
  bool ptx = false;
  /// Precedes the error of a kernel that cannot be emitted.
  llvm::StringLiteral refusal = "internal error: ";
};

class CodeGenerator {
public:
  virtual ~CodeGenerator();

  virtual CodeTraits getTraits() const = 0;

  /// Adds the code of a kernel to `modules.deviceCode` under the kernel's name.
  /// A target may add a variant for each chip that it generates code for; all
  /// variants are launched with the same geometry. Errors are reported on the
  /// kernel or on a launch of it.
  virtual llvm::FailureOr<LaunchGeometry>
  emitKernel(rt::KernelOp kernel, KernelModules modules) const = 0;

  /// Adds to the host's module the device's kernels that the host's processor
  /// runs. Called once, after all kernels are emitted.
  virtual llvm::Error addHostFunctions(KernelModules modules) const {
    return llvm::Error::success();
  }

  /// Prints the device's kernels for one chip; only if the traits have `ptx`.
  virtual llvm::Expected<std::string> compileToPtx(mlir::ModuleOp device,
                                                   llvm::StringRef chip) const;

  /// Compiles the device's kernels for each of `chips`; only if the traits have
  /// `images`.
  virtual llvm::Expected<DeviceImages>
  compileImages(mlir::ModuleOp device, llvm::ArrayRef<std::string> chips) const;

  /// The chips that code is generated for without being asked for.
  virtual llvm::ArrayRef<llvm::StringLiteral> getDefaultChips() const {
    return {};
  }

  /// Fails unless code can be generated for a chip.
  virtual llvm::Error checkChip(llvm::StringRef chip) const {
    return llvm::Error::success();
  }

  /// The runtime's archives that executables of this target need in addition.
  /// They are linked before the others, and the first has main().
  virtual llvm::ArrayRef<llvm::StringLiteral> getRuntimeArchives() const {
    return {};
  }
};

} // namespace kiln

#endif // KILN_TARGET_INTERFACE_CODEGENERATOR_H
