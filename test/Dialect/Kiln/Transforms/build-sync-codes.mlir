// Codes of moments have no average.

// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=2 sync-every=2 optimizer=adam states=moments:dynamic8' --kiln-build-sync 2>&1 | FileCheck %s
// CHECK: error: 'kiln.state' op has elements of type 'i8', which ranks cannot average; with sync-every=1, ranks sum gradients instead

kiln.state @w : tensor<64x64xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%loss: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<64x64xf32> {kiln.gradient = @w}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<64x64xf32>
  %dw = kiln.mul %w, %w : tensor<64x64xf32>
  kiln.return %loss, %dw : tensor<f64>, tensor<64x64xf32>
}
