// All-gathers of states start as early as the memory of the arena permits.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches --kiln-schedule -split-input-file | FileCheck %s

// The last command needs the most memory, so all gathers start after the first command, which stays.

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @u : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @v : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @w : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
// CHECK-LABEL: kilnrt.program @early
// CHECK: kilnrt.slot "collective_start" class materialized {{.*}} lifetime [0, 4]
// CHECK: kilnrt.slot "collective_start" class materialized {{.*}} lifetime [1, 6]
// CHECK: kilnrt.slot "matmul" {{.*}} lifetime [4, 6]
// CHECK: kilnrt.slot "collective_start" class materialized {{.*}} lifetime [2, 8]
// CHECK: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp
// CHECK: kilnrt.begin all_gather over "dp" [[V:%.+]] on @dp
// CHECK: kilnrt.begin all_gather over "dp" [[W:%.+]] on @dp
// CHECK: kilnrt.wait [[U]] on @compute
// CHECK: kilnrt.gemm
// CHECK-NOT: kilnrt.begin
// CHECK: kilnrt.wait [[V]] on @compute
// CHECK: kilnrt.wait [[W]] on @compute
kiln.program @early(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}, %b: tensor<4x128xf32> {kiln.name = "b", kiln.input = #kiln.input<data>}) -> (tensor<4x128xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  %u = kiln.read @u : tensor<2x4xf32>
  %v = kiln.read @v : tensor<2x4xf32>
  %w = kiln.read @w : tensor<2x4xf32>
  %ug = kiln.all_gather %u over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %x = kiln.matmul %a, %ug {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %vg = kiln.all_gather %v over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %y = kiln.matmul %x, %vg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %wg = kiln.all_gather %w over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %z = kiln.matmul %y, %wg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %big = kiln.matmul %z, %b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
  kiln.return %big : tensor<4x128xf32>
}
}

// -----

// The third gather would need more memory at the first GEMM, so it starts after this. With a larger
// limit, it starts at once.

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @u : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @v : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @w : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
// CHECK: kilnrt.arena states 192 height 512
// CHECK-LABEL: kilnrt.program @flat
// CHECK: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp
// CHECK: kilnrt.begin all_gather over "dp" [[V:%.+]] on @dp
// CHECK: kilnrt.wait [[U]] on @compute
// CHECK: kilnrt.gemm
// CHECK: kilnrt.begin all_gather over "dp" [[W:%.+]] on @dp
// CHECK: kilnrt.wait [[V]] on @compute
// CHECK: kilnrt.gemm
// CHECK: kilnrt.wait [[W]] on @compute
kiln.program @flat(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  %u = kiln.read @u : tensor<2x4xf32>
  %v = kiln.read @v : tensor<2x4xf32>
  %w = kiln.read @w : tensor<2x4xf32>
  %ug = kiln.all_gather %u over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %x = kiln.matmul %a, %ug {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %vg = kiln.all_gather %v over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %y = kiln.matmul %x, %vg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %wg = kiln.all_gather %w over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %z = kiln.matmul %y, %wg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %z : tensor<4x4xf32>
}
// CHECK-LABEL: kilnrt.program @higher
// CHECK: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp
// CHECK: kilnrt.begin all_gather over "dp" [[V:%.+]] on @dp
// CHECK: kilnrt.begin all_gather over "dp" [[W:%.+]] on @dp
// CHECK: kilnrt.wait [[U]] on @compute
kiln.program @higher(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kiln.gather_height = 640 : i64, kind = #kiln.program_kind<evaluate>} {
  %u = kiln.read @u : tensor<2x4xf32>
  %v = kiln.read @v : tensor<2x4xf32>
  %w = kiln.read @w : tensor<2x4xf32>
  %ug = kiln.all_gather %u over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %x = kiln.matmul %a, %ug {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %vg = kiln.all_gather %v over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %y = kiln.matmul %x, %vg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %wg = kiln.all_gather %w over "dp" : tensor<2x4xf32> -> tensor<4x4xf32>
  %z = kiln.matmul %y, %wg {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %z : tensor<4x4xf32>
}
}

// -----

// A gather moves together with the cast of its shard.

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @u : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @v : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
kiln.state @w : tensor<2x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x4xf32> over "dp">}
// CHECK-LABEL: kilnrt.program @cast
// CHECK: kilnrt.launch {{.*}}(ro {{%.+}}, wo [[US:%.+]])
// CHECK: kilnrt.begin all_gather over "dp" [[U:%.+]] on @dp {{.*}}(ro [[US]],
// CHECK: kilnrt.launch {{.*}}(ro {{%.+}}, wo [[VS:%.+]])
// CHECK: kilnrt.begin all_gather over "dp" [[V:%.+]] on @dp {{.*}}(ro [[VS]],
// CHECK: kilnrt.launch {{.*}}(ro {{%.+}}, wo [[WS:%.+]])
// CHECK: kilnrt.begin all_gather over "dp" [[W:%.+]] on @dp {{.*}}(ro [[WS]],
// CHECK: kilnrt.wait [[U]] on @compute
kiln.program @cast(%a: tensor<4x4xbf16> {kiln.name = "a", kiln.input = #kiln.input<data>}, %b: tensor<4x256xbf16> {kiln.name = "b", kiln.input = #kiln.input<data>}) -> (tensor<4x256xbf16>) attributes {kind = #kiln.program_kind<evaluate>} {
  %u = kiln.read @u : tensor<2x4xf32>
  %v = kiln.read @v : tensor<2x4xf32>
  %w = kiln.read @w : tensor<2x4xf32>
  %us = kiln.cast %u : tensor<2x4xf32> to tensor<2x4xbf16>
  %ug = kiln.all_gather %us over "dp" : tensor<2x4xbf16> -> tensor<4x4xbf16>
  %x = kiln.matmul %a, %ug {grid = array<i64: 1, 1>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %vs = kiln.cast %v : tensor<2x4xf32> to tensor<2x4xbf16>
  %vg = kiln.all_gather %vs over "dp" : tensor<2x4xbf16> -> tensor<4x4xbf16>
  %y = kiln.matmul %x, %vg {grid = array<i64: 1, 1>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %ws = kiln.cast %w : tensor<2x4xf32> to tensor<2x4xbf16>
  %wg = kiln.all_gather %ws over "dp" : tensor<2x4xbf16> -> tensor<4x4xbf16>
  %z = kiln.matmul %y, %wg {grid = array<i64: 1, 1>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %big = kiln.matmul %z, %b {grid = array<i64: 1, 1>} : (tensor<4x4xbf16>, tensor<4x256xbf16>) -> tensor<4x256xbf16>
  kiln.return %big : tensor<4x256xbf16>
}
}
