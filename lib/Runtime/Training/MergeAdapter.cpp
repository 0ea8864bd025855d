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
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputDirectory.h"
#include "kiln/Support/OutputPath.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/SafeTensors.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unistd.h>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

/// The factors of the adapter of a weight, as f64.
struct Factors {
  std::vector<double> a; ///< [r, inputs]
  std::vector<double> b; ///< [outputs, r]
  bool isTransposed = false;
};

} // namespace

/// Approximate number of elements of a weight that are merged at a time.
static constexpr int64_t blockElements = 1 << 22;

/// Returns the states of a merged model and its tensors.
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
                          const std::string &path,
                          const std::string &checkpoints) {
  namespace fs = std::filesystem;
  auto refuse = [&](const std::string &problem) {
    return Status(ExitCode::Usage, "--save-merged=" + path + " " + problem +
                                       "; choose another name");
  };
  std::string directory = withoutSlash(path);
  std::error_code error;
  if (!isNewDirectory(directory))
    return refuse("exists and is not an empty directory");
  if (!checkpoints.empty()) {
    fs::path inside =
        fs::weakly_canonical(directory, error)
            .lexically_relative(fs::weakly_canonical(checkpoints, error));
    if (!inside.empty() && *inside.begin() != "..")
      return refuse("is the directory of --save or in it");
  }
  std::vector<TensorDeclaration> tensors;
  mergedStates(description, tensors);
  Result<uint64_t> bytes = safeTensorsFileBytes(tensors);
  if (!bytes.ok())
    return bytes.status();
  Result<bool> created = makeDirectory(directory);
  if (!created.ok())
    return created.status();
  Status space = checkFreeSpace(directory, *bytes, "the merged model");
  if (*created)
    (void)::rmdir(directory.c_str());
  return space;
}

static Status readWide(Engine &engine, size_t index,
                       std::vector<double> &values) {
  const StateInfo &state = engine.description().states[index];
  values.resize(size_t(state.elements()));
  return engine.accessState(index, HostAccess::Read, [&](const char *data) {
    convertElements(state.type, data, ElementType::F64, values.data(),
                    state.elements());
    return Status();
  });
}

/// Reads the factors of all adapters, by the name of the adapted weight.
static Status readFactors(Engine &engine,
                          std::map<std::string, Factors> &factors) {
  const std::vector<StateInfo> &states = engine.description().states;
  for (size_t index : adapterStates(engine.description())) {
    const AdapterPart &part = *states[index].adapter;
    Factors &entry = factors[part.of];
    entry.isTransposed = part.isTransposed;
    Status status =
        readWide(engine, index,
                 part.factor == AdapterPart::Factor::A ? entry.a : entry.b);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Adds scale * B A to the rows [first, last) of a weight with `columns`
/// columns. `rows` points to the first of these rows.
static void addAdapter(const Factors &factors, int64_t rank, double scale,
                       int64_t first, int64_t last, int64_t columns,
                       double *rows) {
  const double *a = factors.a.data(), *b = factors.b.data();
  for (int64_t row = first; row < last; ++row) {
    double *w = rows + (row - first) * columns;
    for (int64_t k = 0; k < rank; ++k) {
      if (factors.isTransposed) {
        // The row is an input, and the columns are outputs.
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

/// Converts the elements [first, first + count) of the weight of a state to
/// f64.
static void widenWeight(const StateInfo &state, const char *data, int64_t first,
                        int64_t count, double *wide) {
  if (!state.quantized) {
    convertElements(state.type, data + bytesOf(state.type, first),
                    ElementType::F64, wide, count);
    return;
  }
  std::vector<float> values(size_t(count), 0.f);
  decodeWeight(data, state.quantized->layout, first, count, values.data());
  std::copy(values.begin(), values.end(), wide);
}

/// Writes a weight, with its adapter if `factors` is not null.
static Status writeMerged(Engine &engine, const StateInfo &state,
                          const Factors *factors, const char *data,
                          SafeTensorsWriter &writer) {
  const LoraConfig &lora = *engine.description().lora;
  const ElementType type = state.weightType();
  int64_t rows = state.weightShape()[0], columns = state.weightShape()[1];
  int64_t rowBytes = bytesOf(type, columns);
  int64_t perBlock = std::max<int64_t>(blockElements / columns, 1);
  std::vector<double> wide(size_t(std::min(perBlock, rows) * columns));
  std::vector<char> narrow(size_t(std::min(perBlock, rows) * rowBytes));
  for (int64_t first = 0; first < rows; first += perBlock) {
    int64_t count = std::min(perBlock, rows - first);
    if (Status status = checkStop(); !status.ok())
      return status;
    engine.forEachPart(count, [&](int64_t begin, int64_t end) {
      double *block = wide.data() + begin * columns;
      int64_t elements = (end - begin) * columns;
      widenWeight(state, data, (first + begin) * columns, elements, block);
      if (factors)
        addAdapter(*factors, lora.rank, lora.scale(), first + begin,
                   first + end, columns, block);
      convertElements(ElementType::F64, block, type,
                      narrow.data() + begin * rowBytes, elements);
    });
    Status status = writer.write(narrow.data(), uint64_t(count * rowBytes));
    if (!status.ok())
      return status;
  }
  return Status();
}

static Status writeWeights(Engine &engine, const std::string &path) {
  const std::vector<StateInfo> &states = engine.description().states;
  std::map<std::string, Factors> factors;
  if (Status status = readFactors(engine, factors); !status.ok())
    return status;
  std::vector<TensorDeclaration> tensors;
  std::vector<size_t> indexes = mergedStates(engine.description(), tensors);
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(path, std::move(tensors));
  if (!writer.ok())
    return writer.status();
  for (size_t i : indexes) {
    auto adapter = factors.find(states[i].name);
    Status status =
        engine.accessState(i, HostAccess::Read, [&](const char *data) {
          bool isAdapted = adapter != factors.end();
          if (isAdapted || states[i].quantized)
            return writeMerged(engine, states[i],
                               isAdapted ? &adapter->second : nullptr, data,
                               *writer);
          return writer->write(data, uint64_t(states[i].bytes()));
        });
    if (!status.ok())
      return status;
  }
  return writer->finish();
}

Status saveMerged(Engine &engine, const std::string &path) {
  return writeDirectory(path, [&](const std::string &staging) {
    Status status = writeWeights(engine, staging + "/model.safetensors");
    for (const EmbeddedFile &file : engine.description().model.files)
      if (status.ok())
        status = writeFile(staging + "/" + file.name, file.bytes);
    return status;
  });
}

} // namespace kiln::runtime
