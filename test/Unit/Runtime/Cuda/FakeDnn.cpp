//===- FakeDnn.cpp - Fake cuDNN without a GPU -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes any graph one operation at a time in f64. Each operation computes a
// whole tensor and rounds the elements to the type of the tensor.
//
//===----------------------------------------------------------------------===//

#include "DnnApi.h"
#include "FakeState.h"

#include <array>
#include <cmath>
#include <cstring>

using namespace kiln::runtime::fakecuda;
namespace dnn = kiln::runtime::cuda::dnn;

namespace {

struct Object {
  int kind = 0;
  bool isFinal = false;
  std::map<int, std::string> attributes; ///< The bytes of each attribute.

  template <typename T> std::vector<T> all(int attribute) const {
    auto found = attributes.find(attribute);
    std::vector<T> values(
        found == attributes.end() ? 0 : found->second.size() / sizeof(T));
    if (!values.empty())
      std::memcpy(values.data(), found->second.data(),
                  values.size() * sizeof(T));
    return values;
  }
  template <typename T> T get(int attribute, T absent = T()) const {
    std::vector<T> values = all<T>(attribute);
    return values.empty() ? absent : values.front();
  }
};

struct Handle {
  StreamObject *stream = nullptr;
};

using Sizes = std::array<int64_t, 4>;
using Values = std::vector<double>; ///< Contiguous elements.

struct Tensor {
  Sizes sizes, strides;
  int64_t id;
  int type;
  bool isVirtual, isNumber;

  explicit Tensor(const Object &object)
      : id(object.get<int64_t>(dnn::TensorUniqueId)),
        type(object.get<int>(dnn::TensorType_)),
        isVirtual(object.get<char>(dnn::TensorIsVirtual) != 0),
        isNumber(object.get<char>(dnn::TensorIsByValue) != 0) {
    std::vector<int64_t> given = object.all<int64_t>(dnn::TensorDimensions),
                         steps = object.all<int64_t>(dnn::TensorStrides);
    for (std::size_t i = 0; i < 4; ++i) {
      sizes[i] = given.at(i);
      strides[i] = steps.at(i);
    }
  }
  int64_t elements() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  int64_t extent() const {
    int64_t last = 0;
    for (std::size_t i = 0; i < 4; ++i)
      last += (sizes[i] - 1) * strides[i];
    return last + 1;
  }
  Sizes indexOf(int64_t element) const {
    Sizes index;
    for (std::size_t i = 4; i-- > 0; element /= sizes[i])
      index[i] = element % sizes[i];
    return index;
  }
  int64_t placeOf(int64_t element) const {
    Sizes index = indexOf(element);
    int64_t place = 0;
    for (std::size_t i = 0; i < 4; ++i)
      place += index[i] * strides[i];
    return place;
  }
  /// Returns the element of this tensor that broadcasting combines with an
  /// element of `other`. The sizes of `other` are multiples of this tensor's
  /// sizes.
  int64_t elementFor(const Tensor &other, int64_t element) const {
    Sizes index = other.indexOf(element);
    int64_t result = 0;
    for (std::size_t i = 0; i < 4; ++i)
      result = result * sizes[i] + index[i] * sizes[i] / other.sizes[i];
    return result;
  }
};

double roundedTo(int type, double value) {
  auto single = float(value);
  if (type != dnn::BF16 || std::isnan(single))
    return type == dnn::F32 ? double(single) : value;
  uint32_t bits = 0;
  std::memcpy(&bits, &single, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&single, &bits, 4);
  return single;
}

class Evaluation {
public:
  explicit Evaluation(std::map<int64_t, uint64_t> places)
      : places_(std::move(places)) {}
  int run(const std::vector<Object *> &operations);

private:
  Tensor tensor(const Object &operation, int attribute) {
    return Tensor(*operation.get<Object *>(attribute));
  }
  char *memoryOf(const Tensor &tensor) {
    auto found = places_.find(tensor.id);
    if (found == places_.end() || found->second % 16 != 0) {
      violate("the address of a tensor is missing or not aligned to 16 bytes");
      return nullptr;
    }
    return resolve(found->second,
                   tensor.extent() * (tensor.type == dnn::BF16 ? 2 : 4));
  }
  Values load(const Tensor &tensor);
  void store(const Tensor &tensor, Values values);
  void pointwise(const Object &operation);
  void multiply(const Object &operation);
  void reduce(const Object &operation);
  void reshape(const Object &operation);

  std::map<int64_t, uint64_t> places_;
  std::map<int64_t, Values> values_;
  bool failed_ = false;
};

Values Evaluation::load(const Tensor &tensor) {
  auto known = values_.find(tensor.id);
  if (known != values_.end())
    return known->second;
  if (tensor.isNumber) {
    float value = 0;
    std::memcpy(&value, reinterpret_cast<const void *>(places_[tensor.id]), 4);
    return {double(value)};
  }
  Values values(std::size_t(tensor.elements()));
  const char *memory = tensor.isVirtual ? nullptr : memoryOf(tensor);
  if (!memory) {
    failed_ = true;
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    int64_t place = tensor.placeOf(int64_t(i));
    float value = 0;
    if (tensor.type == dnn::BF16)
      std::memcpy(reinterpret_cast<char *>(&value) + 2, memory + 2 * place, 2);
    else
      std::memcpy(&value, memory + 4 * place, 4);
    values[i] = double(value);
  }
  return values;
}

void Evaluation::store(const Tensor &tensor, Values values) {
  for (double &value : values)
    value = roundedTo(tensor.type, value);
  if (!tensor.isVirtual) {
    char *memory = memoryOf(tensor);
    failed_ |= !memory;
    for (std::size_t i = 0; i < values.size() && memory; ++i) {
      int64_t place = tensor.placeOf(int64_t(i));
      // dnnError is a deliberate relative error of all results.
      auto value = float(
          roundedTo(tensor.type, values[i] * (1 + state().settings.dnnError)));
      if (tensor.type == dnn::BF16)
        std::memcpy(memory + 2 * place, reinterpret_cast<char *>(&value) + 2,
                    2);
      else
        std::memcpy(memory + 4 * place, &value, 4);
    }
  }
  values_[tensor.id] = std::move(values);
}

void Evaluation::pointwise(const Object &operation) {
  const auto &desc = *operation.get<Object *>(dnn::OperationPointwiseDesc);
  int mode = desc.get<int>(dnn::PointwiseMode);
  Tensor x = tensor(operation, dnn::OperationPointwiseX),
         y = tensor(operation, dnn::OperationPointwiseY);
  Values left = load(x), right, mask, result(std::size_t(y.elements()));
  Tensor b = x, t = x;
  if (operation.attributes.count(dnn::OperationPointwiseB)) {
    b = tensor(operation, dnn::OperationPointwiseB);
    right = load(b);
  }
  if (operation.attributes.count(dnn::OperationPointwiseT)) {
    t = tensor(operation, dnn::OperationPointwiseT);
    mask = load(t);
  }
  auto axis = std::size_t(desc.get<int64_t>(dnn::PointwiseAxis));
  for (int64_t i = 0; i < y.elements(); ++i) {
    double u = left[std::size_t(x.elementFor(y, i))],
           v = right.empty() ? 0 : right[std::size_t(b.elementFor(y, i))];
    double &to = result[std::size_t(i)];
    switch (mode) {
    case dnn::Add:
      to = u + v;
      break;
    case dnn::Sub:
      to = u - v;
      break;
    case dnn::Mul:
      to = u * v;
      break;
    case dnn::Div:
      to = u / v;
      break;
    case dnn::Exp:
      to = std::exp(u);
      break;
    case dnn::Log:
      to = std::log(u);
      break;
    case dnn::Identity:
      to = u;
      break;
    case dnn::GreaterEqual:
      to = u >= v;
      break;
    case dnn::GenIndex:
      to = double(y.indexOf(i)[axis]);
      break;
    case dnn::Select:
      to = mask[std::size_t(t.elementFor(y, i))] != 0 ? u : v;
      break;
    default:
      violate("unknown pointwise operation");
      failed_ = true;
    }
  }
  store(y, std::move(result));
}

void Evaluation::multiply(const Object &operation) {
  Tensor a = tensor(operation, dnn::OperationMatmulA),
         b = tensor(operation, dnn::OperationMatmulB),
         c = tensor(operation, dnn::OperationMatmulC);
  if (a.sizes[2] != c.sizes[2] || b.sizes[3] != c.sizes[3] ||
      a.sizes[3] != b.sizes[2] || b.type != dnn::BF16) {
    violate("inconsistent shapes of a matmul");
    failed_ = true;
    return;
  }
  Values left = load(a), right = load(b), result(std::size_t(c.elements()));
  int64_t depth = a.sizes[3];
  for (int64_t i = 0; i < c.elements(); ++i) {
    Sizes at = c.indexOf(i);
    auto first = [&](const Tensor &tensor) {
      int64_t head = at[1] * tensor.sizes[1] / c.sizes[1];
      return (at[0] * tensor.sizes[1] + head) * tensor.sizes[2] *
             tensor.sizes[3];
    };
    // f32 operands of a matmul are rounded to bf16.
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += roundedTo(dnn::BF16,
                       left[std::size_t(first(a) + at[2] * depth + k)]) *
             right[std::size_t(first(b) + k * b.sizes[3] + at[3])];
    result[std::size_t(i)] = sum;
  }
  store(c, std::move(result));
}

void Evaluation::reduce(const Object &operation) {
  const auto &desc = *operation.get<Object *>(dnn::OperationReductionDesc);
  bool isMax = desc.get<int>(dnn::ReductionOperator) == dnn::Max;
  Tensor x = tensor(operation, dnn::OperationReductionX),
         y = tensor(operation, dnn::OperationReductionY);
  Values from = load(x),
         result(std::size_t(y.elements()), isMax ? -HUGE_VAL : 0.0);
  for (int64_t i = 0; i < x.elements(); ++i) {
    double &to = result[std::size_t(y.elementFor(x, i))];
    double value = from[std::size_t(i)];
    to = isMax ? std::max(to, value) : to + value;
  }
  store(y, std::move(result));
}

/// Executes a reshape: the same bytes with other sizes and strides.
void Evaluation::reshape(const Object &operation) {
  Tensor x = tensor(operation, dnn::OperationReshapeX),
         y = tensor(operation, dnn::OperationReshapeY);
  Values from = load(x), bytes(std::size_t(std::max(x.extent(), y.extent()))),
         result(std::size_t(y.elements()));
  for (int64_t i = 0; i < x.elements(); ++i)
    bytes[std::size_t(x.placeOf(i))] = from[std::size_t(i)];
  for (int64_t i = 0; i < y.elements(); ++i)
    result[std::size_t(i)] = bytes[std::size_t(y.placeOf(i))];
  store(y, std::move(result));
}

int Evaluation::run(const std::vector<Object *> &operations) {
  for (Object *operation : operations) {
    switch (operation->kind) {
    case dnn::OperationPointwise:
      pointwise(*operation);
      break;
    case dnn::OperationMatmul:
      multiply(*operation);
      break;
    case dnn::OperationReduction:
      reduce(*operation);
      break;
    case dnn::OperationReshape:
      reshape(*operation);
      break;
    default:
      return violate("unknown operation");
    }
    if (failed_)
      return 700;
  }
  return 0;
}

std::size_t bytesOf(int type) {
  switch (type) {
  case dnn::IsBoolean:
    return 1;
  case dnn::IsInt64:
  case dnn::IsHandle:
  case dnn::IsPointer:
  case dnn::IsDescriptor:
    return 8;
  default:
    return 4;
  }
}

constexpr const char *descriptorKind = "cuDNN descriptor";

} // namespace

#define BEGIN()                                                                \
  Call call(__func__);                                                         \
  if (call.code())                                                             \
  return call.code()

extern "C" {

const char *cudnnGetErrorString(int code) {
  return code == 3000 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER";
}

void cudnnGetLastErrorString(char *text, std::size_t bytes) {
  std::snprintf(text, bytes, "said\nso");
}

std::size_t cudnnGetVersion() { return state().settings.dnnVersion; }

int cudnnCreate(void **handle) {
  BEGIN();
  *handle = create("cuDNN", new Handle());
  return 0;
}

int cudnnDestroy(void *handle) {
  Call call(__func__);
  return destroy("cuDNN", static_cast<Handle *>(handle)) ? call.code() : 2000;
}

int cudnnSetStream(void *handle, void *stream) {
  BEGIN();
  if (!exists("cuDNN", handle) || !exists("stream", stream))
    return 2000;
  static_cast<Handle *>(handle)->stream = static_cast<StreamObject *>(stream);
  return 0;
}

int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
  BEGIN();
  auto *object = new Object();
  object->kind = kind;
  *descriptor = create(descriptorKind, object);
  return 0;
}

int cudnnBackendDestroyDescriptor(void *descriptor) {
  Call call(__func__);
  return destroy(descriptorKind, static_cast<Object *>(descriptor))
             ? call.code()
             : 2000;
}

int cudnnBackendFinalize(void *descriptor) {
  BEGIN();
  if (!exists(descriptorKind, descriptor))
    return 2000;
  auto *object = static_cast<Object *>(descriptor);
  if (object->kind == dnn::ExecutionPlan && !state().settings.dnnKnows)
    return 3000;
  object->isFinal = true;
  return 0;
}

int cudnnBackendSetAttribute(void *descriptor, int attribute, int type,
                             int64_t count, const void *values) {
  BEGIN();
  if (!exists(descriptorKind, descriptor))
    return 2000;
  auto *object = static_cast<Object *>(descriptor);
  if (object->isFinal)
    return violate("an attribute is set after the descriptor was finalized");
  std::string bytes(static_cast<const char *>(values),
                    std::size_t(count) * bytesOf(type));
  object->attributes[attribute] = bytes;
  if (type == dnn::IsDescriptor)
    for (Object *other : object->all<Object *>(attribute))
      if (!exists(descriptorKind, other))
        return 2000;
  return 0;
}

int cudnnBackendGetAttribute(void *descriptor, int attribute, int,
                             int64_t wanted, int64_t *count, void *values) {
  BEGIN();
  if (!exists(descriptorKind, descriptor))
    return 2000;
  auto *object = static_cast<Object *>(descriptor);
  const Settings &settings = state().settings;
  *count = 1;
  switch (attribute) {
  case dnn::PlanWorkspace:
    std::memcpy(values, &settings.dnnWorkspace, 8);
    return 0;
  case dnn::EngineConfigEngine:
    return 0;
  case dnn::EngineNumericalNotes: {
    int notes[] = {0, dnn::nondeterministic};
    *count = settings.dnnIsDeterministic ? 1 : 2;
    if (wanted < *count)
      return violate("too small an array for numerical notes");
    std::memcpy(values, notes, std::size_t(*count) * 4);
    return 0;
  }
  case dnn::HeuristicsResults: {
    auto *config = *static_cast<Object **>(values);
    config->attributes[dnn::HeuristicsGraph] =
        object->attributes[dnn::HeuristicsGraph];
    return 0;
  }
  default:
    return violate("an unsupported attribute is queried");
  }
}

int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  BEGIN();
  if (!exists("cuDNN", handle) || !exists(descriptorKind, plan) ||
      !exists(descriptorKind, pack))
    return 2000;
  const auto &given = *static_cast<Object *>(pack);
  auto *config = static_cast<Object *>(plan)->get<Object *>(dnn::PlanConfig);
  auto *graph = config->get<Object *>(dnn::HeuristicsGraph);
  std::vector<int64_t> ids = given.all<int64_t>(dnn::PackUniqueIds);
  std::vector<uint64_t> pointers = given.all<uint64_t>(dnn::PackPointers);
  if (!exists(descriptorKind, graph) || ids.size() != pointers.size())
    return 2000;
  auto workspace = given.get<uint64_t>(dnn::PackWorkspace);
  int64_t bytes = state().settings.dnnWorkspace;
  std::map<int64_t, uint64_t> places;
  // Host scalars are read before the call returns.
  auto numbers = std::make_shared<std::vector<std::vector<char>>>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool onHost = pointers[i] >> 48 == 0;
    if (onHost) {
      const char *number = reinterpret_cast<const char *>(pointers[i]);
      numbers->emplace_back(number, number + 4);
      places[ids[i]] = reinterpret_cast<uint64_t>(numbers->back().data());
    } else {
      places[ids[i]] = pointers[i];
    }
  }
  return enqueue(static_cast<Handle *>(handle)->stream, [places, numbers, graph,
                                                         workspace, bytes] {
    // The engine may write any bytes to its workspace.
    if (char *space = resolve(workspace, bytes))
      std::memset(space, 0x7f, std::size_t(bytes));
    return Evaluation(places).run(graph->all<Object *>(dnn::GraphOperations));
  });
}

} // extern "C"
