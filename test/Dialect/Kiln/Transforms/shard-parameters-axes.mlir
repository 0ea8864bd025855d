// Only data parallelism divides parameters here. The rows of a parameter that sequence parallelism
// takes for a rank of tp are not the shard of a rank of dp, although both have the same shape.

// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=2,tp=2 zero=3 clip=false optimizer=sgd' --kiln-shard-parameters | FileCheck %s

// CHECK: kiln.state @p : tensor<4x8xf32> {{{.*}}shard = #kiln.shard<tensor<8x8xf32> over "dp">}
// CHECK: kiln.state @rows : tensor<8x8xf32>
// CHECK-LABEL: kiln.program @train
// CHECK: [[S:%.+]] = kiln.read @p : tensor<4x8xf32>
// CHECK: [[P:%.+]] = kiln.all_gather [[S]] over "dp" : tensor<4x8xf32> -> tensor<8x8xf32>
// CHECK: [[R:%.+]] = kiln.take_shard [[P]] over "tp" : tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK: [[A:%.+]] = kiln.all_gather [[R]] over "tp" : tensor<4x8xf32> -> tensor<8x8xf32>
// CHECK: kiln.write @rows, [[A]] : tensor<8x8xf32>
// CHECK: kiln.sgd [[S]],
module attributes {kiln.mesh = {dp = 2 : i64, tp = 2 : i64}} {
  kiln.state @p : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @rows : tensor<8x8xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
  kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8x8xf32> {kiln.gradient = @p}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
    %p = kiln.read @p : tensor<8x8xf32>
    %r = kiln.take_shard %p over "tp" : tensor<8x8xf32> -> tensor<4x8xf32>
    %all = kiln.all_gather %r over "tp" : tensor<4x8xf32> -> tensor<8x8xf32>
    kiln.write @rows, %all : tensor<8x8xf32>
    %g = kiln.mul %p, %p : tensor<8x8xf32>
    kiln.return %scale, %g : tensor<f64>, tensor<8x8xf32>
  }
}
