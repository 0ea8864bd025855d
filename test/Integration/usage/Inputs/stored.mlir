// A bigram model whose states cover every type that can be stored.
module attributes {kiln.model = {type = "bigram", name = "stored", vocab_size = 40 : i64, batch = 4 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @table : tensor<40x16xbf16> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @head : tensor<40x16xf16> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.state @bias : tensor<40xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @gain : tensor<f64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
  kiln.state @small : tensor<f16> {role = #kiln.role<buffer>, init = #kiln.splat<value = 5.0e-01>}
  kiln.state @codes : tensor<3x5xi8> {role = #kiln.role<buffer>, init = #kiln.splat<value = -7.0>}
  kiln.state @count : tensor<i64> {role = #kiln.role<buffer>, init = #kiln.splat<value = 3.0>}
  kiln.program @forward(%tokens: tensor<4x8xi32> {kiln.name = "tokens"}, %targets: tensor<4x8xi32> {kiln.name = "targets"},
                        %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %t = kiln.read @table : tensor<40x16xbf16>
    %rows = kiln.embedding %tokens, %t : (tensor<4x8xi32>, tensor<40x16xbf16>) -> tensor<32x16xbf16>
    %wide = kiln.cast %rows : tensor<32x16xbf16> to tensor<32x16xf32>
    %g = kiln.read @gain : tensor<f64>
    %g32 = kiln.cast %g : tensor<f64> to tensor<f32>
    %s = kiln.read @small : tensor<f16>
    %s32 = kiln.cast %s : tensor<f16> to tensor<f32>
    %factor = kiln.add %g32, %s32 : tensor<f32>
    %factors = kiln.broadcast %factor dims [] : tensor<f32> to tensor<32x16xf32>
    %x = kiln.mul %wide, %factors : tensor<32x16xf32>
    // Data movement in f16: transpose, slice, concat, pad and slice.
    %h = kiln.read @head : tensor<40x16xf16>
    %turned = kiln.transpose %h [1, 0] : tensor<40x16xf16> to tensor<16x40xf16>
    %left = kiln.slice %turned [0, 0] : tensor<16x40xf16> to tensor<16x17xf16>
    %right = kiln.slice %turned [0, 17] : tensor<16x40xf16> to tensor<16x23xf16>
    %joined = kiln.concat %left, %right dim 1 : (tensor<16x17xf16>, tensor<16x23xf16>) -> tensor<16x40xf16>
    %padded = kiln.pad %joined low [1, 2] : tensor<16x40xf16> to tensor<18x43xf16>
    %cut = kiln.slice %padded [1, 2] : tensor<18x43xf16> to tensor<16x40xf16>
    %h32 = kiln.cast %cut : tensor<16x40xf16> to tensor<16x40xf32>
    %y = kiln.matmul %x, %h32 : (tensor<32x16xf32>, tensor<16x40xf32>) -> tensor<32x40xf32>
    %b = kiln.read @bias : tensor<40xf32>
    %bs = kiln.broadcast %b dims [1] : tensor<40xf32> to tensor<32x40xf32>
    %logits = kiln.add %y, %bs : tensor<32x40xf32>
    %loss = kiln.cross_entropy %logits, %targets, %scale : (tensor<32x40xf32>, tensor<4x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
