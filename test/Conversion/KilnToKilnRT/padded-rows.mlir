// On a GPU, rows of matmul operands and results are padded to a multiple of 32
// bytes if all uses of the matrix support a row pitch. A CPU uses no padding.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule=max-threads=2 | FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | kiln-opt --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule=max-threads=2 | FileCheck %s --check-prefix=CPU

// CPU-NOT: rows [

module attributes {kiln.target = "cuda"} {

// The kernel's result reuses the slot of its operand, including the padding;
// the last row is not padded. The returned value is dense.
// CHECK-LABEL: kilnrt.program @passed
// CHECK: [[A:%.+]] = kilnrt.slot "matmul" {{.*}} bytes 188 lifetime [0, 2] rows [28, 32] why "result"
// CHECK: kilnrt.slot "matmul" class output {{.*}} bytes 168
// CHECK: [[V:%.+]] = kilnrt.view {{%.+}}[0] : memref<7x7xf32>
// CHECK: [[Z:%.+]] = kilnrt.view {{%.+}}[0] : memref<6x7xf32>
// CHECK: [[P:%.+]] = kilnrt.view [[A]][0] : memref<6x7xf32, strided<[8, 1]>>
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro {{%.+}} transposed, wo [[P]])
// CHECK: kilnrt.launch @{{.+}} on @compute (ro [[P]], wo [[P]])
// CHECK: kilnrt.gemm on @compute (ro [[P]], ro [[V]], wo [[Z]])
kiln.program @passed(%x: tensor<6x8xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<7x8xf32> {kiln.name = "w", kiln.input = #kiln.input<data>}, %v: tensor<7x7xf32> {kiln.name = "v", kiln.input = #kiln.input<data>}) -> (tensor<6x7xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %y = kiln.matmul %x, %w trans_b {grid = array<i64: 1, 1>} : (tensor<6x8xf32>, tensor<7x8xf32>) -> tensor<6x7xf32>
  %h = kiln.exp %y : tensor<6x7xf32>
  %z = kiln.matmul %h, %v {grid = array<i64: 1, 1>} : (tensor<6x7xf32>, tensor<7x7xf32>) -> tensor<6x7xf32>
  kiln.return %z : tensor<6x7xf32>
}

// Not padded: a reshaped matrix, a matrix that is no operand or result of a
// matmul, a single row, and rows of 32 bytes.
// CHECK-LABEL: kilnrt.program @others
// CHECK-NOT: rows [
// CHECK: kilnrt.program @of_rows
kiln.program @others(%x: tensor<6x8xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<7x8xf32> {kiln.name = "w", kiln.input = #kiln.input<data>}, %one: tensor<1x8xf32> {kiln.name = "one", kiln.input = #kiln.input<data>}, %eight: tensor<8x8xf32> {kiln.name = "eight", kiln.input = #kiln.input<data>}) -> (tensor<6xf32> {kiln.name = "a"}, tensor<6x7xf32> {kiln.name = "b"}, tensor<1x7xf32> {kiln.name = "c"}, tensor<6xf32> {kiln.name = "d"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %y = kiln.matmul %x, %w trans_b {grid = array<i64: 1, 1>} : (tensor<6x8xf32>, tensor<7x8xf32>) -> tensor<6x7xf32>
  %flat = kiln.reshape %y : tensor<6x7xf32> to tensor<2x3x7xf32>
  %e = kiln.exp %flat : tensor<2x3x7xf32>
  %back = kiln.reshape %e : tensor<2x3x7xf32> to tensor<6x7xf32>
  %a = kiln.reduce sum %back dims [1] : tensor<6x7xf32> to tensor<6xf32>
  %p = kiln.matmul %one, %w trans_b {grid = array<i64: 1, 1>} : (tensor<1x8xf32>, tensor<7x8xf32>) -> tensor<1x7xf32>
  %c = kiln.exp %p : tensor<1x7xf32>
  %q = kiln.matmul %x, %eight trans_b {grid = array<i64: 1, 1>} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %d = kiln.reduce sum %q dims [1] : tensor<6x8xf32> to tensor<6xf32>
  kiln.return %a, %back, %c, %d : tensor<6xf32>, tensor<6x7xf32>, tensor<1x7xf32>, tensor<6xf32>
}

// Values with one element per row are stored contiguously, whatever reads them.
// CHECK-NOT: rows [
// CHECK: kilnrt.program @residuals
kiln.program @of_rows(%x: tensor<6x1xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<1x7xf32> {kiln.name = "w", kiln.input = #kiln.input<data>}) -> (tensor<6x7xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %s = kiln.reduce sum %x dims [1] : tensor<6x1xf32> to tensor<6xf32>
  %h = kiln.broadcast %s dims [0] : tensor<6xf32> to tensor<6x1xf32>
  %z = kiln.matmul %h, %w {grid = array<i64: 1, 1>} : (tensor<6x1xf32>, tensor<1x7xf32>) -> tensor<6x7xf32>
  kiln.return %z : tensor<6x7xf32>
}

// A residual is padded if the ops of both segments that read it support a row
// pitch. A residual that is copied to the host is dense.
// CHECK: kilnrt.slot "matmul" class activation {{.*}} bytes 188 lifetime [0, 3] rows [28, 32] why "result"
// CHECK: kilnrt.slot "exp+tanh" class activation {{.*}} bytes 168 lifetime [1, 5] why "result"
// CHECK: kilnrt.gemm on @compute ({{.*}}, wo [[P:%.+]]) grid
// CHECK: kilnrt.launch @{{.+}} on @compute (ro [[P]], wo [[P]], wo {{%.+}})
// CHECK: } backward {
// CHECK: [[P:%.+]] = kilnrt.view {{%.+}}[0] : memref<6x7xf32, strided<[8, 1]>>
// CHECK: kilnrt.gemm on @compute (ro [[P]] transposed, ro [[P]],
kiln.program @residuals(%x: tensor<12x7xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<7x7xf32> {kiln.name = "w", kiln.input = #kiln.input<data>}) -> (tensor<7x7xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<12x7xf32>) -> tensor<7x7xf32> {
  ^bb0(%part: tensor<6x7xf32>, %sum: tensor<7x7xf32>):
    %y = kiln.matmul %part, %w {grid = array<i64: 1, 1>} : (tensor<6x7xf32>, tensor<7x7xf32>) -> tensor<6x7xf32>
    %h = kiln.exp %y : tensor<6x7xf32>
    %k = kiln.tanh %y : tensor<6x7xf32>
    %f = kiln.copy_out %k : tensor<6x7xf32> to tensor<6x7xf32, #kiln.memory<host>>
    %t = kiln.matmul %h, %h accumulate %sum trans_a {grid = array<i64: 1, 1>} : (tensor<6x7xf32>, tensor<6x7xf32>, tensor<7x7xf32>) -> tensor<7x7xf32>
    %u = kiln.matmul %k, %part accumulate %t trans_a {grid = array<i64: 1, 1>} : (tensor<6x7xf32>, tensor<6x7xf32>, tensor<7x7xf32>) -> tensor<7x7xf32>
    %g = kiln.copy_wait %f, %k : tensor<6x7xf32> to tensor<6x7xf32, #kiln.memory<host>>
    kiln.yield %u : tensor<7x7xf32>
  }
  kiln.return %s : tensor<7x7xf32>
}

}
