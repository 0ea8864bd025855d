// RUN: kiln-opt %s --kiln-set-precision=precision=bf16 | FileCheck %s

kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @seen : tensor<8xbf16> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @last : tensor<8xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}

// A value that is written to a state has the type of the state, whatever the type is in which the
// value is computed.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[ROW:%.+]] = kiln.reshape %{{.+}} : tensor<1x8xbf16> to tensor<8xbf16>
// CHECK: [[WIDE:%.+]] = kiln.cast [[ROW]] : tensor<8xbf16> to tensor<8xf32>
// CHECK: kiln.write @last, [[WIDE]] : tensor<8xf32>
// CHECK: [[E:%.+]] = kiln.exp %{{.+}} : tensor<8xf32>
// CHECK: [[LOW:%.+]] = kiln.cast [[E]] : tensor<8xf32> to tensor<8xbf16>
// CHECK: kiln.write @seen, [[LOW]] : tensor<8xbf16>
kiln.program @forward(%x: tensor<5x4xf32> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x8xf32>
  %y = kiln.matmul %x, %w : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %slice = kiln.slice %y [4, 0] : tensor<5x8xf32> to tensor<1x8xf32>
  %row = kiln.reshape %slice : tensor<1x8xf32> to tensor<8xf32>
  kiln.write @last, %row : tensor<8xf32>
  %seen = kiln.read @seen : tensor<8xbf16>
  %next = kiln.exp %seen : tensor<8xbf16>
  kiln.write @seen, %next : tensor<8xbf16>
  %loss = kiln.cross_entropy %y, %targets, %scale : (tensor<5x8xf32>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
