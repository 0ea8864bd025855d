// Three layers with one parameter each, of the same size. Each gradient is a bucket of its own.

#one = #kiln.layer<"layer.1", 0>
#two = #kiln.layer<"layer.2", 1>
#three = #kiln.layer<"layer.3", 2>
module attributes {kiln.model = {type = "layers", name = "three-layers", vocab_size = 2560 : i64, batch = 2 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @P1 : tensor<2560x2560xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>} loc("P1")
  kiln.state @P2 : tensor<2560x2560xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.02>} loc("P2")
  kiln.state @P3 : tensor<2560x2560xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.02>} loc("P3")
  kiln.program @forward(%tokens: tensor<2x8xi32> {kiln.name = "tokens"}, %targets: tensor<2x8xi32> {kiln.name = "targets"},
                        %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %p1 = kiln.read @P1 : tensor<2560x2560xf32> loc("P1")
    %x1 = kiln.embedding %tokens, %p1 {kiln.layer = #one} : (tensor<2x8xi32>, tensor<2560x2560xf32>) -> tensor<16x2560xf32> loc("layer.1")
    %p2 = kiln.read @P2 : tensor<2560x2560xf32> loc("P2")
    %y2 = kiln.matmul %x1, %p2 {kiln.layer = #two} : (tensor<16x2560xf32>, tensor<2560x2560xf32>) -> tensor<16x2560xf32> loc("layer.2")
    %x2 = kiln.gelu %y2 tanh {kiln.layer = #two} : tensor<16x2560xf32> loc("layer.2")
    %p3 = kiln.read @P3 : tensor<2560x2560xf32> loc("P3")
    %x3 = kiln.matmul %x2, %p3 {kiln.layer = #three} : (tensor<16x2560xf32>, tensor<2560x2560xf32>) -> tensor<16x2560xf32> loc("layer.3")
    %loss = kiln.cross_entropy %x3, %targets, %scale : (tensor<16x2560xf32>, tensor<2x8xi32>, tensor<f64>) -> tensor<f64> loc("loss")
    kiln.return %loss : tensor<f64>
  }
}
