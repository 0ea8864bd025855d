// A model with a finite loss in which the gradient of one element of @W is NaN: that of sqrt(x * x) for
// x = 0 * W[0, 0].

module attributes {kiln.model = {type = "layers", name = "nan-gradient", vocab_size = 256 : i64, batch = 2 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @E : tensor<256x97xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>} loc("E")
  kiln.state @W : tensor<97x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.02>} loc("W")
  kiln.program @forward(%tokens: tensor<2x8xi32> {kiln.name = "tokens"}, %targets: tensor<2x8xi32> {kiln.name = "targets"},
                        %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %e = kiln.read @E : tensor<256x97xf32>
    %w = kiln.read @W : tensor<97x256xf32>
    %x = kiln.embedding %tokens, %e : (tensor<2x8xi32>, tensor<256x97xf32>) -> tensor<16x97xf32>
    %y = kiln.matmul %x, %w : (tensor<16x97xf32>, tensor<97x256xf32>) -> tensor<16x256xf32>
    %corner = kiln.slice %w [0, 0] : tensor<97x256xf32> to tensor<1x1xf32>
    %zero = kiln.scale %corner by 0.0 : tensor<1x1xf32>
    %square = kiln.mul %zero, %zero : tensor<1x1xf32>
    %root = kiln.sqrt %square : tensor<1x1xf32>
    %added = kiln.broadcast %root dims [0, 1] : tensor<1x1xf32> to tensor<16x256xf32>
    %z = kiln.add %y, %added : tensor<16x256xf32>
    %loss = kiln.cross_entropy %z, %targets, %scale : (tensor<16x256xf32>, tensor<2x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
