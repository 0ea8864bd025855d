// A multilayer perceptron that predicts the next byte from the last four.
//
// The context of a position is the embeddings of its own token and of the three
// before it, side by side; before the start of a sequence there are zeros. Two
// layers with a ReLU between them turn it into the logits of the next token.

module attributes {kiln.model = {type = "mlp", name = "mlp", vocab_size = 256 : i64, batch = 16 : i64,
                                 sequence_length = 64 : i64, has_weights = false, files = []}} {
  kiln.state @embedding : tensor<256x32xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @hidden.weight : tensor<128x512xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.25e-01>}
  kiln.state @hidden.bias : tensor<512xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @output.weight : tensor<512x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>}
  kiln.state @output.bias : tensor<256xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

  kiln.program @forward(%tokens: tensor<16x64xi32> {kiln.name = "tokens"}, %targets: tensor<16x64xi32> {kiln.name = "targets"},
                        %rng: tensor<1x3xi64> {kiln.name = "rng"}, %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    // The embeddings of each position, and of the positions before it.
    %table = kiln.read @embedding : tensor<256x32xf32>
    %rows = kiln.embedding %tokens, %table : (tensor<16x64xi32>, tensor<256x32xf32>) -> tensor<1024x32xf32>
    %now = kiln.reshape %rows : tensor<1024x32xf32> to tensor<16x64x32xf32>
    %padded = kiln.pad %now low [0, 3, 0] : tensor<16x64x32xf32> to tensor<16x67x32xf32>
    %before1 = kiln.slice %padded [0, 2, 0] : tensor<16x67x32xf32> to tensor<16x64x32xf32>
    %before2 = kiln.slice %padded [0, 1, 0] : tensor<16x67x32xf32> to tensor<16x64x32xf32>
    %before3 = kiln.slice %padded [0, 0, 0] : tensor<16x67x32xf32> to tensor<16x64x32xf32>
    %contexts = kiln.concat %before3, %before2, %before1, %now dim 2
        : (tensor<16x64x32xf32>, tensor<16x64x32xf32>, tensor<16x64x32xf32>, tensor<16x64x32xf32>) -> tensor<16x64x128xf32>
    %x = kiln.reshape %contexts : tensor<16x64x128xf32> to tensor<1024x128xf32>

    %w1 = kiln.read @hidden.weight : tensor<128x512xf32>
    %b1 = kiln.read @hidden.bias : tensor<512xf32>
    %h0 = kiln.matmul %x, %w1 : (tensor<1024x128xf32>, tensor<128x512xf32>) -> tensor<1024x512xf32>
    %b1s = kiln.broadcast %b1 dims [1] : tensor<512xf32> to tensor<1024x512xf32>
    %h1 = kiln.add %h0, %b1s : tensor<1024x512xf32>
    %h = kiln.relu %h1 : tensor<1024x512xf32>

    %w2 = kiln.read @output.weight : tensor<512x256xf32>
    %b2 = kiln.read @output.bias : tensor<256xf32>
    %o0 = kiln.matmul %h, %w2 : (tensor<1024x512xf32>, tensor<512x256xf32>) -> tensor<1024x256xf32>
    %b2s = kiln.broadcast %b2 dims [1] : tensor<256xf32> to tensor<1024x256xf32>
    %logits = kiln.add %o0, %b2s : tensor<1024x256xf32>

    %loss = kiln.cross_entropy %logits, %targets, %loss_scale : (tensor<1024x256xf32>, tensor<16x64xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
