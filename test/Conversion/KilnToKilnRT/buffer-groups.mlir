// A concat of flattened tensors stores them side by side, in its order, without
// a copy: the producers write into its buffer. Slices of it are views.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule=max-threads=2 | FileCheck %s

module attributes {kiln.target = "cpu"} {

// One command (a scale) works on both gradients at once.
// CHECK-LABEL: kilnrt.program @bucket
// CHECK: [[B:%.+]] = kilnrt.slot "concat" {{.*}} bytes 96 {{.*}} why "operands written side by side"
// CHECK-DAG: [[V:%.+]] = kilnrt.view [[B]][0] : memref<4x4xf32>
// CHECK-DAG: [[W:%.+]] = kilnrt.view [[B]][64] : memref<4x2xf32>
// CHECK: kilnrt.gemm {{.*}} wo [[V]])
// CHECK: kilnrt.gemm {{.*}} wo [[W]])
// CHECK: kilnrt.launch
// CHECK-NOT: kilnrt.launch
kiln.program @bucket(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %z: tensor<8x2xf32> {kiln.name = "z", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "v"}, tensor<4x2xf32> {kiln.name = "w"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %v = kiln.matmul %x, %x trans_a {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %w = kiln.matmul %x, %z trans_a {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %flat_v = kiln.reshape %v : tensor<4x4xf32> to tensor<16xf32>
  %flat_w = kiln.reshape %w : tensor<4x2xf32> to tensor<8xf32>
  %all = kiln.concat %flat_v, %flat_w dim 0 : (tensor<16xf32>, tensor<8xf32>) -> tensor<24xf32>
  %mean = kiln.scale %all by 0.5 : tensor<24xf32>
  %part_v = kiln.slice %mean [0] : tensor<24xf32> to tensor<16xf32>
  %part_w = kiln.slice %mean [16] : tensor<24xf32> to tensor<8xf32>
  %new_v = kiln.reshape %part_v : tensor<16xf32> to tensor<4x4xf32>
  %new_w = kiln.reshape %part_w : tensor<8xf32> to tensor<4x2xf32>
  kiln.return %new_v, %new_w : tensor<4x4xf32>, tensor<4x2xf32>
}

}
