//===- DescriptionParser.cpp - Reads program metadata ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DescriptionParser.h"

#include "../Training/TrainingInfo.h"
#include "Roles.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Messages.h"

#include <cmath>

using namespace kiln::support;

namespace kiln::runtime {

static std::optional<std::string> decodeBase64(const std::string &text) {
  static const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0)
    return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() &&
         text[text.size() - 1 - padding] == '=')
    ++padding;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i + padding < text.size(); ++i) {
    std::size_t digit = alphabet.find(text[i]);
    if (digit == std::string::npos)
      return std::nullopt;
    bits = bits << 6 | uint32_t(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += char(bits >> count & 0xff);
    }
  }
  return bytes;
}

/// Reads an optional array of strings.
static std::vector<std::string> readNames(const Node &node, const char *key) {
  std::vector<std::string> names;
  if (std::optional<Node> array = node.find(key))
    for (std::size_t i = 0; i < array->size(); ++i)
      names.push_back(array->element(i).text());
  return names;
}

static void readModel(const Node &node, ModelInfo &model) {
  model.name = node.at("name").text();
  model.type = node.at("type").text();
  model.vocabSize = node.at("vocab_size").integer(1);
  model.batch = node.at("batch").integer(1);
  model.sequenceLength = node.at("sequence_length").integer(1);
  model.hasWeights = node.at("has_weights").boolean();
  model.unusedTensors = readNames(node, "unused_tensors");
  std::optional<Node> files = node.find("files");
  for (std::size_t i = 0; files && i < files->size(); ++i) {
    Node entry = files->element(i);
    EmbeddedFile file;
    file.name = entry.at("name").text();
    if (std::optional<Node> encoded = entry.find("base64")) {
      std::optional<std::string> bytes = decodeBase64(encoded->text());
      if (!bytes)
        encoded->fail("is not base64");
      file.bytes = bytes.value_or("");
    } else {
      file.bytes = entry.at("text").text();
    }
    model.files.push_back(std::move(file));
  }
}

static void readBuild(const Node &node, BuildInfo &build) {
  build.optimizer = node.at("optimizer").text();
  if (std::optional<Node> lossy = node.find("lossy"))
    build.lossy = lossy->text();
  build.precision = node.at("precision").text();
  build.microbatches = node.at("microbatches").integer(1);
  build.clip = node.at("clip").boolean();
  build.eval = node.at("eval").boolean();
  Node maxThreads = node.at("max_threads");
  int64_t threads = maxThreads.integer(1);
  if (threads > 4096)
    maxThreads.fail("is " + std::to_string(threads) +
                    ", expected at most 4096");
  else
    build.maxThreads = int(threads);
  if (std::optional<Node> dropout = node.find("dropout"))
    build.dropout = dropout->real();
  build.target = node.at("target").text();
  if (std::optional<Node> commandLine = node.find("command_line"))
    build.commandLine = commandLine->text();
}

static TargetKind readTargetKind(const Node &node) {
  std::string kind = node.text();
  if (kind == "cpu")
    return TargetKind::Cpu;
  if (kind == "cuda-emu")
    return TargetKind::CudaEmu;
  if (kind == "cuda")
    return TargetKind::Cuda;
  node.fail("is " + inQuotes(kind) + ", expected cpu, cuda-emu or cuda");
  return TargetKind::Cpu;
}

static void readTarget(const Node &node, TargetInfo &target) {
  if (std::optional<Node> kind = node.find("kind"))
    target.kind = readTargetKind(*kind);
  target.cpu = node.at("cpu").text();
  Node features = node.at("features");
  for (std::size_t i = 0; i < features.size(); ++i)
    target.features.push_back(features.element(i).text());
  if (std::optional<Node> blas = node.find("blas"))
    target.blas = blas->text();
  if (std::optional<Node> machine = node.find("machine"))
    target.machine = machine->text();
}

/// Reads a rate in bytes per second.
static double readRate(const Node &node) {
  double rate = node.real();
  if (!node.failed() && !(std::isfinite(rate) && rate > 0))
    node.fail("is not a positive finite number");
  return rate;
}

static void readLink(const Node &node, LinkInfo &link) {
  link.outBytesPerSecond = readRate(node.at("out_bytes_per_second"));
  link.inBytesPerSecond = readRate(node.at("in_bytes_per_second"));
}

/// Reads the optional member "mesh", the grid of ranks.
static void readMesh(const Node &node, Description &description) {
  // The limits keep the product of all sizes small and the comparison of all
  // pairs of names cheap.
  std::size_t count = node.size();
  if (count > maxMeshAxes)
    node.fail("has " + std::to_string(count) + " entries, expected at most " +
              std::to_string(maxMeshAxes));
  for (std::size_t i = 0; i < count && !node.failed(); ++i) {
    Node entry = node.element(i), name = entry.at("name"),
         size = entry.at("size");
    support::MeshAxis axis = {name.text(), size.integer(1)};
    for (const support::MeshAxis &other : description.mesh.axes)
      if (other.name == axis.name)
        name.fail("is " + inQuotes(axis.name) + ", the name of another axis");
    if (!node.failed() && axis.size > maxRanks / description.ranks())
      size.fail("is " + std::to_string(axis.size) +
                ", which gives the mesh more than " + std::to_string(maxRanks) +
                " ranks");
    if (!node.failed())
      description.mesh.axes.push_back(std::move(axis));
  }
}

/// The version of the description format that this reader supports.
static constexpr int64_t formatNumber = 4;

void readDescription(const Node &root, Description &description) {
  Node format = root.at("format");
  if (int64_t number = format.integer(); number != formatNumber)
    format.fail("is " + std::to_string(number) + ", expected " +
                std::to_string(formatNumber));
  description.build.version = root.at("kiln").text();
  readModel(root.at("model"), description.model);
  readBuild(root.at("options"), description.build);
  description.training = readTrainingInfo(root.at("training"));
  readTarget(root.at("target"), description.target);
  if (std::optional<Node> mesh = root.find("mesh"))
    readMesh(*mesh, description);
  if (std::optional<Node> steps = root.find("sync_every")) {
    description.syncEvery = steps->integer(2);
    if (!steps->failed() && description.mesh.sizeOf(dataAxis) == 1)
      steps->fail("is set, but the mesh has only one rank on the axis dp");
  }
  if (!root.failed() &&
      !checkedMul<int64_t>(description.model.batch, description.ranks()))
    root.at("model").at("batch").fail("times the number of ranks exceeds 2^63 "
                                      "- 1");
  description.roles = readRoles(root.at("roles"));
  if (std::optional<Node> lora = root.find("lora")) {
    Result<LoraConfig> config = parseLoraOptions(lora->text());
    if (config.ok())
      description.lora = std::move(*config);
    else if (!lora->failed())
      lora->fail(config.status().message());
  }
  if (std::optional<Node> link = root.find("link"))
    readLink(*link, description.link);
  if (std::optional<Node> network = root.find("network"))
    description.networkBytesPerSecond =
        readRate(network->at("bytes_per_second"));
  if (std::optional<Node> plan = root.find("plan")) {
    if (!plan->json().is_object())
      plan->fail("is not an object");
    description.plan = plan->json().dump();
  }
}

ValueInfo readValue(const Node &node) {
  ValueInfo value;
  value.name = node.at("name").text();
  Node dtype = node.at("dtype");
  std::string typeName = dtype.text();
  std::optional<ElementType> type = elementTypeNamed(typeName);
  if (!type)
    dtype.fail("is " + inQuotes(typeName) + ", which is not an element type");
  value.type = type.value_or(ElementType::F32);
  Node shape = node.at("shape");
  for (std::size_t i = 0; i < shape.size(); ++i)
    value.shape.push_back(shape.element(i).integer(0));
  std::optional<int64_t> elements = checkedElements(value.shape);
  if (!elements || !checkedMul<int64_t>(*elements, 64))
    shape.fail("is too large: the tensor has 2^57 or more elements");
  return value;
}

static StateRole readRole(const Node &node) {
  std::string role = node.text();
  if (role == "parameter")
    return StateRole::Parameter;
  if (role == "buffer")
    return StateRole::Buffer;
  if (role == "constant")
    return StateRole::Constant;
  if (role == "optimizer")
    return StateRole::Optimizer;
  if (role == "mirror")
    return StateRole::Mirror;
  node.fail("is " + inQuotes(role) +
            ", expected parameter, buffer, constant, optimizer or mirror");
  return StateRole::Parameter;
}

/// Reads the shape of the whole tensor, and the offset of the state's shard in
/// this tensor.
static void readBlock(const Node &node, StateInfo &state) {
  Node global = node.at("global_shape"), shard = node.at("shard");
  for (const Node &array : {global, shard})
    if (std::size_t size = array.size();
        !node.failed() && size != state.shape.size())
      array.fail("has " + std::to_string(size) + " entries, expected " +
                 std::to_string(state.shape.size()) +
                 ", one for each dimension of the shape");
  for (std::size_t i = 0; i < state.shape.size() && !node.failed(); ++i) {
    Node offset = shard.element(i);
    int64_t extent = global.element(i).integer(0), begin = offset.integer(0);
    if (!node.failed() && (begin > extent || state.shape[i] > extent - begin))
      offset.fail("is " + std::to_string(begin) +
                  "; at this offset, a shard of " +
                  std::to_string(state.shape[i]) +
                  " elements in this dimension exceeds the global size of " +
                  std::to_string(extent));
    state.globalShape.push_back(extent);
    state.shard.push_back(begin);
  }
}

/// Reads one entry of "over", which divides `count` elements over the ranks of
/// an axis.
static Division readDivision(const Node &node, const support::Mesh &mesh,
                             int64_t count, const StateInfo &state) {
  Node axis = node.at("axis"), blocks = node.at("blocks"),
       elements = node.at("elements");
  Division division = {axis.text(), blocks.integer(1), elements.integer(0)};
  int64_t ranks = mesh.sizeOf(division.axis);
  if (node.failed())
    return division;
  if (ranks == 1)
    axis.fail("is " + inQuotes(division.axis) +
              ", expected the name of an axis of the mesh with more than one "
              "rank");
  else if (state.isDividedOver(division.axis))
    axis.fail("is " + inQuotes(division.axis) + ", which is named twice");
  else if (count % division.blocks != 0)
    blocks.fail("is " + std::to_string(division.blocks) +
                ", expected a divisor of " + std::to_string(count) +
                ", the number of elements to divide");
  if (node.failed())
    return division;
  if (std::optional<Node> owner = node.find("owner")) {
    division.owner = owner->integer(0);
    if (!node.failed() &&
        (division.owner >= ranks || division.elements != count ||
         division.blocks != 1 || division.axis != dataAxis))
      owner->fail("is " + std::to_string(division.owner) +
                  ", expected the index of a rank of the axis 'dp'; this "
                  "owner must store all " +
                  std::to_string(count) + " elements, in one block");
    return division;
  }
  // If the product of `ranks` and `part` overflows, it exceeds `length`.
  int64_t length = count / division.blocks;
  int64_t part = division.elements / division.blocks;
  if (division.elements % division.blocks != 0 || part > length ||
      checkedMul(ranks, part).value_or(length) < length)
    elements.fail(
        "is " + std::to_string(division.elements) +
        ", expected a multiple of " + std::to_string(division.blocks) +
        " from " +
        std::to_string(division.blocks *
                       (length / ranks + (length % ranks != 0))) +
        " to " + std::to_string(count) + ", because " + std::to_string(ranks) +
        " ranks share " +
        (division.blocks == 1
             ? "a block"
             : "each of " + std::to_string(division.blocks) + " blocks") +
        " of size " + std::to_string(length));
  return division;
}

/// Reads `over`, the divisions of the state's tensor over the ranks of mesh
/// axes.
static void readDivisions(const Node &node, const Node &over,
                          const support::Mesh &mesh, StateInfo &state) {
  Node global = node.at("global_shape"), shard = node.at("shard");
  if (over.size() == 0)
    over.fail("is empty, expected at least one division");
  if (bitsOf(state.type) % 8 != 0)
    over.fail("is given, but the elements of the state are not whole bytes");
  for (std::size_t i = 0; i < global.size() && !node.failed(); ++i)
    state.globalShape.push_back(global.element(i).integer(0));
  if (std::size_t size = shard.size();
      !node.failed() && size != state.globalShape.size())
    shard.fail("has " + std::to_string(size) + " entries, expected " +
               std::to_string(state.globalShape.size()) +
               ", one for each dimension of the global shape");
  for (std::size_t i = 0; i < shard.size() && !node.failed(); ++i) {
    Node offset = shard.element(i);
    if (int64_t begin = offset.integer(0); !node.failed() && begin != 0)
      offset.fail("is " + std::to_string(begin) +
                  ", expected 0, because 'over' gives the elements that a "
                  "rank stores");
    state.shard.push_back(0);
  }
  std::optional<int64_t> count = checkedElements(state.globalShape);
  if (node.failed() || !count)
    return;
  for (std::size_t i = 0; i < over.size() && !node.failed(); ++i) {
    Division division = readDivision(over.element(i), mesh, *count, state);
    count = division.elements;
    state.divisions.push_back(std::move(division));
  }
  if (!node.failed() && *count != state.partElements())
    over.element(over.size() - 1)
        .at("elements")
        .fail("is " + std::to_string(*count) + ", expected " +
              std::to_string(state.partElements()) +
              ", the number of elements of the " +
              (state.quantized ? "quantized weight" : "shape"));
  if (!node.failed() && state.quantized && state.globalShape.size() != 2)
    global.fail("has " + std::to_string(state.globalShape.size()) +
                " dimensions, expected 2, because the state is quantized");
}

/// Reads which elements of the whole tensor the state stores.
static void readShard(const Node &node, const support::Mesh &mesh,
                      StateInfo &state) {
  if (std::optional<Node> over = node.find("over"))
    readDivisions(node, *over, mesh, state);
  else
    readBlock(node, state);
  std::optional<int64_t> elements = checkedElements(state.globalShape);
  if (!elements || !checkedMul<int64_t>(*elements, 64))
    node.at("global_shape")
        .fail("is too large: the tensor has 2^57 or more elements");
}

/// Reads which factor of which adapter a state stores.
static AdapterPart readAdapter(const Node &node) {
  AdapterPart part;
  Node factor = node.at("factor");
  std::string name = factor.text();
  if (!node.failed() && name != "a" && name != "b")
    factor.fail("is " + inQuotes(name) + ", expected 'a' or 'b'");
  part.factor = name == "b" ? AdapterPart::Factor::B : AdapterPart::Factor::A;
  part.of = node.at("of").text();
  part.isTransposed = node.at("transposed").boolean();
  return part;
}

/// Reads the weight that a state encodes, and checks that the state is a frozen
/// parameter of the size that the encoding requires.
static QuantizedWeight readQuantized(const Node &node, const Node &parent,
                                     const StateInfo &state) {
  QuantizedWeight weight;
  Node encoding = node.at("encoding"), dtype = node.at("dtype"),
       shape = node.at("shape");
  std::string name = encoding.text(), typeName = dtype.text();
  if (!node.failed() && name != "nf4" && name != "int8")
    encoding.fail("is " + inQuotes(name) + ", expected " + weightEncodings);
  std::optional<ElementType> type = elementTypeNamed(typeName);
  if (!node.failed() && !(type && isFloat(*type)))
    dtype.fail("is " + inQuotes(typeName) +
               ", which is not a floating-point type");
  weight.type = type.value_or(ElementType::F32);
  for (std::size_t i = 0; i < shape.size(); ++i)
    weight.shape.push_back(shape.element(i).integer(1));
  std::optional<int64_t> elements = checkedElements(weight.shape);
  bool isMatrix = weight.shape.size() == 2 && elements &&
                  checkedMul<int64_t>(*elements, 64);
  if (!isMatrix) {
    shape.fail("is not the shape of a matrix with fewer than 2^57 elements");
    return weight;
  }
  if (name == "int8") {
    Int8Options options{node.at("block").integer(1),
                        node.at("outliers").integer(0),
                        node.at("inputs").integer(0)};
    if (node.failed())
      return weight;
    std::string problem =
        Int8Layout::problem(weight.shape[0], weight.shape[1], options);
    if (!problem.empty()) {
      node.fail(problem);
      return weight;
    }
    weight.layout = Int8Layout(weight.shape[0], weight.shape[1], options);
  } else {
    weight.layout = Nf4Layout(*elements);
  }
  int64_t bytes = bytesOf(weight.layout);
  if (state.type != ElementType::I8 ||
      state.shape != std::vector<int64_t>{bytes})
    parent.at("shape").fail("does not match the encoding of the weight, "
                            "expected " +
                            std::to_string(bytes) + " elements of i8");
  if (state.role != StateRole::Parameter || state.trainable)
    node.fail("is given, but the state is not a frozen parameter");
  return weight;
}

StateInfo readState(const Node &node, const Description &description) {
  StateInfo state;
  static_cast<ValueInfo &>(state) = readValue(node);
  state.roles = readRoleNames(node.at("roles"), description);
  state.role = readRole(node.at("role"));
  state.sourceName = state.name;
  if (std::optional<Node> source = node.find("source_name"))
    state.sourceName = source->text();
  state.aliases = readNames(node, "aliases");
  state.copies = readNames(node, "copies");
  if (state.role == StateRole::Optimizer || state.role == StateRole::Mirror)
    state.of = node.at("of").text();
  if (state.role == StateRole::Optimizer)
    state.slot = node.at("slot").text();
  if (std::optional<Node> trainable = node.find("trainable"))
    state.trainable = trainable->boolean();
  if (std::optional<Node> adapter = node.find("adapter"))
    state.adapter = readAdapter(*adapter);
  if (std::optional<Node> quantized = node.find("quantized"))
    state.quantized = readQuantized(*quantized, node, state);
  readShard(node, description.mesh, state);
  if (state.quantized && state.owner() >= 0)
    node.at("over").fail("gives the state to a single owner, but each "
                         "data-parallel rank must store every quantized state");
  if (state.role == StateRole::Mirror) {
    if (std::optional<Node> init = node.find("init"))
      init->fail("is given, but a state of role 'mirror' is initialized with "
                 "the values of its parameter");
    return state;
  }
  Node init = node.at("init");
  if (node.failed())
    return state;
  Result<InitialValue> initial =
      parseInitialValue(init.json(), "state " + inQuotes(state.name));
  if (initial.ok())
    state.init = std::move(*initial);
  else
    init.fail("is invalid: " + initial.status().message());
  return state;
}

} // namespace kiln::runtime
