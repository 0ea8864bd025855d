// Copies that are under way across micro-batches, or for which several queues
// wait, have landed after the first wait.

// RUN: kiln-opt %s --kiln-verify-schedule -o %t.mlir
// RUN: kiln-run %t.mlir | FileCheck %s

// Each micro-batch adds what the one before it prefetched: 1 in all four of them.
// CHECK: sum [2] = 4, 4
// CHECK: back [2] = 2, 2

kiln.state @w : tensor<2xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 0 height 256 host states 64 height 128
kilnrt.kernel @add family<row> space [1, 2] row_strides [2, 2, 2] {
^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
  %z = kiln.add %x, %y : tensor<2xf32>
  kiln.yield %z : tensor<2xf32>
}
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_in engine link
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %w.slot = kilnrt.slot "w" class parameter in host offset 0 bytes 8 lifetime [0, 12] state @w
  %a.slot = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 12]
  %sum.slot = kilnrt.slot "sum" class output offset 64 bytes 8 lifetime [0, 12]
  %h.slot = kilnrt.slot "h" class activation in host offset 64 bytes 8 lifetime [6, 12]
  %back.slot = kilnrt.slot "back" class output offset 128 bytes 8 lifetime [0, 12]
  %prefetch = kilnrt.token
  %out = kilnrt.token
  %in = kilnrt.token
  %w = kilnrt.view %w.slot[0] : memref<2xf32, #kiln.memory<host>>
  %a = kilnrt.view %a.slot[0] : memref<2xf32>
  %sum = kilnrt.view %sum.slot[0] : memref<2xf32>
  %h = kilnrt.view %h.slot[0] : memref<2xf32, #kiln.memory<host>>
  %back = kilnrt.view %back.slot[0] : memref<2xf32>
  kilnrt.output "sum" at %sum
  kilnrt.output "back" at %back
  kilnrt.fill on @compute (wo %sum)
  kilnrt.begin copy %prefetch on @copy_in after [@compute] (ro %w, wo %a)
  kilnrt.microbatches 4 forward {
    kilnrt.wait %prefetch on @compute
    kilnrt.launch @add on @compute (ro %sum, ro %a, wo %sum)
  } backward {
    kilnrt.begin copy %prefetch on @copy_in after [@compute] (ro %w, wo %a)
  }
  kilnrt.wait %prefetch on @compute
  kilnrt.begin copy %out on @copy_out after [@compute] (ro %a, wo %h)
  kilnrt.wait %out on @compute
  kilnrt.fill on @compute (wo %a)
  kilnrt.wait %out on @host
  kilnrt.launch @add on @host (ro %h, ro %h, wo %h)
  kilnrt.begin copy %in on @copy_in after [@host] (ro %h, wo %back)
  kilnrt.wait %in on @compute and [@host]
}
