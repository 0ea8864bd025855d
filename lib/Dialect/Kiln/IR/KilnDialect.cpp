//===- KilnDialect.cpp - The kiln dialect -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/KilnVendor.h"

#include "kiln/Dialect/Kiln/IR/AttentionLibrary.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Mesh.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

#include "kiln/Dialect/Kiln/IR/KilnDialect.cpp.inc"
#include "kiln/Dialect/Kiln/IR/KilnEnums.cpp.inc"
#include "kiln/Dialect/Kiln/IR/KilnInterfaces.cpp.inc"

static ParseResult parseExactReals(AsmParser &parser,
                                   DenseF64ArrayAttr &values) {
  return parser.parseAttribute(values);
}

static void printExactReals(AsmPrinter &printer, DenseF64ArrayAttr values) {
  printer.printAttribute(values);
}

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnAttrs.cpp.inc"

void KilnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/Kiln/IR/KilnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/Kiln/IR/KilnOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/Kiln/IR/KilnVendorOps.cpp.inc"
      >();
}

/// Verifies the adapters of a module: each adapted weight has one factor A and
/// one factor B of rank `rank`, and all other parameters are frozen.
static LogicalResult verifyAdapters(Operation *module, int64_t rank) {
  llvm::MapVector<StringRef, std::array<StateOp, 2>> adapters;
  for (StateOp state : cast<ModuleOp>(module).getOps<StateOp>()) {
    AdapterAttr adapter = state.getAdapterAttr();
    if (!adapter && state.isTrainable())
      return state.emitOpError("is trainable and has no 'adapter', but the "
                               "module has '")
             << kLoraAttr
             << "', so only states with 'adapter' may be trainable";
    if (!adapter)
      continue;
    bool isA = adapter.getFactor() == Factor::A;
    StateOp &place = adapters[adapter.getBase().getValue()][isA ? 0 : 1];
    if (place)
      return state.emitOpError("is a second factor '")
             << stringifyFactor(adapter.getFactor()) << "' of the adapter of "
             << adapter.getBase() << ", expected only one such factor";
    place = state;
    RankedTensorType type = state.getWholeType();
    if (type.getRank() != 2 || type.getDimSize(isA ? 0 : 1) != rank)
      return state.emitOpError("has type ")
             << type << ", expected a matrix of adapter rank r = " << rank
             << ", as in '" << kLoraAttr << "' of the module";
  }
  if (adapters.empty())
    return module->emitOpError("has '")
           << kLoraAttr
           << "', but no state has 'adapter', expected both or neither";
  for (auto &[base, factors] : adapters)
    if (!factors[0] || !factors[1])
      return (factors[0] ? factors[0] : factors[1])
                 .emitOpError("is the only factor of the adapter of @")
             << base << ", expected the factors a and b";
  return success();
}

/// Verifies one entry of `kiln.model`. The description of the dialect lists the
/// entries.
static LogicalResult verifyModelEntry(Operation *op, NamedAttribute entry) {
  StringRef key = entry.getName();
  auto expect = [&](bool holds, StringRef expected) -> LogicalResult {
    if (holds)
      return success();
    return op->emitOpError("kiln.model has ")
           << key << " = " << entry.getValue() << ", expected " << expected;
  };
  if (key == "type" || key == "name")
    return expect(isa<StringAttr>(entry.getValue()), "a string");
  if (key == "has_weights")
    return expect(isa<BoolAttr>(entry.getValue()), "true or false");
  if (key == "vocab_size" || key == "batch" || key == "sequence_length") {
    auto number = dyn_cast<IntegerAttr>(entry.getValue());
    return expect(number && number.getType().isSignlessInteger(64) &&
                      number.getInt() >= 1,
                  "a positive i64");
  }
  if (key == "storage") {
    auto type = dyn_cast<TypeAttr>(entry.getValue());
    return expect(type && findElementType(type.getValue()),
                  "an element type that kiln stores");
  }
  if (key == "files") {
    // Reject paths, because files are read only from the directory of the
    // model.
    auto isName = [](Attribute file) {
      auto name = dyn_cast<StringAttr>(file);
      return name && !name.getValue().empty() && name.getValue() != "." &&
             name.getValue() != ".." &&
             name.getValue().find_first_of(StringRef("/\\\0", 3)) ==
                 StringRef::npos;
    };
    auto files = dyn_cast<ArrayAttr>(entry.getValue());
    return expect(files && llvm::all_of(files, isName),
                  "an array of file names without a directory");
  }
  if (key == "unused_tensors" || key == "adapter_targets") {
    auto isName = [](Attribute element) {
      auto name = dyn_cast<StringAttr>(element);
      return name && !name.getValue().empty();
    };
    auto names = dyn_cast<ArrayAttr>(entry.getValue());
    return expect(names && llvm::all_of(names, isName),
                  key == "unused_tensors" ? "an array of tensor names"
                                          : "an array of names of layers");
  }
  return op->emitOpError("kiln.model has an unknown entry '")
         << key
         << "', expected type, name, vocab_size, batch, sequence_length, "
            "has_weights, storage, files, adapter_targets or unused_tensors";
}

/// Checks `kiln.target` against the registered targets if the tool has
/// registered any.
static LogicalResult verifyTarget(Operation *op, Attribute value,
                                  const TargetNames *targets) {
  auto name = dyn_cast<StringAttr>(value);
  SmallVector<StringRef> known;
  if (targets)
    known = targets->getNames();
  if (isa<ModuleOp>(op) && name &&
      (known.empty() || llvm::is_contained(known, name.getValue())))
    return success();
  std::vector<std::string> quoted;
  for (StringRef target : known)
    quoted.push_back(("\"" + target + "\"").str());
  return op->emitOpError("has '")
         << kTargetAttr << "' = " << value << ", but the value must be "
         << (quoted.empty() ? "the name of a target" : joinWithOr(quoted))
         << ", and only a module may have this attribute";
}

/// Checks that an op is a state, and that the state may have the residency
/// `value`:
/// - With `host`, the host stores the state. Parameters, buffers and optimizer
///   states may have this residency.
/// - With any other residency, the host also updates the state. Only trainable
///   parameters may have these residencies.
static LogicalResult verifyResidency(Operation *op, Attribute value) {
  auto state = dyn_cast<StateOp>(op);
  auto residency = dyn_cast<ResidencyAttr>(value);
  if (!state || !residency)
    return op->emitOpError("has '") << kResidencyAttr << "' = " << value
                                    << ", but the value must be a "
                                       "#kiln.residency, and only a kiln.state "
                                       "may have this attribute";
  bool isUpdated = residency.getValue() != Residency::Host;
  bool mayMove =
      isUpdated
          ? state.isTrainable()
          : llvm::is_contained({Role::Parameter, Role::Buffer, Role::Optimizer},
                               state.getRole());
  if (mayMove)
    return success();
  return op->emitOpError("has '")
         << kResidencyAttr << "' = " << value << ", which requires "
         << (isUpdated ? "a parameter that is not frozen"
                       : "a parameter, a buffer or an optimizer state");
}

/// Verifies the discardable attributes of the dialect:
///
///   module    `kiln.model` (description of the model), `kiln.plan` (prediction
///             of the planner), `kiln.encoded` (encoded residuals),
///             `kiln.lora` (options of adapters), `kiln.mesh` (number of ranks
///             on each axis), `kiln.sync_every` (number of steps between
///             averages of states), `kiln.target`, `kiln.library_epilogues`
///             (enables vendor epilogues) and `kiln.attention` (vendor library
///             for attention)
///   program   `kiln.name` (name of a program whose symbol was renamed),
///             `kiln.microbatches` (number of micro-batches for which the loss
///             was split), `kiln.gather_height` (largest arena, in bytes, with
///             which kiln-schedule starts all-gathers early) and
///             `kiln.arena_search` (limits of its search for offsets)
///   op        `kiln.offload` and, on reads, `kiln.prefetch` (positions of the
///             copies that kiln-place-copies inserts), `kiln.layer` and, on
///             reads, `kiln.keep` (keeps a copy on the device)
///   state     `kiln.residency` (how kiln-offload-states moves the state)
LogicalResult KilnDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  auto refuse = [&](const Twine &rule) {
    return op->emitOpError("has '")
           << attribute.getName().getValue() << "' = " << attribute.getValue()
           << ", but " << rule;
  };
  if (attribute.getName() == kNameAttr) {
    // Compare the op name instead of using isa<>, because this dialect does not
    // depend on the kilnrt dialect.
    bool isProgram =
        isa<ProgramOp>(op) || op->getName().getStringRef() == "kilnrt.program";
    if (isProgram && isa<StringAttr>(attribute.getValue()))
      return success();
    return refuse("the value must be a string, and only a program may have "
                  "this attribute");
  }
  if (attribute.getName() == kModelAttr) {
    auto model = dyn_cast<DictionaryAttr>(attribute.getValue());
    if (!isa<ModuleOp>(op))
      return op->emitOpError(
          "has 'kiln.model', but only a module may have this attribute");
    if (!model)
      return op->emitOpError("attribute 'kiln.model' is ")
             << attribute.getValue() << ", expected a dictionary";
    for (NamedAttribute entry : model)
      if (failed(verifyModelEntry(op, entry)))
        return failure();
    return success();
  }
  if (attribute.getName() == kPlanAttr) {
    if (isa<ModuleOp>(op) && isa<PlanAttr>(attribute.getValue()))
      return success();
    return refuse("the value must be a #kiln.plan, and only a module may "
                  "have this attribute");
  }
  if (attribute.getName() == kOffloadAttr ||
      attribute.getName() == kPrefetchAttr) {
    bool offload = attribute.getName() == kOffloadAttr;
    auto numbers = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (!numbers || (offload && numbers.size() % 3) ||
        llvm::any_of(numbers.asArrayRef(),
                     [](int64_t n) { return n < 0 || n > INT32_MAX; }))
      return op->emitOpError("attribute '")
             << attribute.getName().getValue() << "' is "
             << attribute.getValue()
             << ", expected an array of integers from 0 to 2147483647: "
             << (offload ? "the index, lag and lead of each offloaded result"
                         : "the lead of each copy to the device");
    return success();
  }
  if (attribute.getName() == kKeepAttr) {
    if (isa<ReadOp>(op) && isa<UnitAttr>(attribute.getValue()))
      return success();
    return refuse("the value must be a unit attribute, and only a kiln.read "
                  "may have this attribute");
  }
  if (attribute.getName() == kResidencyAttr)
    return verifyResidency(op, attribute.getValue());
  if (attribute.getName() == kLayerAttr) {
    if (op->getParentOfType<ProgramOp>() &&
        isa<LayerAttr>(attribute.getValue()))
      return success();
    return refuse("the value must be a layer such as #kiln.layer<\"h.3\", "
                  "3>, and only an op in a program may have this attribute");
  }
  if (attribute.getName() == kEncodedAttr) {
    auto list = dyn_cast<ArrayAttr>(attribute.getValue());
    if (isa<ModuleOp>(op) && list &&
        llvm::all_of(list, llvm::IsaPred<EncodedAttr>))
      return success();
    return refuse("the value must be an array of #kiln.encoded, and only a "
                  "module may have this attribute");
  }
  if (attribute.getName() == kLoraAttr) {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (isa<ModuleOp>(op) && text)
      if (auto options = support::parseLoraOptions(text.getValue());
          options.ok())
        return verifyAdapters(op, options->rank);
    return refuse("the value must be a string with the options of low-rank "
                  "adapters, such as \"r=8,alpha=16\", and only a module may "
                  "have this attribute");
  }
  if (attribute.getName() == kMeshAttr) {
    auto mesh = dyn_cast<DictionaryAttr>(attribute.getValue());
    auto isAxis = [](NamedAttribute axis) {
      auto size = dyn_cast<IntegerAttr>(axis.getValue());
      return size && size.getType().isInteger(64) && size.getInt() > 1 &&
             size.getInt() <= support::maxRanks;
    };
    if (isa<ModuleOp>(op) && mesh && llvm::all_of(mesh, isAxis)) {
      int64_t ranks = 1;
      for (NamedAttribute axis : mesh)
        ranks = std::min(ranks * cast<IntegerAttr>(axis.getValue()).getInt(),
                         support::maxRanks + 1);
      if (ranks <= support::maxRanks)
        return success();
    }
    return refuse("the value must be a dictionary of i64 that are larger than "
                  "1 and whose product is at most " +
                  Twine(support::maxRanks) +
                  ", and only a module may have this attribute");
  }
  if (attribute.getName() == kSyncEveryAttr) {
    auto steps = dyn_cast<IntegerAttr>(attribute.getValue());
    if (isa<ModuleOp>(op) && steps && steps.getType().isInteger(64) &&
        steps.getInt() > 1)
      return success();
    return refuse("the value must be an i64 above 1, and only a module may "
                  "have this attribute");
  }
  if (attribute.getName() == kTargetAttr)
    return verifyTarget(op, attribute.getValue(),
                        getRegisteredInterface<TargetNames>());
  if (attribute.getName() == kMicrobatchesAttr) {
    auto count = dyn_cast<IntegerAttr>(attribute.getValue());
    if (isa<ProgramOp>(op) && count && count.getType().isInteger(64) &&
        count.getInt() > 1)
      return success();
    return refuse("the value must be an i64 larger than 1, and only a "
                  "program may have this attribute");
  }
  if (attribute.getName() == kGatherHeightAttr) {
    auto bytes = dyn_cast<IntegerAttr>(attribute.getValue());
    if (isa<ProgramOp>(op) && bytes && bytes.getType().isInteger(64) &&
        bytes.getInt() >= 0)
      return success();
    return refuse("the value must be an i64 of at least 0, and only a program "
                  "may have this attribute");
  }
  if (attribute.getName() == kArenaSearchAttr) {
    auto limits = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (isa<ProgramOp>(op) && limits && limits.size() == 2 && limits[0] >= 0 &&
        limits[1] >= 0)
      return success();
    return refuse("the value must have two numbers of at least 0, and only a "
                  "program may have this attribute");
  }
  if (attribute.getName() == kVendorEpiloguesAttr) {
    if (isa<ModuleOp>(op) && isa<UnitAttr>(attribute.getValue()))
      return success();
    return refuse("the value must be a unit attribute, and only a module may "
                  "have this attribute");
  }
  if (attribute.getName() == kAttentionAttr) {
    auto name = dyn_cast<StringAttr>(attribute.getValue());
    if (isa<ModuleOp>(op) && name && name.getValue() == "cudnn")
      return success();
    return refuse("the value must be \"cudnn\", and only a module may have "
                  "this attribute");
  }
  return op->emitOpError("has an unknown attribute '")
         << attribute.getName().getValue() << "'";
}

/// Verifies `kiln.name` and `kiln.input` on the arguments of programs.
LogicalResult KilnDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned argument,
                                                    NamedAttribute attribute) {
  if (attribute.getName() == kInputAttr) {
    auto fact = dyn_cast<InputAttr>(attribute.getValue());
    if (fact && fact.getRole() == InputRole::Data &&
        fact.getBatchDim().value_or(0) == 0)
      return success();
    return op->emitOpError("argument ")
           << argument << " has '" << kInputAttr
           << "' = " << attribute.getValue()
           << ", expected #kiln.input<data> or #kiln.input<data, batch_dim = "
              "0>";
  }
  if (attribute.getName() != "kiln.name")
    return op->emitOpError("argument ")
           << argument << " has an unknown attribute '"
           << attribute.getName().getValue()
           << "', expected 'kiln.name' or 'kiln.input'";
  if (!isa<StringAttr>(attribute.getValue()))
    return op->emitOpError("argument ")
           << argument << " has 'kiln.name' = " << attribute.getValue()
           << ", expected a string";
  return success();
}

/// Verifies the attributes of the results of programs.
LogicalResult KilnDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned result, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == "kiln.name" && isa<StringAttr>(attribute.getValue()))
    return success();
  if (name == "kiln.gradient" && isa<FlatSymbolRefAttr>(attribute.getValue()))
    return success();
  if (name == kPartialAttr && isa<StringAttr>(attribute.getValue()))
    return success();
  return op->emitOpError("result ")
         << result << " has attribute '" << name
         << "' = " << attribute.getValue()
         << ", expected 'kiln.name' (a string), 'kiln.gradient' (a symbol) or "
            "'kiln.partial' (the name of an axis)";
}

StringRef kiln::getProgramName(Operation *program) {
  if (auto name = program->getAttrOfType<StringAttr>(kNameAttr))
    return name.getValue();
  return SymbolTable::getSymbolName(program).getValue();
}

bool kiln::hasSaneExtents(RankedTensorType type) {
  constexpr uint64_t kMostElements = uint64_t(1) << 48;
  uint64_t elements = 1;
  for (int64_t extent : type.getShape()) {
    if (extent < 1)
      return false;
    elements = llvm::SaturatingMultiply(elements, uint64_t(extent));
  }
  return elements <= kMostElements;
}

bool kiln::isKilnTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !hasSaneExtents(tensor) || !hasKnownEncoding(tensor))
    return false;
  return isTensorElement(tensor.getElementType());
}

int64_t kiln::getRowCount(RankedTensorType type) {
  int64_t rows = 1;
  if (type.getRank() > 0)
    for (int64_t size : type.getShape().drop_back())
      rows *= size;
  return rows;
}

int64_t kiln::getColumnCount(RankedTensorType type) {
  return type.getRank() == 0 ? 1 : type.getShape().back();
}

IRMapping kiln::openIsolatedBody(OpBuilder &builder, Operation *op,
                                 ValueRange values) {
  Block *body = builder.createBlock(
      &op->getRegion(0), {}, op->getOperandTypes(),
      SmallVector<Location>(op->getNumOperands(), op->getLoc()));
  IRMapping mapping;
  mapping.map(values, body->getArguments());
  return mapping;
}

StringRef kiln::getLocationName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().getValue();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : llvm::reverse(fused.getLocations()))
      if (StringRef name = getLocationName(part); !name.empty())
        return name;
  return {};
}

RankedTensorType kiln::fullPrecision(RankedTensorType type) {
  return type.clone(fullPrecision(type.getElementType()));
}

int64_t kiln::bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return elementBytes(tensor, tensor.getNumElements());
}

Family kiln::familyOfKind(StringRef kind) {
  if (kind == stringifyFamily(Family::Row))
    return Family::Row;
  return kind == stringifyFamily(Family::Gemm) ? Family::Gemm : Family::Kernel;
}

Family kiln::defaultFamily(Operation *op) {
  if (isa<RowOpInterface>(op))
    return Family::Row;
  return isa<KernelOpInterface>(op) ? Family::Kernel : Family::Structure;
}

KernelOpInterface kiln::kernelOpOf(Operation *op) {
  if (familyOf(op) != Family::Kernel)
    return {};
  auto dispatch = dyn_cast<DispatchOp>(op);
  return dyn_cast<KernelOpInterface>(
      dispatch ? &dispatch.getBody().front().front() : op);
}

Family kiln::familyOf(Operation *op) {
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    return dispatch.getFamily();
  auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
  return dispatchable ? dispatchable.getFamily() : Family::Structure;
}

Value kiln::viewedValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (familyOf(op) != Family::View)
      break;
    value = op->getOperand(0);
  }
  return value;
}
