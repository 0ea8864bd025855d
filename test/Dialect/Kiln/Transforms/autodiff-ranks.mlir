// One sum over ranks may be the cotangent of several values, each of which takes a shard or a part of it.

// RUN: kiln-opt %s --split-input-file --kiln-autodiff | FileCheck %s

// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.all_reduce
// CHECK: [[S:%.+]] = kiln.reduce_scatter {{%.+}} over "tp" : tensor<4x3xf32> -> tensor<2x3xf32>
// CHECK-NOT: kiln.reduce_scatter
// CHECK-NOT: kiln.all_reduce
// CHECK: kiln.return {{%.+}}, [[S]], [[S]]
module attributes {kiln.mesh = {tp = 2 : i64}} {
  kiln.state @a : tensor<2x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
  kiln.state @b : tensor<2x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
  kiln.program @forward() -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %a = kiln.read @a : tensor<2x3xf32>
    %b = kiln.read @b : tensor<2x3xf32>
    %x = kiln.all_gather %a over "tp" : tensor<2x3xf32> -> tensor<4x3xf32>
    %y = kiln.all_gather %b over "tp" : tensor<2x3xf32> -> tensor<4x3xf32>
    %z = kiln.add %x, %y : tensor<4x3xf32>
    %shared = kiln.share %z over "tp" : tensor<4x3xf32>
    %loss = kiln.reduce sum %shared dims [0, 1] : tensor<4x3xf32> to tensor<f32>
    kiln.return %loss : tensor<f32>
  }
}

// -----

// CHECK-LABEL: kiln.program @train
// CHECK-SAME: {kiln.gradient = @a, kiln.partial = "tp"}
// CHECK-SAME: {kiln.gradient = @b, kiln.partial = "tp"}
// CHECK-NOT: kiln.all_reduce
// CHECK: kiln.return {{%.+}}, [[D:%.+]], [[D]]
module attributes {kiln.mesh = {tp = 2 : i64}} {
  kiln.state @a : tensor<4x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
  kiln.state @b : tensor<4x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
  kiln.program @forward() -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %a = kiln.read @a : tensor<4x3xf32>
    %b = kiln.read @b : tensor<4x3xf32>
    %z = kiln.add %a, %b : tensor<4x3xf32>
    %shared = kiln.share %z over "tp" : tensor<4x3xf32>
    %loss = kiln.reduce sum %shared dims [0, 1] : tensor<4x3xf32> to tensor<f32>
    kiln.return %loss : tensor<f32>
  }
}
