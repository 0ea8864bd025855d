// A GEMM that accumulates stores its result over the accumulator, unless it also
// reads the accumulator as a factor: then it accumulates onto a copy.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule=max-threads=2 | FileCheck %s

module attributes {kiln.target = "cpu"} {

// CHECK-LABEL: kilnrt.program @sum
// CHECK: [[S:%.+]] = kilnrt.slot {{.*}} bytes 9216
// CHECK-NOT: why "copy of an accumulation operand that is still read"
// CHECK-LABEL: kilnrt.program @square
// CHECK: kilnrt.slot {{.*}} why "copy of an accumulation operand that is still read"
kiln.program @sum(%x: tensor<48x48xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<48x48xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %y = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<48x48xf32>
  %z = kiln.matmul %x, %x accumulate %y {grid = array<i64: 1, 1>} : (tensor<48x48xf32>, tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<48x48xf32>
  kiln.return %z : tensor<48x48xf32>
}

kiln.program @square(%x: tensor<48x48xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<48x48xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %y = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<48x48xf32>
  %z = kiln.matmul %y, %x accumulate %y {grid = array<i64: 1, 1>} : (tensor<48x48xf32>, tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<48x48xf32>
  kiln.return %z : tensor<48x48xf32>
}

}
