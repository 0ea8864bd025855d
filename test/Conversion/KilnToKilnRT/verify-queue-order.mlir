// Handwritten plans with waits that no order satisfies, transfers that nothing
// waits for, and unordered commands of different queues on the same bytes.

// RUN: kiln-opt %s --kiln-verify-schedule -split-input-file -verify-diagnostics

kilnrt.queue @compute engine host
kilnrt.program @never_signaled kind<train> {
  %t = kilnrt.token
  // expected-error @below {{waits for a token that no preceding command signals, so this wait would never end}}
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @signaled_later kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{waits for a token that no preceding command signals, so this wait would never end}}
  kilnrt.wait %t on @compute
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
}

// -----

// The first micro-batch would wait for a transfer of a preceding one.
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @signaled_by_the_next_microbatch kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.microbatches 2 forward {
    // expected-error @below {{waits for a token that no preceding command signals, so this wait would never end}}
    kilnrt.wait %t on @compute
  } backward {
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  }
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @not_awaited kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{begins a transfer, but no kilnrt.wait waits for its token before the token is signaled again or the program ends}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @signaled_again kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 128 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v2 = kilnrt.view %h[64] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{begins a transfer, but no kilnrt.wait waits for its token before the token is signaled again or the program ends}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v2)
  kilnrt.wait %t on @compute
}

// -----

// The next micro-batch signals the token again.
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @awaited_after_the_microbatches kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.microbatches 2 forward {
  } backward {
    // expected-error @below {{begins a transfer, but no kilnrt.wait waits for its token before the token is signaled again or the program ends}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  }
  kilnrt.wait %t on @compute
}

// -----

// Every micro-batch waits for the transfer that the preceding one began, and
// begins the transfer for the next one.
kilnrt.queue @compute engine device
kilnrt.queue @copy_in engine link
kilnrt.program @prefetch kind<train> {
  %t = kilnrt.token
  %h = kilnrt.slot "h" class parameter in host offset 0 bytes 64 lifetime [0, 4]
  %a = kilnrt.slot "a" class parameter offset 0 bytes 64 lifetime [0, 4]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 2]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  kilnrt.microbatches 4 forward {
    kilnrt.wait %t on @compute
    kilnrt.copy on @compute (ro %v1, wo %v2)
  } backward {
    kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  }
  kilnrt.wait %t on @compute
}

// -----

// The transfer overwrites bytes that the queue may still read.
kilnrt.queue @compute engine device
kilnrt.queue @copy_in engine link
kilnrt.program @prefetch_too_early kind<train> {
  %t = kilnrt.token
  %h = kilnrt.slot "h" class parameter in host offset 0 bytes 64 lifetime [0, 4]
  %a = kilnrt.slot "a" class parameter offset 0 bytes 64 lifetime [0, 4]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 2]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.begin copy %t on @copy_in (ro %v0, wo %v1)
  kilnrt.microbatches 4 forward {
    kilnrt.wait %t on @compute
    // expected-note @below {{the other command is here}}
    kilnrt.copy on @compute (ro %v1, wo %v2)
  } backward {
    // expected-error @below {{writes slot 'a', but has no order with respect to a command on @compute that reads bytes of this slot: @copy_in must wait for that command}}
    kilnrt.begin copy %t on @copy_in (ro %v0, wo %v1)
  }
  kilnrt.wait %t on @compute
}

// -----

// The queue reads bytes that the transfer of the preceding micro-batch may still write;
// only another queue waits for that transfer.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_in engine link
kilnrt.program @prefetch_without_wait kind<train> {
  %t = kilnrt.token
  %h = kilnrt.slot "h" class parameter in host offset 0 bytes 64 lifetime [0, 4]
  %a = kilnrt.slot "a" class parameter offset 0 bytes 64 lifetime [0, 4]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v1)
  kilnrt.microbatches 4 forward {
    // expected-error @below {{reads slot 'a', but has no order with respect to a command on @copy_in that writes bytes of this slot: @compute must wait for that command}}
    kilnrt.copy on @compute (ro %v1, wo %v2)
  } backward {
    // expected-note @below {{the other command is here}}
    kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
    kilnrt.wait %t on @host
  }
  kilnrt.wait %t on @compute
}

// -----

// The prefetched slot is live only in the backward segment.
kilnrt.queue @compute engine device
kilnrt.queue @copy_in engine link
kilnrt.program @prefetch_of_dead kind<train> {
  %t = kilnrt.token
  %h = kilnrt.slot "h" class parameter in host offset 0 bytes 64 lifetime [0, 2]
  %a = kilnrt.slot "a" class parameter offset 0 bytes 64 lifetime [0, 2]
  // expected-note @below {{the slot is here}}
  %b = kilnrt.slot "b" class parameter offset 64 bytes 64 lifetime [2, 2]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  kilnrt.microbatches 4 forward {
    // expected-error @below {{waits, at command 1, for a transfer of slot 'b'; this slot is live from command 2 to 2, expected at least from 1 to 2}}
    kilnrt.wait %t on @compute
  } backward {
    // expected-note @below {{the transfer begins here}}
    kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v2)
  }
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @copy_in engine link
kilnrt.program @prefetch_into_dead kind<train> {
  %t = kilnrt.token
  %h = kilnrt.slot "h" class parameter in host offset 0 bytes 64 lifetime [0, 3]
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class parameter offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  kilnrt.microbatches 4 forward {
    kilnrt.wait %t on @compute
  } backward {
    // expected-note @below {{the transfer begins here}}
    kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  }
  // expected-error @below {{waits, at command 3, for a transfer of slot 'a'; this slot is live from command 0 to 2, expected at least from 2 to 3}}
  kilnrt.wait %t on @compute
}

// -----

// Two queues compute. @host reads a slot after @compute has written it, both read
// it in any order, and @compute overwrites it after @host has read it.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.program @two_queues kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [2, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  %v2 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
  kilnrt.copy on @host after [@compute] (ro %v0, wo %v1)
  kilnrt.copy on @compute (ro %v0, wo %v2)
  kilnrt.fill on @compute after [@host] (wo %v0)
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.program @read_in_no_order kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  // expected-note @below {{the other command is here}}
  kilnrt.fill on @compute (wo %v0)
  // expected-error @below {{reads slot 'a', but has no order with respect to a command on @compute that writes bytes of this slot: @host must wait for that command}}
  kilnrt.copy on @host (ro %v0, wo %v1)
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.program @overwritten_in_no_order kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @compute (wo %v0)
  // expected-note @below {{the other command is here}}
  kilnrt.copy on @host after [@compute] (ro %v0, wo %v1)
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @host that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.fill on @compute (wo %v0)
}

// -----

// Micro-batch 1 overwrites bytes that a command of micro-batch 0 on the other queue
// may still read.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.program @next_microbatch_in_no_order kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.microbatches 2 forward {
    // expected-error @below {{writes slot 'a', but has no order with respect to a command on @host that reads bytes of this slot: @compute must wait for that command}}
    kilnrt.fill on @compute (wo %v0)
  } backward {
    // expected-note @below {{the other command is here}}
    kilnrt.copy on @host after [@compute] (ro %v0, wo %v1)
  }
}

// -----

// A slot reuses bytes of another slot that another queue still reads.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.program @reused_in_no_order kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [1, 1]
  %c = kilnrt.slot "c" class activation offset 32 bytes 32 lifetime [2, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  %v2 = kilnrt.view %c[0] : memref<8xf32>
  kilnrt.fill on @compute (wo %v0)
  // expected-note @below {{the other command is here}}
  kilnrt.copy on @host after [@compute] (ro %v0, wo %v1)
  // expected-error @below {{writes slot 'c', but has no order with respect to a command on @host that reads bytes of this slot: @compute must wait for that command}}
  kilnrt.fill on @compute (wo %v2)
}

// -----

// Order is transitive: @host is ordered after @copy_in by way of @compute.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_in engine link
kilnrt.program @by_way_of_another kind<train> {
  %t = kilnrt.token
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 4]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [4, 4]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  %v1 = kilnrt.view %a[0] : memref<16xf32>
  %v2 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.fill on @host (wo %v0)
  kilnrt.begin copy %t on @copy_in after [@host] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
  kilnrt.fill on @compute (wo %v1)
  kilnrt.copy on @host after [@compute] (ro %v1, wo %v2)
}

// -----

// A wait blocks only the queues that it names.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_out engine link
kilnrt.program @other_queue_waits kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-note @below {{the other command is here}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
  // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that writes bytes of this slot: @host must wait for that command}}
  kilnrt.fill on @host (wo %v1)
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.queue @copy_out engine link
kilnrt.program @both_queues_wait kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute and [@host]
  kilnrt.fill on @host (wo %v1)
}

// -----

// A transfer begins in the forward segment, and the backward segment of the same
// micro-batch waits for it. The token has one instance per micro-batch in flight.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 4]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 2] ring [64, 4]
  kilnrt.microbatches 4 order <"all-forward-first"> slots 4 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    kilnrt.wait %t on @compute
  }
}

// -----

// A token without a ring is signaled again for the next micro-batch.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 4]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 2] ring [64, 4]
  kilnrt.microbatches 4 order <"all-forward-first"> slots 4 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    // expected-error @below {{begins a transfer, but no kilnrt.wait waits for its token before the token is signaled again or the program ends}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    kilnrt.wait %t on @compute
  }
}

// -----

// With one micro-batch in flight, a token needs no ring.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 2] ring [64, 1]
  kilnrt.microbatches 4 order <"alternate"> slots 1 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    kilnrt.wait %t on @compute
  }
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 3]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 2] ring [64, 3]
  kilnrt.microbatches 4 order <"F0 F1 F2 B1 F3 B3 B2 B0"> slots 3 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    kilnrt.wait %t on @compute
  }
}

// -----

// The transfer is not awaited when the next micro-batch uses the ring slot.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [64, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 0] ring [64, 2]
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    // expected-error @below {{begins a transfer, but no kilnrt.wait waits for its token before the token is signaled again or the program ends}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
  }
}

// -----

// The wait in the forward segment is for the preceding micro-batch in the ring slot.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [2, 2] ring [64, 2]
  kilnrt.microbatches 4 order <"one-forward-one-backward:2"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    // expected-error @below {{waits for a token that no preceding command signals, so this wait would never end}}
    kilnrt.wait %t on @compute
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
  }
}

// -----

// The instance is live until the wait.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] ring [64, 4]
  // expected-note @below {{the slot is here}}
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 1] ring [64, 4]
  kilnrt.microbatches 4 order <"all-forward-first"> slots 4 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    // expected-note @below {{the transfer begins here}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    // expected-error @below {{waits, at command 2, for a transfer of slot 'a'; this slot is live from command 1 to 1, expected at least from 1 to 2}}
    kilnrt.wait %t on @compute
  }
}

// -----

// A transfer reads the instance of its micro-batch, which the backward segment
// overwrites before the wait.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @offloaded kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] ring [64, 4]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [1, 3] ring [64, 4]
  kilnrt.microbatches 4 order <"all-forward-first"> slots 4 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.fill on @compute (wo %v0)
    // expected-note @below {{the other command is here}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    %v2 = kilnrt.view %a[0] : memref<16xf32>
    // expected-error @below {{writes slot 'a', but has no order with respect to a command on @copy_out that reads bytes of this slot: @compute must wait for that command}}
    kilnrt.fill on @compute (wo %v2)
    kilnrt.wait %t on @compute
  }
}

// -----

// A token with a ring has one instance per micro-batch in flight, so that only
// micro-batches use it.
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @ring_without_microbatch kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{uses a token with a ring, but is not in kilnrt.microbatches}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.program @awaited_after_the_microbatches kind<train> {
  %t = kilnrt.token ring
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1] ring [64, 2]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1] ring [64, 2]
  kilnrt.microbatches 2 order <"all-forward-first"> slots 2 forward {
    %v0 = kilnrt.view %a[0] : memref<16xf32>
    %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  } backward {
    kilnrt.wait %t on @compute
  }
  // expected-error @below {{uses a token with a ring, but is not in kilnrt.microbatches}}
  kilnrt.wait %t on @compute
}
