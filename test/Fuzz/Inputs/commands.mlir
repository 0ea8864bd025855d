// Every op of the scheduled level.
kiln.state @w : tensor<2x2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.kernel @row family<row> space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @epilogue family<row> epilogue space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.neg %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.arena states 16 height 64 host states 0 height 16
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %w = kilnrt.slot "w" class parameter offset 0 bytes 16 lifetime [0, 8] state @w
  %a = kilnrt.slot "a" class activation offset 16 bytes 16 lifetime [0, 8]
  %b = kilnrt.slot "b" class activation offset 32 bytes 16 lifetime [0, 8] rows [8, 8]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 16 lifetime [0, 8]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  kilnrt.input "x" at %v0
  %v1 = kilnrt.view %b[0] : memref<2x2xf32>
  kilnrt.output "y" at %v1
  %v2 = kilnrt.view %b[0] : memref<4xf32>
  kilnrt.fill on @compute (wo %v2)
  %v3 = kilnrt.view %a[0] : memref<4xf32>
  kilnrt.copy on @compute (ro %v3, wo %v2)
  kilnrt.launch @row on @compute (ro %v0, wo %v1)
  %v4 = kilnrt.view %w[0] : memref<2x2xf32>
  kilnrt.gemm on @compute (ro %v0, ro %v4, wo %v1) grid [1, 1] epilogue @epilogue(wo %v1)
  %v5 = kilnrt.view %h[0] : memref<4xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v3, wo %v5)
  kilnrt.wait %t on @compute
  kilnrt.loop 2 {
    %v6 = kilnrt.view %a[0] : memref<2x2xf32>
    %v7 = kilnrt.view %w[0] : memref<2x2xf32>
    %v8 = kilnrt.view %b[0] : memref<2x2xf32>
    kilnrt.gemm on @compute (ro %v6, ro %v7, rw %v8 add_after_first) grid [1, 1]
  }
}
