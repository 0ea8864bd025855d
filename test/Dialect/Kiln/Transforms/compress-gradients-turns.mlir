// GradZIP: ranks sum one of two low-rank factors, in turns. Both are computed, and multiplied by 0 or 1.

// DEFINE: %{step} = kiln-opt %s '--kiln-build-step=mesh=dp=2 optimizer=sgd clip=false'
// RUN: %{step} --kiln-compress-gradients=scheme=gradzip:2 | FileCheck %s
// RUN: not %{step} --kiln-compress-gradients=scheme=gradzip:8 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not kiln-opt %S/Inputs/tied.mlir '--kiln-autodiff=microbatches=2 scale-gradients' '--kiln-build-step=mesh=dp=2' --kiln-compress-gradients=scheme=gradzip:1 2>&1 | FileCheck %s --check-prefix=SCALED

// NONE: has no compressible gradient among those that data-parallel ranks sum: gradzip:8 compresses matrices whose larger factor has at most half as many bytes
// SCALED: error: 'kiln.program' op scales the gradients

// CHECK: module attributes {kiln.encoded = [#kiln.encoded<value = "a", as = "gradzip:2", lossy = true, bytes = 512, encoded_bytes = 128>]
// CHECK: kiln.state @a.error : tensor<8x16xf32> {{{.*}}shard = #kiln.shard<tensor<2x8x16xf32> over "dp">, slot = "error"}
// CHECK: kiln.state @a.row_basis : tensor<2x8xf32> {init = #kiln.normal{{.*}} slot = "row_basis"}
// CHECK: kiln.state @a.basis : tensor<2x16xf32> {init = #kiln.normal{{.*}} slot = "basis"}
// CHECK: kiln.state @a.turn : tensor<1xf32> {init = #kiln.splat<value = 0.000000e+00 : f64>{{.*}} slot = "turn"}
// CHECK-LABEL: kiln.program @train
// CHECK-DAG: [[TURN:%.+]] = kiln.read @a.turn
// CHECK-DAG: [[DA:%.+]] = kiln.mul {{.*}} : tensor<8x16xf32>
// CHECK: [[D:%.+]] = kiln.add [[DA]],
// CHECK: [[OTHER:%.+]] = kiln.sub {{%.+}}, [[TURN]] : tensor<1xf32>
// CHECK: [[FP:%.+]] = kiln.concat {{.*}} -> tensor<2x8xf32>
// CHECK: [[FQ:%.+]] = kiln.concat {{.*}} -> tensor<2x16xf32>
// CHECK: [[P:%.+]] = kiln.matmul [[FQ]], [[D]] trans_b : {{.*}} -> tensor<2x8xf32>
// CHECK: [[Q:%.+]] = kiln.matmul [[FP]], [[D]] : {{.*}} -> tensor<2x16xf32>
// CHECK: kiln.pad [[P]] low [0, 0] : tensor<2x8xf32> to tensor<2x16xf32>
// CHECK: [[OWN:%.+]] = kiln.add {{.*}} : tensor<2x16xf32>
// CHECK: [[SUM:%.+]] = kiln.all_reduce [[OWN]] over "dp" : tensor<2x16xf32>
// CHECK: kiln.slice [[SUM]] [0, 0] : tensor<2x16xf32> to tensor<2x8xf32>
// CHECK: [[G:%.+]] = kiln.matmul {{.*}} trans_a : {{.*}} -> tensor<8x16xf32>
// CHECK: [[SENT:%.+]] = kiln.matmul {{.*}} trans_a : {{.*}} -> tensor<8x16xf32>
// CHECK: [[E:%.+]] = kiln.sub [[D]], [[SENT]]
// CHECK: kiln.write @a.error, [[E]]
// CHECK: kiln.write @a.row_basis
// CHECK: kiln.write @a.basis
// CHECK: kiln.write @a.turn, [[OTHER]]
// CHECK: kiln.sgd {{%.+}}, [[G]],

kiln.state @a : tensor<8x16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8x16xf32> {kiln.gradient = @a}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
  %a = kiln.read @a : tensor<8x16xf32>
  %da = kiln.mul %a, %a : tensor<8x16xf32>
  kiln.return %scale, %da : tensor<f64>, tensor<8x16xf32>
}
