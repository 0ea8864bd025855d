// RUN: kiln-opt %s --split-input-file --verify-diagnostics --kiln-partition-layers=mesh=tp=4

kiln.state @w : tensor<9x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @p : tensor<6x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @r : tensor<6x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<9x6xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<9x6xf32>) -> tensor<8x6xf32>
  %p = kiln.read @p : tensor<6x6xf32>
  %q = kiln.matmul %x, %p : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
  // expected-error @below {{'kiln.attention' op has 3 key heads, which cannot be divided over 4 ranks; use at most 3 ranks for tensor parallelism (mesh tp=N)}}
  %o, %lse = kiln.attention %q, %q, %q causal {sequences = 2, heads = 3, kv_heads = 3, scale = 0.5} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<6x4xf32>)
  %r = kiln.read @r : tensor<6x6xf32>
  %y = kiln.matmul %o, %r : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
  %loss = kiln.linear_cross_entropy %y, %w, %targets, %scale : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A table with fewer rows than ranks is not divided.

kiln.state @w : tensor<3x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
// expected-error @below {{'kiln.program' op has neither an embedding nor two matmuls in sequence whose matrices could be divided over the ranks of tensor parallelism; remove tp from the mesh}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<3x6xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<3x6xf32>) -> tensor<8x6xf32>
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x6xf32>, tensor<3x6xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
