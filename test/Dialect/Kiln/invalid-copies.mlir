// Diagnostics of what lies on the host and of copies.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// A mirror is a copy of a parameter in another memory or type (C2).

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{mirrors @w, but both states have the type 'tensor<4xf32>'; the element type or the memory of a mirror must differ from that of its parameter}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @w : tensor<5xf64, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{mirrors @w, expected a parameter that has the shape of the mirror and an element type that converts to the element type of the mirror}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{mirrors @w, but both states have the type 'tensor<4xf32, #kiln.memory<host>>'}}
kiln.state @w.device : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @t : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{mirrors @t, expected a parameter that has the shape of the mirror and an element type that converts to the element type of the mirror}}
kiln.state @t.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @t}

// -----

// expected-error @below {{mirrors @nobody, expected a parameter that has the shape of the mirror and an element type that converts to the element type of the mirror}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @nobody}

// -----

// expected-error @below {{has role mirror without 'of'; optimizer states and mirrors must name their parameter with 'of', and states of other roles must not have 'of'}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{has role buffer and 'of'; optimizer states and mirrors must name their parameter with 'of', and states of other roles must not have 'of'}}
kiln.state @b : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// A moment has a slot, a mirror has none (C1).
// expected-error @below {{has role mirror and 'slot'; optimizer states must have a 'slot', and states of other roles must not}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w, slot = "m"}

// -----

// A copy without a wait.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

// What is under way cannot be read.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %y = kiln.relu %f : tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %a = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %b = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %a = kiln.copy_wait %f, %y : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

// A copy of a copy that is under way.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %g = kiln.copy_in %f : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>
  %a = kiln.copy_wait %g, %f : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%part: tensor<2xf32>, %sum: tensor<4xf32>):
    %a = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield %sum : tensor<4xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a token that is not the result of kiln.copy_out or kiln.copy_in}}
  %a = kiln.copy_wait %x, %x : tensor<4xf32> to tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %a = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  // expected-error @below {{has a token that is not the result of kiln.copy_out or kiln.copy_in}}
  %b = kiln.copy_wait %a, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{failed to verify that all of {token, y} have same type}}
  %a = "kiln.copy_wait"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<2xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{copies 'tensor<4xf32>' to 'tensor<2xf32, #kiln.memory<host>>', expected a source on the device and a result of the same type on the host}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<2xf32, #kiln.memory<host>>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{copies 'tensor<4xf32>' to 'tensor<4xf32>', expected a source on the device and a result of the same type on the host}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{copies 'tensor<4xf32>' to 'tensor<4xf32>', expected a source on the host and a result of the same type on the device}}
  %f = kiln.copy_in %x : tensor<4xf32> to tensor<4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  // expected-error @below {{copies 'tensor<4xf32, #kiln.memory<host>>' to 'tensor<4xf32, #kiln.memory<host>>', expected a source on the device}}
  %f = kiln.copy_out %w : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

// Reads and writes have the type of the state. As an exception, a read of a state
// on the host may yield a tensor on the device.

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4xf32>
  %y = kiln.relu %w : tensor<4xf32>
  kiln.return
}

// -----

// expected-note @below {{the state is declared here}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has type 'tensor<4xf32, #kiln.memory<host>>', expected 'tensor<4xf32>'}}
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

// expected-note @below {{the state is declared here}}
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{has type 'tensor<4x4xf32>', expected 'tensor<4x4xf32, #kiln.memory<host>>'}}
  kiln.write @w, %x : tensor<4x4xf32>
  kiln.return
}

// -----

// The operands of an op are in the memory of its results, except that an op on the
// host may read scalars on the device.

kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  // expected-error @below {{runs on the device and cannot read an operand that is on the host}}
  %y = kiln.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32, #kiln.memory<host>>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  // expected-error @below {{runs on the host, expected the device: GEMMs only run there}}
  %y = kiln.matmul %w, %w : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>) -> tensor<4x4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%g: tensor<4x4xf32>, %one: tensor<f64>, %lr: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  // expected-error @below {{runs on the host and cannot read an operand that is on the device}}
  %p = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

// An op on the device must not read a scalar on the host.

kiln.state @s : tensor<f64, #kiln.memory<host>> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%w: tensor<4x4xf32>, %lr: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.read @s : tensor<f64, #kiln.memory<host>>
  // expected-error @below {{runs on the device and cannot read an operand that is on the host}}
  %p = kiln.sgd %w, %w, %s, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64, #kiln.memory<host>>, tensor<f64>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  // expected-error @below {{runs on the device and cannot read an operand that is on the host}}
  %d = kiln.dispatch row(%x, %w) space [1, 4] : (tensor<4xf32>, tensor<4xf32, #kiln.memory<host>>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32, #kiln.memory<host>>):
    %c = kiln.relu %a : tensor<4xf32>
    kiln.yield %c : tensor<4xf32>
  }
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  // expected-error @below {{has results on the device and on the host, expected results in one memory}}
  %d:2 = kiln.dispatch row(%x, %w) space [1, 4] : (tensor<4xf32>, tensor<4xf32, #kiln.memory<host>>) -> (tensor<4xf32>, tensor<4xf32, #kiln.memory<host>>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32, #kiln.memory<host>>):
    %c = kiln.relu %a : tensor<4xf32>
    %e = kiln.relu %b : tensor<4xf32, #kiln.memory<host>>
    kiln.yield %c, %e : tensor<4xf32>, tensor<4xf32, #kiln.memory<host>>
  }
  kiln.return
}

// -----

// Arguments and results of programs are on the device.

// expected-error @below {{argument 0 has type 'tensor<4xf32, #kiln.memory<host>>', expected a device tensor with static positive extents, at most 2^48 elements, and an element type that can be stored: a float type, i8, i32 or i64}}
kiln.program @f(%x: tensor<4xf32, #kiln.memory<host>>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{result 0 has type 'tensor<4xf32, #kiln.memory<host>>', expected a tensor on the device}}
kiln.program @f() -> tensor<4xf32, #kiln.memory<host>> attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  kiln.return %w : tensor<4xf32, #kiln.memory<host>>
}

// -----

// Unknown encodings, and an explicit encoding for the device.

// expected-error @below {{attribute 'type' failed to satisfy constraint: type attribute of tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host>}}
kiln.state @w : tensor<4xf32, "nowhere"> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// -----

// expected-error @below {{argument 0 has type 'tensor<4xf32, "nowhere">', expected a device tensor with static positive extents}}
kiln.program @f(%x: tensor<4xf32, "nowhere">) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{result #0 must be tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host> of}}
  %f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, "nowhere">
  kiln.return
}

// -----

// expected-error @below {{tensor has the encoding #kiln.memory<device>; remove the encoding, because a tensor without an encoding is on the device}}
kiln.state @w : tensor<4xf32, #kiln.memory<device>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// -----

// Marks.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.offload' is array<i64: 0, 6>, expected an array of integers from 0 to 2147483647: the index, lag and lead of each offloaded result}}
  %y = kiln.relu %x {kiln.offload = array<i64: 0, 6>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.offload' is array<i64: 0, -1, 6>, expected an array of integers from 0 to 2147483647: the index, lag and lead of each offloaded result}}
  %y = kiln.relu %x {kiln.offload = array<i64: 0, -1, 6>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.offload' is unit, expected an array of integers from 0 to 2147483647: the index, lag and lead of each offloaded result}}
  %y = kiln.relu %x {kiln.offload} : tensor<4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.prefetch' is array<i64: -2>, expected an array of integers from 0 to 2147483647: the lead of each copy to the device}}
  %w = kiln.read @w {kiln.prefetch = array<i64: -2>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has 'kiln.keep' = 1 : i64, but the value must be a unit attribute, and only a kiln.read may have this attribute}}
  %w = kiln.read @w {kiln.keep = 1} : tensor<4xf32>
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.residency' = "host", but the value must be a #kiln.residency, and only a kiln.state may have this attribute}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, kiln.residency = "host"}

// -----

// expected-error @below {{has 'kiln.residency' = #kiln.residency<mirrored>, which requires a parameter that is not frozen}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen, kiln.residency = #kiln.residency<mirrored>}

// -----

// expected-error @below {{has 'kiln.residency' = #kiln.residency<host>, which requires a parameter, a buffer or an optimizer state}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<constant>, init = #kiln.splat<value = 0.0>, kiln.residency = #kiln.residency<host>}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has 'kiln.keep' = unit, but the value must be a unit attribute, and only a kiln.read may have this attribute}}
  %y = kiln.relu %x {kiln.keep} : tensor<4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.prefetch' is 2 : i64, expected an array of integers from 0 to 2147483647: the lead of each copy to the device}}
  %w = kiln.read @w {kiln.prefetch = 2} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{expected an array of integers from 0 to 2147483647: the index, lag and lead of each offloaded result}}
  %y = kiln.relu %x {kiln.offload = array<i64: 0, 9223372036854775807, 6>} : tensor<4xf32>
  kiln.return
}

// -----

// The wait in the backward segment has another part as its source.
kiln.program @f(%x: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.microbatches sliced(%x, %x) count 2 : (tensor<8xf32>, tensor<8xf32>) -> () forward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = kiln.copy_out %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield %f : tensor<4xf32, #kiln.memory<host>>
  } backward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %f: tensor<4xf32, #kiln.memory<host>>):
    %h = kiln.copy_wait %f, %q : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield
  }
  kiln.return
}

// -----

// A token that is a residual has no wait.
kiln.program @f(%x: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.microbatches sliced(%x, %x) count 2 : (tensor<8xf32>, tensor<8xf32>) -> () forward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = kiln.copy_out %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield %f : tensor<4xf32, #kiln.memory<host>>
  } backward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %f: tensor<4xf32, #kiln.memory<host>>):
    kiln.yield
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.microbatches sliced(%x, %x) count 2 : (tensor<8xf32>, tensor<8xf32>) -> () forward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = kiln.copy_out %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield %f : tensor<4xf32, #kiln.memory<host>>
  } backward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %f: tensor<4xf32, #kiln.memory<host>>):
    %h = kiln.copy_wait %f, %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    %i = kiln.copy_wait %f, %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield
  }
  kiln.return
}

// -----

// A token has a wait in only one of the segments.
kiln.program @f(%x: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.microbatches sliced(%x, %x) count 2 : (tensor<8xf32>, tensor<8xf32>) -> () forward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = kiln.copy_out %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    %g = kiln.copy_wait %f, %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield %f : tensor<4xf32, #kiln.memory<host>>
  } backward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %f: tensor<4xf32, #kiln.memory<host>>):
    %h = kiln.copy_wait %f, %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield
  }
  kiln.return
}

// -----

// The source of the wait is another view of the part.
kiln.program @f(%x: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.microbatches sliced(%x, %x) count 2 : (tensor<8xf32>, tensor<8xf32>) -> () forward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    %v = kiln.slice %p [0] : tensor<4xf32> to tensor<2xf32>
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = kiln.copy_out %v : tensor<2xf32> to tensor<2xf32, #kiln.memory<host>>
    kiln.yield %f : tensor<2xf32, #kiln.memory<host>>
  } backward {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %f: tensor<2xf32, #kiln.memory<host>>):
    %v = kiln.slice %p [2] : tensor<4xf32> to tensor<2xf32>
    %h = kiln.copy_wait %f, %v : tensor<2xf32> to tensor<2xf32, #kiln.memory<host>>
    kiln.yield
  }
  kiln.return
}

// -----

// The backward segment has no argument for the token. The number of arguments is
// verified after the ops of the segments.
kiln.program @f(%x: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.microbatches sliced(%x) count 2 : (tensor<8xf32>) -> () forward {
  ^bb0(%p: tensor<4xf32>):
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = kiln.copy_out %p : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
    kiln.yield %f : tensor<4xf32, #kiln.memory<host>>
  } backward {
  ^bb0(%p: tensor<4xf32>):
    kiln.yield
  }
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.arena_search' = array<i64: 4096>, but the value must have two numbers of at least 0, and only a program may have this attribute}}
kiln.program @f() attributes {kiln.arena_search = array<i64: 4096>, kind = #kiln.program_kind<train>} {
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.arena_search' = array<i64: 4096, -1>, but the value must have two numbers of at least 0, and only a program may have this attribute}}
kiln.program @f() attributes {kiln.arena_search = array<i64: 4096, -1>, kind = #kiln.program_kind<train>} {
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.arena_search' = 4096 : i64, but the value must have two numbers of at least 0, and only a program may have this attribute}}
kiln.program @f() attributes {kiln.arena_search = 4096, kind = #kiln.program_kind<train>} {
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.arena_search' = array<i64: 4096, 1000>, but the value must have two numbers of at least 0, and only a program may have this attribute}}
module attributes {kiln.arena_search = array<i64: 4096, 1000>} {
}
