// A model whose loss has two terms. A test sets BATCH and ROWS, with ROWS = 8 *
// BATCH, and uncomments the lines of one kind of second term.

kiln.state @table : tensor<256x12xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.5>}
kiln.state @w : tensor<12x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.3>}

kiln.program @forward(%tokens: tensor<BATCHx8xi32> {kiln.name = "tokens"}, %targets: tensor<BATCHx8xi32> {kiln.name = "targets"},
                      %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
    -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<256x12xf32>
  %w = kiln.read @w : tensor<12x256xf32>
  %x = kiln.embedding %tokens, %table : (tensor<BATCHx8xi32>, tensor<256x12xf32>) -> tensor<ROWSx12xf32>
  %logits = kiln.matmul %x, %w : (tensor<ROWSx12xf32>, tensor<12x256xf32>) -> tensor<ROWSx256xf32>
  %ce = kiln.cross_entropy %logits, %targets, %loss_scale : (tensor<ROWSx256xf32>, tensor<BATCHx8xi32>, tensor<f64>) -> tensor<f64>
  //WEIGHTS %squares = kiln.mul %w, %w : tensor<12x256xf32>
  //WEIGHTS %sum = kiln.reduce sum %squares dims [0, 1] : tensor<12x256xf32> to tensor<f32>
  //WEIGHTS %half = kiln.scale %sum by 1.0e-02 : tensor<f32>
  //WEIGHTS %term = kiln.cast %half : tensor<f32> to tensor<f64>
  //WEIGHTS %loss = kiln.add %ce, %term : tensor<f64>
  //ROWTERM %squares = kiln.mul %logits, %logits : tensor<ROWSx256xf32>
  //ROWTERM %sum = kiln.reduce sum %squares dims [0, 1] : tensor<ROWSx256xf32> to tensor<f32>
  //ROWTERM %wide = kiln.cast %sum : tensor<f32> to tensor<f64>
  //ROWTERM %term = kiln.mul %wide, %loss_scale : tensor<f64>
  //ROWTERM %loss = kiln.add %ce, %term : tensor<f64>
  //MEAN %squares = kiln.mul %logits, %logits : tensor<ROWSx256xf32>
  //MEAN %mean = kiln.reduce mean %squares dims [0, 1] : tensor<ROWSx256xf32> to tensor<f32>
  //MEAN %term = kiln.cast %mean : tensor<f32> to tensor<f64>
  //MEAN %loss = kiln.add %ce, %term : tensor<f64>
  //SQUARE %loss = kiln.mul %ce, %loss_scale : tensor<f64>
  //PRODUCT %sum = kiln.reduce sum %logits dims [0, 1] : tensor<ROWSx256xf32> to tensor<f32>
  //PRODUCT %wide = kiln.cast %sum : tensor<f32> to tensor<f64>
  //PRODUCT %loss = kiln.mul %ce, %wide : tensor<f64>
  kiln.return %loss : tensor<f64>
}
