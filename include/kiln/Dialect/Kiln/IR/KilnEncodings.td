//===- KilnEncodings.td - Interface of tensor encodings ----*- tablegen -*-===//
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
    An attribute that is the encoding of a tensor type and determines the memory of
    the tensor. The dialect accepts encodings that implement this interface, and
    tensors without an encoding, which are stored on the device. `memoryOf` and
    `inMemory` access the memory only through this interface, so an attribute that
    also describes the encoding of elements can implement it.
  }];
  let methods = [
    InterfaceMethod<"Returns the memory that stores the tensor.", "::kiln::MemorySpace", "getMemory">,
    InterfaceMethod<"Returns the encoding of the same tensor in `memory`, or null for no encoding.",
                    "::mlir::Attribute", "withMemory", (ins "::kiln::MemorySpace":$memory)>,
  ];
}

#endif // KILN_DIALECT_KILN_IR_KILNENCODINGS_TD
