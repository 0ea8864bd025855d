// A bigram model with an additive mask on its logits, a frozen state that no program
// writes, and a buffer that every step doubles.
module attributes {kiln.model = {type = "masked", name = "masked", vocab_size = 256 : i64, batch = 2 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @table : tensor<256x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.state @head : tensor<8x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.state @mask : tensor<256xf32> {role = #kiln.role<parameter>, frozen, init = #kiln.splat<value = 0.0>}
  kiln.state @doubled : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 1.0>}
  kiln.program @forward(%tokens: tensor<2x8xi32> {kiln.name = "tokens"}, %targets: tensor<2x8xi32> {kiln.name = "targets"},
                        %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"})
      attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @table : tensor<256x8xf32>
    %x = kiln.embedding %tokens, %table : (tensor<2x8xi32>, tensor<256x8xf32>) -> tensor<16x8xf32>
    %head = kiln.read @head : tensor<8x256xf32>
    %logits = kiln.matmul %x, %head : (tensor<16x8xf32>, tensor<8x256xf32>) -> tensor<16x256xf32>
    %mask = kiln.read @mask : tensor<256xf32>
    %masks = kiln.broadcast %mask dims [1] : tensor<256xf32> to tensor<16x256xf32>
    %masked = kiln.add %logits, %masks : tensor<16x256xf32>
    %doubled = kiln.read @doubled : tensor<4xf32>
    %twice = kiln.add %doubled, %doubled : tensor<4xf32>
    kiln.write @doubled, %twice : tensor<4xf32>
    %loss = kiln.cross_entropy %masked, %targets, %scale : (tensor<16x256xf32>, tensor<2x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
