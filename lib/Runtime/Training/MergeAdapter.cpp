//===- MergeAdapter.cpp - Weights with merged adapters --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The merged model is written to a directory with a temporary name, which is
// then renamed. The reader of the program description has checked that each
// adapted weight has both factors, with shapes that fit the weight.
//
//===----------------------------------------------------------------------===//

#include "Adapter.h"

#include "States.h"
#include "WholeStates.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputDirectory.h"
#include "kiln/Support/Posix.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/SafeTensors.h"

#include <algorithm>
#include <map>
#include <optional>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

/// The factors of the adapter of a weight, as f64. r is the adapter's rank.
struct Factors {
  std::vector<double> a; ///< [r, inputs]
  std::vector<double> b; ///< [outputs, r]
  bool isTransposed = false;
};

} // namespace

/// Approximate number of elements of a weight that are merged at a time.
static constexpr int64_t blockElements = 1 << 22;

/// Returns the indexes of the states that a merged model contains, and appends
/// their tensors to `tensors`.
static std::vector<size_t>
mergedStates(const Description &description,
             std::vector<TensorDeclaration> &tensors) {
  std::vector<size_t> indexes;
  const std::vector<StateInfo> &states = description.states;
  for (size_t i = 0; i < states.size(); ++i)
    if (isWeight(states[i])) {
      indexes.push_back(i);
      tensors.push_back({states[i].sourceName, states[i].weightType(),
                         states[i].weightShape()});
    }
  return indexes;
}

Status tryMergedDirectory(const Description &description,
                          const Options &options) {
  const std::string &path = options.saveMerged;
  auto refuse = [&](const std::string &problem) {
    return Status(ExitCode::Usage, "--save-merged=" + path + " " + problem +
                                       "; choose another name");
  };
  if (!isNewDirectory(path))
    return refuse("exists and is not an empty directory");
  if (!options.save.empty() && isInside(path, options.save))
    return refuse("is the directory of --save or lies inside it");
  // The directory is renamed to `path` at the end, which fails if a file has
  // been created at `path` in the meantime.
  const std::string algorithms = options.gpuAlgorithms.value_or("");
  for (auto [flag, file] : {std::pair("--save", &options.save),
                            {"--log", &options.log},
                            {"--tensorboard", &options.tensorboard},
                            {"--trace", &options.trace},
                            {"--dump-gradients", &options.dumpGradients},
                            {"--gpu-algorithms", &algorithms}})
    if (!file->empty() && isInside(*file, path))
      return refuse(std::string("is a directory in which ") + flag +
                    " creates files");
  std::vector<TensorDeclaration> tensors;
  mergedStates(description, tensors);
  Result<uint64_t> bytes = safeTensorsFileBytes(tensors);
  if (!bytes.ok())
    return bytes.status();
  if (Status status = tryDirectory(path); !status.ok())
    return status;
  return checkFreeSpace(parentPath(withoutSlash(path)), *bytes,
                        "the merged model");
}

static Status readWide(WholeStates &states, size_t index,
                       std::vector<double> &values) {
  const StateInfo &state = states.description().states[index];
  values.resize(size_t(state.globalElements()));
  double *next = values.data();
  return states.read(index, [&](const char *data, int64_t bytes) {
    int64_t count = bytes / bytesOf(state.type);
    convertElements(state.type, data, ElementType::F64, next, size_t(count));
    next += count;
    return Status();
  });
}

/// Reads the factors of all adapters. The keys of `factors` are the names of
/// the adapted weights.
static Status readFactors(WholeStates &states,
                          std::map<std::string, Factors> &factors) {
  const Description &description = states.description();
  for (size_t index : adapterStates(description)) {
    const AdapterPart &part = *description.states[index].adapter;
    Factors &entry = factors[part.of];
    entry.isTransposed = part.isTransposed;
    Status status =
        readWide(states, index,
                 part.factor == AdapterPart::Factor::A ? entry.a : entry.b);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Adds scale * B A, transposed if factors.isTransposed, to the rows [first,
/// last) of a weight with `columns` columns. `rows` points to the first of
/// these rows.
static void addAdapter(const Factors &factors, int64_t rank, double scale,
                       int64_t first, int64_t last, int64_t columns,
                       double *rows) {
  const double *a = factors.a.data(), *b = factors.b.data();
  for (int64_t row = first; row < last; ++row) {
    double *w = rows + (row - first) * columns;
    for (int64_t k = 0; k < rank; ++k) {
      if (factors.isTransposed) {
        // The rows of the weight are inputs, and the columns are outputs.
        double factor = scale * a[k * (factors.a.size() / rank) + row];
        for (int64_t column = 0; column < columns; ++column)
          w[column] += factor * b[column * rank + k];
      } else {
        double factor = scale * b[row * rank + k];
        const double *inputs = a + k * columns;
        for (int64_t column = 0; column < columns; ++column)
          w[column] += factor * inputs[column];
      }
    }
  }
}

namespace {

/// Writes a weight, with its adapter if there is one, in blocks of whole rows.
class WeightWriter {
public:
  WeightWriter(Engine &engine, const StateInfo &state, const Factors *factors,
               SafeTensorsWriter &writer);

  /// Adds the next bytes that WholeStates::read() passes. All codes of an
  /// encoded weight must be added in one call.
  Status add(const char *data, int64_t bytes);

private:
  Status writeRows(int64_t count, const char *data);
  void widen(int64_t first, int64_t count, const char *data,
             double *wide) const;

  Engine &engine_;
  const StateInfo &state_;
  const Factors *factors_;
  SafeTensorsWriter &writer_;
  bool isEncoded_;   ///< True if the bytes passed to add() are quantized.
  ElementType type_; ///< Element type of added bytes that are not quantized.
  int64_t rows_, columns_, rowsPerBlock_;
  int64_t written_ = 0; ///< Number of rows written.
  std::vector<double> wide_;
  std::vector<char> narrow_;
  /// The bytes of a block whose remaining bytes have not been added yet.
  std::vector<char> pending_;
};

} // namespace

WeightWriter::WeightWriter(Engine &engine, const StateInfo &state,
                           const Factors *factors, SafeTensorsWriter &writer)
    : engine_(engine), state_(state), factors_(factors), writer_(writer),
      isEncoded_(state.quantized && !state.isSharded()),
      type_(WholeStates::typeOf(state)), rows_(state.weightShape()[0]),
      columns_(state.weightShape()[1]),
      rowsPerBlock_(std::max<int64_t>(
          std::min(blockElements / std::max<int64_t>(columns_, 1), rows_), 1)),
      wide_(size_t(rowsPerBlock_ * columns_)),
      narrow_(size_t(rowsPerBlock_ * bytesOf(state.weightType(), columns_))) {}

/// Converts `count` elements of the weight, from element `first` of a block of
/// rows, to f64. `data` points to the block or, for an encoded weight, to the
/// codes of the whole weight.
void WeightWriter::widen(int64_t first, int64_t count, const char *data,
                         double *wide) const {
  if (!isEncoded_) {
    convertElements(type_, data + bytesOf(type_, first), ElementType::F64, wide,
                    size_t(count));
    return;
  }
  std::vector<float> values(size_t(count), 0.f);
  decodeWeight(data, state_.quantized->layout, written_ * columns_ + first,
               count, values.data());
  std::copy(values.begin(), values.end(), wide);
}

/// Writes a block of at most rowsPerBlock_ rows. `data` points to the block or,
/// for an encoded weight, to the codes of the whole weight.
Status WeightWriter::writeRows(int64_t count, const char *data) {
  if (Status status = checkStop(); !status.ok())
    return status;
  const LoraConfig &lora = *engine_.description().lora;
  ElementType type = state_.weightType();
  int64_t rowBytes = bytesOf(type, columns_);
  engine_.forEachPart(count, [&](int64_t begin, int64_t end) {
    double *block = wide_.data() + begin * columns_;
    int64_t elements = (end - begin) * columns_;
    widen(begin * columns_, elements, data, block);
    if (factors_)
      addAdapter(*factors_, lora.rank, lora.scale(), written_ + begin,
                 written_ + end, columns_, block);
    convertElements(ElementType::F64, block, type,
                    narrow_.data() + begin * rowBytes, size_t(elements));
  });
  written_ += count;
  return writer_.write(narrow_.data(), uint64_t(count * rowBytes));
}

Status WeightWriter::add(const char *data, int64_t bytes) {
  Status status;
  if (isEncoded_) {
    while (status.ok() && written_ < rows_)
      status = writeRows(std::min(rowsPerBlock_, rows_ - written_), data);
    return status;
  }
  int64_t rowBytes = bytesOf(type_, columns_);
  while (status.ok() && bytes > 0) {
    int64_t count = std::min(rowsPerBlock_, rows_ - written_);
    int64_t blockBytes = count * rowBytes;
    int64_t taken = std::min(blockBytes - int64_t(pending_.size()), bytes);
    if (taken == blockBytes) {
      status = writeRows(count, data);
    } else {
      pending_.insert(pending_.end(), data, data + taken);
      if (int64_t(pending_.size()) == blockBytes) {
        status = writeRows(count, pending_.data());
        pending_.clear();
      }
    }
    data += taken;
    bytes -= taken;
  }
  return status;
}

static Status writeWeights(WholeStates &states, const std::string &path) {
  const Description &description = states.description();
  std::map<std::string, Factors> factors;
  if (Status status = readFactors(states, factors); !status.ok())
    return status;
  std::vector<TensorDeclaration> tensors;
  std::vector<size_t> indexes = mergedStates(description, tensors);
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(path, std::move(tensors));
  if (!writer.ok())
    return writer.status();
  for (size_t i : indexes) {
    const StateInfo &state = description.states[i];
    auto adapter = factors.find(state.name);
    bool isAdapted = adapter != factors.end();
    std::optional<WeightWriter> merged;
    if (isAdapted || state.quantized)
      merged.emplace(states.engine(), state,
                     isAdapted ? &adapter->second : nullptr, *writer);
    Status status = states.read(i, [&](const char *data, int64_t bytes) {
      return merged ? merged->add(data, bytes)
                    : writer->write(data, uint64_t(bytes));
    });
    if (!status.ok())
      return status;
  }
  return writer->finish();
}

Status sendMerged(WholeStates &states) {
  const Description &description = states.description();
  std::vector<TensorDeclaration> tensors;
  Status status = states.send(adapterStates(description));
  return status.ok() ? states.send(mergedStates(description, tensors)) : status;
}

Status saveMerged(WholeStates &states, const std::string &path) {
  return writeDirectory(path, [&](const std::string &staging) {
    Status status = writeWeights(states, staging + "/model.safetensors");
    for (const EmbeddedFile &file : states.description().model.files)
      if (status.ok())
        status = writeFile(staging + "/" + file.name, file.bytes);
    return status;
  });
}

} // namespace kiln::runtime
