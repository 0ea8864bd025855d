// RUN: kiln-opt %s --kiln-verify-level=level=step -split-input-file -verify-diagnostics

// A parameter on the host and its mirror change together.
kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}
kiln.program @train() attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  %d = kiln.read @w.device : tensor<4xf32>
  kiln.write @w, %w : tensor<4xf32, #kiln.memory<host>>
  kiln.write @w.device, %d : tensor<4xf32>
  kiln.return
}
kiln.program @evaluate() attributes {kind = #kiln.program_kind<evaluate>} {
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-note @below {{the mirror is declared here}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}
// expected-error @below {{must write both or neither of @w and its copy on the device, the mirror @w.device}}
kiln.program @train() attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4xf32, #kiln.memory<host>>
  kiln.write @w, %w : tensor<4xf32, #kiln.memory<host>>
  kiln.return
}

// -----

kiln.state @w : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-note @below {{the mirror is declared here}}
kiln.state @w.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}
// expected-error @below {{must write both or neither of @w and its copy on the device, the mirror @w.device}}
kiln.program @evaluate() attributes {kind = #kiln.program_kind<evaluate>} {
  %d = kiln.read @w.device : tensor<4xf32>
  kiln.write @w.device, %d : tensor<4xf32>
  kiln.return
}
