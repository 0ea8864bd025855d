// A table with the name of the first kernel.
module attributes {kiln.model = {type = "mlp", name = "mlp", vocab_size = 256 : i64, batch = 1 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @k0_row : tensor<256x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.program @forward(%tokens: tensor<1x8xi32> {kiln.name = "tokens"}, %targets: tensor<1x8xi32> {kiln.name = "targets"},
                        %rng: tensor<1x3xi64> {kiln.name = "rng"}, %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @k0_row : tensor<256x256xf32>
    %rows = kiln.embedding %tokens, %table : (tensor<1x8xi32>, tensor<256x256xf32>) -> tensor<8x256xf32>
    %loss = kiln.cross_entropy %rows, %targets, %loss_scale : (tensor<8x256xf32>, tensor<1x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
