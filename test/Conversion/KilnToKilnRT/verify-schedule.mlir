// Every way in which memory could be reused too early, in plans made by hand.

// RUN: kiln-opt %s --kiln-verify-schedule -split-input-file -verify-diagnostics

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
// Two copies of one source are under way while it is read and others write
// elsewhere; what ends may be written; slots of the two sides share no bytes.
kilnrt.program @right kind<train> {
  %u = kilnrt.token
  %g = kilnrt.token
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 6]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [3, 3]
  %c = kilnrt.slot "c" class activation offset 64 bytes 64 lifetime [4, 8]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 5]
  %i = kilnrt.slot "c" class activation in host offset 64 bytes 64 lifetime [2, 8]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %i[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.begin copy %g on @copy_out after [@compute] (ro %v0, wo %v2)
  %v3 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.copy on @compute (ro %v0, wo %v3)
  %v4 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.copy on @compute (ro %v0, wo %v4)
  kilnrt.wait %t on @compute
  kilnrt.wait %g on @compute
  kilnrt.microbatches 2 forward {
    %v5 = kilnrt.view %i[0] : memref<16xf32, #kiln.memory<host>>
    %v6 = kilnrt.view %c[0] : memref<16xf32>
    kilnrt.begin copy %u on @copy_in after [@compute] (ro %v5, wo %v6)
  } backward {
    kilnrt.wait %u on @compute
  }
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @overlap kind<train> {
  // expected-note @below {{the other slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // expected-error @below {{'b' shares bytes with 'a', which is live at the same time}}
  %b = kilnrt.slot "b" class activation offset 32 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.copy on @compute (ro %v0, wo %v1)
}

// -----

// A state lives for ever.
kiln.state @w : tensor<16xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @overlap_on_the_host kind<train> {
  %t = kilnrt.token
  // expected-note @below {{the other slot is here}}
  %w = kilnrt.slot "w" class parameter in host offset 0 bytes 64 lifetime [0, 1] state @w
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // expected-error @below {{'h' shares bytes with 'w', which is live at the same time}}
  %h = kilnrt.slot "h" class activation in host offset 32 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_written kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.fill on @compute (wo %v0)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.kernel @double family<row> space [1, 16] row_strides [16, 16] {
^bb0(%x: tensor<16xf32>):
  %y = kiln.add %x, %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_written_by_kernel kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 3]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.launch @double on @compute (ro %v0, wo %v2)
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.launch @double on @compute (ro %v2, wo %v0)
  kilnrt.wait %t on @compute
}

// -----

// Scratch is written too.
kilnrt.kernel @double family<row> space [1, 16] row_strides [16, 16] {
^bb0(%x: tensor<16xf32>):
  %y = kiln.add %x, %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_is_scratch kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.launch @double on @compute (ro %v2, wo %v2) scratch(%a)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_of_product kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<4x4xf32>
  %v3 = kilnrt.view %a[0] : memref<4x4xf32>
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.gemm on @compute (ro %v2, ro %v2, wo %v3) grid [1, 1]
  kilnrt.wait %t on @compute
}

// -----

// An epilogue reads the product and its other operands, and writes the results behind them.
kilnrt.kernel @add family<row> epilogue space [4, 4] row_strides [4, 4, 4] {
^bb0(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>):
  %z = kiln.add %x, %y : tensor<4x4xf32>
  kiln.yield %z : tensor<4x4xf32>
}
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_of_epilogue kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 3]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<4x4xf32>
  %v3 = kilnrt.view %c[0] : memref<4x4xf32>
  %v4 = kilnrt.view %a[0] : memref<4x4xf32>
  kilnrt.gemm on @compute (ro %v2, ro %v2, wo %v3) grid [1, 1] epilogue @add(ro %v4, wo %v3)
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.gemm on @compute (ro %v2, ro %v2, wo %v3) grid [1, 1] epilogue @add(ro %v2, wo %v4)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_in engine link
kilnrt.program @destination_read kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  // expected-error @below {{reads slot 'a', but has no order with respect to a command on @copy_in that writes bytes of this slot: @compute must wait for that command}}
  kilnrt.copy on @compute (ro %v1, wo %v2)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_in engine link
kilnrt.program @destination_written kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_in that writes bytes of this slot: @compute must wait for that command}}
  kilnrt.fill on @compute (wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
// A second copy may neither leave a destination nor come to a source.
kilnrt.program @copied_on kind<train> {
  %u = kilnrt.token
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 3]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  // expected-error @below {{reads slot 'a', but has no order with respect to a command on @copy_out that writes bytes of this slot: @copy_in must wait for that command}}
  kilnrt.begin copy %u on @copy_in after [@compute] (ro %v1, wo %v2)
  kilnrt.wait %t on @compute
  kilnrt.wait %u on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
kilnrt.program @copied_over kind<train> {
  %u = kilnrt.token
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 3]
  %i = kilnrt.slot "b" class activation in host offset 64 bytes 64 lifetime [0, 3]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %i[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @copy_in must wait for that command}}
  kilnrt.begin copy %u on @copy_in after [@compute] (ro %v2, wo %v0)
  kilnrt.wait %t on @compute
  kilnrt.wait %u on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
// A transfer may be in progress during micro-batches, whose commands must not
// write what it reads.
kilnrt.program @across_microbatches kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.microbatches 2 forward {
  } backward {
    // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
    kilnrt.fill on @compute (wo %v0)
  }
  kilnrt.wait %t on @compute
}

// -----

// Slots are touched while they live: from the beginning of a transfer to the
// first wait for it, by the caller, by every micro-batch.

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_dies kind<train> {
  %t = kilnrt.token
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the transfer begins here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v2)
  // expected-error @below {{waits, at command 2, for a transfer of slot 'a'; this slot is live from command 0 to 0, expected at least from 0 to 2}}
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_in engine link
kilnrt.program @destination_dies kind<train> {
  %t = kilnrt.token
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  // expected-note @below {{the transfer begins here}}
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  // expected-error @below {{waits, at command 1, for a transfer of slot 'a'; this slot is live from command 0 to 0, expected at least from 0 to 1}}
  kilnrt.wait %t on @compute
}

// -----

// The bytes of a slot that dies before the wait are reused.
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @source_reused kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [1, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  // expected-error @below {{writes slot 'b', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.fill on @compute (wo %v2)
  kilnrt.wait %t on @compute
}

// -----

// The first wait for a transfer ends the lives of its slots, also if another queue
// waits later.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_out engine link
kilnrt.program @reused_after_first_wait kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [2, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 4]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v2)
  kilnrt.wait %t on @host
  kilnrt.fill on @host (wo %v1)
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @destination_too_late kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // expected-note @below {{the slot is here}}
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{accesses slot 'h' at command 0, but the slot is only live from command 1 to 1}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @input kind<train> {
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class input offset 0 bytes 64 lifetime [1, 1]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{accesses slot 'a' at command 0, but the slot is only live from command 1 to 1}}
  kilnrt.input "x" at %v0 fact #kiln.input<data>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v1)
  kilnrt.fill on @compute (wo %v0)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @output kind<train> {
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class output offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{accesses slot 'a' at command 1, but the slot is only live from command 0 to 0}}
  kilnrt.output "y" at %v0
  kilnrt.fill on @compute (wo %v0)
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v1)
}

// -----

kilnrt.queue @compute engine host
// Micro-batch 1 would read what micro-batch 0 left of 'c'.
kilnrt.program @part_of_a_microbatch kind<train> {
  // expected-error @below {{'a' is live from command 0 to 1, expected a slot that is live in all micro-batches, from command 1 to 2}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %c = kilnrt.slot "c" class activation offset 0 bytes 64 lifetime [2, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
  kilnrt.microbatches 2 forward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    %v2 = kilnrt.view %b[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v2)
  } backward {
    %v3 = kilnrt.view %c[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v3)
  }
}

// -----

// A state lives for ever, whatever lifetime its slot states.
kiln.state @w : tensor<16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kilnrt.queue @compute engine host
kilnrt.program @over_a_state kind<train> {
  // expected-note @below {{the other slot is here}}
  %w = kilnrt.slot "w" class parameter offset 0 bytes 64 lifetime [0, 0] state @w
  // expected-error @below {{'a' shares bytes with 'w', which is live at the same time}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %w[0] : memref<16xf32>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
  kilnrt.fill on @compute (wo %v1)
}

// -----

// A value that is live in both segments has an instance per micro-batch in flight.
kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2] ring [64, 2]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-error @below {{'a' is live from command 1 to 2, expected a slot with a ring, because it stores values from the forward to the backward segment while several micro-batches are in flight}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-error @below {{'a' has 3 instances, expected 2, the number of ring slots of kilnrt.microbatches}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2] ring [64, 3]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-error @below {{'a' has 1 instances, expected 2, the number of ring slots of kilnrt.microbatches}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2] ring [64, 1]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

// Rings are only live in micro-batches.
kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-error @below {{'a' is live from command 0 to 2, expected a slot that is live only in micro-batches, from command 1 to 2, because it has a ring}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 2]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-error @below {{'a' is live from command 1 to 3, expected a slot that is live only in micro-batches, from command 1 to 2, because it has a ring}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 3] ring [64, 2]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

// An instance is live when commands of other micro-batches are executed.
kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-note @below {{the other slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2] ring [64, 2]
  // expected-error @below {{'b' shares bytes with 'a', which is live at the same time}}
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 2]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

// Before and after the micro-batches, other slots may use the bytes of a ring.
kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2] ring [64, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 0 bytes 128 lifetime [3, 3]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

// The bytes between instances belong to the ring.
kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-note @below {{the other slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 2] ring [128, 2]
  // expected-error @below {{'b' shares bytes with 'a', which is live at the same time}}
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

// The first command outside of the lifetime of an instance is rejected.
kilnrt.queue @compute engine host
kilnrt.program @rings kind<train> {
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 1] ring [64, 2]
  %s = kilnrt.slot "s" class gradient offset 1024 bytes 64 lifetime [0, 3]
  %v = kilnrt.view %s[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v1 = kilnrt.view %a[0] : memref<16xf32>
    // expected-error @below {{accesses slot 'a' at command 2, but the slot is only live from command 1 to 1}}
    kilnrt.copy on @compute (ro %v1, wo %v)
  }
  kilnrt.fill on @compute (wo %v)
}

// -----

// Without micro-batches, no slot has a ring.
kilnrt.queue @compute engine host
kilnrt.program @no_microbatches kind<train> {
  // expected-error @below {{'a' is live from command 0 to 0, expected a slot that is live only in micro-batches}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [64, 2]
  %b = kilnrt.slot "b" class activation offset 256 bytes 64 lifetime [0, 0]
  %v = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v)
}

// -----

// The caller writes an input before the micro-batches.
kilnrt.queue @compute engine host
kilnrt.program @input_with_two_segments kind<train> {
  // expected-error @below {{'x' is live from command 0 to 0, expected a slot that is live in all micro-batches, from command 0 to 1}}
  %x = kilnrt.slot "x" class input offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 0 bytes 64 lifetime [1, 1]
  %vx = kilnrt.view %x[0] : memref<16xf32>
  kilnrt.input "x" at %vx fact <data>
  kilnrt.microbatches 2 forward {
    %v0 = kilnrt.view %b[0] : memref<16xf32>
    kilnrt.copy on @compute (ro %vx, wo %v0)
  } backward {
    %v1 = kilnrt.view %c[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v1)
  }
}

// -----

// A slot that is accessed in micro-batches only by commands of the last backward
// segment may share bytes with slots whose lifetimes in a segment end before it.
kilnrt.queue @compute engine host
kilnrt.program @last_execution kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1] ring [64, 2]
  %b = kilnrt.slot "b" class activation offset 128 bytes 64 lifetime [2, 2]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [3, 4]
  kilnrt.microbatches 2 order <"all-forward-first"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
  } backward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0)
    %v1 = kilnrt.view %b[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v1)
    %v2 = kilnrt.view %c[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v2) when last
  }
  %v2 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v2)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @not_last_execution kind<train> {
  // expected-error @below {{'c' is live from command 1 to 2, expected a slot that is live in all micro-batches, from command 0 to 1}}
  %c = kilnrt.slot "c" class activation offset 0 bytes 64 lifetime [1, 2]
  %d = kilnrt.slot "d" class activation offset 64 bytes 64 lifetime [0, 0]
  kilnrt.microbatches 2 forward {
    %v1 = kilnrt.view %d[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v1)
  } backward {
    %v0 = kilnrt.view %c[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v0) when first
  }
  %v0 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
}

// -----

// The caller reads an output after all commands, but may also write to it.
kilnrt.queue @compute engine host
kilnrt.program @output_of_last_execution kind<train> {
  // expected-error @below {{'c' is live from command 1 to 2, expected a slot that is live in all micro-batches, from command 0 to 1}}
  %c = kilnrt.slot "c" class output offset 0 bytes 64 lifetime [1, 2]
  %d = kilnrt.slot "d" class activation offset 64 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.output "c" at %v0
  kilnrt.microbatches 2 forward {
    %v1 = kilnrt.view %d[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v1)
  } backward {
    %v1 = kilnrt.view %c[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v1) when last
  }
  kilnrt.fill on @compute (wo %v0)
}

// -----

// The transfer is in progress from the first to the last micro-batch.
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @transfer_across_microbatches kind<train> {
  %t = kilnrt.token
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 2]
  kilnrt.microbatches 3 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    // expected-note @below {{the transfer begins here}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1) when first
    // expected-error @below {{waits, at command 1, for a transfer of slot 'a'; this slot is live from command 0 to 1, expected at least from 0 to 2}}
    kilnrt.wait %t on @compute when last
  } backward {
    %v2 = kilnrt.view %b[0] : memref<16xf32>
    kilnrt.fill on @compute (wo %v2)
  }
}
