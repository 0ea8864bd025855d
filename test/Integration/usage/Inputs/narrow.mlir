// Two tables of different sizes and logits that are narrower than both.
kiln.state @wide : tensor<256x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
kiln.state @small : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
kiln.state @head : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %small = kiln.read @small : tensor<16x8xf32>
  %a = kiln.embedding %tokens, %small : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %wide = kiln.read @wide : tensor<256x8xf32>
  %b = kiln.embedding %tokens, %wide : (tensor<2x4xi32>, tensor<256x8xf32>) -> tensor<8x8xf32>
  %hidden = kiln.add %a, %b : tensor<8x8xf32>
  %head = kiln.read @head : tensor<9x8xf32>
  %loss = kiln.linear_cross_entropy %hidden, %head, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
