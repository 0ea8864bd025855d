//===- TargetRegistry.cpp - Registry of the targets of a context ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

TargetBackend::~TargetBackend() = default;

GemmKernel kiln::hostGemmKernel(ElementType type,
                                ArrayRef<std::string> features) {
  auto has = [&](StringRef feature) {
    return llvm::is_contained(features, feature);
  };
  bool hasF32 =
      has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  if (hasF32 && type == ElementType::BF16 && has("avx512bf16") &&
      has("amx-tile") && has("amx-bf16"))
    return GemmKernel::Amx;
  bool hasType = type == ElementType::F32 || type == ElementType::F16 ||
                 (type == ElementType::BF16 && has("avx512bf16"));
  return hasF32 && hasType ? GemmKernel::Avx512 : GemmKernel::Blas;
}

TargetRegistry &TargetRegistry::of(KilnDialect &dialect) {
  if (auto *names = dialect.getRegisteredInterface<TargetNames>())
    return *static_cast<TargetRegistry *>(names);
  return dialect.addInterface<TargetRegistry>();
}

const TargetRegistry *TargetRegistry::lookup(MLIRContext &context) {
  auto *dialect = context.getLoadedDialect<KilnDialect>();
  return dialect ? static_cast<const TargetRegistry *>(
                       dialect->getRegisteredInterface<TargetNames>())
                 : nullptr;
}

void TargetRegistry::add(std::unique_ptr<TargetBackend> backend) {
  if (!find(backend->getName()))
    backends.push_back(std::move(backend));
}

const TargetBackend *TargetRegistry::find(StringRef name) const {
  auto found = llvm::find_if(
      backends, [&](auto &backend) { return backend->getName() == name; });
  return found == backends.end() ? nullptr : found->get();
}

SmallVector<StringRef> TargetRegistry::getNames() const {
  return llvm::map_to_vector(backends,
                             [](auto &backend) { return backend->getName(); });
}

std::string TargetRegistry::listNames(
    llvm::function_ref<bool(const TargetBackend &)> has) const {
  std::vector<std::string> names;
  for (auto &backend : backends)
    if (has(*backend))
      names.push_back(backend->getName().str());
  return joinWithOr(names);
}

const TargetBackend *kiln::backendOf(ModuleOp module) {
  const TargetRegistry *targets = TargetRegistry::lookup(*module.getContext());
  StringRef name = targetNameOf(module);
  if (const TargetBackend *backend = targets ? targets->find(name) : nullptr)
    return backend;
  std::string known =
      targets ? targets->listNames([](auto &) { return true; }) : "";
  module.emitError("unknown target '")
      << name << "'; "
      << (known.empty() ? "this tool registers no target"
                        : "expected " + known);
  return nullptr;
}

void kiln::setTarget(ModuleOp module, const TargetBackend &backend) {
  if (backend.getName() == kDefaultTarget)
    module->removeAttr(kTargetAttr);
  else
    module->setAttr(kTargetAttr,
                    StringAttr::get(module.getContext(), backend.getName()));
}
