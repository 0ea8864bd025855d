//===- HuggingFace.cpp - Importer of model directories --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds config.json and selects the importer by its model_type.
//
//===----------------------------------------------------------------------===//

#include "kiln/Import/HuggingFace.h"

#include "Architectures.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace kiln::support;
using namespace kiln;
using namespace mlir;
using llvm::StringRef;

char ImportError::ID = 0;

Status kiln::statusOf(llvm::Error error) {
  ExitCode code = ExitCode::BadInput;
  if (error.isA<ImportError>())
    error = llvm::handleErrors(
        std::move(error),
        [&](std::unique_ptr<ImportError> import) -> llvm::Error {
          code = import->getExitCode();
          return llvm::Error(std::move(import));
        });
  return Status(code, llvm::toString(std::move(error)));
}

static llvm::Error badInput(const llvm::Twine &message) {
  return llvm::make_error<ImportError>(ExitCode::BadInput, message.str());
}

static llvm::Error badOption(const llvm::Twine &message) {
  return llvm::make_error<ImportError>(ExitCode::Usage, message.str());
}

namespace {
struct ModelType {
  StringRef name;
  llvm::Expected<ImportedModel> (*import)(const ImportRequest &);
  const FamilyKeys &(*keys)();
  /// Accepted values of `architectures`: the language model with its head, and
  /// the model without the head.
  llvm::ArrayRef<StringRef> classes;
  /// Name patterns of tensors that older library versions store in weight files
  /// although the model computes them.
  llvm::ArrayRef<StringRef> unusedTensors;
  /// The layers to which PEFT adds low-rank adapters by default.
  llvm::ArrayRef<StringRef> adapterTargets;
};
} // namespace

static constexpr StringRef kGpt2Classes[] = {"GPT2LMHeadModel", "GPT2Model"};
static constexpr StringRef kLlamaClasses[] = {"LlamaForCausalLM", "LlamaModel",
                                              "LLaMAForCausalLM"};
static constexpr StringRef kMistralClasses[] = {"MistralForCausalLM",
                                                "MistralModel"};
static constexpr StringRef kQwen2Classes[] = {"Qwen2ForCausalLM", "Qwen2Model"};

// Tensors that models compute instead of loading them: the attention masks of
// GPT-2, and the rotary frequencies of the Llama family.
static constexpr StringRef kGpt2Unused[] = {
    "transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias",
    "h.*.attn.bias", "h.*.attn.masked_bias"};
static constexpr StringRef kLlamaUnused[] = {
    "model.layers.*.self_attn.rotary_emb.inv_freq",
    "layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
    "rotary_emb.inv_freq"};

static constexpr StringRef kGpt2Targets[] = {"c_attn"};
static constexpr StringRef kLlamaTargets[] = {"q_proj", "v_proj"};

static const ModelType kModelTypes[] = {
    {"gpt2", importGpt2, gpt2Keys, kGpt2Classes, kGpt2Unused, kGpt2Targets},
    {"llama", importLlama, llamaKeys, kLlamaClasses, kLlamaUnused,
     kLlamaTargets},
    {"mistral", importLlama, mistralKeys, kMistralClasses, kLlamaUnused,
     kLlamaTargets},
    {"qwen2", importLlama, qwen2Keys, kQwen2Classes, kLlamaUnused,
     kLlamaTargets},
};

static const ModelType *findModelType(StringRef name) {
  for (const ModelType &type : kModelTypes)
    if (type.name == name)
      return &type;
  return nullptr;
}

/// Small files that are copied to saved model directories.
static constexpr StringRef kCompanionFiles[] = {"added_tokens.json",
                                                "chat_template.jinja",
                                                "config.json",
                                                "generation_config.json",
                                                "merges.txt",
                                                "special_tokens_map.json",
                                                "tokenizer.json",
                                                "tokenizer.model",
                                                "tokenizer_config.json",
                                                "vocab.json"};
static constexpr uint64_t kLargestCompanion = 64u << 20;

/// Files whose presence shows that a directory contains trained weights. Only
/// the first three are supported.
static constexpr StringRef kWeightFiles[] = {
    "model.safetensors", "model.safetensors.index.json", "packed.safetensors",
    "pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
    "flax_model.msgpack"};

static std::string inDirectory(StringRef directory, StringRef name) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

bool kiln::isModelDirectory(StringRef path) {
  return llvm::sys::fs::is_directory(path);
}

/// Returns the last component of the directory's path, for reports.
static std::string modelName(StringRef directory) {
  llvm::SmallString<256> path(directory);
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  StringRef name = llvm::sys::path::filename(path);
  return name.empty() || name == "/" ? "model" : name.str();
}

llvm::Expected<int64_t>
ImportRequest::chooseSequenceLength(int64_t positions, StringRef key) const {
  int64_t length = options.sequenceLength ? options.sequenceLength : positions;
  if (length > positions)
    return badOption("sequence length " + llvm::Twine(length) +
                     " is more than the model's positions: '" + key + "' is " +
                     llvm::Twine(positions) + " in " + config.getFile());
  if (length > INT32_MAX / options.batch)
    return badOption("batch " + llvm::Twine(options.batch) +
                     " times sequence length " + llvm::Twine(length) +
                     " exceeds the maximum of 2147483647 tokens per step");
  return length;
}

static llvm::Error checkOptions(const ImportOptions &options) {
  if (options.batch < 1 || options.batch > INT32_MAX)
    return badOption("batch is " + llvm::Twine(options.batch) +
                     ", expected 1 to 2147483647");
  if (options.sequenceLength < 0)
    return badOption("sequence length is " +
                     llvm::Twine(options.sequenceLength) +
                     ", expected 1 or more");
  if (options.dropout && !(*options.dropout >= 0.0 && *options.dropout < 1.0))
    return badOption("dropout is " + std::to_string(*options.dropout) +
                     ", expected at least 0 and below 1");
  if (options.elementType && !options.elementType.isF32() &&
      !options.elementType.isF64())
    return badOption("a graph is imported in f32 or f64");
  return llvm::Error::success();
}

static void checkArchitectures(ConfigReader &config, const ModelType &type) {
  std::vector<std::string> classes = config.getStrings("architectures");
  for (const std::string &name : classes)
    if (!llvm::is_contained(type.classes, StringRef(name)))
      config.refuse("architectures", llvm::join(type.classes, ", "));
}

/// Returns the type of the tensors in weight files, according to config.json,
/// or null if config.json does not name a type that kiln can store.
static Type storageOf(const nlohmann::json &config, MLIRContext &context) {
  for (const char *key : {"dtype", "torch_dtype"})
    if (auto name = config.find(key); name != config.end() && name->is_string())
      return llvm::StringSwitch<Type>(name->get_ref<const std::string &>())
          .Case("bfloat16", BFloat16Type::get(&context))
          .Case("float16", Float16Type::get(&context))
          .Case("float32", Float32Type::get(&context))
          .Case("float64", Float64Type::get(&context))
          .Default(Type());
  return Type();
}

static void describe(ModuleOp module, const ImportedModel &model,
                     const ModelType &type, StringRef directory, Type storage) {
  Builder builder(module.getContext());
  SmallVector<StringRef> files;
  for (StringRef name : kCompanionFiles) {
    std::string path = inDirectory(directory, name);
    uint64_t size = 0;
    if (llvm::sys::fs::is_regular_file(path) &&
        !llvm::sys::fs::file_size(path, size) && size <= kLargestCompanion)
      files.push_back(name);
  }
  bool hasWeights = llvm::any_of(kWeightFiles, [&](StringRef name) {
    return llvm::sys::fs::exists(inDirectory(directory, name));
  });
  auto entry = [&](StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  };
  SmallVector<NamedAttribute> entries;
  if (storage)
    entries.push_back(entry("storage", TypeAttr::get(storage)));
  entries.append(
      {entry("type", builder.getStringAttr(type.name)),
       entry("name", builder.getStringAttr(modelName(directory))),
       entry("vocab_size", builder.getI64IntegerAttr(model.vocabulary)),
       entry("batch", builder.getI64IntegerAttr(model.batch)),
       entry("sequence_length",
             builder.getI64IntegerAttr(model.sequenceLength)),
       entry("has_weights", builder.getBoolAttr(hasWeights)),
       entry("files", builder.getStrArrayAttr(files)),
       entry("adapter_targets", builder.getStrArrayAttr(type.adapterTargets)),
       entry("unused_tensors", builder.getStrArrayAttr(type.unusedTensors))});
  module->setAttr(kModelAttr, builder.getDictionaryAttr(entries));
}

llvm::Expected<OwningOpRef<ModuleOp>>
kiln::importHuggingFace(MLIRContext &context, StringRef directory,
                        const ImportOptions &options) {
  if (llvm::Error error = checkOptions(options))
    return std::move(error);
  if (!isModelDirectory(directory))
    return badInput(directory + ": not a directory; expected a Hugging Face "
                                "model directory with a config.json");
  std::string file = inDirectory(directory, "config.json");
  if (!llvm::sys::fs::exists(file))
    return badInput(directory + ": has no config.json; expected a Hugging Face "
                                "model directory");
  Result<nlohmann::json> json = readJsonFile(file);
  if (!json.ok())
    return llvm::make_error<ImportError>(json.status().code(),
                                         json.status().message());
  if (!json->is_object())
    return badInput(file + ": expected a JSON object");

  ConfigReader config(*json, file, options.ignoredKeys);
  std::string name = config.getString("model_type", /*absent=*/"");
  const ModelType *type = findModelType(name);
  if (!type) {
    std::string supported;
    for (const ModelType &known : kModelTypes)
      supported += (supported.empty() ? "" : ", ") + known.name.str();
    config.refuse("model_type", supported);
    return config.finish(name);
  }
  if (llvm::Error error = config.setTable(type->keys()))
    return std::move(error);
  checkArchitectures(config, *type);

  context.loadDialect<KilnDialect>();
  llvm::Expected<ImportedModel> model =
      type->import({context, config, type->name, options});
  if (!model)
    return model.takeError();
  describe(*model->module, *model, *type, directory, storageOf(*json, context));
  return std::move(model->module);
}
