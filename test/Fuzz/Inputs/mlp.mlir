// A multilayer perceptron over the last two tokens, as small as one can be.
module attributes {kiln.model = {type = "mlp", name = "mlp", vocab_size = 19 : i64, batch = 2 : i64,
                                 sequence_length = 4 : i64, has_weights = false, files = []}} {
  kiln.state @embedding : tensor<19x4xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @hidden.weight : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.uniform<low = -1.0, high = 1.0>, source = "hidden", aliases = ["h"]}
  kiln.state @hidden.bias : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @output.weight : tensor<6x19xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>}
  kiln.state @seen : tensor<6xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>, frozen}

  kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"},
                        %rng: tensor<1x3xi64> {kiln.name = "rng"}, %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @embedding : tensor<19x4xf32>
    %rows = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<19x4xf32>) -> tensor<8x4xf32>
    %now = kiln.reshape %rows : tensor<8x4xf32> to tensor<2x4x4xf32>
    %padded = kiln.pad %now low [0, 1, 0] : tensor<2x4x4xf32> to tensor<2x5x4xf32>
    %before = kiln.slice %padded [0, 0, 0] : tensor<2x5x4xf32> to tensor<2x4x4xf32>
    %contexts = kiln.concat %before, %now dim 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
    %x = kiln.reshape %contexts : tensor<2x4x8xf32> to tensor<8x8xf32>
    %w1 = kiln.read @hidden.weight : tensor<8x6xf32>
    %b1 = kiln.read @hidden.bias : tensor<6xf32>
    %h0 = kiln.matmul %x, %w1 : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %b1s = kiln.broadcast %b1 dims [1] : tensor<6xf32> to tensor<8x6xf32>
    %h1 = kiln.add %h0, %b1s : tensor<8x6xf32>
    %h2 = kiln.relu %h1 : tensor<8x6xf32>
    %h3 = kiln.dropout %h2, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<8x6xf32>, tensor<1x3xi64>) -> tensor<8x6xf32>
    %seen = kiln.reduce max %h3 dims [0] : tensor<8x6xf32> to tensor<6xf32>
    kiln.write @seen, %seen : tensor<6xf32>
    %t = kiln.transpose %h3 [1, 0] : tensor<8x6xf32> to tensor<6x8xf32>
    %u = kiln.transpose %t [1, 0] : tensor<6x8xf32> to tensor<8x6xf32>
    %w2 = kiln.read @output.weight : tensor<6x19xf32>
    %o0 = kiln.matmul %u, %w2 : (tensor<8x6xf32>, tensor<6x19xf32>) -> tensor<8x19xf32>
    %p = kiln.softmax %o0 : (tensor<8x19xf32>) -> tensor<8x19xf32>
    %two = kiln.constant dense<2.0> : tensor<8x19xf32> -> tensor<8x19xf32>
    %logits = kiln.mul %p, %two : tensor<8x19xf32>
    %loss = kiln.cross_entropy %logits, %targets, %loss_scale : (tensor<8x19xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
