// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule -split-input-file | FileCheck %s

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// The update stands first in the program but the product still reads the entry
// value: the update moves behind it and writes in place, into the state's slot.
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[W:%.+]] = kilnrt.slot "w" class "parameter" offset 0 bytes 64 {{.*}} state @w
// CHECK: kilnrt.gemm({{%.+}}, [[W]], {{%.+}})
// CHECK: kilnrt.launch @{{.+}}([[W]], {{.*}}, [[W]])
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x"}, %g: tensor<4x4xf32> {kiln.name = "g"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %p = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32>
  %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// An elementwise result takes the slot of an operand that dies; slices of columns
// are offsets; equal dispatches share one kernel.
// CHECK: kilnrt.kernel @[[K:.+]] attributes
// CHECK-NOT: kilnrt.kernel
// CHECK-LABEL: kilnrt.program @f
// CHECK: [[X:%.+]] = kilnrt.slot "x"
// CHECK: [[M:%.+]] = kilnrt.slot "matmul"
// CHECK: [[N:%.+]] = kilnrt.slot "matmul"
// CHECK: kilnrt.gemm([[X]], [[X]], [[M]]) offsets [0, 16, 0] {{.*}} lead = array<i64: 8, 8, 4>
// CHECK: kilnrt.launch @[[K]]([[M]], [[M]])
// CHECK: kilnrt.gemm({{.*}}, [[N]])
// CHECK: kilnrt.launch @[[K]]([[N]], [[N]])
kiln.program @f(%x: tensor<4x8xf32> {kiln.name = "x"}) -> (tensor<4x4xf32> {kiln.name = "y"}, tensor<4x4xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %a = kiln.slice %x [0, 0] : tensor<4x8xf32> to tensor<4x4xf32>
  %b = kiln.slice %x [0, 4] : tensor<4x8xf32> to tensor<4x4xf32>
  %m = kiln.matmul %a, %b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kiln.relu %m : tensor<4x4xf32>
  %n = kiln.matmul %b, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = kiln.relu %n : tensor<4x4xf32>
  kiln.return %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
}
