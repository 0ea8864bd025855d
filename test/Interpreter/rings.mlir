// The residuals of micro-batches in flight are in instances of slots with rings:
// each backward segment reads what the forward segment of its micro-batch wrote.

// RUN: kiln-opt %s --kiln-verify-schedule -o %t.mlir
// RUN: kiln-run %t.mlir | FileCheck %s

// Micro-batch i counts to i + 1. Its part of y becomes that number in the backward
// segment, although later micro-batches have counted on.
// CHECK: y [8] = 1, 1, 2, 2, 3, 3, 4, 4

kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 64 height 448 host states 0 height 192
kilnrt.kernel @add family<row> space [1, 2] row_strides [2, 2, 2] {
^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
  %z = kiln.add %x, %y : tensor<2xf32>
  kiln.yield %z : tensor<2xf32>
}
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %w.slot = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 7] state @w
  %count.slot = kilnrt.slot "count" class activation offset 64 bytes 8 lifetime [0, 7]
  %y.slot = kilnrt.slot "y" class output offset 128 bytes 32 lifetime [0, 7]
  %a.slot = kilnrt.slot "a" class activation offset 192 bytes 8 lifetime [2, 4] ring [64, 3]
  %h.slot = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [3, 6] ring [64, 3]
  %out = kilnrt.token ring
  %in = kilnrt.token
  %w = kilnrt.view %w.slot[0] : memref<2xf32>
  %count = kilnrt.view %count.slot[0] : memref<2xf32>
  %y = kilnrt.view %y.slot[0] : memref<8xf32>
  kilnrt.output "y" at %y
  kilnrt.fill on @compute (wo %count)
  kilnrt.microbatches 4 order #kiln.order<"F0 F1 F2 B1 B0 F3 B3 B2"> slots 3 forward {
    %a = kilnrt.view %a.slot[0] : memref<2xf32>
    %h = kilnrt.view %h.slot[0] : memref<2xf32, #kiln.memory<host>>
    kilnrt.launch @add on @compute (ro %count, ro %w, wo %count)
    kilnrt.copy on @compute (ro %count, wo %a)
    kilnrt.begin copy %out on @copy_out after [@compute] (ro %a, wo %h)
  } backward {
    %h = kilnrt.view %h.slot[0] : memref<2xf32, #kiln.memory<host>>
    %part = kilnrt.view %y.slot[0 + 8 * microbatch] : memref<2xf32>
    kilnrt.wait %out on @compute
    kilnrt.begin copy %in on @copy_in after [@compute] (ro %h, wo %part)
    kilnrt.wait %in on @compute
  }
  kilnrt.copy on @compute (ro %w, wo %count)
}
