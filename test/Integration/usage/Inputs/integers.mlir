// Every op that moves integers: the last token of a sequence is no input, the
// first no target; ids are sliced, transposed, broadcast, padded and concatenated.

module attributes {kiln.model = {type = "mlir", name = "integers", vocab_size = 29 : i64}} {
  kiln.state @table : tensor<29x12xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.5>}
  kiln.state @padded : tensor<31x12xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.5, zero_row = 0>}
  kiln.state @w : tensor<12x29xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.3>}

  kiln.program @forward(%tokens: tensor<3x9xi32> {kiln.name = "tokens"}, %targets: tensor<3x9xi32> {kiln.name = "targets"},
                        %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @table : tensor<29x12xf32>
    %padded = kiln.read @padded : tensor<31x12xf32>
    %now = kiln.slice %tokens [0, 0] : tensor<3x9xi32> to tensor<3x8xi32>
    %x = kiln.embedding %now, %table : (tensor<3x8xi32>, tensor<29x12xf32>) -> tensor<24x12xf32>

    // The preceding token at each position, and zeros at the first position.
    %cut = kiln.slice %tokens [0, 0] : tensor<3x9xi32> to tensor<3x7xi32>
    %before = kiln.pad %cut low [0, 1] : tensor<3x7xi32> to tensor<3x8xi32>
    %y = kiln.embedding %before, %padded {padding_index = 0} : (tensor<3x8xi32>, tensor<31x12xf32>) -> tensor<24x12xf32>

    // The first token of each sequence, at every position of the sequence.
    %first = kiln.slice %tokens [0, 0] : tensor<3x9xi32> to tensor<3x1xi32>
    %each = kiln.broadcast %first dims [0, 1] : tensor<3x1xi32> to tensor<3x8xi32>
    %z = kiln.embedding %each, %table : (tensor<3x8xi32>, tensor<29x12xf32>) -> tensor<24x12xf32>

    // A transpose to [8, 3] and back, with the two halves exchanged.
    %turned = kiln.transpose %now [1, 0] : tensor<3x8xi32> to tensor<8x3xi32>
    %low = kiln.slice %turned [0, 0] : tensor<8x3xi32> to tensor<4x3xi32>
    %high = kiln.slice %turned [4, 0] : tensor<8x3xi32> to tensor<4x3xi32>
    %joined = kiln.concat %high, %low dim 0 : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<8x3xi32>
    %back = kiln.transpose %joined [1, 0] : tensor<8x3xi32> to tensor<3x8xi32>
    %flat = kiln.reshape %back : tensor<3x8xi32> to tensor<24xi32>
    %u = kiln.embedding %flat, %table : (tensor<24xi32>, tensor<29x12xf32>) -> tensor<24x12xf32>

    %s0 = kiln.add %x, %y : tensor<24x12xf32>
    %s1 = kiln.mul %z, %u : tensor<24x12xf32>
    %s = kiln.add %s0, %s1 : tensor<24x12xf32>
    %h = kiln.tanh %s : tensor<24x12xf32>
    %w = kiln.read @w : tensor<12x29xf32>
    %logits = kiln.matmul %h, %w : (tensor<24x12xf32>, tensor<12x29xf32>) -> tensor<24x29xf32>
    %next = kiln.slice %targets [0, 0] : tensor<3x9xi32> to tensor<3x8xi32>
    %loss = kiln.cross_entropy %logits, %next, %loss_scale : (tensor<24x29xf32>, tensor<3x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
