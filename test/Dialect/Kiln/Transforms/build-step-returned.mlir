// RUN: kiln-opt %s --kiln-autodiff --kiln-build-step="clip=false optimizer=sgd" | FileCheck %s
// RUN: kiln-opt %s --kiln-autodiff --kiln-build-step="clip=false optimizer=sgd" --kiln-set-numerics --kiln-form-dispatches --kiln-schedule | FileCheck %s --check-prefix=SCHEDULE

// The program returns the state's entry value, which does not delay the update.
// CHECK-LABEL: kiln.program @train
// CHECK: [[W:%.+]] = kiln.read @w
// CHECK: [[P:%.+]] = kiln.sgd [[W]]
// CHECK-NEXT: kiln.write @w, [[P]]
// CHECK-NEXT: kiln.return [[W]]
kiln.state @w : tensor<f64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward() -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<f64>
  kiln.return %w : tensor<f64>
}

// The update writes a buffer of its own, and its result is copied into the state
// after the entry value was copied out.
// SCHEDULE-LABEL: kilnrt.program @train
// SCHEDULE: [[OUT:%.+]] = kilnrt.slot {{.*}} why "entry value that is returned"
// SCHEDULE: kilnrt.launch
// SCHEDULE: kilnrt.copy
// SCHEDULE: kilnrt.copy
