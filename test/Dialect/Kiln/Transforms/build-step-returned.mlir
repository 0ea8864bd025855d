// RUN: kiln-opt %s --kiln-autodiff --kiln-build-step="clip=false optimizer=sgd" | FileCheck %s

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
