// Shards of sums, of parameters and of updated states.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches --kiln-schedule -split-input-file | FileCheck %s
// DEFINE: %{model} = kiln-opt %kiln_src/test/Dialect/Kiln/Transforms/Inputs/tied.mlir
// DEFINE: %{plan} = --kiln-shard-parameters --kiln-expand-loss --kiln-set-numerics --kiln-recompute=policy=none --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches --kiln-schedule
// RUN: %{model} --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=3' %{plan} | FileCheck %s --check-prefix=STEP
// RUN: %{model} --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=3 microbatches=2' %{plan} | FileCheck %s --check-prefix=PARTS

// A whole step in stage 3.
// STEP-LABEL: kilnrt.program @train
// STEP: kilnrt.slot "table" class parameter {{.*}} bytes 1024
// STEP: [[TABLE:%.+]] = kilnrt.slot "collective_start" class materialized {{.*}} bytes 2048 lifetime [0, 6] why "shards of all ranks"
// STEP: kilnrt.begin all_gather over "dp" [[T:%.+]] on @dp {{.*}}(ro {{%.+}}, wo {{%.+}})
// STEP: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp {{.*}}(ro {{%.+}}, ro {{%.+}}, wo {{%.+}}, wo {{%.+}})
// STEP: kilnrt.wait [[T]] on @compute
// STEP: kilnrt.launch
// STEP: kilnrt.wait [[U]] on @compute
// STEP: kilnrt.begin reduce_scatter over "dp"

// The micro-batches add shards.
// PARTS-LABEL: kilnrt.program @train
// PARTS: kilnrt.microbatches 2 forward {
// PARTS: kilnrt.begin all_gather over "dp"
// PARTS-NOT: kilnrt.begin reduce_scatter
// PARTS: } backward {
// PARTS: kilnrt.begin all_gather over "dp"
// PARTS: kilnrt.begin reduce_scatter over "dp"
// PARTS: kilnrt.launch {{.*}}(ro [[SUM:%.+]], ro {{%.+}}, wo [[SUM]])

// Each rank updates its shard of a parameter that it stores as a whole.

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @step
// CHECK: [[W:%.+]] = kilnrt.slot "w" class parameter {{.*}} bytes 64 lifetime [0, [[END:[0-9]+]]] state @w
// The tensor that is summed is live until the wait, because it has partial sums.
// CHECK: [[G:%.+]] = kilnrt.slot "matmul" class gradient offset {{[0-9]+}} bytes 64 lifetime [0, 3] why "result"
// CHECK: [[S:%.+]] = kilnrt.slot "collective_start" class gradient offset {{[0-9]+}} bytes 32 lifetime [1, 4] why "shard of a sum"
// CHECK: [[P:%.+]] = kilnrt.slot "take_shard" class activation offset {{[0-9]+}} bytes 32 lifetime [2, 6] why "shard of this rank"
// CHECK-NOT: kilnrt.slot
// CHECK: [[WV:%.+]] = kilnrt.view [[W]][0] : memref<4x4xf32>
// CHECK: [[GV:%.+]] = kilnrt.view [[G]][0] : memref<4x4xf32>
// CHECK: kilnrt.gemm on @compute ({{.*}}, wo [[GV]])
// CHECK: [[SV:%.+]] = kilnrt.view [[S]][0] : memref<2x4xf32>
// CHECK: kilnrt.begin reduce_scatter over "dp" [[T:%.+]] on @dp after [@compute] (ro [[GV]], wo [[GV]], wo [[SV]])
// CHECK: [[PV:%.+]] = kilnrt.view [[P]][0] : memref<2x4xf32>
// CHECK: kilnrt.copy over "dp" on @compute (ro [[WV]], wo [[PV]])
// CHECK: kilnrt.wait [[T]] on @compute
// CHECK: kilnrt.launch @{{.+}} on @compute (ro [[PV]], ro [[SV]], ro {{%.+}}, wo [[PV]])
// The transfer writes the new value to the buffer of the state.
// CHECK: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp after [@compute] (ro [[PV]], wo [[WV]])
// CHECK-NEXT: kilnrt.wait [[U]] on @compute
// CHECK-NOT: kilnrt.copy
kiln.program @step(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> () attributes {kind = #kiln.program_kind<train>} {
  %one = kiln.constant dense<1.0> : tensor<f64> -> tensor<f64>
  %w = kiln.read @w : tensor<4x4xf32>
  %g = kiln.matmul %a, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = kiln.reduce_scatter %g over "dp" : tensor<4x4xf32> -> tensor<2x4xf32>
  %p = kiln.take_shard %w over "dp" : tensor<4x4xf32> -> tensor<2x4xf32>
  %p1 = kiln.sgd %p, %s, %one, %lr {weight_decay = 0.0} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f64>, tensor<f64>) -> tensor<2x4xf32>
  %w1 = kiln.all_gather %p1 over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  kiln.write @w, %w1 : tensor<4x4xf32>
  kiln.return
}
}

// -----

// A state that an op reads after the start of the all-gather gets its new value from a copy.

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @read_later
// CHECK: [[W:%.+]] = kilnrt.slot "w" class parameter
// CHECK: [[N:%.+]] = kilnrt.slot "collective_start" class {{.*}} why "shards of all ranks"
// CHECK: [[WV:%.+]] = kilnrt.view [[W]][0]
// CHECK: [[NV:%.+]] = kilnrt.view [[N]][0]
// CHECK: kilnrt.begin all_gather over "dp" [[T:%.+]] on @dp {{.*}}(ro {{%.+}}, wo [[NV]])
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[WV]], wo {{%.+}})
// CHECK: kilnrt.wait [[T]] on @compute
// CHECK: kilnrt.copy on @compute (ro [[NV]], wo [[WV]])
kiln.program @read_later(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %p = kiln.take_shard %w over "dp" : tensor<4x4xf32> -> tensor<2x4xf32>
  %w1 = kiln.all_gather %p over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %y = kiln.matmul %a, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.write @w, %w1 : tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}
}

// -----

// A parameter that is gathered is a value that is computed from states alone. Its shard is in the
// state, so that nothing is copied.

module attributes {kiln.mesh = {dp = 3 : i64}} {
kiln.state @w : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @v : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
// CHECK-LABEL: kilnrt.program @gathered
// CHECK: [[W:%.+]] = kilnrt.slot "w" class parameter {{.*}} bytes 24
// CHECK: [[V:%.+]] = kilnrt.slot "v" class parameter {{.*}} bytes 24
// CHECK: [[WG:%.+]] = kilnrt.slot "collective_start" class materialized offset {{[0-9]+}} bytes 64 {{.*}} why "shards of all ranks"
// CHECK: [[VG:%.+]] = kilnrt.slot "collective_start" class materialized offset {{[0-9]+}} bytes 64
// CHECK: kilnrt.begin all_gather over "dp" [[T:%.+]] on @dp {{.*}}(ro [[WV:%.+]], wo [[WGV:%.+]])
// CHECK: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp {{.*}}(ro [[VV:%.+]], wo [[VGV:%.+]])
// CHECK: kilnrt.wait [[T]] on @compute
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[WGV]], wo {{%.+}})
// CHECK: kilnrt.wait [[U]] on @compute
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[VGV]], wo {{%.+}})
kiln.program @gathered(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  %w = kiln.read @w : tensor<6xf32>
  %v = kiln.read @v : tensor<6xf32>
  %wg = kiln.all_gather %w over "dp" : tensor<6xf32> -> tensor<4x4xf32>
  %y = kiln.matmul %a, %wg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %vg = kiln.all_gather %v over "dp" : tensor<6xf32> -> tensor<4x4xf32>
  %z = kiln.matmul %y, %vg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %z : tensor<4x4xf32>
}
}

// -----

// A tensor that an op reads later, or twice in one bucket, is copied before it is summed.

module attributes {kiln.mesh = {dp = 2 : i64}} {
// CHECK-LABEL: kilnrt.program @copied
// CHECK: [[X:%.+]] = kilnrt.slot "matmul"
// CHECK: kilnrt.slot "collective_start" {{.*}} why "copy that is summed"
// CHECK: kilnrt.slot "collective_start" {{.*}} why "copy that is summed"
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: kilnrt.copy on @compute (ro [[XV]], wo [[A:%.+]])
// CHECK: kilnrt.copy on @compute (ro [[XV]], wo [[B:%.+]])
// CHECK: kilnrt.begin reduce_scatter over "dp" {{.*}} (ro [[A]], ro [[B]], wo [[A]], wo [[B]], wo {{%.+}}, wo {{%.+}})
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[XV]],
kiln.program @copied(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s:2 = kiln.reduce_scatter %x, %x over "dp" : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>, tensor<2x4xf32>
  %y = kiln.matmul %a, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %s#0, %s#1, %y : tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>
}
}

// -----

// Of two equal operands of a reduce_scatter, which nothing reads later, one is summed in place.

module attributes {kiln.mesh = {dp = 2 : i64}} {
// CHECK-LABEL: kilnrt.program @twice
// CHECK: kilnrt.copy on @compute (ro [[X:%.+]], wo [[C:%.+]])
// CHECK-NOT: kilnrt.copy
// CHECK: kilnrt.begin reduce_scatter over "dp" {{.*}} (ro [[X]], ro [[C]], wo [[X]], wo [[C]], wo {{%.+}}, wo {{%.+}})
kiln.program @twice(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s:2 = kiln.reduce_scatter %x, %x over "dp" : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>, tensor<2x4xf32>
  kiln.return %s#0, %s#1 : tensor<2x4xf32>, tensor<2x4xf32>
}
}

// -----

// An all_gather only reads its operand, which an op may read while the transfer is in flight. Nothing
// overwrites the operand before the wait.

module attributes {kiln.mesh = {dp = 2 : i64}} {
// CHECK-LABEL: kilnrt.program @read_in_flight
// CHECK: [[X:%.+]] = kilnrt.slot "matmul" class activation offset {{[0-9]+}} bytes 64 lifetime [0, 3]
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: kilnrt.begin all_gather over "dp" [[T:%.+]] on @dp after [@compute] (ro [[XV]], wo {{%.+}})
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[XV]], wo {{%.+}})
// CHECK: kilnrt.wait [[T]]
kiln.program @read_in_flight(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<8x4xf32>, tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = kiln.all_gather %x over "dp" : tensor<4x4xf32> -> tensor<8x4xf32>
  %y = kiln.matmul %a, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = kiln.exp %g : tensor<8x4xf32>
  kiln.return %z, %y : tensor<8x4xf32>, tensor<4x4xf32>
}
}
