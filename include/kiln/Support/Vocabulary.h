//===- Vocabulary.h - Common types of kiln::support -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes the most common types of kiln::support available in namespace kiln,
// similar to mlir/Support/LLVM.h for LLVM types. Other names of kiln::support
// must be qualified, or imported by a using-directive in a source file. The
// headers that define these types include this header.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_VOCABULARY_H
#define KILN_SUPPORT_VOCABULARY_H

#include <cstdint>

namespace kiln {

namespace support {
enum class ElementKind : uint8_t;
enum class ElementType : uint8_t;
enum class ExitCode : int;
struct ElementTypeInfo;
template <typename T> class Result;
class Status;
} // namespace support

using support::ElementKind;
using support::ElementType;
using support::ElementTypeInfo;
using support::ExitCode;
using support::Result;
using support::Status;

} // namespace kiln

#endif // KILN_SUPPORT_VOCABULARY_H
