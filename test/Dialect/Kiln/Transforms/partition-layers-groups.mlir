// RUN: kiln-opt %s --split-input-file --kiln-partition-layers=mesh=tp=2 | FileCheck %s

// A matmul between two values of one group, here of a residual sum, cannot be divided, and neither
// can the group.
// CHECK: kiln.state @w1 : tensor<8x8xf32>
// CHECK: kiln.state @w2 : tensor<8x8xf32>
// CHECK: kiln.state @w3 : tensor<8x8xf32>
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w1 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w2 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w3 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %w1 = kiln.read @w1 : tensor<8x8xf32>
  %w2 = kiln.read @w2 : tensor<8x8xf32>
  %w3 = kiln.read @w3 : tensor<8x8xf32>
  %h = kiln.matmul %x, %w1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = kiln.relu %h : tensor<8x8xf32>
  %b = kiln.matmul %a, %w2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = kiln.add %a, %b : tensor<8x8xf32>
  %y = kiln.matmul %r, %w3 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Of three matmuls in sequence, the first two are divided.
// CHECK: kiln.state @w1 : tensor<8x4xf32>
// CHECK: kiln.state @w2 : tensor<4x8xf32>
// CHECK: kiln.state @w3 : tensor<8x8xf32>
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w1 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w2 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w3 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %w1 = kiln.read @w1 : tensor<8x8xf32>
  %w2 = kiln.read @w2 : tensor<8x8xf32>
  %w3 = kiln.read @w3 : tensor<8x8xf32>
  %h = kiln.matmul %x, %w1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = kiln.matmul %h, %w2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = kiln.matmul %b, %w3 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A factor of each row has contributions to its gradient on all ranks.
// CHECK: kiln.state @w1 : tensor<8x4xf32>
// CHECK: %[[ROW:.+]] = kiln.reshape
// CHECK: %[[SHARED:.+]] = kiln.share %[[ROW]] over "tp" : tensor<8xf32>
// CHECK: kiln.broadcast %[[SHARED]] dims [0] : tensor<8xf32> to tensor<8x4xf32>
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w1 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w2 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @g : tensor<8x1xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %w1 = kiln.read @w1 : tensor<8x8xf32>
  %w2 = kiln.read @w2 : tensor<8x8xf32>
  %g = kiln.read @g : tensor<8x1xf32>
  %h = kiln.matmul %x, %w1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %gr = kiln.matmul %x, %g : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  %gs = kiln.reshape %gr : tensor<8x1xf32> to tensor<8xf32>
  %gb = kiln.broadcast %gs dims [0] : tensor<8xf32> to tensor<8x8xf32>
  %m = kiln.mul %h, %gb : tensor<8x8xf32>
  %y = kiln.matmul %m, %w2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Four query heads share two key heads.
// CHECK: kiln.state @q : tensor<8x4xf32>
// CHECK: kiln.state @k : tensor<8x2xf32>
// CHECK: kiln.state @v : tensor<8x2xf32>
// CHECK: kiln.state @o : tensor<4x8xf32>
// CHECK: kiln.attention {{.*}}{heads = 2 : i64, key = 1 : i64, kv_heads = 1 : i64
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @q : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @k : tensor<8x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @v : tensor<8x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @o : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %q = kiln.read @q : tensor<8x8xf32>
  %k = kiln.read @k : tensor<8x4xf32>
  %v = kiln.read @v : tensor<8x4xf32>
  %o = kiln.read @o : tensor<8x8xf32>
  %qs = kiln.matmul %x, %q : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %ks = kiln.matmul %x, %k : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %vs = kiln.matmul %x, %v : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %os, %lse = kiln.attention %qs, %ks, %vs rng %rng causal {sequences = 2, heads = 4, kv_heads = 2, scale = 0.5, p = 0.1, key = 1} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<1x3xi64>) -> (tensor<8x8xf32>, tensor<8x4xf32>)
  %y = kiln.matmul %os, %o : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// The attention without a projection cannot be divided. Its dropout mask must be the same on all
// ranks, and the random state has the index of the rank if an attention is divided: so none is.
// CHECK: kiln.state @q : tensor<8x8xf32>
// CHECK: kiln.state @o : tensor<8x8xf32>
// CHECK: %[[RNG:.+]]: tensor<1x3xi64>
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @q : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @o : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %q = kiln.read @q : tensor<8x8xf32>
  %o = kiln.read @o : tensor<8x8xf32>
  %qs = kiln.matmul %x, %q : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %os, %l1 = kiln.attention %qs, %qs, %qs rng %rng causal {sequences = 2, heads = 2, kv_heads = 2, scale = 0.5, p = 0.1, key = 1} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x3xi64>) -> (tensor<8x8xf32>, tensor<4x4xf32>)
  %z = kiln.matmul %os, %o : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y, %l2 = kiln.attention %z, %z, %z rng %rng causal {sequences = 2, heads = 2, kv_heads = 2, scale = 0.5, p = 0.1, key = 2} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x3xi64>) -> (tensor<8x8xf32>, tensor<4x4xf32>)
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A table and a matrix that the program writes are not divided.
// CHECK: kiln.state @wte : tensor<5x8xf32>
// CHECK: kiln.state @table : tensor<9x8xf32>
// CHECK: kiln.state @w1 : tensor<8x8xf32>
// CHECK: kiln.state @w2 : tensor<8x8xf32>
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @table : tensor<9x8xf32> {role = #kiln.role<parameter>, frozen, init = #kiln.splat<value = 1.0>}
kiln.state @w1 : tensor<8x8xf32> {role = #kiln.role<parameter>, frozen, init = #kiln.splat<value = 1.0>}
kiln.state @w2 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %table = kiln.read @table : tensor<9x8xf32>
  %t = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %s = kiln.add %x, %t : tensor<8x8xf32>
  %w1 = kiln.read @w1 : tensor<8x8xf32>
  %w2 = kiln.read @w2 : tensor<8x8xf32>
  %h = kiln.matmul %s, %w1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = kiln.relu %h : tensor<8x8xf32>
  %y = kiln.matmul %a, %w2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %rows = kiln.constant dense<2.0> : tensor<9x8xf32> -> tensor<9x8xf32>
  kiln.write @table, %rows : tensor<9x8xf32>
  kiln.write @w1, %y : tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A state keeps the lse of all heads, so the heads of the attention are not divided.
// CHECK: kiln.state @wte : tensor<5x8xf32>
// CHECK: kiln.state @q : tensor<8x8xf32>
// CHECK: kiln.state @o : tensor<8x8xf32>
// CHECK: kiln.attention {{.*}}heads = 2 : i64
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @q : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @o : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @seen : tensor<4x4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %q = kiln.read @q : tensor<8x8xf32>
  %o = kiln.read @o : tensor<8x8xf32>
  %qs = kiln.matmul %x, %q : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %os, %lse = kiln.attention %qs, %qs, %qs causal {sequences = 2, heads = 2, kv_heads = 2, scale = 0.5} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4x4xf32>)
  %y = kiln.matmul %os, %o : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kiln.write @seen, %lse : tensor<4x4xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
