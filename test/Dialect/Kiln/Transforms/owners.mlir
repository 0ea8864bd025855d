// ZeRO by owner: each parameter belongs to a rank, and those of a layer to the same.

// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=2 zero-by=owner' -o %t
// RUN: FileCheck %s < %t
// RUN: kiln-opt %t --kiln-shard-parameters | FileCheck %s --check-prefix=THREE
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=1 zero-by=server' | FileCheck %s --check-prefix=SERVER
// RUN: not kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=1 zero-by=tensor' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: kiln-opt %t --kiln-shard-parameters --kiln-expand-loss --kiln-set-numerics --kiln-recompute=policy=none --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches --kiln-schedule | FileCheck %s --check-prefix=SCHEDULE

// NAME: zero-by is 'tensor', expected elements, owner or server

// The table is the largest tensor; rank 1 gets the others.
// CHECK: kiln.state @table.m : tensor<64x8xf32> {{{.*}}shard = #kiln.shard<tensor<64x8xf32> over "dp" owner = 0>
// CHECK: kiln.state @a.m : tensor<8x8xf32> {{{.*}}shard = #kiln.shard<tensor<8x8xf32> over "dp" owner = 1>
// CHECK-LABEL: kiln.program @train
// CHECK: [[G:%.+]]:4 = kiln.reduce_scatter {{.+}} over "dp" owners [1, 1, 1, 0] : [[TYPES:.+]] -> [[TYPES]]
// The owners compute squares, and all ranks the norm of the same numbers.
// CHECK-COUNT-4: kiln.sum_squares
// CHECK: kiln.all_gather {{.+}} over "dp" owners [0, 1, 1, 1]
// CHECK-NOT: kiln.all_reduce
// CHECK: kiln.clip_factor
// CHECK: [[P:%.+]] = kiln.take_shard {{.+}} over "dp" owner 0 : tensor<64x8xf32> -> tensor<64x8xf32>
// CHECK: kiln.adam [[P]]
// CHECK: kiln.all_gather {{.+}} over "dp" owners [0, 1, 1, 1]

// In stage 3, a parameter is in the memory of its owner, and gathered for its readers.
// THREE: kiln.state @table : tensor<64x8xf32> {{{.*}}shard = #kiln.shard<tensor<64x8xf32> over "dp" owner = 0>
// THREE-LABEL: kiln.program @train
// THREE: [[S:%.+]] = kiln.read @table :
// THREE: kiln.all_gather [[S]] over "dp" owners [0]
// THREE-NOT: kiln.take_shard

// SERVER: kiln.state @table.m {{.*}} owner = 0>
// SERVER: kiln.state @a.m {{.*}} owner = 0>
// SERVER: kiln.reduce_scatter {{.+}} over "dp" owners [0, 0, 0, 0]

// States and gradients of different owners share bytes.
// SCHEDULE: kilnrt.arena states 6144
// SCHEDULE-LABEL: kilnrt.program @train
// SCHEDULE: kilnrt.slot "table" class parameter offset 0 bytes 2048 {{.*}} state @table owner 0
// SCHEDULE: kilnrt.slot "a" class parameter offset 0 bytes 256 {{.*}} state @a owner 1
// SCHEDULE: kilnrt.slot "b" class parameter offset 256 bytes 256 {{.*}} state @b owner 1
// SCHEDULE: kilnrt.slot "collective_start" class gradient offset [[AT:[0-9]+]] bytes 256 {{.*}} owner 1 why "shard of a sum"
// SCHEDULE: kilnrt.slot "collective_start" class gradient offset [[AT]] bytes 2048 {{.*}} owner 0 why "shard of a sum"
