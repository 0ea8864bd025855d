// RUN: not kiln-opt %s --kiln-autodiff=microbatches=2 --kiln-build-step="microbatches=2" 2>&1 | FileCheck %s --check-prefix=WRITE
// RUN: not kiln-opt %s --kiln-autodiff --kiln-build-step="optimizer=adagrad" 2>&1 | FileCheck %s --check-prefix=OPTIMIZER --implicit-check-not=note:
// RUN: not kiln-opt %s --kiln-autodiff=microbatches=2 --kiln-build-step=microbatches=3 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not kiln-opt %s --kiln-autodiff --kiln-build-step=microbatches=2 2>&1 | FileCheck %s --check-prefix=UNSPLIT
// RUN: not kiln-opt %s --kiln-autodiff=microbatches=0 2>&1 | FileCheck %s --check-prefix=POSITIVE

// COUNT: error: 'kiln.program' op has a loss that kiln-autodiff split for 2 micro-batches, expected 3; give kiln-autodiff and kiln-build-step the same option 'microbatches'
// UNSPLIT: error: 'kiln.program' op has a loss that kiln-autodiff split for 1 micro-batch, expected 2; give kiln-autodiff and kiln-build-step the same option 'microbatches'
// POSITIVE: error: microbatches is 0, expected a positive number
// WRITE: 'kiln.write' op would write @last once per micro-batch; use a single micro-batch
// OPTIMIZER: error: unknown optimizer 'adagrad': use adamw, adam, sgd, momentum, nesterov or lion
kiln.state @w : tensor<f64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @last : tensor<f64> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<f64>
  kiln.write @last, %w : tensor<f64>
  kiln.return %w : tensor<f64>
}
