// A rank-0 tensor of tokens is one sequence.

// RUN: kiln-opt %s --kiln-compress-residuals=lossy=rmm:0.5 | FileCheck %s

// CHECK-LABEL: kiln.program @train
// CHECK: kiln.phase
kiln.program @train(%tokens: tensor<i32> {kiln.name = "tokens"}) -> (tensor<i32>) attributes {kind = #kiln.program_kind<train>} {
  kiln.phase backward
  kiln.return %tokens : tensor<i32>
}
