//===- Emulate.cpp - Lowers GPU kernels for the emulated device -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host code of a kernel calls the emulated device for each barrier and each
// shuffle, and reports each memory access by a call. These calls are opaque to
// LLVM, so LLVM moves no access across them. Operations that access memory
// other than by plain loads and stores would bypass the checks of the device
// and are rejected.
//
// Conversions from and to bf16 are not lowered here: the CPU target expands
// them in all host code.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Gpu/Emulate.h"

#include "DeviceFacts.h"
#include "EmulateTensorCore.h"
#include "LowerKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

/// Returns the bytes in memory of a scalar, a fixed-length vector, or an array
/// of scalars or vectors. Returns std::nullopt for other types.
std::optional<int64_t> bytesOf(Type type) {
  if (auto array = dyn_cast<LLVM::LLVMArrayType>(type)) {
    std::optional<int64_t> element = bytesOf(array.getElementType());
    if (!element)
      return std::nullopt;
    return *element * static_cast<int64_t>(array.getNumElements());
  }
  int64_t lanes = 1;
  if (auto vector = dyn_cast<VectorType>(type)) {
    if (vector.isScalable())
      return std::nullopt;
    lanes = vector.getNumElements();
  }
  Type element = getElementTypeOrSelf(type);
  if (!element.isIntOrFloat())
    return std::nullopt;
  int64_t bits = lanes * element.getIntOrFloatBitWidth();
  if (bits == 0 || bits % 8)
    return std::nullopt;
  return bits / 8;
}

/// Returns the natural alignment of a type.
int64_t naturalAlignment(Type type) {
  while (auto array = dyn_cast<LLVM::LLVMArrayType>(type))
    type = array.getElementType();
  return llvm::PowerOf2Ceil(bytesOf(type).value_or(1));
}

/// Returns true if a global is a constant table (ArithBuilder::lookUp).
bool isTable(LLVM::GlobalOp global) {
  return global.getConstant() && global.getAddrSpace() == kGlobalSpace;
}

/// The offsets and declared alignments of the shared globals of one kernel.
struct SharedLayout {
  struct Global {
    int64_t offset, alignment;
  };
  llvm::MapVector<StringRef, Global> globals;
  int64_t bytes = 0;
};

llvm::Expected<SharedLayout> layOutShared(mlir::gpu::GPUFuncOp kernel) {
  llvm::StringSet<> used;
  kernel.walk([&](LLVM::AddressOfOp op) { used.insert(op.getGlobalName()); });
  SharedLayout layout;
  auto module = kernel->getParentOfType<mlir::gpu::GPUModuleOp>();
  for (auto global : module.getOps<LLVM::GlobalOp>()) {
    if (!used.contains(global.getSymName()) || isTable(global))
      continue;
    std::optional<int64_t> bytes = bytesOf(global.getGlobalType());
    if (global.getAddrSpace() != kSharedSpace || !bytes)
      return llvm::createStringError(
          "kernel '" + kernel.getName() + "': global '" + global.getSymName() +
          "' must be an array of bytes in shared memory");
    int64_t alignment = global.getAlignment().value_or(
        naturalAlignment(global.getGlobalType()));
    layout.bytes =
        llvm::alignTo(layout.bytes, std::max(kWidestAccess, alignment));
    layout.globals[global.getSymName()] = {layout.bytes, alignment};
    layout.bytes += *bytes;
  }
  return layout;
}

/// Emits calls of the functions of the emulated device. Declares each function
/// in the module on its first use.
class EmulatedDevice : public DeviceOps {
public:
  explicit EmulatedDevice(ModuleOp module) : module(module) {}

  Value threadId(OpBuilder &b, Location loc) override {
    return call(b, loc, "kiln_emu_thread_id", b.getI64Type(), {});
  }
  Value blockId(OpBuilder &b, Location loc) override {
    return call(b, loc, "kiln_emu_block_id", b.getI64Type(), {});
  }
  Value memberId(OpBuilder &b, Location loc) override {
    return call(b, loc, "kiln_emu_member_id", b.getI64Type(), {});
  }
  void barrier(OpBuilder &b, Location loc) override {
    call(b, loc, "kiln_emu_barrier", {}, {});
  }
  Value shuffle(OpBuilder &b, Location loc, mlir::gpu::ShuffleMode mode,
                Value bits, Value offset) override {
    StringRef name = mode == mlir::gpu::ShuffleMode::XOR
                         ? "kiln_emu_shuffle_xor"
                         : "kiln_emu_shuffle_idx";
    Type type = bits.getType();
    if (type != b.getI64Type())
      bits = LLVM::ZExtOp::create(b, loc, b.getI64Type(), bits);
    Value result = call(b, loc, name, b.getI64Type(), {bits, offset});
    if (type != b.getI64Type())
      result = LLVM::TruncOp::create(b, loc, type, result);
    return result;
  }
  Value shared(OpBuilder &b, Location loc, int64_t offset) {
    Value at = LLVM::ConstantOp::create(b, loc, b.getI64IntegerAttr(offset));
    return call(b, loc, "kiln_emu_shared",
                LLVM::LLVMPointerType::get(b.getContext()), {at});
  }
  /// Reports an access of `bytes` bytes to the device. Splits the access into
  /// parts that are aligned to their sizes, provided that `address` is a
  /// multiple of `alignment`.
  void access(OpBuilder &b, Location loc, unsigned space, Value address,
              int64_t bytes, int64_t alignment, bool isWrite) {
    StringRef name = space == kSharedSpace ? "kiln_emu_shared_access"
                                           : "kiln_emu_global_access";
    Value write =
        LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(isWrite));
    int64_t widest = std::min(alignment, kWidestAccess);
    for (int64_t offset = 0; offset < bytes;) {
      int64_t size =
          std::min(widest, int64_t(llvm::bit_floor(uint64_t(bytes - offset))));
      Value at = address;
      if (offset)
        at = LLVM::GEPOp::create(b, loc, address.getType(), b.getI8Type(),
                                 address,
                                 ArrayRef<LLVM::GEPArg>{int32_t(offset)});
      Value size64 =
          LLVM::ConstantOp::create(b, loc, b.getI64IntegerAttr(size));
      call(b, loc, name, {}, {at, size64, write});
      offset += size;
    }
  }

  /// Erases the declarations that this object added.
  void eraseDeclarations() {
    for (auto &declared : declarations)
      declared.second.erase();
  }

  /// Emits a call of a device function. A null `result` means no result.
  Value call(OpBuilder &b, Location loc, StringRef name, Type result,
             ArrayRef<Value> operands) {
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!function) {
      SmallVector<Type> types;
      for (Value operand : operands)
        types.push_back(isa<LLVM::LLVMPointerType>(operand.getType())
                            ? LLVM::LLVMPointerType::get(b.getContext())
                            : operand.getType());
      auto type = LLVM::LLVMFunctionType::get(
          result ? result : LLVM::LLVMVoidType::get(b.getContext()), types);
      auto atEnd = OpBuilder::atBlockEnd(module.getBody());
      function = LLVM::LLVMFuncOp::create(atEnd, module.getLoc(), name, type);
      declarations[name] = function;
    }
    auto made = LLVM::CallOp::create(b, loc, function, operands);
    return result ? made.getResult() : Value();
  }

private:
  ModuleOp module;
  llvm::MapVector<StringRef, LLVM::LLVMFuncOp> declarations;
};

/// Converts the clone of one kernel into its host function. Pointers keep their
/// address spaces until the end, since the address space of an access
/// determines how the access is reported.
class KernelEmulation {
public:
  KernelEmulation(LLVM::LLVMFuncOp function, const SharedLayout &shared,
                  PointerParameters pointers, EmulatedDevice &device)
      : function(function), shared(shared), pointers(pointers), device(device),
        tensorCore(function) {}

  llvm::Error run() {
    if (llvm::Error error = replaceGpuOps(function, device))
      return error;
    SmallVector<Operation *> ops;
    function.getBody().walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      if (llvm::Error error = checkAlignment(op))
        return error;
    for (Operation *op : ops)
      if (llvm::Error error = lower(op))
        return error;
    loadParameters();
    dropAddressSpaces();
    return llvm::Error::success();
  }

private:
  llvm::Error refuse(Operation *op, const llvm::Twine &why) {
    return llvm::createStringError("kernel '" + function.getName() + "': '" +
                                   op->getName().getStringRef() + "' " + why);
  }

  /// Returns the declared alignment of the shared global that contains an
  /// address. The emulated device aligns all globals more strictly than
  /// declared and would miss some misaligned accesses, so the alignment is
  /// checked at compile time.
  int64_t declaredAlignment(Value address) {
    while (auto element = address.getDefiningOp<LLVM::GEPOp>())
      address = element.getBase();
    int64_t least = kWidestAccess;
    for (const auto &[name, global] : shared.globals)
      least = std::min(least, global.alignment);
    // An address from a select or a region may point into any global, so assume
    // the least alignment of all globals.
    auto named = address.getDefiningOp<LLVM::AddressOfOp>();
    auto found = named ? shared.globals.find(named.getGlobalName())
                       : shared.globals.end();
    return found == shared.globals.end() ? least : found->second.alignment;
  }

  /// Checks the alignment of an access to shared memory. An underaligned access
  /// faults on a GPU but may succeed on the emulated device.
  llvm::Error checkAlignment(Operation *op) {
    Value address;
    int64_t alignment = 0;
    auto access = [&](auto op, Type type) {
      address = op.getAddr();
      alignment = promisedAlignment(op, type);
    };
    if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
      access(load, load.getType());
    } else if (auto store = dyn_cast<LLVM::StoreOp>(op)) {
      access(store, store.getValue().getType());
    } else if (auto matrices = dyn_cast<NVVM::LdMatrixOp>(op)) {
      address = matrices.getPtr();
      alignment = kWidestAccess;
    } else if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op)) {
      address = copy.getDst();
      alignment = copy.getSize();
    }
    bool isShared =
        address &&
        cast<LLVM::LLVMPointerType>(address.getType()).getAddressSpace() ==
            kSharedSpace;
    int64_t declared = isShared ? declaredAlignment(address) : alignment;
    if (alignment <= declared)
      return llvm::Error::success();
    return refuse(op, "promises an alignment of " + llvm::Twine(alignment) +
                          " bytes, but accesses shared memory that is declared "
                          "with an alignment of " +
                          llvm::Twine(declared));
  }

  llvm::Error lower(Operation *op) {
    if (auto load = dyn_cast<LLVM::LoadOp>(op);
        load && (isOfTable(load.getAddr()) || isConstant(load.getAddr())))
      return llvm::Error::success();
    if (auto load = dyn_cast<LLVM::LoadOp>(op))
      return announce(load, load.getAddr(), load.getType(), false);
    if (auto store = dyn_cast<LLVM::StoreOp>(op))
      return announce(store, store.getAddr(), store.getValue().getType(), true);
    if (isConstant(op))
      return llvm::Error::success();
    if (auto address = dyn_cast<LLVM::AddressOfOp>(op)) {
      auto found = shared.globals.find(address.getGlobalName());
      if (found == shared.globals.end())
        return refuse(op, "does not name a global of the kernel module");
      OpBuilder b(op);
      Value pointer = device.shared(b, op->getLoc(), found->second.offset);
      pointer.setType(address.getType());
      address.replaceAllUsesWith(pointer);
      op->erase();
      return llvm::Error::success();
    }
    if (TensorCoreEmulation::handles(op)) {
      auto call = [&](OpBuilder &b, Location loc, StringRef name, Type result,
                      ArrayRef<Value> operands) {
        return device.call(b, loc, name, result, operands);
      };
      if (auto why = tensorCore.lower(op, call))
        return refuse(op, *why);
      return llvm::Error::success();
    }
    if (auto callee = dyn_cast<LLVM::CallOp>(op))
      if (callee.getCallee() && callee.getCallee()->starts_with("kiln_emu_"))
        return llvm::Error::success();
    bool known = isa_and_present<arith::ArithDialect, scf::SCFDialect,
                                 vector::VectorDialect, LLVM::LLVMDialect>(
        op->getDialect());
    // Operations with regions are allowed, since the operations in a region are
    // checked individually.
    bool plain = op->getNumRegions() || op->hasTrait<OpTrait::IsTerminator>() ||
                 isMemoryEffectFree(op);
    if (!known || !plain || isa<LLVM::AddrSpaceCastOp>(op))
      return refuse(op, "is an op that cuda-emu does not emulate");
    return llvm::Error::success();
  }

  /// Returns true if an address points into a constant table. Such a table is
  /// not in device memory, so accesses to it are not reported to the device.
  static bool isConstant(Value address) {
    if (auto element = address.getDefiningOp<LLVM::GEPOp>())
      address = element.getBase();
    return address.getDefiningOp() && isConstant(address.getDefiningOp());
  }
  static bool isConstant(Operation *op) {
    auto address = dyn_cast<LLVM::AddressOfOp>(op);
    if (!address)
      return false;
    auto global = SymbolTable::lookupNearestSymbolFrom<LLVM::GlobalOp>(
        address, address.getGlobalNameAttr());
    return global && global.getConstant();
  }

  /// Returns true if an address points into the table with the arguments of a
  /// group of launches. The table is a parameter and not in device memory, so
  /// accesses to it are not reported to the device.
  bool isOfTable(Value address) {
    auto element = address.getDefiningOp<LLVM::GEPOp>();
    return pointers.isTable && element &&
           element.getBase() == function.getBody().front().getArgument(0);
  }

  /// Returns the declared alignment of an access or, if no alignment is
  /// declared, the natural alignment of the accessed type.
  template <typename OpTy>
  static int64_t promisedAlignment(OpTy op, Type type) {
    return op.getAlignment().value_or(naturalAlignment(type));
  }

  /// Inserts, before a load or a store, the call that reports the access to the
  /// emulated device.
  template <typename OpTy>
  llvm::Error announce(OpTy op, Value address, Type type, bool isWrite) {
    unsigned space =
        cast<LLVM::LLVMPointerType>(address.getType()).getAddressSpace();
    if (space != kGlobalSpace && space != kSharedSpace)
      return refuse(
          op,
          "accesses an address that is neither in global nor in shared memory");
    std::optional<int64_t> bytes = bytesOf(type);
    if (isa<LLVM::LLVMArrayType>(type) || !bytes)
      return refuse(op, "accesses a value that is not a scalar or vector with "
                        "a whole number of bytes");
    if (op.getOrdering() != LLVM::AtomicOrdering::not_atomic)
      return refuse(op, "is atomic");
    int64_t alignment = promisedAlignment(op, type);
    OpBuilder b(op);
    device.access(b, op.getLoc(), space, address, *bytes, alignment, isWrite);
    op.setAlignment(1);
    return llvm::Error::success();
  }

  /// Replaces the parameters of the kernel by those of the host function.
  /// Pointers and immediates are loaded from the first and the second
  /// parameter, which are arrays. A table with the arguments of a group of
  /// launches is the first parameter itself. The number of work units is the
  /// third parameter.
  void loadParameters() {
    Block &entry = function.getBody().front();
    OpBuilder b = OpBuilder::atBlockBegin(&entry);
    Location loc = function.getLoc();
    unsigned numKernel = entry.getNumArguments();
    SmallVector<Value> host;
    for (Type type : function.getFunctionType().getParams())
      host.push_back(entry.addArgument(type, loc));
    auto element = [&](Value array, Type type, unsigned i) -> Value {
      Value at = LLVM::GEPOp::create(b, loc, array.getType(), type, array,
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
      return LLVM::LoadOp::create(b, loc, type, at);
    };
    for (unsigned i = 0; i < numKernel; ++i) {
      Value value = host[2];
      if (pointers.isTable && i == 0)
        value = host[0];
      else if (i < pointers.count)
        value = element(host[0], host[0].getType(), i);
      else if (i + 1 < numKernel)
        value = element(host[1], b.getI64Type(), i - pointers.count);
      entry.getArgument(i).replaceAllUsesWith(value);
    }
    entry.eraseArguments(0, numKernel);
  }

  /// Removes the address spaces of all pointers; the host has only one.
  void dropAddressSpaces() {
    auto plain = LLVM::LLVMPointerType::get(function.getContext());
    auto drop = [&](Value value) {
      if (isa<LLVM::LLVMPointerType>(value.getType()))
        value.setType(plain);
    };
    function.walk([&](Operation *op) {
      llvm::for_each(op->getResults(), drop);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          llvm::for_each(block.getArguments(), drop);
    });
  }

  LLVM::LLVMFuncOp function;
  const SharedLayout &shared;
  PointerParameters pointers;
  EmulatedDevice &device;
  TensorCoreEmulation tensorCore;
};

/// Copies the constant tables that `into` does not have yet. The copies are in
/// address space 0, the only one of the host.
void copyTables(mlir::gpu::GPUModuleOp kernels, ModuleOp into) {
  OpBuilder b = OpBuilder::atBlockBegin(into.getBody());
  for (auto global : kernels.getOps<LLVM::GlobalOp>())
    if (isTable(global) && !into.lookupSymbol(global.getSymName()))
      cast<LLVM::GlobalOp>(b.clone(*global)).setAddrSpace(0);
}

llvm::Error emulateKernel(mlir::gpu::GPUFuncOp kernel, ModuleOp into,
                          EmulatedDevice &device,
                          SmallVectorImpl<LLVM::LLVMFuncOp> &functions) {
  llvm::Expected<PointerParameters> pointers = checkSignature(kernel);
  if (!pointers)
    return pointers.takeError();
  llvm::Expected<SharedLayout> shared = layOutShared(kernel);
  if (!shared)
    return shared.takeError();
  if (into.lookupSymbol(kernel.getName()))
    return llvm::createStringError("kernel '" + kernel.getName() +
                                   "' has the name of another function");
  copyTables(kernel->getParentOfType<mlir::gpu::GPUModuleOp>(), into);
  OpBuilder b = OpBuilder::atBlockEnd(into.getBody());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, pointer, b.getI64Type()});
  functions.push_back(
      LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getName(), type));
  IRMapping mapping;
  kernel.getBody().cloneInto(&functions.back().getBody(), mapping);
  return KernelEmulation(functions.back(), *shared, *pointers, device).run();
}

} // namespace

llvm::Expected<int64_t> getSharedBytes(mlir::gpu::GPUFuncOp kernel) {
  llvm::Expected<SharedLayout> layout = layOutShared(kernel);
  if (!layout)
    return layout.takeError();
  return layout->bytes;
}

llvm::Error lowerForEmulation(ModuleOp module, ModuleOp into) {
  llvm::Expected<mlir::gpu::GPUModuleOp> kernels = findKernelModule(module);
  if (!kernels)
    return kernels.takeError();
  into.getContext()
      ->loadDialect<arith::ArithDialect, LLVM::LLVMDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  EmulatedDevice device(into);
  SmallVector<LLVM::LLVMFuncOp> functions;
  auto emulateAll = [&]() -> llvm::Error {
    for (auto kernel : kernels->getOps<mlir::gpu::GPUFuncOp>())
      if (llvm::Error error = emulateKernel(kernel, into, device, functions))
        return error;
    return llvm::Error::success();
  };
  llvm::Error error = emulateAll();
  if (error) {
    for (LLVM::LLVMFuncOp function : functions)
      function.erase();
    device.eraseDeclarations();
  }
  return error;
}

} // namespace kiln::gpu
