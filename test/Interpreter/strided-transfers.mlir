// A transfer of a view with a stride per micro-batch, awaited for the next
// micro-batch or after the last one, uses the addresses of the micro-batch for
// which it began.

// RUN: kiln-opt %s --kiln-verify-schedule -o %t.mlir
// RUN: kiln-run %t.mlir | FileCheck %s

// CHECK: x [4] = 0, 0, 0, 0

kilnrt.arena states 0 height 256 host states 0 height 128
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %x.slot = kilnrt.slot "x" class activation offset 0 bytes 16 lifetime [0, 6]
  %h.slot = kilnrt.slot "h" class activation in host offset 0 bytes 16 lifetime [0, 6]
  %g.slot = kilnrt.slot "g" class activation in host offset 64 bytes 16 lifetime [0, 6]
  %t = kilnrt.token
  %u = kilnrt.token
  %x = kilnrt.view %x.slot[0] : memref<4xf32>
  %g = kilnrt.view %g.slot[0] : memref<4xf32, #kiln.memory<host>>
  kilnrt.output "x" at %x
  kilnrt.fill on @compute (wo %x)
  kilnrt.begin copy %u on @copy_out after [@compute] (ro %x, wo %g)
  kilnrt.microbatches 2 order #kiln.order<"all-forward-first"> slots 2 forward {
    %xi = kilnrt.view %x.slot[0 + 8 * microbatch] : memref<2xf32>
    %hi = kilnrt.view %h.slot[0 + 8 * microbatch] : memref<2xf32, #kiln.memory<host>>
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %xi, wo %hi)
    kilnrt.wait %t on @compute
  } backward {
    %xi = kilnrt.view %x.slot[0 + 8 * microbatch] : memref<2xf32>
    %hi = kilnrt.view %h.slot[0 + 8 * microbatch] : memref<2xf32, #kiln.memory<host>>
    kilnrt.wait %u on @compute
    kilnrt.begin copy %u on @copy_in after [@compute] (ro %hi, wo %xi)
  }
  kilnrt.wait %u on @compute
}
