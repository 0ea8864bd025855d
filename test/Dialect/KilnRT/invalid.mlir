// What the ops of the scheduled level reject.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// A transfer within one memory.
kilnrt.queue @compute engine host
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  // expected-error @below {{copies within one memory: use kilnrt.copy}}
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

// Copies of another number of places or bytes.
kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is a copy that has 1 reads and 0 writes, expected one read and one write}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<8xf32, #kiln.memory<host>>
  // expected-error @below {{copies 64 bytes to a destination of 32 bytes, expected equal sizes}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

// A send reads and a receive writes.
kilnrt.queue @compute engine host
kilnrt.queue @ring engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is a send that has 0 reads and 1 writes, expected at least one read and no write}}
  kilnrt.begin send %t on @ring after [@compute] (wo %v0)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @ring engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is a receive that has 1 reads and 1 writes, expected at least one write and no read}}
  kilnrt.begin receive %t on @ring after [@compute] (ro %v0, wo %v0)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{copies between device and host: use kilnrt.begin copy}}
  kilnrt.copy on @compute (ro %v0, wo %v1)
}

// -----

// kilnrt.fill requires a place with contiguous rows.
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x4xf32, strided<[8, 1]>>
  // expected-error @below {{has padded rows: expected contiguous rows}}
  kilnrt.fill on @compute (wo %v0)
}

// -----

// A command names a queue that executes such commands.
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is on @elsewhere, which is not a kilnrt.queue}}
  kilnrt.fill on @elsewhere (wo %v0)
}

// -----

kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is on @copy_out, whose engine is link: expected the engine device or host}}
  kilnrt.fill on @copy_out (wo %v0)
}

// -----

kilnrt.queue @compute engine device
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{is on @compute, whose engine is device: expected the engine link}}
  kilnrt.begin copy %t on @compute (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

// A device reaches its own memory alone; the host reads scalars of a device.
kilnrt.queue @compute engine device
kilnrt.queue @host engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 1]
  %h = kilnrt.slot "h" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<f64>
  %v1 = kilnrt.view %h[0] : memref<8xf64, #kiln.memory<host>>
  kilnrt.fill on @host (wo %v0)
  // expected-error @below {{is on @compute, whose engine is device, but the command accesses host memory: expected only device memory}}
  kilnrt.fill on @compute (wo %v1)
}

// -----

kilnrt.queue @compute engine device
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is ordered after @host, which is not a kilnrt.queue}}
  kilnrt.fill on @compute after [@host] (wo %v0)
}

// -----

kilnrt.program @train kind<train> {
  %t = kilnrt.token
  // expected-error @below {{blocks @compute, which is not a kilnrt.queue}}
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine device
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  // expected-error @below {{blocks @host, which is not a kilnrt.queue}}
  kilnrt.wait %t on @compute and [@host]
}

// -----

kilnrt.queue @compute engine device
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is ordered after @copy_in, whose engine is link: wait for the token of a transfer with kilnrt.wait instead}}
  kilnrt.fill on @compute after [@copy_in] (wo %v0)
}

// -----

// Views.
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{reaches outside of slot 'a' of 64 bytes: offset 4, stride 0 per micro-batch, type 'memref<16xf32>'}}
  %v = kilnrt.view %a[4] : memref<16xf32>
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  kilnrt.microbatches 3 forward {
    %right = kilnrt.view %a[0 + 16 * microbatch] : memref<8xf32>
    // expected-error @below {{reaches outside of slot 'a' of 64 bytes: offset 0, stride 20 per micro-batch}}
    %v = kilnrt.view %a[0 + 20 * microbatch] : memref<8xf32>
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{has a stride per micro-batch, but is not in kilnrt.microbatches}}
  %v = kilnrt.view %a[0 + 4 * microbatch] : memref<8xf32>
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{but slot 'a' is in host memory: expected the memory space #kiln.memory<host>}}
  %v = kilnrt.view %a[0] : memref<8xf32>
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{has the memory space 1 : i64, expected none or #kiln.memory<host>}}
  %v = kilnrt.view %a[0] : memref<8xf32, 1>
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{expected static strides: stride[i] >= extent[i + 1] * stride[i + 1], and stride[i] = 1 for the last dimension}}
  %v = kilnrt.view %a[0] : memref<2x4xf32, strided<[1, 2]>>
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{has elements of 'i16', which kilnrt.view does not support}}
  %v = kilnrt.view %a[0] : memref<2xi16>
}

// -----

kilnrt.program @train kind<train> {
  %h = kilnrt.slot "x" class input in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{'x' must have a view of a slot in device memory, and the rows of the view must be contiguous}}
  kilnrt.input "x" at %v0
}

// -----

kilnrt.program @train kind<train> {
  %h = kilnrt.slot "y" class output in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{'y' must have a view of a slot in device memory, and the rows of the view must be contiguous}}
  kilnrt.output "y" at %v0
}

// -----

kilnrt.program @p kind<train> {
  // expected-error @below {{unknown slot class 'banana', expected parameter, optimizer, gradient, activation, workspace, communication, input, output, constant or materialized}}
  %s = kilnrt.slot "s" class banana offset 0 bytes 64 lifetime [0, 0]
}

// -----

kilnrt.program @p kind<train> {
  // expected-error @below {{unknown memory 'banana', expected device or host}}
  %s = kilnrt.slot "s" class activation in banana offset 0 bytes 64 lifetime [0, 0]
}

// -----

// Rows that overlap, and a stride that leads out of the slot.
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{expected static strides: stride[i] >= extent[i + 1] * stride[i + 1], and stride[i] = 1 for the last dimension}}
  %v = kilnrt.view %a[0] : memref<2x3x4xf32, strided<[4, 4, 1]>>
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  kilnrt.microbatches 1 forward {
  } backward {
    // expected-error @below {{reaches outside of slot 'a' of 64 bytes: offset 0, stride -64 per micro-batch}}
    %v = kilnrt.view %a[0 + -64 * microbatch] : memref<4xf32>
  }
}

// -----

// A command before the view that it uses, which is not verified yet.
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{has an operand that is not the result of a preceding valid kilnrt.view, kilnrt.slot or kilnrt.token}}
  kilnrt.fill on @compute (wo %v)
  %v = kilnrt.view %a[0] : f32
}

// -----

// An integer that names a real argument.
kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4, 4, 3, 4, 1] {
^bb0(%q: tensor<1x4xf32>, %k: tensor<1x4xf32>, %v: tensor<1x4xf32>, %rng: tensor<1x3xi64>):
  %o, %l = kiln.attention %q, %k, %v causal {sequences = 1, heads = 1, kv_heads = 1, scale = 1.0e+00} : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x1xf32>)
  // expected-error @below {{has launch argument number 1 for 'key', but launch argument 1 is an f64, expected an i64}}
  %y = kiln.dropout %o, %rng {p = 5.0e-01, key = 1, sequences = 1} : (tensor<1x4xf32>, tensor<1x3xi64>) -> tensor<1x4xf32>
  kiln.yield %y, %l : tensor<1x4xf32>, tensor<1x1xf32>
}

// -----

// Launches.
kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %b = kilnrt.slot "b" class output offset 64 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  %v1 = kilnrt.view %b[0] : memref<4xf32>
  // expected-error @below {{attribute 'group' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 2}}
  kilnrt.launch @k on @compute (ro %v0, wo %v1) group 1
}

// -----

kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  // expected-error @below {{invalid properties}}
  "kilnrt.launch"(%v0, %v0) <{kernel = @k, queue = @compute, operandSegmentSizes = array<i32: 1, 1, 0>, group = "banana"}> : (!kilnrt.place, !kilnrt.place) -> ()
}

// -----

// expected-note @below {{the kernel is declared here}}
kilnrt.kernel @k family<row> space [2, 4] row_strides [4, 8] {
^bb0(%x: tensor<2x4xf32>):
  %y = kiln.relu %x : tensor<2x4xf32>
  kiln.yield %y : tensor<2x4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 32 lifetime [0, 0]
  %b = kilnrt.slot "b" class output offset 64 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x4xf32>
  %v1 = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{passes a view of type 'memref<2x4xf32>' as parameter 1, expected 'tensor<2x4xf32>' with a row stride of 8 elements}}
  kilnrt.launch @k on @compute (ro %v0, wo %v1)
}

// -----

// expected-note @below {{the kernel is declared here}}
kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xi32>
  // expected-error @below {{passes a view of type 'memref<4xi32>' as parameter 0}}
  kilnrt.launch @k on @compute (ro %v0, wo %v0)
}

// -----

// expected-note @below {{the kernel is declared here}}
kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  // expected-error @below {{passes arguments of types ('i64'), expected ()}}
  kilnrt.launch @k on @compute (ro %v0, wo %v0) args [5]
}

// -----

// expected-note @below {{the kernel is declared here}}
kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 3, 4] {
^bb0(%x: tensor<1x4xf32>, %rng: tensor<1x3xi64>):
  %y = kiln.dropout %x, %rng {p = 5.0e-01, key = 0, sequences = 1} : (tensor<1x4xf32>, tensor<1x3xi64>) -> tensor<1x4xf32>
  kiln.yield %y : tensor<1x4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %r = kilnrt.slot "r" class input offset 64 bytes 24 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<1x4xf32>
  %v1 = kilnrt.view %r[0] : memref<1x3xi64>
  // expected-error @below {{passes arguments of types ('f64'), expected ('i64')}}
  kilnrt.launch @k on @compute (ro %v0, ro %v1, wo %v0) args [0.5 : f64]
}

// -----

kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 3, 4] {
^bb0(%x: tensor<1x4xf32>, %rng: tensor<1x3xi64>):
  // expected-error @below {{has launch argument number 1 for 'key', expected a number from 0 to 0}}
  %y = kiln.dropout %x, %rng {p = 5.0e-01, key = 1, sequences = 1} : (tensor<1x4xf32>, tensor<1x3xi64>) -> tensor<1x4xf32>
  kiln.yield %y : tensor<1x4xf32>
}

// -----

kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  // expected-error @below {{accumulates, but a kernel of the family 'row' overwrites its results}}
  kilnrt.launch @k on @compute (ro %v0, wo %v0) accumulate add
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  // expected-error @below {{a read operand (ro) follows a written operand (wo), expected all read operands before the written operands}}
  kilnrt.launch @k on @compute (wo %v0, ro %v0)
}

// -----

// Assembly.
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  // expected-error @below {{unknown access 'rw', expected ro or wo}}
  kilnrt.launch @k on @compute (rw %v0)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{unknown access 'ro', expected wo or rw}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, ro %v0) grid [1, 1]
}

// -----

kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  kilnrt.microbatches 2 forward {
    // expected-error @below {{expected 'microbatch'}}
    %v0 = kilnrt.view %a[0 + 4 * step] : memref<4xf32>
  } backward {
  }
}

// -----

//===----------------------------------------------------------------------===//
// Micro-batches and rings
//===----------------------------------------------------------------------===//

kilnrt.program @train kind<train> {
  // expected-error @below {{has rings of 1 slot, expected at least 4, the maximum number of micro-batches in flight; segment F1 is the first in execution order that has no slot}}
  kilnrt.microbatches 4 order <"all-forward-first"> forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has rings of 2 slots, expected at least 3, the maximum number of micro-batches in flight; segment F3 is the first in execution order that has no slot}}
  kilnrt.microbatches 4 order <"F1 F0 B1 F2 F3 B0 B3 B2"> slots 2 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has rings of 0 slots, expected at least 1, the maximum number of micro-batches in flight; segment F0 is the first in execution order that has no slot}}
  kilnrt.microbatches 2 slots 0 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has rings of -1 slots, expected at least 1, the maximum number of micro-batches in flight; segment F0 is the first in execution order that has no slot}}
  kilnrt.microbatches 2 slots -1 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{cannot be executed: the order executes B1 before F1}}
  kilnrt.microbatches 2 order <"F0 B1 F1 B0"> slots 2 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{cannot be executed: the order is for 1048577 micro-batches, expected a number of micro-batches from 1 to 1048576}}
  kilnrt.microbatches 1048577 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{cannot be executed: the order is for -1 micro-batches, expected a number of micro-batches from 1 to 1048576}}
  kilnrt.microbatches -1 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{the order has the entry 'F', expected only entries such as F0 and B0}}
  kilnrt.microbatches 2 order <"F"> slots 2 forward {
  } backward {
  }
}

// -----

// expected-error @below {{has 2 kilnrt.microbatches, expected at most one}}
kilnrt.program @train kind<train> {
  kilnrt.microbatches 2 forward {
  } backward {
  }
  kilnrt.microbatches 2 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has block arguments, expected none}}
  kilnrt.microbatches 2 forward {
  ^bb0(%t: !kilnrt.token):
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{contains 'builtin.module'}}
  kilnrt.microbatches 2 forward {
  } backward {
    // expected-note @below {{the op is here}}
    builtin.module {
    }
  }
}

// -----

kilnrt.program @train kind<train> {
  %a.slot = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %a = kilnrt.view %a.slot[0] : memref<4x4xf32>
  // expected-error @below {{has 'when last', but is not in kilnrt.microbatches}}
  kilnrt.fill on @compute (wo %a) when last
}

// -----

kilnrt.program @train kind<train> {
  kilnrt.microbatches 2 forward {
  } backward {
    // expected-error @below {{expects parent op 'kilnrt.program'}}
    %t = kilnrt.token ring
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has a ring of 2 instances that are 60 bytes apart, expected at least 1 instance and a distance of at least 64 bytes, the size of the slot}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [60, 2]
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has a ring of 0 instances that are 64 bytes apart, expected at least 1 instance}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [64, 0]
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has a ring of 2 instances that are -64 bytes apart, expected at least 1 instance and a distance of at least 64 bytes}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [-64, 2]
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has a ring of 5 instances that are 281474976710656 bytes apart, expected at most 281474976710656 bytes in total}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [281474976710656, 5]
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has a ring of 9223372036854775807 instances that are 9223372036854775807 bytes apart, expected at most 281474976710656 bytes in total}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [9223372036854775807, 9223372036854775807]
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{attribute 'ring' failed to satisfy constraint}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [64, 2, 2]
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [64, 2]
  // expected-error @below {{has a slot with a ring, but is not in kilnrt.microbatches}}
  %v = kilnrt.view %a[0] : memref<16xf32>
}

// -----

// A view cannot reach the other instances of its slot.
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] ring [64, 2]
  kilnrt.microbatches 2 order <"all-forward-first"> slots 2 forward {
    // expected-error @below {{reaches outside of slot 'a' of 64 bytes: offset 0, stride 64 per micro-batch}}
    %v = kilnrt.view %a[0 + 64 * microbatch] : memref<16xf32>
  } backward {
  }
}
