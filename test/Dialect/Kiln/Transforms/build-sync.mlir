// Data-parallel ranks that train alone average their states.

// DEFINE: %{step} = kiln-opt %s '--kiln-build-step=mesh=dp=4 sync-every=3 optimizer=momentum'
// DEFINE: %{plan} = --kiln-set-numerics --kiln-form-dispatches --kiln-place-copies --kiln-schedule
// RUN: %{step} --kiln-build-sync=sync-every=3 | FileCheck %s
// RUN: %{step} '--kiln-build-sync=sync-every=3 bucket-bytes=100' | FileCheck %s --check-prefix=BUCKETS
// RUN: %{step} --kiln-add-working-copies --kiln-build-sync=sync-every=3 %{plan} | FileCheck %s --check-prefix=PLACES
// RUN: %{step} --kiln-build-sync=sync-every=3 --kiln-offload-states=optimizer=1 | FileCheck %s --check-prefix=HOST
// RUN: not kiln-opt %s '--kiln-build-step=sync-every=3' 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=4 sync-every=0' 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=4 sync-every=3 zero=1' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not kiln-opt %s --kiln-build-sync 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not %{step} --kiln-build-sync=sync-every=1 2>&1 | FileCheck %s --check-prefix=LEAST

// RANKS: error: sync-every averages the states of data-parallel ranks, but the mesh has one such rank; set the mesh to dp=N
// NUMBER: error: sync-every is 0, expected a positive number
// ZERO: error: option 'sync-every' averages whole states, but 'zero' divides states over ranks; set only one of these options
// AXIS: error: kiln-build-sync averages the states of data-parallel ranks, but the mesh of the module has no axis 'dp' with several ranks
// LEAST: error: sync-every is 1, expected at least 2

// CHECK: module attributes {kiln.mesh = {dp = 4 : i64}, kiln.sync_every = 3 : i64}

// A step sums no gradients. It returns the averages of the losses and norms of all ranks.
// CHECK-LABEL: kiln.program @train
// CHECK-SAME: %[[LOSS:[a-z0-9]+]]: tensor<f64>
// CHECK: [[PART:%.+]] = kiln.scale %[[LOSS]] by 2.500000e-01 : tensor<f64>
// CHECK: [[MEAN:%.+]] = kiln.all_reduce [[PART]] over "dp" : tensor<f64>
// CHECK: [[FACTOR:%[a-z_]+]], [[NORM:%[a-z_]+]] = kiln.clip_factor
// CHECK: [[OWN:%.+]] = kiln.scale [[NORM]] by 2.500000e-01 : tensor<f64>
// CHECK: [[NORMS:%.+]] = kiln.all_reduce [[OWN]] over "dp" : tensor<f64>
// CHECK-NOT: kiln.all_reduce
// CHECK: kiln.momentum {{.*}}, [[FACTOR]],
// CHECK: kiln.return [[MEAN]], [[NORMS]]

// CHECK-LABEL: kiln.program @sync()
// CHECK-SAME: kind = #kiln.program_kind<sync>
// CHECK: [[A:%.+]] = kiln.read @a : tensor<8xf32>
// CHECK: [[SA:%.+]] = kiln.scale [[A]] by 2.500000e-01 : tensor<8xf32>
// CHECK: kiln.read @a.momentum : tensor<8xf32>
// CHECK: [[B:%.+]] = kiln.read @b : tensor<4x8xf32>
// CHECK: kiln.read @b.momentum : tensor<4x8xf32>
// CHECK: [[M:%.+]]:4 = kiln.all_reduce [[SA]], {{.*}} over "dp" : tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
// CHECK: kiln.write @a, [[M]]#0 : tensor<8xf32>
// CHECK: kiln.write @a.momentum, [[M]]#1 : tensor<8xf32>
// CHECK: kiln.write @b, [[M]]#2 : tensor<4x8xf32>
// CHECK: kiln.write @b.momentum, [[M]]#3 : tensor<4x8xf32>
// CHECK: kiln.return

// A bucket is averaged while the states of the next one are scaled.
// BUCKETS-LABEL: kiln.program @sync()
// BUCKETS: [[FIRST:%.+]]:3 = kiln.all_reduce
// BUCKETS: kiln.scale
// BUCKETS-NEXT: kiln.all_reduce
// BUCKETS-NEXT: kiln.write @b, [[FIRST]]#2
// BUCKETS-NEXT: kiln.write @a.momentum, [[FIRST]]#1
// BUCKETS-NEXT: kiln.write @a, [[FIRST]]#0

// The states are averaged in place, and the working copies are written at once.
// PLACES-LABEL: kilnrt.program @sync
// PLACES-NOT: class {{activation|materialized|gradient}}
// PLACES: [[A:%.+]] = kilnrt.view %a.slot[0] : memref<8xf32>
// PLACES-NEXT: kilnrt.launch {{.*}}(ro [[A]], wo [[A]])
// PLACES: kilnrt.begin all_reduce over "dp" {{.*}}(ro %a, ro %a.momentum, ro %b, ro %b.momentum, wo %a, wo %a.momentum, wo %b, wo %b.momentum)
// PLACES: kilnrt.wait
// PLACES: [[N:%.+]] = kilnrt.view %a.bf16.slot[0] : memref<8xbf16>
// PLACES-NEXT: kilnrt.launch {{.*}}(ro [[A]], wo [[N]])
// PLACES-NOT: kilnrt.copy

// States on the host are copied in, and their averages are copied back.
// HOST-LABEL: kiln.program @sync()
// HOST: [[M:%.+]]:4 = kiln.all_reduce
// HOST: [[C:%.+]] = kiln.copy_out [[M]]#1 : tensor<8xf32> to tensor<8xf32, #kiln.memory<host>>
// HOST: [[H:%.+]] = kiln.copy_wait [[C]], [[M]]#1
// HOST: kiln.write @a.momentum, [[H]] : tensor<8xf32, #kiln.memory<host>>

kiln.state @a : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8xf32> {kiln.gradient = @a}, tensor<4x8xf32> {kiln.gradient = @b}) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<8xf32>
  %b = kiln.read @b : tensor<4x8xf32>
  %db = kiln.mul %b, %b : tensor<4x8xf32>
  %da = kiln.mul %a, %a : tensor<8xf32>
  kiln.return %scale, %da, %db : tensor<f64>, tensor<8xf32>, tensor<4x8xf32>
}
