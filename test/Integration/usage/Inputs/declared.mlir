// A bigram model with inputs of its own: a mask that hides positions of each
// sequence, one value per row of the table, and a temperature.
module attributes {kiln.model = {type = "bigram", name = "declared", vocab_size = 40 : i64, batch = 4 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @table : tensor<40x16xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @head : tensor<16x40xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.program @forward(%tokens: tensor<4x8xi32> {kiln.name = "tokens"}, %targets: tensor<4x8xi32> {kiln.name = "targets"},
                        %mask: tensor<4x8xf32> {kiln.name = "mask", kiln.input = #kiln.input<data, batch_dim = 0>},
                        %temperature: tensor<f32> {kiln.name = "temperature", kiln.input = #kiln.input<data>},
                        %offsets: tensor<16xf32> {kiln.name = "offsets", kiln.input = #kiln.input<data>},
                        %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %w = kiln.read @table : tensor<40x16xf32>
    %rows = kiln.embedding %tokens, %w : (tensor<4x8xi32>, tensor<40x16xf32>) -> tensor<32x16xf32>
    %flat = kiln.reshape %mask : tensor<4x8xf32> to tensor<32xf32>
    %masks = kiln.broadcast %flat dims [0] : tensor<32xf32> to tensor<32x16xf32>
    %seen = kiln.mul %rows, %masks : tensor<32x16xf32>
    %all = kiln.broadcast %offsets dims [1] : tensor<16xf32> to tensor<32x16xf32>
    %moved = kiln.add %seen, %all : tensor<32x16xf32>
    %factor = kiln.broadcast %temperature dims [] : tensor<f32> to tensor<32x16xf32>
    %x = kiln.mul %moved, %factor : tensor<32x16xf32>
    %h = kiln.read @head : tensor<16x40xf32>
    %logits = kiln.matmul %x, %h : (tensor<32x16xf32>, tensor<16x40xf32>) -> tensor<32x40xf32>
    %loss = kiln.cross_entropy %logits, %targets, %scale : (tensor<32x40xf32>, tensor<4x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
