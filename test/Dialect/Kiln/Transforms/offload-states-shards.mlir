// An update of the shard of a whole parameter on the host: ZeRO 1.

// DEFINE: %{mesh} = mesh=dp=2 zero=1 clip=false
// DEFINE: %{step} = kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2
// RUN: %{step} '--kiln-build-step=%{mesh} optimizer=sgd' --kiln-offload-states=optimizer=1 | FileCheck %s
// RUN: %{step} '--kiln-build-step=%{mesh} optimizer=momentum bucket-bytes=100' '--kiln-offload-states=optimizer=1 parameters=1' | FileCheck %s --check-prefix=HOST
// RUN: %{step} '--kiln-build-step=%{mesh} optimizer=momentum' --kiln-offload-states=moments=1 | FileCheck %s --check-prefix=MOMENTS
// RUN: %{step} '--kiln-build-step=%{mesh} optimizer=sgd' --kiln-offload-states=parameters=1 | FileCheck %s --check-prefix=READ
// With micro-batches and ZeRO 2, the shards of the gradients are sums.
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=2 clip=false optimizer=sgd microbatches=2' --kiln-offload-states=optimizer=1 | FileCheck %s --check-prefix=SUMS

// A shard of a computed sum is a gradient.
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=%{mesh} optimizer=sgd' --kiln-compress-gradients=scheme=powersgd:1 --kiln-offload-states=optimizer=1 | FileCheck %s --check-prefix=PRODUCT

// PRODUCT-LABEL: kiln.program @train
// PRODUCT: [[SUM:%.+]] = kiln.matmul {{.*}} trans_a : (tensor<1x64xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
// PRODUCT: [[G:%.+]] = kiln.take_shard [[SUM]] over "dp" : tensor<64x8xf32> -> tensor<32x8xf32>
// PRODUCT: [[C:%.+]] = kiln.copy_out [[G]]
// PRODUCT: [[H:%.+]] = kiln.copy_wait [[C]], [[G]]
// PRODUCT: kiln.sgd {{%.+}}, [[H]],

// A parameter on the device stays there. Its shard is copied to the host two updates before it is
// read, and the new shard is copied back and gathered.
// CHECK: kiln.state @table : tensor<64x8xf32> {
// CHECK-LABEL: kiln.program @train
// CHECK: kiln.reduce_scatter
// CHECK: [[T:%.+]] = kiln.take_shard {{.*}} -> tensor<32x8xf32>
// CHECK-NEXT: [[C:%.+]] = kiln.copy_out [[T]]
// CHECK-NEXT: [[H:%.+]] = kiln.copy_wait [[C]], [[T]]
// CHECK-NEXT: kiln.take_shard
// CHECK-NEXT: kiln.copy_out
// CHECK-NEXT: kiln.take_shard
// CHECK-NEXT: kiln.copy_out
// CHECK-NEXT: [[P:%.+]] = kiln.sgd [[H]],
// CHECK-NEXT: [[I:%.+]] = kiln.copy_in [[P]]
// CHECK: [[W:%.+]] = kiln.copy_wait [[I]], [[P]]
// CHECK: [[G:%.+]]:4 = kiln.all_gather [[W]],
// CHECK-NEXT: kiln.write @table, [[G]]#0 : tensor<64x8xf32>

// The shard of a parameter on the host is taken there. The new value is copied to the host, while at
// most two later all-gathers run.
// HOST: kiln.state @c : tensor<8x8xf32, #kiln.memory<host>> {
// HOST-LABEL: kiln.program @train
// HOST: [[T:%.+]] = kiln.take_shard {{%.+}} over "dp" : tensor<8x8xf32, #kiln.memory<host>> -> tensor<4x8xf32, #kiln.memory<host>>
// HOST: kiln.momentum [[T]],
// HOST: [[A:%.+]] = kiln.all_gather {{.*}} -> tensor<8x8xf32>
// HOST-NEXT: [[CA:%.+]] = kiln.copy_out [[A]]
// HOST: kiln.all_gather
// HOST: [[HA:%.+]] = kiln.copy_wait [[CA]], [[A]]
// HOST-NEXT: kiln.all_gather
// HOST: kiln.write @c, [[HA]]

// MOMENTS: kiln.state @table : tensor<64x8xf32> {
// MOMENTS: kiln.state @table.momentum : tensor<32x8xf32, #kiln.memory<host>> {
// MOMENTS-LABEL: kiln.program @train
// MOMENTS: [[P:%.+]], [[B:%.+]] = kiln.momentum {{.*}} : (tensor<32x8xf32>
// MOMENTS: [[C:%.+]] = kiln.copy_out [[B]]
// MOMENTS: [[H:%.+]] = kiln.copy_wait [[C]], [[B]]
// MOMENTS: kiln.all_gather [[P]],
// MOMENTS: kiln.write @table.momentum, [[H]]

// READ: kiln.state @table : tensor<64x8xf32, #kiln.memory<host>> {
// READ-LABEL: kiln.program @train
// READ: [[R:%.+]] = kiln.read @table : tensor<64x8xf32>
// READ: kiln.take_shard [[R]] over "dp" : tensor<64x8xf32> -> tensor<32x8xf32>

// SUMS-LABEL: kiln.program @train
// SUMS: kiln.microbatches
// SUMS: [[T:%.+]] = kiln.take_shard
// SUMS: [[C:%.+]] = kiln.copy_out [[T]]
// SUMS: [[H:%.+]] = kiln.copy_wait [[C]], [[T]]
// SUMS: kiln.sgd [[H]],
