// RUN: kiln-opt %s --kiln-narrow-frozen-states -split-input-file | FileCheck %s

// Frozen parameters get the type of the files. A cast to this type becomes the read, a lookup
// reads narrow rows, and other readers get a cast. Trainable parameters do not change.
// CHECK: kiln.state @table : tensor<16x8xbf16> {frozen,
// CHECK: kiln.state @gain : tensor<8xbf16> {frozen,
// CHECK: kiln.state @w : tensor<8x8xbf16> {frozen,
// CHECK: kiln.state @a : tensor<8x8xf32> {init
// CHECK-LABEL: kiln.program @forward
// CHECK: [[TABLE:%.+]] = kiln.read @table : tensor<16x8xbf16>
// CHECK: [[ROWS:%.+]] = kiln.embedding %{{.+}}, [[TABLE]] : (tensor<2x4xi32>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
// CHECK: [[X:%.+]] = kiln.cast [[ROWS]] : tensor<8x8xbf16> to tensor<8x8xf32>
// CHECK: [[GAIN:%.+]] = kiln.read @gain : tensor<8xbf16>
// CHECK: [[WIDE:%.+]] = kiln.cast [[GAIN]] : tensor<8xbf16> to tensor<8xf32>
// CHECK: kiln.rms_norm [[X]], [[WIDE]]
// CHECK: [[W:%.+]] = kiln.read @w : tensor<8x8xbf16>
// CHECK-NOT: kiln.cast [[W]]
// CHECK: [[N:%.+]] = kiln.cast %{{.+}} : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK: kiln.matmul [[N]], [[W]] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
module attributes {kiln.model = {storage = bf16}} {
kiln.state @table : tensor<16x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @gain : tensor<8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w : tensor<8x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @a : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %gain = kiln.read @gain : tensor<8xf32>
  %n, %rstd = kiln.rms_norm %x, %gain {eps = 1.0e-06} : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %w = kiln.read @w : tensor<8x8xf32>
  %wc = kiln.cast %w : tensor<8x8xf32> to tensor<8x8xbf16>
  %nc = kiln.cast %n : tensor<8x8xf32> to tensor<8x8xbf16>
  %y = kiln.matmul %nc, %wc : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %wide = kiln.cast %y : tensor<8x8xbf16> to tensor<8x8xf32>
  %a = kiln.read @a : tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %wide, %a, %targets, %scale : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
}

// -----

// A type that is not narrower changes nothing.
// CHECK: kiln.state @w : tensor<8x8xf32> {frozen,
module attributes {kiln.model = {storage = f64}} {
kiln.state @w : tensor<8x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

// -----

// A parameter that a program writes and a parameter of integers keep their types.
// CHECK: kiln.state @seen : tensor<8xf32> {frozen,
// CHECK: kiln.state @count : tensor<i64> {frozen,
// CHECK: [[SEEN:%.+]] = kiln.read @seen : tensor<8xf32>
// CHECK: [[NEXT:%.+]] = kiln.scale [[SEEN]] by
// CHECK: kiln.write @seen, [[NEXT]] : tensor<8xf32>
module attributes {kiln.model = {storage = bf16}} {
kiln.state @seen : tensor<8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @count : tensor<i64> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %seen = kiln.read @seen : tensor<8xf32>
  %next = kiln.scale %seen by 2.0 : tensor<8xf32>
  kiln.write @seen, %next : tensor<8xf32>
  kiln.return %scale : tensor<f64>
}
}
