// RUN: kiln-opt %s --kiln-form-dispatches=epilogues=false --kiln-schedule -split-input-file | FileCheck %s

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// The update precedes a matmul that reads the state's entry value. It moves
// after the matmul and writes in place, into the state's slot.
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[W:%.+]] = kilnrt.slot "w" class parameter offset 0 bytes 64 {{.*}} state @w
// CHECK: [[V:%.+]] = kilnrt.view [[W]][0] : memref<4x4xf32>
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[V]], wo {{%.+}})
// CHECK: kilnrt.launch @{{.+}} on @compute (ro [[V]], {{.*}}, wo [[V]])
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %g: tensor<4x4xf32> {kiln.name = "g", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %p = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32>
  %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// An elementwise result reuses the slot of a dead operand; slices of columns
// become offsets and strides of views; equal dispatches share one kernel.
// CHECK: kilnrt.kernel @[[K:.+]] family<row> space [4, 4] row_strides [4, 4] {
// CHECK-NOT: kilnrt.kernel
// CHECK-LABEL: kilnrt.program @f
// CHECK: [[X:%.+]] = kilnrt.slot "x"
// CHECK: [[M:%.+]] = kilnrt.slot "matmul"
// CHECK: [[N:%.+]] = kilnrt.slot "matmul"
// CHECK: [[MV:%.+]] = kilnrt.view [[M]][0] : memref<4x4xf32>
// CHECK: [[NV:%.+]] = kilnrt.view [[N]][0] : memref<4x4xf32>
// CHECK: [[A:%.+]] = kilnrt.view [[X]][0] : memref<4x4xf32, strided<[8, 1]>>
// CHECK: [[B:%.+]] = kilnrt.view [[X]][16] : memref<4x4xf32, strided<[8, 1]>>
// CHECK: kilnrt.gemm on @compute (ro [[A]], ro [[B]], wo [[MV]])
// CHECK: kilnrt.launch @[[K]] on @compute (ro [[MV]], wo [[MV]])
// CHECK: kilnrt.gemm on @compute (ro [[B]], ro [[A]], wo [[NV]])
// CHECK: kilnrt.launch @[[K]] on @compute (ro [[NV]], wo [[NV]])
kiln.program @f(%x: tensor<4x8xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "y"}, tensor<4x4xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %a = kiln.slice %x [0, 0] : tensor<4x8xf32> to tensor<4x4xf32>
  %b = kiln.slice %x [0, 4] : tensor<4x8xf32> to tensor<4x4xf32>
  %m = kiln.matmul %a, %b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kiln.relu %m : tensor<4x4xf32>
  %n = kiln.matmul %b, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = kiln.relu %n : tensor<4x4xf32>
  kiln.return %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Copies into states at the end behave as if they were simultaneous: a state is
// read before it is overwritten. @c is copied first, the cycle of @a and @b uses
// a buffer, and the returned value of @a is kept.
kiln.state @a : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 1.0>}
kiln.state @b : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 2.0>}
kiln.state @c : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 3.0>}
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[A:%.+]] = kilnrt.slot "a" {{.*}} state @a
// CHECK: [[B:%.+]] = kilnrt.slot "b" {{.*}} state @b
// CHECK: [[C:%.+]] = kilnrt.slot "c" {{.*}} state @c
// CHECK: [[KEPT:%.+]] = kilnrt.slot "a" {{.*}} why "entry value that is returned"
// CHECK: [[ENTRY:%.+]] = kilnrt.slot "a" {{.*}} why "entry value that another state gets"
// CHECK: [[KEPTV:%.+]] = kilnrt.view [[KEPT]][0]
// CHECK: kilnrt.output "y" at [[KEPTV]]
// CHECK-NEXT: [[AV:%.+]] = kilnrt.view [[A]][0]
// CHECK-NEXT: kilnrt.copy on @compute (ro [[AV]], wo [[KEPTV]])
// CHECK-NEXT: [[CV:%.+]] = kilnrt.view [[C]][0]
// CHECK-NEXT: kilnrt.copy on @compute (ro [[AV]], wo [[CV]])
// CHECK-NEXT: [[ENTRYV:%.+]] = kilnrt.view [[ENTRY]][0]
// CHECK-NEXT: kilnrt.copy on @compute (ro [[AV]], wo [[ENTRYV]])
// CHECK-NEXT: [[BV:%.+]] = kilnrt.view [[B]][0]
// CHECK-NEXT: kilnrt.copy on @compute (ro [[BV]], wo [[AV]])
// CHECK-NEXT: kilnrt.copy on @compute (ro [[ENTRYV]], wo [[BV]])
kiln.program @train() -> (tensor<4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<4xf32>
  %b = kiln.read @b : tensor<4xf32>
  kiln.write @a, %b : tensor<4xf32>
  kiln.write @b, %a : tensor<4xf32>
  kiln.write @c, %a : tensor<4xf32>
  kiln.return %a : tensor<4xf32>
}

// -----

// A chain: each state receives the entry value of the previous one.
kiln.state @a : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 1.0>}
kiln.state @b : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 2.0>}
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[A:%.+]] = kilnrt.slot "a" {{.*}} state @a
// CHECK: [[B:%.+]] = kilnrt.slot "b" {{.*}} state @b
// CHECK: [[X:%.+]] = kilnrt.slot "x"
// CHECK-NOT: kilnrt.slot
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: [[AV:%.+]] = kilnrt.view [[A]][0]
// CHECK: [[BV:%.+]] = kilnrt.view [[B]][0]
// CHECK: kilnrt.copy on @compute (ro [[AV]], wo [[BV]])
// CHECK-NEXT: kilnrt.copy on @compute (ro [[XV]], wo [[AV]])
kiln.program @train(%x: tensor<4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<4xf32>
  kiln.write @a, %x : tensor<4xf32>
  kiln.write @b, %a : tensor<4xf32>
  kiln.return
}
