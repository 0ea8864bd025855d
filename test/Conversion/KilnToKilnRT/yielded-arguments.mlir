// A sum over micro-batches may be yielded unchanged: no op defines the value.

// RUN: kiln-opt %s --kiln-divide-microbatches --kiln-schedule | FileCheck %s

// CHECK: kilnrt.program @train
// CHECK: [[SUM:%.+]] = kilnrt.slot "microbatches" class output
// CHECK: [[V:%.+]] = kilnrt.view [[SUM]][0] : memref<2x4xf32>
// CHECK: kilnrt.fill on @compute (wo [[V]])
// CHECK: kilnrt.microbatches 2 forward {
// CHECK-NEXT: } backward {
// CHECK-NEXT: }
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<2x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<4x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<2x4xf32>):
    kiln.yield %sum : tensor<2x4xf32>
  }
  kiln.return %s : tensor<2x4xf32>
}
