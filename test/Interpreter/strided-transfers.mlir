// A transfer of a loop-dependent view, awaited an iteration later or after the loop,
// uses the addresses of the iteration in which it began.

// RUN: kiln-opt %s --kiln-verify-schedule -o %t.mlir
// RUN: kiln-run %t.mlir | FileCheck %s

// CHECK: x [4] = 0, 0, 0, 0

kilnrt.arena states 0 height 256 host states 0 height 128
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
kilnrt.kernel @add family<row> space [1, 2] row_strides [2, 2, 2] {
^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
  %z = kiln.add %x, %y : tensor<2xf32>
  kiln.yield %z : tensor<2xf32>
}
kilnrt.program @train kind<train> {
  %x.slot = kilnrt.slot "x" class activation offset 0 bytes 16 lifetime [0, 20]
  %h.slot = kilnrt.slot "h" class activation in host offset 0 bytes 16 lifetime [0, 20]
  %t = kilnrt.token
  %x = kilnrt.view %x.slot[0] : memref<4xf32>
  kilnrt.output "x" at %x
  kilnrt.fill on @compute (wo %x)
  kilnrt.loop 2 {
    %xi = kilnrt.view %x.slot[0 + 8 * iteration] : memref<2xf32>
    %hi = kilnrt.view %h.slot[0 + 8 * iteration] : memref<2xf32, #kiln.memory<host>>
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %xi, wo %hi)
    kilnrt.wait %t on @compute
  }
  %u = kilnrt.token
  %h0 = kilnrt.view %h.slot[0] : memref<2xf32, #kiln.memory<host>>
  %x0 = kilnrt.view %x.slot[0] : memref<2xf32>
  kilnrt.begin copy %u on @copy_in after [@compute] (ro %h0, wo %x0)
  kilnrt.loop 2 {
    %xi = kilnrt.view %x.slot[0 + 8 * iteration] : memref<2xf32>
    %hi = kilnrt.view %h.slot[0 + 8 * iteration] : memref<2xf32, #kiln.memory<host>>
    kilnrt.wait %u on @compute
    kilnrt.begin copy %u on @copy_in after [@compute] (ro %hi, wo %xi)
  }
  kilnrt.wait %u on @compute
}
