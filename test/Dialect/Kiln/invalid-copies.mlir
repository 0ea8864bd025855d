// Diagnostics of what lies on the host and of copies.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// A mirror is a copy of a parameter in another memory or type (C2).

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{mirrors @w, which has the same type and is stored in the same memory}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @w : tensor<5xf64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
// expected-error @below {{mirrors @w, expected a parameter of the same shape whose elements convert to those of the mirror}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
// expected-error @below {{mirrors @w, which has the same type and is stored in the same memory}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w, host}

// -----

kiln.state @t : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>, host}
// expected-error @below {{mirrors @t, expected a parameter of the same shape whose elements convert to those of the mirror}}
kiln.state @t.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @t}

// -----

// expected-error @below {{mirrors @nobody, expected a parameter of the same shape whose elements convert to those of the mirror}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @nobody}

// -----

// expected-error @below {{has role mirror without 'of'; optimizer states and mirrors must name their parameter, and other states must not}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>}

// -----

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
// expected-error @below {{has role buffer and 'of'; optimizer states and mirrors must name their parameter, and other states must not}}
kiln.state @b : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>, of = @w}

// -----

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
// A moment has a slot, a mirror has none (C1).
// expected-error @below {{has role mirror and 'slot'; optimizer states must have a slot, and other states must not}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w, slot = "m"}

// -----

// A copy without a wait.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait of its source in the same block}}
  %f = kiln.copy_out %x : tensor<4xf32>
  kiln.return
}

// -----

// What is under way cannot be read.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait of its source in the same block}}
  %f = kiln.copy_in %x : tensor<4xf32>
  %y = kiln.relu %f : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait of its source in the same block}}
  %f = kiln.copy_out %x : tensor<4xf32>
  %a = kiln.copy_wait %f, %x : tensor<4xf32>
  %b = kiln.copy_wait %f, %x : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait of its source in the same block}}
  %f = kiln.copy_out %x : tensor<4xf32>
  %a = kiln.copy_wait %f, %y : tensor<4xf32>
  kiln.return
}

// -----

// A copy of a copy that is under way.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait of its source in the same block}}
  %f = kiln.copy_out %x : tensor<4xf32>
  %g = kiln.copy_in %f : tensor<4xf32>
  %a = kiln.copy_wait %g, %f : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.copy_wait of its source in the same block}}
  %f = kiln.copy_in %x : tensor<4xf32>
  %s = kiln.accumulate sliced(%x) count 2 : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%part: tensor<2xf32>, %sum: tensor<4xf32>):
    %a = kiln.copy_wait %f, %x : tensor<4xf32>
    kiln.yield %a : tensor<4xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a token that is not the result of kiln.copy_out or kiln.copy_in}}
  %a = kiln.copy_wait %x, %x : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  %f = kiln.copy_out %x : tensor<4xf32>
  %a = kiln.copy_wait %f, %x : tensor<4xf32>
  // expected-error @below {{has a token that is not the result of kiln.copy_out or kiln.copy_in}}
  %b = kiln.copy_wait %a, %x : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{failed to verify that all of {flight, source, y} have same type}}
  %a = "kiln.copy_wait"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<2xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{requires the same type for all operands and results}}
  %f = "kiln.copy_out"(%x) : (tensor<4xf32>) -> tensor<2xf32>
  kiln.return
}

// -----

// Marks.

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.offload' is array<i64: 0, 6>, expected an array of result, lag and lead}}
  %y = kiln.relu %x {kiln.offload = array<i64: 0, 6>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.offload' is array<i64: 0, -1, 6>, expected an array of result, lag and lead}}
  %y = kiln.relu %x {kiln.offload = array<i64: 0, -1, 6>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.offload' is unit, expected an array of result, lag and lead}}
  %y = kiln.relu %x {kiln.offload} : tensor<4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.prefetch' is array<i64: -2>, expected an array of leads}}
  %w = kiln.read @w {kiln.prefetch = array<i64: -2>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{attribute 'kiln.prefetch' is 2 : i64, expected an array of leads}}
  %w = kiln.read @w {kiln.prefetch = 2} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{expected an array of result, lag and lead, each from 0 to 2147483647}}
  %y = kiln.relu %x {kiln.offload = array<i64: 0, 9223372036854775807, 6>} : tensor<4xf32>
  kiln.return
}
