// RUN: kiln-opt %s --kiln-narrow-gradients=type=bf16 | FileCheck %s
// RUN: not kiln-opt %s --kiln-narrow-gradients=type=f32 2>&1 | FileCheck %s --check-prefix=WIDE
// RUN: kiln-opt %s --kiln-narrow-gradients=type=bf16 '--kiln-build-step=states=gradients:bf16,moments:bf16/f32 clip=true' | FileCheck %s --check-prefix=STEP
// RUN: not kiln-opt %s --kiln-build-step=states=moments:f16 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not kiln-opt %s '--kiln-build-step=states=moments:bf16 optimizer=sgd' 2>&1 | FileCheck %s --check-prefix=NONE

// WIDE: error: type is 'f32', expected a narrow float such as bf16
// TYPE: error: states stores moments in 'f16', expected f32, bf16 or dynamic8
// NONE: error: states gives a type of moments, but sgd has no moments

// A gradient is rounded where it is complete. A gradient that was widened from bf16 is returned
// as it was before.
// CHECK: kiln.program @train({{.*}}) -> (tensor<f64> {{.*}}, tensor<4x8xbf16> {{.*}}, tensor<8xbf16>
// CHECK: [[G:%.+]] = kiln.mul %{{.+}}, %{{.+}} : tensor<4x8xf32>
// CHECK: [[R:%.+]] = kiln.cast [[G]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK: [[N:%.+]] = kiln.scale %{{.+}} by 2.0{{.*}} : tensor<8xbf16>
// CHECK: kiln.return %{{.+}}, [[R]], [[N]]

// The first moment is bf16, the second one f32; the norm is computed from the rounded gradient.
// STEP-DAG: kiln.state @w.m : tensor<4x8xbf16>
// STEP-DAG: kiln.state @w.v : tensor<4x8xf32>
// STEP: kiln.sum_squares %{{.+}} : (tensor<4x8xbf16>)
// STEP: kiln.adam {{.*}} : (tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xbf16>, {{.*}} -> (tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x8xf32>)
kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%loss: tensor<f64> {kiln.name = "loss_scale"}, %low: tensor<8xbf16> {kiln.name = "x"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<4x8xf32> {kiln.gradient = @w}, tensor<8xf32> {kiln.gradient = @b}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x8xf32>
  %b = kiln.read @b : tensor<8xf32>
  %g = kiln.mul %w, %w : tensor<4x8xf32>
  %n = kiln.scale %low by 2.0 : tensor<8xbf16>
  %wide = kiln.cast %n : tensor<8xbf16> to tensor<8xf32>
  kiln.return %loss, %g, %wide : tensor<f64>, tensor<4x8xf32>, tensor<8xf32>
}
