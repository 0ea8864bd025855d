// RUN: kiln-opt %s --kiln-partition-layers=mesh=tp=2 | FileCheck %s
// RUN: kiln-opt %s --kiln-partition-layers=mesh=tp=2 --kiln-autodiff | FileCheck %s --check-prefix=STEP
// RUN: kiln-opt %s --kiln-partition-layers=mesh=dp=2 | FileCheck %s --check-prefix=NONE
// NONE-NOT: shard

// The fused projection of queries, keys and values is divided in three blocks per row. There are
// three heads, so the last rank has one and a head of padding. The MLP has seven columns.

// CHECK: module attributes {kiln.mesh = {tp = 2 : i64}}
// CHECK: kiln.state @wte : tensor<5x6xf32> {{.*}}shard = #kiln.shard<tensor<9x6xf32> over "tp">
kiln.state @wte : tensor<9x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
// CHECK: kiln.state @qkv : tensor<6x12xf32> {{.*}}shard = #kiln.shard<tensor<6x18xf32> over "tp" blocks = 18>
kiln.state @qkv : tensor<6x18xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
// CHECK: kiln.state @qkv.bias : tensor<12xf32> {{.*}}shard = #kiln.shard<tensor<18xf32> over "tp" blocks = 3>
kiln.state @qkv.bias : tensor<18xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK: kiln.state @proj : tensor<4x6xf32> {{.*}}shard = #kiln.shard<tensor<6x6xf32> over "tp">
kiln.state @proj : tensor<6x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
// CHECK: kiln.state @up : tensor<4x6xf32> {{.*}}shard = #kiln.shard<tensor<7x6xf32> over "tp">
kiln.state @up : tensor<7x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
// CHECK: kiln.state @down : tensor<6x4xf32> {{.*}}shard = #kiln.shard<tensor<6x7xf32> over "tp" blocks = 6>
kiln.state @down : tensor<6x7xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}

// CHECK: kiln.program @forward({{.*}}%[[RNG:[^:]*]]: tensor<1x4xi64> {kiln.name = "rng"}, {{.*}}%[[RANK:[^:]*]]: tensor<i32> {kiln.name = "tp_rank"})
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: %[[PART:.+]] = kiln.embedding %{{.+}}, %{{.+}}, %[[RANK]] :
  // CHECK: %[[X:.+]] = kiln.all_reduce %[[PART]] over "tp" : tensor<8x6xf32>
  %wte = kiln.read @wte : tensor<9x6xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x6xf32>) -> tensor<8x6xf32>
  // CHECK: %[[SX:.+]] = kiln.share %[[X]] over "tp" : tensor<8x6xf32>
  // CHECK: %[[QKV:.+]] = kiln.matmul %[[SX]], %{{.+}} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
  %wqkv = kiln.read @qkv : tensor<6x18xf32>
  %p = kiln.matmul %x, %wqkv : (tensor<8x6xf32>, tensor<6x18xf32>) -> tensor<8x18xf32>
  %bias = kiln.read @qkv.bias : tensor<18xf32>
  %rows = kiln.broadcast %bias dims [1] : tensor<18xf32> to tensor<8x18xf32>
  %qkv = kiln.add %p, %rows : tensor<8x18xf32>
  // CHECK: kiln.slice %{{.+}} [0, 0] : tensor<8x12xf32> to tensor<8x4xf32>
  %q = kiln.slice %qkv [0, 0] : tensor<8x18xf32> to tensor<8x6xf32>
  // CHECK: kiln.slice %{{.+}} [0, 4] : tensor<8x12xf32> to tensor<8x4xf32>
  %k = kiln.slice %qkv [0, 6] : tensor<8x18xf32> to tensor<8x6xf32>
  // CHECK: kiln.slice %{{.+}} [0, 8] : tensor<8x12xf32> to tensor<8x4xf32>
  %v = kiln.slice %qkv [0, 12] : tensor<8x18xf32> to tensor<8x6xf32>
  // CHECK: kiln.attention {{.*}} rng %[[RNG]] causal {heads = 2 : i64, {{.*}}kv_heads = 2 : i64, {{.*}}-> (tensor<8x4xf32>, tensor<4x4xf32>)
  %o, %lse = kiln.attention %q, %k, %v rng %rng causal {sequences = 2, heads = 3, kv_heads = 3, scale = 0.5, p = 0.1, key = 1} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<1x3xi64>) -> (tensor<8x6xf32>, tensor<6x4xf32>)
  // CHECK: %[[Y:.+]] = kiln.matmul %{{.+}}, %{{.+}} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  // CHECK: %[[SUM:.+]] = kiln.all_reduce %[[Y]] over "tp"
  // CHECK: %[[H:.+]] = kiln.add %[[X]], %[[SUM]]
  %wproj = kiln.read @proj : tensor<6x6xf32>
  %y = kiln.matmul %o, %wproj : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
  %h = kiln.add %x, %y : tensor<8x6xf32>
  // CHECK: kiln.share %[[H]]
  %wup = kiln.read @up : tensor<7x6xf32>
  %u = kiln.matmul %h, %wup trans_b : (tensor<8x6xf32>, tensor<7x6xf32>) -> tensor<8x7xf32>
  %a = kiln.silu %u : tensor<8x7xf32>
  // CHECK: kiln.silu %{{.+}} : tensor<8x4xf32>
  // CHECK: %[[Z:.+]] = kiln.matmul
  // CHECK: %[[ZSUM:.+]] = kiln.all_reduce %[[Z]] over "tp"
  // CHECK: %[[LAST:.+]] = kiln.add %[[ZSUM]], %[[H]]
  %wdown = kiln.read @down : tensor<6x7xf32>
  %z = kiln.matmul %a, %wdown accumulate %h trans_b : (tensor<8x7xf32>, tensor<6x7xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  // CHECK: %[[SHARED:.+]] = kiln.share %[[LAST]]
  // CHECK: kiln.linear_cross_entropy %[[SHARED]], %{{.+}}, %{{.+}}, %{{.+}} rank %[[RANK]] {classes = 9 : i64}
  %loss = kiln.linear_cross_entropy %z, %wte, %targets, %scale : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// The forward pass of a layer has two sums, of the results of its two halves, and the backward pass
// has two, of the gradients of their inputs. Outside of layers, the embedding is summed, and the
// gradient of the input of the loss, as soon as it is known.

// STEP-LABEL: kiln.program @train
// STEP-NOT: kiln.share
// STEP-COUNT-3: kiln.all_reduce
// STEP-NOT: kiln.all_reduce
// STEP: %[[L:.+]], %[[DH:.+]], %{{.+}} = kiln.linear_cross_entropy_with_grad
// STEP-NEXT: kiln.all_reduce %[[DH]] over "tp"
// STEP-NEXT: kiln.phase backward
// STEP-COUNT-2: kiln.all_reduce
// STEP-NOT: kiln.all_reduce
// STEP: kiln.shard_rows
// STEP-NOT: kiln.all_reduce
