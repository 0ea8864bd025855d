// RUN: kiln-opt %s --kiln-set-precision=precision=bf16 -split-input-file | FileCheck %s
// RUN: kiln-opt %s --kiln-set-precision=precision=fp32 -split-input-file | FileCheck %s --check-prefix=FP32
// RUN: not kiln-opt %s --kiln-set-precision=precision=int8 -split-input-file 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: precision is 'int8', expected fp32, bf16 or fp16
// FP32-NOT: bf16

kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @gain : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// An embedding rounds the rows that it reads; a norm keeps its gain and
// statistics; a matmul reads casts of the weights, and its bias is cast, too.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[TABLE:%.+]] = kiln.read @table : tensor<16x8xf32>
// CHECK: [[LOW:%.+]] = kiln.cast [[TABLE]] : tensor<16x8xf32> to tensor<16x8xbf16>
// CHECK: [[X:%.+]] = kiln.embedding %{{.+}}, [[TABLE]] : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xbf16>
// CHECK: [[GAIN:%.+]] = kiln.read @gain
// CHECK: [[N:%.+]], %{{.+}} = kiln.rms_norm [[X]], [[GAIN]] {{.*}} : (tensor<8x8xbf16>, tensor<8xf32>) -> (tensor<8x8xbf16>, tensor<8xf32>)
// CHECK: [[W:%.+]] = kiln.cast %{{.+}} : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK: kiln.matmul [[N]], [[W]] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
// CHECK: [[B:%.+]] = kiln.cast %{{.+}} : tensor<8xf32> to tensor<8xbf16>
// CHECK: kiln.broadcast [[B]] dims [1] : tensor<8xbf16> to tensor<8x8xbf16>
// CHECK: kiln.add {{.*}} : tensor<8x8xbf16>
// CHECK: kiln.linear_cross_entropy {{.*}}, [[LOW]], {{.*}} : (tensor<8x8xbf16>, tensor<16x8xbf16>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %gain = kiln.read @gain : tensor<8xf32>
  %n, %rstd = kiln.rms_norm %x, %gain {eps = 1.0e-06} : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %w = kiln.read @w : tensor<8x8xf32>
  %y = kiln.matmul %n, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = kiln.read @b : tensor<8xf32>
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %h = kiln.add %y, %rows : tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %h, %table, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// exp is computed in f32; ops after it are also f32, up to the next matmul.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[Y:%.+]] = kiln.matmul {{.*}} -> tensor<5x8xbf16>
// CHECK: [[WIDE:%.+]] = kiln.cast [[Y]] : tensor<5x8xbf16> to tensor<5x8xf32>
// CHECK: [[E:%.+]] = kiln.exp [[WIDE]] : tensor<5x8xf32>
// CHECK: [[S:%.+]] = kiln.add [[E]], [[WIDE]] : tensor<5x8xf32>
// CHECK: kiln.cast [[S]] : tensor<5x8xf32> to tensor<5x8xbf16>
kiln.program @forward(%x: tensor<5x4xf32> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x8xf32>
  %y = kiln.matmul %x, %w : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %e = kiln.exp %y : tensor<5x8xf32>
  %s = kiln.add %e, %y : tensor<5x8xf32>
  %l = kiln.matmul %s, %w trans_b : (tensor<5x8xf32>, tensor<4x8xf32>) -> tensor<5x4xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<5x4xf32>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.state @positions : tensor<32x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// If the model needs only a few rows of a table,
// these rows are cast before they are broadcast.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[P:%.+]] = kiln.read @positions
// CHECK-NOT: kiln.cast
// CHECK: [[ROWS:%.+]] = kiln.slice [[P]] [0, 0] : tensor<32x8xf32> to tensor<4x8xf32>
// CHECK-NEXT: [[LOW:%.+]] = kiln.cast [[ROWS]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK-NEXT: kiln.broadcast [[LOW]] dims [1, 2] : tensor<4x8xbf16> to tensor<2x4x8xbf16>
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %positions = kiln.read @positions : tensor<32x8xf32>
  %rows = kiln.slice %positions [0, 0] : tensor<32x8xf32> to tensor<4x8xf32>
  %repeated = kiln.broadcast %rows dims [1, 2] : tensor<4x8xf32> to tensor<2x4x8xf32>
  %places = kiln.reshape %repeated : tensor<2x4x8xf32> to tensor<8x8xf32>
  %h = kiln.add %x, %places : tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %h, %table, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// A constant adopts the type of its readers without a cast,
// also through a broadcast and instead of a cast in the
// source program: 1 + 2^-8 + 2^-23 is rounded up, once.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[Y:%.+]] = kiln.matmul
// CHECK-NOT: kiln.cast
// CHECK-DAG: [[HALF:%.+]] = kiln.constant dense<5.000000e-01> : tensor<5x8xbf16> -> tensor<5x8xbf16>
// CHECK-DAG: [[ABOVE:%.+]] = kiln.constant dense<1.007810e+00> : tensor<8xbf16> -> tensor<8xbf16>
// CHECK: [[ROWS:%.+]] = kiln.broadcast [[ABOVE]] dims [1] : tensor<8xbf16> to tensor<5x8xbf16>
// CHECK: [[S:%.+]] = kiln.mul [[Y]], [[HALF]] : tensor<5x8xbf16>
// CHECK: kiln.add [[S]], [[ROWS]] : tensor<5x8xbf16>
// CHECK: [[C:%.+]] = kiln.constant dense<3.000000e+00> : tensor<5x8xbf16> -> tensor<5x8xbf16>
// CHECK: kiln.add {{.*}}, [[C]] : tensor<5x8xbf16>
// CHECK-NOT: kiln.constant {{.*}}xf64>
// CHECK: kiln.cross_entropy
kiln.program @forward(%x: tensor<5x4xf32> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x8xf32>
  %y = kiln.matmul %x, %w : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %half = kiln.constant dense<0.5> : tensor<5x8xf32> -> tensor<5x8xf32>
  %above = kiln.constant dense<1.00390637> : tensor<8xf32> -> tensor<8xf32>
  %rows = kiln.broadcast %above dims [1] : tensor<8xf32> to tensor<5x8xf32>
  %s = kiln.mul %y, %half : tensor<5x8xf32>
  %a = kiln.add %s, %rows : tensor<5x8xf32>
  %wide = kiln.constant dense<3.0> : tensor<5x8xf64> -> tensor<5x8xf64>
  %c = kiln.cast %wide : tensor<5x8xf64> to tensor<5x8xf32>
  %l = kiln.add %a, %c : tensor<5x8xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<5x8xf32>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
