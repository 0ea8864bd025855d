// A model of two layers whose table is read at both ends.

#table = #kiln.layer<"wte", 0>
#first = #kiln.layer<"h.0", 1>
#second = #kiln.layer<"h.1", 2>
#head = #kiln.layer<"head", 3>
kiln.state @table : tensor<64x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @a : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<4x4xi32> {kiln.name = "tokens", kiln.input = #kiln.input<data, batch_dim = 0>}, %targets: tensor<4x4xi32> {kiln.name = "targets", kiln.input = #kiln.input<data, batch_dim = 0>}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<64x8xf32>
  %a = kiln.read @a : tensor<8x8xf32>
  %b = kiln.read @b : tensor<8x8xf32>
  %c = kiln.read @c : tensor<8x8xf32>
  %x = kiln.embedding %tokens, %table {kiln.layer = #table} : (tensor<4x4xi32>, tensor<64x8xf32>) -> tensor<16x8xf32>
  %p = kiln.matmul %x, %a {kiln.layer = #first} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %q = kiln.gelu %p tanh {kiln.layer = #first} : tensor<16x8xf32>
  %r = kiln.matmul %q, %b {kiln.layer = #first} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = kiln.matmul %r, %c {kiln.layer = #second} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %t = kiln.gelu %s tanh {kiln.layer = #second} : tensor<16x8xf32>
  %loss = kiln.linear_cross_entropy %t, %table, %targets, %scale {kiln.layer = #head} : (tensor<16x8xf32>, tensor<64x8xf32>, tensor<4x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
