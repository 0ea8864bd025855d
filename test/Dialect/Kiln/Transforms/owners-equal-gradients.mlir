// ZeRO by owner: the gradients of two parameters are one value, which is summed once, so the
// parameters have the same owner.

// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=2 zero=1 zero-by=owner clip=false optimizer=sgd' | FileCheck %s

// CHECK-LABEL: kiln.program @train
// CHECK: [[S:%.+]] = kiln.reduce_scatter {{%.+}} over "dp" owners [0] : tensor<8x8xf32> -> tensor<8x8xf32>
// CHECK: [[A:%.+]] = kiln.take_shard {{%.+}} over "dp" owner 0 :
// CHECK: kiln.sgd [[A]], [[S]],
// CHECK: [[B:%.+]] = kiln.take_shard {{%.+}} over "dp" owner 0 :
// CHECK: kiln.sgd [[B]], [[S]],
// CHECK: kiln.all_gather {{.+}} over "dp" owners [0, 0] :
kiln.state @a : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8x8xf32> {kiln.gradient = @a}, tensor<8x8xf32> {kiln.gradient = @b}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
  %a = kiln.read @a : tensor<8x8xf32>
  %b = kiln.read @b : tensor<8x8xf32>
  %g = kiln.add %a, %b : tensor<8x8xf32>
  kiln.return %scale, %g, %g : tensor<f64>, tensor<8x8xf32>, tensor<8x8xf32>
}
