// RUN: not kiln-opt %s --kiln-verify-level=level=step 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not kiln-opt %s --kiln-verify-level=level=planned 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not kiln-opt %s --kiln-verify-level=level=nowhere 2>&1 | FileCheck %s --check-prefix=NAME

// STEP: error: 'kiln.program' op does not update the trainable state @w
// STEP: note: the state is declared here
// NAME: unknown level 'nowhere', expected forward, step, planned or dispatched
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train() -> (tensor<4xf32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4xf32>
  kiln.return %w : tensor<4xf32>
}
