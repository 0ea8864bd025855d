// A residual add and the norm that follows form one kernel.
kiln.program @residual_norm(
    %x: tensor<8x64xbf16> {kiln.name = "x"}, %skip: tensor<8x64xbf16> {kiln.name = "skip"},
    %g: tensor<64xf32> {kiln.name = "g"}, %b: tensor<64xf32> {kiln.name = "b"})
    -> (tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.add %x, %skip : tensor<8x64xbf16>
  %y, %mean, %rstd = kiln.layer_norm %s, %g, %b {eps = 1.0e-05}
      : (tensor<8x64xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xbf16>, tensor<8xf32>, tensor<8xf32>)
  kiln.return %s, %y, %rstd : tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8xf32>
}
