// RUN: not kilnc %s -o %t 2>&1 | FileCheck %s --implicit-check-not={{.}}
// RUN: not kiln-run %s 2>&1 | FileCheck %s --implicit-check-not={{.}}

// MLIR prints this op over several lines in a message; the tools print one.
// CHECK: {{^.*}}one-line.mlir{{.*}}: line [[#@LINE+3]]: block with no terminator, has ...{{$}}
"builtin.module"() ({
  "kiln.program"() <{function_type = () -> (), kind = #kiln.program_kind<forward>, sym_name = "f"}> ({
    %0 = "kiln.recompute"() ({
      %1 = "kiln.constant"() <{value = dense<0.0> : tensor<f64>}> : () -> tensor<f64>
      "kiln.yield"(%1) : (tensor<f64>) -> ()
    }) : () -> tensor<f64>
  }) : () -> ()
}) : () -> ()
