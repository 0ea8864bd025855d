//===- AttentionReader.cpp - Reads the attention of a vendor library ------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandReader.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Messages.h"

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

/// Returns the distance in bytes from the start of the first element of an
/// argument to the end of its last element, or nullopt if the distance exceeds
/// 64 bits.
static std::optional<int64_t> extentOf(const VendorAttention &attention,
                                       std::size_t argument) {
  auto product = [](std::optional<int64_t> a, int64_t b) {
    return a ? checkedMul<int64_t>(*a, b) : std::nullopt;
  };
  std::optional<int64_t> rows =
      checkedMul<int64_t>(attention.sequences, attention.length);
  if (argument == 4) // lse
    return product(product(rows, attention.heads), 4);
  std::size_t matrix = argument < 4 ? argument : argument - 1;
  std::optional<int64_t> before =
      rows ? product(*rows - 1, attention.strides[matrix]) : std::nullopt;
  std::optional<int64_t> all =
      before ? checkedAdd<int64_t>(*before, attention.columns(matrix))
             : std::nullopt;
  return product(all, 2);
}

/// Reads "library", the parameters of an attention launch. If they are given,
/// the runtime is allowed to use cuDNN instead of the launch's kernel.
void CommandReader::readAttention(const Node &node, Command &command) {
  std::optional<Node> library = node.find("library");
  if (!library || node.failed())
    return;
  if (file_.description.target.kind != TargetKind::Cuda ||
      !isDeviceLaunch(command))
    return library->fail("is given, but the launch is not a GPU kernel of "
                         "--target=cuda");
  VendorAttention attention;
  Node op = library->at("op");
  attention.isGradient = op.text() == "attention_grad";
  if (!attention.isGradient && op.text() != "attention")
    return op.fail("is " + inQuotes(op.text()) +
                   ", expected attention or attention_grad");
  attention.causal = library->at("causal").boolean();
  auto extent = [&](const char *key) {
    Node field = library->at(key);
    int64_t value = field.integer(1);
    if (value > INT32_MAX)
      field.fail("is more than 2^31 - 1");
    return value > INT32_MAX || value < 1 ? 1 : value;
  };
  attention.sequences = extent("sequences");
  attention.length = extent("length");
  attention.heads = extent("heads");
  attention.kvHeads = extent("kv_heads");
  attention.headDim = extent("head_dim");
  Node strides = library->at("strides");
  if (node.failed())
    return;
  if (strides.size() != attention.matrices())
    return strides.fail("has " + std::to_string(strides.size()) +
                        " elements, expected " +
                        std::to_string(attention.matrices()));
  for (std::size_t i = 0; i < attention.matrices(); ++i) {
    int64_t columns = attention.kvHeads <= attention.heads &&
                              attention.heads <= INT32_MAX / attention.headDim
                          ? attention.columns(i)
                          : INT32_MAX;
    attention.strides[i] = strides.element(i).integer(columns);
    if (attention.strides[i] > INT32_MAX)
      strides.element(i).fail("is more than 2^31 - 1");
  }
  if (node.failed())
    return;
  if (!suitsVendorLibrary(attention))
    return library->fail("has values of 'head_dim', 'heads', 'kv_heads', "
                         "'length' or 'strides' that cuDNN does not support");

  const KernelCall &call = *command.call;
  if (call.extents.size() != attention.arguments() ||
      call.immediates.size() != 2)
    return library->fail(
        "has an 'op' that does not match the launch: the launch has " +
        std::to_string(call.extents.size()) + " args and " +
        std::to_string(call.immediates.size()) +
        " immediates, expected one arg for each tensor of the op and 2 "
        "immediates");
  for (std::size_t i = 0; i < attention.arguments(); ++i)
    if (extentOf(attention, i) != call.extents[i])
      return node.at("extents").element(i).fail(
          "is not the number of bytes that this argument has according to the "
          "sizes in 'library'");
  std::vector<int64_t> results = {3, 4};
  if (attention.isGradient)
    results = {6, 7, 8};
  if (call.writes != results)
    return node.at("writes").fail(
        "are not the indexes of the op's results, expected [3, 4] for "
        "attention or [6, 7, 8] for attention_grad");
  double scale = scaleOfBits(call.immediates[1].value);
  if (call.immediates[1].afterFirst != 0 || !(scale > 0 && scale < 1e6))
    return node.at("imm").element(1).fail(
        "is not [bits, 0], where bits is the bit pattern of an f64 scale with "
        "0 < scale < 1e6");

  Node workspace = library->at("workspace");
  if (workspace.size() != 2)
    return workspace.fail("is not [offset, bytes]");
  int64_t needed = attentionWorkspaceBytes(attention);
  command.workspace.bytes = workspace.element(1).integer(0);
  command.workspace.offset = readOffset(
      workspace.element(0), command.workspace.bytes, file_, ArenaKind::Device);
  if (command.workspace.bytes != needed)
    workspace.fail("has " + std::to_string(command.workspace.bytes) +
                   " bytes, expected " + std::to_string(needed));
  else if (command.workspace.offset % abi::slotAlignment)
    workspace.fail("does not begin at a multiple of " +
                   std::to_string(abi::slotAlignment) + " bytes");
  command.attention = attention;
}
