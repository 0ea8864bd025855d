// RUN: kiln-opt %s --kiln-autodiff=microbatches=2 --split-input-file --verify-diagnostics
// RUN: kiln-opt %s --kiln-autodiff --split-input-file --verify-diagnostics

// Programs without exactly one loss of rank 0, also with micro-batches.

// expected-error @below {{must return exactly one value, a floating-point loss of rank 0, to be differentiated}}
kiln.program @f(%x: tensor<4x1000xf32>) attributes {kind = #kiln.program_kind<forward>} {
  %0 = kiln.slice %x [0, 7] : tensor<4x1000xf32> to tensor<4x2xf32>
  kiln.return
}

// -----

// expected-error @below {{must return exactly one value, a floating-point loss of rank 0, to be differentiated}}
kiln.program @f() -> (tensor<f64>, tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  %0 = kiln.constant dense<1.0> : tensor<f64> -> tensor<f64>
  kiln.return %0, %0 : tensor<f64>, tensor<f64>
}

// -----

kiln.state @count : tensor<i64> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{must return exactly one value, a floating-point loss of rank 0, to be differentiated}}
kiln.program @f() -> tensor<i64> attributes {kind = #kiln.program_kind<forward>} {
  %0 = kiln.read @count : tensor<i64>
  kiln.return %0 : tensor<i64>
}
