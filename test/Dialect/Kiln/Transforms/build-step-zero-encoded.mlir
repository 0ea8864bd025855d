// Moments of shards can be codes. The shards of a tensor with encoded moments are whole blocks.

// RUN: kiln-opt %s '--kiln-build-step=states=moments:dynamic8 mesh=dp=3 zero=1 clip=false' | FileCheck %s

// 130 x 128 elements in blocks of 256: a rank has 22 of 65 blocks.
// CHECK-DAG: kiln.state @w.m.codes : tensor<44x128xi8> {{{.*}}of = @w, role = #kiln.role<optimizer>, shard = #kiln.shard<tensor<130x128xi8> over "dp">, slot = "m.codes"}
// CHECK-DAG: kiln.state @w.m.scales : tensor<22xf32> {{{.*}}shard = #kiln.shard<tensor<65xf32> over "dp">, slot = "m.scales"}
// The size of a shard does not matter, so that all numbers of ranks have the same states.
// CHECK-DAG: kiln.state @small.m.codes : tensor<22x128xi8> {{{.*}}shard = #kiln.shard<tensor<64x128xi8> over "dp">, slot = "m.codes"}
// CHECK-DAG: kiln.state @odd.m : tensor<1400xf32> {{{.*}}shard = #kiln.shard<tensor<4200xf32> over "dp">, slot = "m"}

// CHECK: kiln.reduce_scatter
// CHECK: [[P:%.+]] = kiln.take_shard {{%.+}} over "dp" : tensor<130x128xf32> -> tensor<44x128xf32>
// CHECK: kiln.encoded_update([[P]], {{.*}}) stores [#kiln.moment_storage<signed>, #kiln.moment_storage<unsigned>] : (tensor<44x128xf32>, tensor<44x128xi8>, tensor<22xf32>,
// CHECK: kiln.all_gather {{.*}} -> {{.*}}tensor<130x128xf32>

kiln.state @small : tensor<64x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @odd : tensor<4200xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<130x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<64x128xf32> {kiln.gradient = @small}, tensor<4200xf32> {kiln.gradient = @odd}, tensor<130x128xf32> {kiln.gradient = @w}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 3 : i64} {
  %small = kiln.read @small : tensor<64x128xf32>
  %odd = kiln.read @odd : tensor<4200xf32>
  %w = kiln.read @w : tensor<130x128xf32>
  %dsmall = kiln.mul %small, %small : tensor<64x128xf32>
  %dodd = kiln.mul %odd, %odd : tensor<4200xf32>
  %dw = kiln.mul %w, %w : tensor<130x128xf32>
  kiln.return %scale, %dsmall, %dodd, %dw : tensor<f64>, tensor<64x128xf32>, tensor<4200xf32>, tensor<130x128xf32>
}
