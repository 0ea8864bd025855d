// Each rank updates its shards of the parameters, whose gradients are summed into shards.

// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1' | FileCheck %s --check-prefixes=CHECK,CLIP
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1 clip=false' | FileCheck %s --check-prefixes=CHECK,NOCLIP
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1 keep-gradients' | FileCheck %s --check-prefix=KEEP
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1 optimizer=sgd bucket-bytes=100' | FileCheck %s --check-prefix=BUCKETS
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=2 microbatches=2 zero=1 clip=false' | FileCheck %s --check-prefix=SUMS
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=2 microbatches=2 zero=2 bucket-bytes=100' | FileCheck %s --check-prefix=SHARDS
// With one micro-batch, stage 2 is stage 1. The parameters of stage 3 are divided by another pass.
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1' -o %t.1
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=2' | diff %t.1 -
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=3' | diff %t.1 -
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=4' 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=-1' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not kiln-opt %s '--kiln-build-step=microbatches=4 zero=1' 2>&1 | FileCheck %s --check-prefix=RANK
// STAGE: error: option 'zero' is 4, expected a stage of ZeRO from 0 to 3
// NEGATIVE: error: option 'zero' is -1, expected a stage of ZeRO from 0 to 3
// RANK: error: option 'zero' divides states over data-parallel ranks, but the mesh has one such rank; set the mesh to dp=N

// Parameters are whole. A shard of a matrix with many rows has its columns; the elements of a vector
// and of a matrix with few rows are divided. A rank has at least one element.
// CHECK-DAG: kiln.state @gain : tensor<10xf32> {init = {{[^,]*}}, role = #kiln.role<parameter>}
// CHECK-DAG: kiln.state @gain.m : tensor<3xf32> {{{.*}}of = @gain, role = #kiln.role<optimizer>, shard = #kiln.shard<tensor<10xf32> over "dp">, slot = "m"}
// CHECK-DAG: kiln.state @gain.v : tensor<3xf32> {{{.*}}shard = #kiln.shard<tensor<10xf32> over "dp">, slot = "v"}
// CHECK-DAG: kiln.state @few.m : tensor<1x5xf32> {{{.*}}shard = #kiln.shard<tensor<3x6xf32> over "dp">
// CHECK-DAG: kiln.state @scalar.v : tensor<1xf32> {{{.*}}shard = #kiln.shard<tensor<f32> over "dp">
// CHECK-DAG: kiln.state @w.m : tensor<33x8xf32> {{{.*}}shard = #kiln.shard<tensor<130x8xf32> over "dp">
// A matrix with too few rows and enough elements gets columns that kernels compute well.
// CHECK-DAG: kiln.state @wide.m : tensor<32x64xf32> {{{.*}}shard = #kiln.shard<tensor<2x4096xf32> over "dp">

// CHECK-LABEL: kiln.program @train
// CHECK: kiln.all_reduce {{.*}} : tensor<f64>
// CHECK: [[W:%.+]] = kiln.read @w : tensor<130x8xf32>
// CHECK: [[S:%.+]]:5 = kiln.reduce_scatter {{.*}} over "dp" : tensor<130x8xf32>, tensor<2x4096xf32>, tensor<f32>, tensor<3x6xf32>, tensor<10xf32> -> tensor<33x8xf32>, tensor<32x64xf32>, tensor<1xf32>, tensor<1x5xf32>, tensor<3xf32>

// The sum of squares over the shards of a rank is summed over the ranks.
// CLIP: kiln.sum_squares [[S]]#4
// CLIP: [[ALL:%.+]] = kiln.concat
// CLIP: [[OWN:%.+]] = kiln.scaled_total [[ALL]]
// CLIP-NEXT: [[SUM:%.+]] = kiln.all_reduce [[OWN]] over "dp" : tensor<f64>
// CLIP-NEXT: [[TOTAL:%.+]] = kiln.reshape [[SUM]] : tensor<f64> to tensor<1xf64>
// CLIP-NEXT: kiln.clip_factor [[TOTAL]]
// NOCLIP-NOT: kiln.all_reduce

// An update of a shard. The decay is that of the parameter: a vector has none.
// CHECK: kiln.take_shard {{.*}} : tensor<10xf32> -> tensor<3xf32>
// CHECK: kiln.adam {{.*}}weight_decay = 0.0{{.*}} tensor<3xf32>
// CHECK: kiln.write @gain.m, {{.*}} : tensor<3xf32>
// CHECK: [[P:%.+]] = kiln.take_shard [[W]] over "dp" : tensor<130x8xf32> -> tensor<33x8xf32>
// CHECK: [[NEW:%.+]], {{%.+}}, {{%.+}} = kiln.adam [[P]], {{%.+}}, {{%.+}}, [[S]]#0, {{.*}}weight_decay = 1.0{{.*}}e-02
// CHECK: [[G:%.+]]:5 = kiln.all_gather {{.*}} over "dp" : {{.*}} -> tensor<10xf32>, tensor<3x6xf32>, tensor<f32>, tensor<130x8xf32>, tensor<2x4096xf32>
// CHECK: kiln.write @w, [[G]]#3 : tensor<130x8xf32>

// Returned gradients are whole.
// KEEP: [[S:%.+]]:5 = kiln.reduce_scatter
// KEEP: kiln.write @wide,
// KEEP: [[G:%.+]] = kiln.all_gather [[S]]#4 over "dp" : tensor<3xf32> -> tensor<10xf32>
// KEEP: kiln.all_gather [[S]]#3 over "dp" : tensor<1x5xf32> -> tensor<3x6xf32>
// KEEP: kiln.return {{%.+}}, {{%.+}}, [[G]],

// Buckets of gradients and of updated parameters. The all-gather of a bucket follows its last update.
// BUCKETS: kiln.reduce_scatter {{.*}} : tensor<130x8xf32> ->
// BUCKETS: kiln.reduce_scatter {{.*}} : tensor<2x4096xf32> ->
// BUCKETS: kiln.reduce_scatter {{.*}} : tensor<f32>, tensor<3x6xf32>, tensor<10xf32> ->
// BUCKETS: kiln.sgd {{.*}} tensor<3xf32>
// BUCKETS: kiln.sgd {{.*}} tensor<1x5xf32>
// BUCKETS-NEXT: [[SMALL:%.+]]:2 = kiln.all_gather {{.*}} -> tensor<10xf32>, tensor<3x6xf32>
// BUCKETS: kiln.sgd {{.*}} tensor<33x8xf32>
// BUCKETS-NEXT: kiln.all_gather {{.*}} -> tensor<f32>, tensor<130x8xf32>
// BUCKETS: kiln.sgd {{.*}} tensor<32x64xf32>
// BUCKETS-NEXT: kiln.all_gather {{.*}} -> tensor<2x4096xf32>
// The states are written at the end, which waits for the transfers.
// BUCKETS-NEXT: kiln.write @gain, [[SMALL]]#0

// In stage 1, micro-batches add to whole gradients.
// SUMS: [[M:%.+]]:6 = kiln.microbatches
// SUMS-NOT: kiln.reduce_scatter
// SUMS: kiln.yield {{.*}} tensor<130x8xf32>
// SUMS: kiln.reduce_scatter {{.*}}[[M]]#

// In stage 2, they add to shards, after the start of the next bucket.
// SHARDS: [[M:%.+]]:6 = kiln.microbatches {{.*}} -> (tensor<f64>, tensor<5xf32>, tensor<1x9xf32>, tensor<1xf32>, tensor<65x8xf32>, tensor<1x4096xf32>) {
// SHARDS-NOT: kiln.all_reduce
// SHARDS: [[A:%.+]] = kiln.reduce_scatter {{.*}} : tensor<130x8xf32> -> tensor<65x8xf32>
// SHARDS-NOT: kiln.add {{.*}}[[A]]
// SHARDS: [[B:%.+]] = kiln.reduce_scatter {{.*}} : tensor<2x4096xf32> -> tensor<1x4096xf32>
// SHARDS-NEXT: kiln.add {{%.+}}, [[A]] : tensor<65x8xf32>
// SHARDS: kiln.reduce_scatter {{.*}} -> tensor<1xf32>, tensor<1x9xf32>, tensor<5xf32>
// SHARDS-NEXT: kiln.add {{%.+}}, [[B]] : tensor<1x4096xf32>
// SHARDS: kiln.yield
// SHARDS-NOT: kiln.reduce_scatter
// SHARDS: kiln.all_reduce [[M]]#0 over "dp" : tensor<f64>
// SHARDS: kiln.adam {{.*}}, [[M]]#1,

kiln.state @gain : tensor<10xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @few : tensor<3x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @scalar : tensor<f32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<130x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @wide : tensor<2x4096xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<10xf32> {kiln.gradient = @gain}, tensor<3x6xf32> {kiln.gradient = @few}, tensor<f32> {kiln.gradient = @scalar}, tensor<130x8xf32> {kiln.gradient = @w}, tensor<2x4096xf32> {kiln.gradient = @wide}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 4 : i64} {
  %a = kiln.read @gain : tensor<10xf32>
  %b = kiln.read @few : tensor<3x6xf32>
  %c = kiln.read @scalar : tensor<f32>
  %w = kiln.read @w : tensor<130x8xf32>
  %e = kiln.read @wide : tensor<2x4096xf32>
  %dw = kiln.mul %w, %w : tensor<130x8xf32>
  %de = kiln.mul %e, %e : tensor<2x4096xf32>
  %dc = kiln.mul %c, %c : tensor<f32>
  %db = kiln.mul %b, %b : tensor<3x6xf32>
  %da = kiln.mul %a, %a : tensor<10xf32>
  kiln.return %scale, %da, %db, %dc, %dw, %de : tensor<f64>, tensor<10xf32>, tensor<3x6xf32>, tensor<f32>, tensor<130x8xf32>, tensor<2x4096xf32>
}
