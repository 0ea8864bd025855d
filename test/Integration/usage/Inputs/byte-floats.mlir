// A bigram model whose states have 8-bit floating-point types.
module attributes {kiln.model = {type = "bigram", name = "bytes", vocab_size = 40 : i64, batch = 4 : i64,
                                 sequence_length = 8 : i64, has_weights = false, files = []}} {
  kiln.state @table : tensor<40x16xf8E4M3FN> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @head : tensor<40x16xf8E5M2> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.state @bias : tensor<40xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @near : tensor<3xf8E4M3FN> {role = #kiln.role<buffer>, init = #kiln.splat<value = 3.0e-01>}
  kiln.state @far : tensor<f8E4M3FN> {role = #kiln.role<buffer>, init = #kiln.splat<value = 1.0e+03>}
  kiln.state @small : tensor<f8E5M2> {role = #kiln.role<buffer>, init = #kiln.splat<value = -2.0e-05>}
  kiln.program @forward(%tokens: tensor<4x8xi32> {kiln.name = "tokens"}, %targets: tensor<4x8xi32> {kiln.name = "targets"},
                        %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %t8 = kiln.read @table : tensor<40x16xf8E4M3FN>
    %t = kiln.cast %t8 : tensor<40x16xf8E4M3FN> to tensor<40x16xf32>
    %x = kiln.embedding %tokens, %t : (tensor<4x8xi32>, tensor<40x16xf32>) -> tensor<32x16xf32>
    // Kernels that move bytes: transpose, slice, concat and pad.
    %h = kiln.read @head : tensor<40x16xf8E5M2>
    %turned = kiln.transpose %h [1, 0] : tensor<40x16xf8E5M2> to tensor<16x40xf8E5M2>
    %left = kiln.slice %turned [0, 0] : tensor<16x40xf8E5M2> to tensor<16x17xf8E5M2>
    %right = kiln.slice %turned [0, 17] : tensor<16x40xf8E5M2> to tensor<16x23xf8E5M2>
    %joined = kiln.concat %left, %right dim 1 : (tensor<16x17xf8E5M2>, tensor<16x23xf8E5M2>) -> tensor<16x40xf8E5M2>
    %padded = kiln.pad %joined low [1, 2] : tensor<16x40xf8E5M2> to tensor<18x43xf8E5M2>
    %cut = kiln.slice %padded [1, 2] : tensor<18x43xf8E5M2> to tensor<16x40xf8E5M2>
    %h32 = kiln.cast %cut : tensor<16x40xf8E5M2> to tensor<16x40xf32>
    %y = kiln.matmul %x, %h32 : (tensor<32x16xf32>, tensor<16x40xf32>) -> tensor<32x40xf32>
    %n8 = kiln.read @near : tensor<3xf8E4M3FN>
    %n = kiln.cast %n8 : tensor<3xf8E4M3FN> to tensor<3xf64>
    %reduced = kiln.reduce sum %n dims [0] : tensor<3xf64> to tensor<f64>
    %f = kiln.cast %reduced : tensor<f64> to tensor<f32>
    %fs = kiln.broadcast %f dims [] : tensor<f32> to tensor<32x40xf32>
    %scaled = kiln.mul %y, %fs : tensor<32x40xf32>
    %b = kiln.read @bias : tensor<40xf32>
    %bs = kiln.broadcast %b dims [1] : tensor<40xf32> to tensor<32x40xf32>
    %logits = kiln.add %scaled, %bs : tensor<32x40xf32>
    %loss = kiln.cross_entropy %logits, %targets, %scale : (tensor<32x40xf32>, tensor<4x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
