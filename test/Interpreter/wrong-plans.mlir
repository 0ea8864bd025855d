// A plan that is wrong is an error that names the slots.

// RUN: split-file %s %t
// RUN: kiln-run %t/right.mlir | FileCheck %s --check-prefix=RIGHT
// RUN: not kiln-run %t/overlap.mlir 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: not kiln-run %t/unwritten.mlir 2>&1 | FileCheck %s --check-prefix=UNWRITTEN
// RUN: not kiln-run %t/overwritten.mlir 2>&1 | FileCheck %s --check-prefix=OVERWRITTEN
// RUN: not kiln-run %t/dead.mlir 2>&1 | FileCheck %s --check-prefix=DEAD
// RUN: not kiln-run %t/outside.mlir 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: not kiln-run %t/state.mlir 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: kiln-run %t/copies.mlir | FileCheck %s --check-prefix=COPIES
// RUN: not kiln-run %t/early.mlir 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not kiln-run %t/changed.mlir 2>&1 | FileCheck %s --check-prefix=CHANGED
// RUN: not kiln-run %t/written.mlir 2>&1 | FileCheck %s --check-prefix=WRITTEN
// RUN: not kiln-run %t/again.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not kiln-run %t/no-start.mlir 2>&1 | FileCheck %s --check-prefix=START
// RUN: not kiln-run %t/no-source.mlir 2>&1 | FileCheck %s --check-prefix=SOURCE
// RUN: not kiln-run %t/ended.mlir 2>&1 | FileCheck %s --check-prefix=ENDED
// RUN: not kiln-run %t/host.mlir 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: not kiln-run %t/host-state.mlir 2>&1 | FileCheck %s --check-prefix=HOMELESS
// RUN: not kiln-run %t/no-ring.mlir 2>&1 | FileCheck %s --check-prefix=NO-RING
// RUN: not kiln-run %t/first-only.mlir 2>&1 | FileCheck %s --check-prefix=FIRST-ONLY
// RUN: not kiln-run %t/ring-overlap.mlir 2>&1 | FileCheck %s --check-prefix=RING-OVERLAP
// RUN: not kiln-run %t/short-ring.mlir 2>&1 | FileCheck %s --check-prefix=SHORT-RING
// RUN: not kiln-run %t/long-ring.mlir 2>&1 | FileCheck %s --check-prefix=LONG-RING
// RUN: not kiln-run %t/odd-ring.mlir 2>&1 | FileCheck %s --check-prefix=ODD-RING
// RUN: not kiln-run %t/late-wait.mlir 2>&1 | FileCheck %s --check-prefix=LATE-WAIT

// RIGHT: y [2] = 4, 4
// OVERLAP: op 'b' (offset 12, size 8) overlaps slot 'a' (offset 8, size 8), which is live at the same time
// UNWRITTEN: is command 0 and reads slot 'a' at byte 0, which was not written
// OVERWRITTEN: is command 1 and reads slot 'b' at byte 0, where slot 'a' was the last to write
// DEAD: is command 2 and accesses slot 'b', which is only live from command 1 to 1
// OUTSIDE: reaches outside of slot 'b' of 8 bytes
// STATE: reads slot 'w' at byte 4, where slot 'b' was the last to write
// COPIES: y [2] = 1, 1
// EARLY: is command 1 and reads slot 'h' at byte 0, where a copy is in progress
// CHANGED: waits for a transfer whose source 'a' changed while the transfer was in progress
// WRITTEN: waits for a transfer whose destination 'b' was written while the transfer was in progress
// AGAIN: waits for a transfer whose destination 'h' was written while the transfer was in progress
// START: waits for a token that no transfer in progress signals
// SOURCE: is command 0 and reads slot 'a' at byte 0, which was not written
// ENDED: is command 2 and accesses slot 'a', which is only live from command 0 to 1
// HOST: has the offset 0 and the size 8, expected an offset that is a multiple of 4, and offset + size <= 4
// HOMELESS: is a slot of the state @w, but its offset differs from that of another slot of this state
// NO-RING: is command 1 for micro-batch 0 and reads slot 'a' at byte 0, where micro-batch 1 was the last to write
// FIRST-ONLY: is command 1 for micro-batch 1 and reads slot 'a' at byte 8, which was not written
// RING-OVERLAP: op 'b' (offset 64, size 8) overlaps slot 'a' (offset 0, size 72), which is live at the same time
// SHORT-RING: op 'a' has a ring of 1 instances, expected at least 2, one for each micro-batch in flight
// LONG-RING: op 'a' has a ring, expected none, because the slot is live outside the segments of micro-batches
// ODD-RING: op 'a' has a ring with a stride of 10 bytes, expected a multiple of 4
// LATE-WAIT: is command 2 for micro-batch 1 and accesses slot 'a' of micro-batch 0, which is only live from command 2 to 4

//--- right.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 24
kilnrt.kernel @double family<row> space [1, 2] row_strides [2, 2] {
^bb0(%x: tensor<2xf32>):
  %y = kiln.add %x, %x : tensor<2xf32>
  kiln.yield %y : tensor<2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 1] state @w
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class output offset 16 bytes 8 lifetime [1, 1]
  %v0 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.output "y" at %v0
  %v1 = kilnrt.view %w[0] : memref<2xf32>
  %v2 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.launch @double on @compute (ro %v1, wo %v2)
  kilnrt.launch @double on @compute (ro %v2, wo %v0)
}

//--- overlap.mlir
kilnrt.arena states 0 height 24
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class output offset 12 bytes 8 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.copy on @compute (ro %v0, wo %v1)
}

//--- unwritten.mlir
kilnrt.arena states 0 height 24
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class output offset 16 bytes 8 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  %v1 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.copy on @compute (ro %v0, wo %v1)
}

//--- overwritten.mlir
kilnrt.arena states 0 height 32
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 12 bytes 8 lifetime [1, 1]
  %c = kilnrt.slot "c" class activation offset 24 bytes 8 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %b[0] : memref<2xf32>
  %v2 = kilnrt.view %c[0] : memref<2xf32>
  kilnrt.copy on @compute (ro %v1, wo %v2)
}

//--- dead.mlir
kilnrt.arena states 0 height 32
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 16 bytes 8 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v1)
  kilnrt.copy on @compute (ro %v0, wo %v1)
}

//--- outside.mlir
kilnrt.arena states 0 height 32
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %b = kilnrt.slot "b" class activation offset 16 bytes 8 lifetime [0, 0]
  %v0 = kilnrt.view %b[4] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
}

//--- state.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 32
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [1, 1] state @w
  %b = kilnrt.slot "b" class activation offset 4 bytes 8 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 16 bytes 8 lifetime [1, 1]
  %v0 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %c[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v1)
}

//--- copies.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %u = kilnrt.token
  %t = kilnrt.token
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 4] state @w
  %b = kilnrt.slot "b" class output offset 8 bytes 8 lifetime [2, 4]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 3]
  %v0 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.output "y" at %v0
  %v1 = kilnrt.view %w[0] : memref<2xf32>
  %v2 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v1, wo %v2)
  kilnrt.wait %t on @compute
  kilnrt.begin copy %u on @copy_in after [@compute] (ro %v2, wo %v0)
  kilnrt.wait %u on @compute
}

//--- early.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 host states 0 height 16
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 2] state @w
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 2]
  %i = kilnrt.slot "i" class activation in host offset 8 bytes 8 lifetime [0, 2]
  %v0 = kilnrt.view %w[0] : memref<2xf32>
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %i[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.copy on @compute (ro %v1, wo %v2)
  kilnrt.wait %t on @compute
}

//--- changed.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 3] state @w
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 3]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 3]
  %v0 = kilnrt.view %w[0] : memref<2xf32>
  %v1 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.copy on @compute (ro %v0, wo %v1)
  %v2 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v1, wo %v2)
  kilnrt.fill on @compute (wo %v1)
  kilnrt.wait %t on @compute
}

//--- written.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %u = kilnrt.token
  %t = kilnrt.token
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 4] state @w
  %b = kilnrt.slot "b" class activation offset 8 bytes 8 lifetime [2, 4]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 4]
  %v0 = kilnrt.view %w[0] : memref<2xf32>
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
  %v2 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.begin copy %u on @copy_in after [@compute] (ro %v1, wo %v2)
  kilnrt.fill on @compute (wo %v2)
  kilnrt.wait %u on @compute
}

//--- again.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %u = kilnrt.token
  %t = kilnrt.token
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 3] state @w
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 3]
  %v0 = kilnrt.view %w[0] : memref<2xf32>
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.begin copy %u on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
  kilnrt.wait %u on @compute
}

//--- no-start.mlir
kilnrt.arena states 0 height 0
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  kilnrt.wait %t on @compute
}

//--- no-source.mlir
kilnrt.arena states 0 height 8 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 1]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

//--- ended.mlir
kilnrt.arena states 0 height 8 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 1]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

//--- host.mlir
kilnrt.arena states 0 height 8 host states 0 height 4
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 2]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

//--- host-state.mlir
kiln.state @w : tensor<2xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 0 height 8 host states 0 height 8
kilnrt.program @train kind<train> {
  %w = kilnrt.slot "w" class parameter in host offset 0 bytes 8 lifetime [0, 0] state @w
}
kilnrt.program @evaluate kind<evaluate> {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 0] state @w
}

//--- no-ring.mlir
kilnrt.arena states 0 height 256
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 8 lifetime [1, 1]
  kilnrt.microbatches 2 order #kiln.order<"F0 F1 B0 B1"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<2xf32>
    %v2 = kilnrt.view %b[0] : memref<2xf32>
    kilnrt.copy on @compute (ro %v1, wo %v2)
  }
}

//--- first-only.mlir
kilnrt.arena states 0 height 256
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 8 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.microbatches 2 forward {
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0 + 8 * microbatch] : memref<2xf32>
    %v2 = kilnrt.view %b[0] : memref<2xf32>
    kilnrt.copy on @compute (ro %v1, wo %v2)
  }
}

//--- ring-overlap.mlir
kilnrt.arena states 0 height 256
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 0] ring [64, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 8 lifetime [1, 1]
  kilnrt.microbatches 2 order #kiln.order<"F0 F1 B0 B1"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %b[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v1)
  }
}

//--- short-ring.mlir
kilnrt.arena states 0 height 256
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 0] ring [64, 1]
  %b = kilnrt.slot "b" class activation offset 128 bytes 8 lifetime [1, 1]
  kilnrt.microbatches 2 order #kiln.order<"F0 F1 B0 B1"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %b[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v1)
  }
}

//--- long-ring.mlir
kilnrt.arena states 0 height 256
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 2] ring [64, 2]
  %b = kilnrt.slot "b" class activation offset 128 bytes 8 lifetime [1, 2]
  kilnrt.microbatches 2 order #kiln.order<"F0 F1 B0 B1"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %b[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v1)
  }
  %v2 = kilnrt.view %b[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v2)
}

//--- odd-ring.mlir
kilnrt.arena states 0 height 256
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 0] ring [10, 2]
  %b = kilnrt.slot "b" class activation offset 128 bytes 8 lifetime [1, 1]
  kilnrt.microbatches 2 order #kiln.order<"F0 F1 B0 B1"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %b[0] : memref<2xf32>
    kilnrt.fill on @compute (wo %v1)
  }
}

//--- late-wait.mlir
kilnrt.arena states 0 height 128 host states 0 height 8
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [2, 4]
  %b = kilnrt.slot "b" class activation offset 64 bytes 8 lifetime [0, 5]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 8 lifetime [0, 5]
  %v0 = kilnrt.view %b[0] : memref<2xf32>
  %v1 = kilnrt.view %h[0] : memref<2xf32, #kiln.memory<host>>
  kilnrt.fill on @compute (wo %v0)
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.microbatches 2 forward {
    %v2 = kilnrt.view %a[0] : memref<2xf32>
    kilnrt.wait %t on @compute
    kilnrt.fill on @compute (wo %v2)
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v2, wo %v1)
  } backward {
  }
  kilnrt.wait %t on @compute
}
