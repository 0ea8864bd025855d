//===- KilnEncodings.td - what an encoding of a tensor knows -*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNENCODINGS_TD
#define KILN_DIALECT_KILN_IR_KILNENCODINGS_TD

include "mlir/IR/OpBase.td"

def TensorEncodingAttrInterface : AttrInterface<"TensorEncodingAttrInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An attribute in the encoding slot of a tensor type says how the tensor is
    stored. The dialect accepts the encodings that implement this interface, and
    a tensor without an encoding, which is stored on the device as an array of
    its elements. `memoryOf` and `inMemory` ask it for the memory, so an attribute
    that also says how elements are encoded can be in the same place.
  }];
  let methods = [
    InterfaceMethod<"The memory that holds the tensor.", "::kiln::MemorySpace", "getMemory">,
    InterfaceMethod<"The encoding of the same tensor in another memory; null for no encoding.",
                    "::mlir::Attribute", "withMemory", (ins "::kiln::MemorySpace":$memory)>,
  ];
}

#endif // KILN_DIALECT_KILN_IR_KILNENCODINGS_TD
