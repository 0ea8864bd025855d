// RUN: kiln-opt %s --kiln-add-working-copies=type=f16 | FileCheck %s
// RUN: not kiln-opt %s --kiln-add-working-copies=type=f32 2>&1 | FileCheck %s --check-prefix=WIDE
// WIDE: error: type is 'f32', expected a narrow float such as bf16

// The mirror follows its parameter. The symbol of a state of the model gives way to nothing.
// CHECK: kiln.state @w : tensor<4x8xf32> {init
// CHECK: kiln.state @w.f16_0 : tensor<4x8xf16> {init = #kiln.splat<value = 1.{{.*}}>, of = @w, role = #kiln.role<mirror>}
kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w.f16 : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
// CHECK: kiln.state @gain.f16 : tensor<8xf16>
kiln.state @gain : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
// A frozen parameter and one of f64 have no copies.
// CHECK-NOT: @frozen.f16
// CHECK-NOT: @wide.f16
kiln.state @frozen : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>, frozen}
kiln.state @wide : tensor<8xf64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}

// Casts to f16 and lookups read the copy, and other readers a cast of it; only the update reads the
// master copy.
// CHECK-LABEL: kiln.program @train
// CHECK-DAG: [[W:%.+]] = kiln.read @w : tensor<4x8xf32>
// CHECK-DAG: [[C:%.+]] = kiln.read @w.f16_0 : tensor<4x8xf16>
// CHECK-DAG: [[N:%.+]] = kiln.read @gain.f16 : tensor<8xf16>
// CHECK-DAG: [[G:%.+]] = kiln.cast [[N]] : tensor<8xf16> to tensor<8xf32>
// CHECK: kiln.embedding %{{.+}}, [[C]] : (tensor<2x2xi32>, tensor<4x8xf16>) -> tensor<4x8xf16>
// CHECK: kiln.rms_norm %{{.+}}, [[G]]
// CHECK: kiln.matmul %{{.+}}, [[C]] trans_b
// CHECK: [[NEW:%.+]], [[COPY:%.+]] = kiln.sgd [[W]], {{.*}} -> (tensor<4x8xf32>, tensor<4x8xf16>)
// CHECK: kiln.write @w, [[NEW]]
// CHECK-NEXT: kiln.write @w.f16_0, [[COPY]]
kiln.program @train(%tokens: tensor<2x2xi32> {kiln.name = "tokens"}, %g: tensor<4x8xf32> {kiln.name = "g"}, %gg: tensor<8xf32> {kiln.name = "gg"}, %gw: tensor<8xf64> {kiln.name = "gw"}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf16> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %one = kiln.constant dense<1.0> : tensor<f64> -> tensor<f64>
  %w = kiln.read @w : tensor<4x8xf32>
  %gain = kiln.read @gain : tensor<8xf32>
  %wide = kiln.read @wide : tensor<8xf64>
  %x = kiln.embedding %tokens, %w : (tensor<2x2xi32>, tensor<4x8xf32>) -> tensor<4x8xf16>
  %n, %r = kiln.rms_norm %x, %gain {eps = 1.0e-5} : (tensor<4x8xf16>, tensor<8xf32>) -> (tensor<4x8xf16>, tensor<4xf32>)
  %c = kiln.cast %w : tensor<4x8xf32> to tensor<4x8xf16>
  %y = kiln.matmul %n, %c trans_b : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x4xf16>
  %w1 = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f64>, tensor<f64>) -> tensor<4x8xf32>
  kiln.write @w, %w1 : tensor<4x8xf32>
  %gain1 = kiln.sgd %gain, %gg, %one, %lr {weight_decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f64>) -> tensor<8xf32>
  kiln.write @gain, %gain1 : tensor<8xf32>
  %wide1 = kiln.sgd %wide, %gw, %one, %lr {weight_decay = 0.0} : (tensor<8xf64>, tensor<8xf64>, tensor<f64>, tensor<f64>) -> tensor<8xf64>
  kiln.write @wide, %wide1 : tensor<8xf64>
  kiln.return %y : tensor<4x4xf16>
}

// Other programs read copies, too, and no master copy.
// CHECK-LABEL: kiln.program @evaluate
// CHECK-NOT: @w :
// CHECK: kiln.read @w.f16_0 : tensor<4x8xf16>
// CHECK-NOT: @w :
kiln.program @evaluate(%x: tensor<4x8xf16> {kiln.name = "x"}) -> (tensor<4x4xf16> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %w = kiln.read @w : tensor<4x8xf32>
  %c = kiln.cast %w : tensor<4x8xf32> to tensor<4x8xf16>
  %y = kiln.matmul %x, %c trans_b : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x4xf16>
  kiln.return %y : tensor<4x4xf16>
}
