// RUN: not kiln-opt %s 2>&1 | FileCheck %s
// RUN: not kiln-opt < %s 2>&1 | FileCheck %s --check-prefix=STDIN
// RUN: not kilnc %s -o %t 2>&1 | FileCheck %s
// RUN: not kiln-run %s 2>&1 | FileCheck %s

// MLIR's parser would abort. Strings and comments may contain array<index>.
// STDIN: -: line [[#@LINE+3]]: 'array<index' is not a supported array type
// CHECK: unparsable.mlir{{.*}}: line [[#@LINE+2]]: 'array<index' is not a supported array type; expected a type with a width, such as array<i64>
"builtin.module"() ({}) {a = "array<index: 0>", // array<index>
  b = array < index : 0>} : () -> ()
