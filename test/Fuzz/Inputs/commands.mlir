// Every op of the scheduled level.
kiln.state @w : tensor<2x2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.kernel @row attributes {family = #kiln.family<row>, space = array<i64: 2, 2>, row_strides = array<i64: 2, 2>} {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @epilogue attributes {epilogue, family = #kiln.family<row>, space = array<i64: 2, 2>, row_strides = array<i64: 2, 2>} {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.neg %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.arena states 16 height 64 {host_height = 16}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 16 lifetime [0, 8] state @w
  %a = kilnrt.slot "a" class activation offset 16 bytes 16 lifetime [0, 8]
  %b = kilnrt.slot "b" class activation offset 32 bytes 16 lifetime [0, 8] {rows = array<i64: 8, 8>}
  %h = kilnrt.slot "h" class activation offset 0 bytes 16 lifetime [0, 8] {host}
  kilnrt.input "x" at %a + 0 : tensor<2x2xf32>
  kilnrt.output "y" at %b + 0 : tensor<2x2xf32>
  kilnrt.fill %b offset 0 bytes 16
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 16
  kilnrt.launch @row(%a, %b) offsets [0, 0] strides [0, 0] immediates []
  kilnrt.gemm(%a, %w, %b) epilogue @epilogue(%b) immediates [] offsets [0, 0, 0, 0] strides [0, 0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 16
  kilnrt.wait %t
  kilnrt.loop 2 {
    kilnrt.gemm(%a, %w, %b) offsets [0, 0, 0] strides [0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 2, grid = array<i64: 1, 1>, element = f32}
  }
}
