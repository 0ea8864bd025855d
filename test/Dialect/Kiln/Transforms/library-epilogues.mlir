// What the library of a gpu does with a product's sums, in a module that says so.

// RUN: kiln-opt %s --kiln-set-numerics | FileCheck %s
// RUN: sed 's/kiln.library_epilogues, //' %s | kiln-opt --kiln-set-numerics | FileCheck %s --check-prefix=OFF
// OFF-NOT: kiln.linear

module attributes {kiln.library_epilogues, kiln.target = "cuda"} {

// On either side of the sum; what else reads the rows keeps them.
// CHECK-LABEL: kiln.program @biases
// CHECK: [[ROWS:%.+]] = kiln.broadcast
// CHECK: [[P:%.+]] = kiln.linear %arg0, %arg0, %arg1 {grid = array<i64: 1, 1>}
// CHECK: [[Q:%.+]] = kiln.linear %arg0, %arg0, %arg1 trans_b {grid = array<i64: 1, 1>}
// CHECK: kiln.return [[P]], [[Q]], [[ROWS]]
kiln.program @biases(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = kiln.matmul %a, %a trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = kiln.add %p, %rows : tensor<8x8xf32>
  %t = kiln.add %rows, %q : tensor<8x8xf32>
  kiln.return %s, %t, %rows : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// A product that something else reads, that accumulates, or that the library has
// no epilogues for; a value per row, and one for all columns.
// CHECK-LABEL: kiln.program @others
// CHECK-NOT: kiln.linear
kiln.program @others(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}, %c: tensor<1xf32> {kiln.name = "c"}, %d: tensor<8x8xf64> {kiln.name = "d"}, %e: tensor<8xf64> {kiln.name = "e"}, %f: tensor<2x8x8xf32> {kiln.name = "f"})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<2x8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %read = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = kiln.add %read, %rows : tensor<8x8xf32>
  %adds = kiln.matmul %a, %a accumulate %a : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = kiln.add %adds, %rows : tensor<8x8xf32>
  %columns = kiln.broadcast %b dims [0] : tensor<8xf32> to tensor<8x8xf32>
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = kiln.add %p, %columns : tensor<8x8xf32>
  %one = kiln.broadcast %c dims [1] : tensor<1xf32> to tensor<8x8xf32>
  %q = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = kiln.add %q, %one : tensor<8x8xf32>
  %doubles = kiln.broadcast %e dims [1] : tensor<8xf64> to tensor<8x8xf64>
  %r = kiln.matmul %d, %d : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %4 = kiln.add %r, %doubles : tensor<8x8xf64>
  %batch = kiln.broadcast %b dims [2] : tensor<8xf32> to tensor<2x8x8xf32>
  %s = kiln.matmul %f, %f : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %5 = kiln.add %s, %batch : tensor<2x8x8xf32>
  kiln.return %read, %0, %1, %2, %3, %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<2x8x8xf32>
}

}
