// A model with mostly frozen weights, as in the fine-tuning of a part of a
// model. Frozen weights are read directly, as operands of a concat and,
// transposed, by the backward pass.

module attributes {kiln.model = {type = "mlp", name = "frozen", vocab_size = 61 : i64}} {
  kiln.state @embedding : tensor<61x24xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>, frozen}
  kiln.state @positions : tensor<16x24xf32> {role = #kiln.role<buffer>, init = #kiln.normal<mean = 0.0, stddev = 0.5>}
  kiln.state @left : tensor<24x20xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.2>, frozen}
  kiln.state @right : tensor<24x28xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.2>, frozen}
  kiln.state @adapter.in : tensor<24x4xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.2>}
  kiln.state @adapter.out : tensor<4x48xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.2>}
  kiln.state @bias : tensor<48xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @down : tensor<48x24xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.2>, frozen}

  kiln.program @forward(%tokens: tensor<4x16xi32> {kiln.name = "tokens"}, %targets: tensor<4x16xi32> {kiln.name = "targets"},
                        %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @embedding : tensor<61x24xf32>
    %rows = kiln.embedding %tokens, %table : (tensor<4x16xi32>, tensor<61x24xf32>) -> tensor<64x24xf32>
    %positions = kiln.read @positions : tensor<16x24xf32>
    %each = kiln.broadcast %positions dims [1, 2] : tensor<16x24xf32> to tensor<4x16x24xf32>
    %places = kiln.reshape %each : tensor<4x16x24xf32> to tensor<64x24xf32>
    %x = kiln.add %rows, %places : tensor<64x24xf32>

    %left = kiln.read @left : tensor<24x20xf32>
    %right = kiln.read @right : tensor<24x28xf32>
    %w = kiln.concat %left, %right dim 1 : (tensor<24x20xf32>, tensor<24x28xf32>) -> tensor<24x48xf32>
    %h0 = kiln.matmul %x, %w : (tensor<64x24xf32>, tensor<24x48xf32>) -> tensor<64x48xf32>
    %in = kiln.read @adapter.in : tensor<24x4xf32>
    %out = kiln.read @adapter.out : tensor<4x48xf32>
    %low = kiln.matmul %x, %in : (tensor<64x24xf32>, tensor<24x4xf32>) -> tensor<64x4xf32>
    %high = kiln.matmul %low, %out : (tensor<64x4xf32>, tensor<4x48xf32>) -> tensor<64x48xf32>
    %h1 = kiln.add %h0, %high : tensor<64x48xf32>
    %bias = kiln.read @bias : tensor<48xf32>
    %biases = kiln.broadcast %bias dims [1] : tensor<48xf32> to tensor<64x48xf32>
    %h2 = kiln.add %h1, %biases : tensor<64x48xf32>
    %h = kiln.gelu %h2 tanh : tensor<64x48xf32>
    %down = kiln.read @down : tensor<48x24xf32>
    %y = kiln.matmul %h, %down : (tensor<64x48xf32>, tensor<48x24xf32>) -> tensor<64x24xf32>
    %loss = kiln.linear_cross_entropy %y, %table, %targets, %loss_scale : (tensor<64x24xf32>, tensor<61x24xf32>, tensor<4x16xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
