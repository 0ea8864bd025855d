//===- CodeGenerator.h - Generates the code of a target's kernels ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface to the device code generator of a target. The compiler driver
// calls it after scheduling. The driver itself generates host code: the kernels
// of launches on host memory, and the functions that a target adds to the host
// module.
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

/// The geometry with which the runtime launches a kernel.
struct LaunchGeometry {
  int64_t units = 0;        ///< Total number of work units, such as rows.
  int64_t grain = 1;        ///< Units per call or, on a GPU, per thread block.
  int64_t scratchBytes = 0; ///< Scratch memory per host thread.
  int64_t threads = 0;      ///< Threads per GPU block; 0 for a host function.
  int64_t sharedBytes = 0;  ///< Shared memory per GPU block.
  /// Number of launches in the largest launch group (launches of this kernel
  /// that become one launch with a table of arguments); 0 without groups.
  int64_t tableMembers = 0;
};

/// The modules that kernels are emitted to. Both members are the same module if
/// the device is the host processor.
struct KernelModules {
  mlir::ModuleOp deviceCode;
  mlir::ModuleOp hostCode; ///< Functions that run on the host processor.
};

/// The code of all device kernels, in one file that the runtime loads.
struct DeviceImage {
  int64_t architecture = 0; ///< Compute capability; 80 for 8.0.
  bool isPtx = false;       ///< PTX if true, else machine code.
  std::string bytes;
};

struct DeviceImages {
  std::vector<DeviceImage> images;
  std::string note; ///< A remark for the user; may be empty.
};

/// The kinds of code that a target generates.
struct CodeTraits {
  /// True if the device is the host processor and uses host memory. Each kernel
  /// is then emitted once, and launches on device memory and on host memory use
  /// the same function.
  bool deviceIsHost = false;
  /// True if device kernels are stored in images, in which the runtime looks
  /// them up by name. Otherwise device kernels are functions of the object
  /// file.
  bool images = false;
  /// True if device kernels can be printed as PTX (--emit=ptx).
  bool ptx = false;
  /// Prefix of the error that reports a kernel that cannot be emitted.
  llvm::StringLiteral refusal = "internal error: ";
};

class CodeGenerator {
public:
  virtual ~CodeGenerator();

  virtual CodeTraits getTraits() const = 0;

  /// Adds the code of a kernel to `modules.deviceCode` under the kernel's name.
  /// A target may add a variant for each chip that it generates code for; all
  /// variants are launched with the same geometry. Reports errors on the kernel
  /// or on one of its launches.
  virtual llvm::FailureOr<LaunchGeometry>
  emitKernel(rt::KernelOp kernel, KernelModules modules) const = 0;

  /// If the target emulates the device on the host processor, adds a host
  /// function for each device kernel to the host module. Called once, after all
  /// kernels have been emitted.
  virtual llvm::Error addHostFunctions(KernelModules modules) const {
    return llvm::Error::success();
  }

  /// Returns the PTX of the device kernels for one chip. Requires
  /// CodeTraits::ptx.
  virtual llvm::Expected<std::string> compileToPtx(mlir::ModuleOp device,
                                                   llvm::StringRef chip) const;

  /// Compiles the device kernels for each of `chips`. Requires
  /// CodeTraits::images.
  virtual llvm::Expected<DeviceImages>
  compileImages(mlir::ModuleOp device, llvm::ArrayRef<std::string> chips) const;

  /// The chips that code is generated for by default.
  virtual llvm::ArrayRef<llvm::StringLiteral> getDefaultChips() const {
    return {};
  }

  /// Returns an error unless code can be generated for `chip`.
  virtual llvm::Error checkChip(llvm::StringRef chip) const {
    return llvm::Error::success();
  }

  /// The additional runtime archives that executables of this target link. They
  /// are linked before all other archives. The first additional archive defines
  /// main().
  virtual llvm::ArrayRef<llvm::StringLiteral> getRuntimeArchives() const {
    return {};
  }
};

} // namespace kiln

#endif // KILN_TARGET_INTERFACE_CODEGENERATOR_H
