// Matmuls of bf16 in a schedule: written side by side at places that no four
// bytes divide, of two types, and added onto a wide sum.

// RUN: kiln-run %s --entry=f > %t.dense
// RUN: FileCheck %s < %t.dense
// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule -o %t.scheduled.mlir
// RUN: FileCheck %s --check-prefix=PLACES < %t.scheduled.mlir
// RUN: kiln-run %t.scheduled.mlir --entry=f | diff %t.dense -

// 1.25 * 1.5 * 3 = 5.625 in each column of both products; 5.625 * 5.625 * 8 is
// 253.125, which bf16 rounds to 253.
// CHECK: both [3, 8] = 5.625, 5.625
// CHECK-NEXT: square [3, 3] = 253, 253
// CHECK-NEXT: sum [3, 3] = 506.25, 506.25

// PLACES: [[B:%.+]] = kilnrt.view {{%.+}}[0] : memref<3x5xbf16>
// PLACES: [[RIGHT:%.+]] = kilnrt.view {{%.+}}[6] : memref<3x5xbf16, strided<[8, 1]>>
// PLACES-NEXT: kilnrt.gemm on @compute (ro {{%.+}}, ro [[B]], wo [[RIGHT]]) grid [1, 1] scratch({{.*}})

kiln.state @a : tensor<3x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.25>}
kiln.state @b : tensor<3x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.5>}
kiln.state @c : tensor<3x5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.5>}

kiln.program @f() -> (tensor<3x8xbf16> {kiln.name = "both"}, tensor<3x3xbf16> {kiln.name = "square"}, tensor<3x3xf32> {kiln.name = "sum"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %a32 = kiln.read @a : tensor<3x3xf32>
  %b32 = kiln.read @b : tensor<3x3xf32>
  %c32 = kiln.read @c : tensor<3x5xf32>
  %a = kiln.cast %a32 : tensor<3x3xf32> to tensor<3x3xbf16>
  %b = kiln.cast %b32 : tensor<3x3xf32> to tensor<3x3xbf16>
  %c = kiln.cast %c32 : tensor<3x5xf32> to tensor<3x5xbf16>
  %left = kiln.matmul %a, %b {grid = array<i64: 1, 1>} : (tensor<3x3xbf16>, tensor<3x3xbf16>) -> tensor<3x3xbf16>
  %right = kiln.matmul %a, %c {grid = array<i64: 1, 1>} : (tensor<3x3xbf16>, tensor<3x5xbf16>) -> tensor<3x5xbf16>
  %both = kiln.concat %left, %right dim 1 : (tensor<3x3xbf16>, tensor<3x5xbf16>) -> tensor<3x8xbf16>
  %square = kiln.matmul %both, %both trans_b {grid = array<i64: 1, 1>} : (tensor<3x8xbf16>, tensor<3x8xbf16>) -> tensor<3x3xbf16>
  %once = kiln.matmul %both, %both trans_b {grid = array<i64: 1, 1>} : (tensor<3x8xbf16>, tensor<3x8xbf16>) -> tensor<3x3xf32>
  %sum = kiln.matmul %both, %both accumulate %once trans_b {grid = array<i64: 1, 1>} : (tensor<3x8xbf16>, tensor<3x8xbf16>, tensor<3x3xf32>) -> tensor<3x3xf32>
  kiln.return %both, %square, %sum : tensor<3x8xbf16>, tensor<3x3xbf16>, tensor<3x3xf32>
}
