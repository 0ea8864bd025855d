// Every op of the scheduled level, with every part that it may have.
kiln.state @w : tensor<2x2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.kernel @row family<row> space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @epilogue family<row> epilogue space [2, 2] row_strides [2, 3, 2] {
^bb0(%x: tensor<2x2xf32>, %rng: tensor<1x3xi64>):
  %y = kiln.dropout %x, %rng {p = 5.0e-01, key = 0, sequences = 1} : (tensor<2x2xf32>, tensor<1x3xi64>) -> tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @dropout family<row> space [2, 2] row_strides [2, 3, 2] {
^bb0(%x: tensor<2x2xf32>, %rng: tensor<1x3xi64>):
  %y = kiln.dropout %x, %rng {p = 5.0e-01, key = 0, sequences = 1} : (tensor<2x2xf32>, tensor<1x3xi64>) -> tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @scatter family<scatter> row_strides [2, 2, 2] {
^bb0(%tokens: tensor<1x2xi32>, %dy: tensor<2x2xf32>):
  %dw = kiln.embedding_grad %tokens, %dy {padding_index = 1} : (tensor<1x2xi32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  kiln.yield %dw : tensor<2x2xf32>
}
kilnrt.arena states 16 height 768 host states 0 height 192
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> attributes {kiln.name = "train"} {
  %t = kilnrt.token
  %u = kilnrt.token ring
  %w.slot = kilnrt.slot "w" class parameter offset 0 bytes 16 lifetime [0, 15] state @w why "state"
  %a.slot = kilnrt.slot "a" class activation offset 64 bytes 16 lifetime [0, 15]
  %b.slot = kilnrt.slot "b" class activation offset 128 bytes 16 lifetime [0, 15] rows [8, 8] why "result"
  %rng.slot = kilnrt.slot "rng" class input offset 192 bytes 24 lifetime [0, 15]
  %tokens.slot = kilnrt.slot "tokens" class input offset 256 bytes 8 lifetime [0, 15]
  %scratch = kilnrt.slot "scratch" class workspace offset 320 bytes 64 lifetime [0, 15]
  %m.slot = kilnrt.slot "m" class activation offset 384 bytes 256 lifetime [0, 15]
  %h.slot = kilnrt.slot "h" class activation in host offset 0 bytes 16 lifetime [0, 15]
  %r.slot = kilnrt.slot "r" class activation offset 640 bytes 16 lifetime [11, 14] ring [64, 2]
  %s.slot = kilnrt.slot "s" class activation in host offset 64 bytes 16 lifetime [12, 13] ring [64, 2]
  %w = kilnrt.view %w.slot[0] : memref<2x2xf32>
  %a = kilnrt.view %a.slot[0] : memref<2x2xf32>
  %b = kilnrt.view %b.slot[0] : memref<2x2xf32>
  %rng = kilnrt.view %rng.slot[0] : memref<1x3xi64>
  %tokens = kilnrt.view %tokens.slot[0] : memref<1x2xi32>
  %h = kilnrt.view %h.slot[0] : memref<2x2xf32, #kiln.memory<host>>
  %m = kilnrt.view %m.slot[0] : memref<8x8xf32>
  %row = kilnrt.view %m.slot[32] : memref<8xf32>
  kilnrt.input "x" at %a fact #kiln.input<data, batch_dim = 0>
  kilnrt.input "rng" at %rng
  kilnrt.output "y" at %b
  kilnrt.fill on @compute (wo %b)
  kilnrt.copy on @compute (ro %a, wo %b)
  kilnrt.launch @row on @compute (ro %a, wo %b)
  kilnrt.launch @row on @compute (ro %a, wo %b) group 2
  kilnrt.launch @row on @compute (ro %b, wo %a)
  kilnrt.launch @dropout on @compute (ro %a, ro %rng, wo %b) args [7] scratch(%scratch)
  kilnrt.launch @scatter on @compute after [@host] (ro %tokens, ro %a, wo %b) accumulate add
  kilnrt.gemm on @compute after [@host] (ro %a, ro %w transposed, wo %b) grid [1, 1] epilogue @epilogue (ro %rng, wo %b) args [7] scratch(%scratch)
  kilnrt.gemm on @compute (ro %m transposed, ro %m, wo %m) grid [1, 1] library "gelu_aux_bias" bias(%row) aux(%m)
  kilnrt.begin copy %t on @copy_out after [@compute, @host] (ro %a, wo %h)
  kilnrt.wait %t on @compute and [@host]
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v = kilnrt.view %m.slot[0 + 16 * microbatch] : memref<2x2xf32, strided<[4, 1]>>
    %r = kilnrt.view %r.slot[0] : memref<2x2xf32>
    %s = kilnrt.view %s.slot[0] : memref<2x2xf32, #kiln.memory<host>>
    kilnrt.gemm on @compute (ro %v, ro %w, wo %r) grid [1, 1]
    kilnrt.begin copy %u on @copy_out after [@compute, @host] (ro %r, wo %s)
  } backward {
    %r = kilnrt.view %r.slot[0] : memref<2x2xf32>
    kilnrt.wait %u on @compute and [@host]
    kilnrt.gemm on @compute (ro %r, ro %w, rw %b add_after_first) grid [1, 1]
  }
}
