// A model with a finite loss whose gradient of @W is NaN: that of sqrt(w * w) at w = 0.

module attributes {kiln.model = {type = "layers", name = "nan-gradient", vocab_size = 256 : i64, batch = 2 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @E : tensor<256x96xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>} loc("E")
  kiln.state @W : tensor<96x256xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>} loc("W")
  kiln.program @forward(%tokens: tensor<2x8xi32> {kiln.name = "tokens"}, %targets: tensor<2x8xi32> {kiln.name = "targets"},
                        %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %e = kiln.read @E : tensor<256x96xf32>
    %w = kiln.read @W : tensor<96x256xf32>
    %x = kiln.embedding %tokens, %e : (tensor<2x8xi32>, tensor<256x96xf32>) -> tensor<16x96xf32>
    %square = kiln.mul %w, %w : tensor<96x256xf32>
    %root = kiln.sqrt %square : tensor<96x256xf32>
    %y = kiln.matmul %x, %root : (tensor<16x96xf32>, tensor<96x256xf32>) -> tensor<16x256xf32>
    %loss = kiln.cross_entropy %y, %targets, %scale : (tensor<16x256xf32>, tensor<2x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
