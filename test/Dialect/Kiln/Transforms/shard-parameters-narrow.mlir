// Shards are cast before they are gathered if all readers cast the parameter to one narrower type.

// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=2 zero=3 clip=false optimizer=sgd' --kiln-shard-parameters | FileCheck %s
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=2 zero=3 clip=false optimizer=sgd' --kiln-shard-parameters=cast-shards=false | FileCheck %s --check-prefix=WHOLE

// CHECK-DAG: [[C:%.+]] = kiln.read @cast : tensor<4x8xf32>
// CHECK-DAG: [[B:%.+]] = kiln.read @both : tensor<4x8xf32>
// CHECK-DAG: [[T:%.+]] = kiln.read @types : tensor<4x8xf32>
// CHECK: [[N:%.+]] = kiln.cast [[C]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK-NEXT: [[G:%.+]] = kiln.all_gather [[N]] over "dp" : tensor<4x8xbf16> -> tensor<8x8xbf16>
// CHECK: kiln.mul [[G]], [[G]] : tensor<8x8xbf16>

// Another reader needs f32.
// CHECK: [[W:%.+]] = kiln.all_gather [[B]] over "dp" : tensor<4x8xf32> -> tensor<8x8xf32>
// CHECK: kiln.cast [[W]] : tensor<8x8xf32> to tensor<8x8xbf16>

// Two types.
// CHECK: [[V:%.+]] = kiln.all_gather [[T]] over "dp" : tensor<4x8xf32> -> tensor<8x8xf32>
// CHECK-DAG: kiln.cast [[V]] : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK-DAG: kiln.cast [[V]] : tensor<8x8xf32> to tensor<8x8xf16>

// WHOLE: [[W:%.+]] = kiln.all_gather {{%.+}} over "dp" : tensor<4x8xf32> -> tensor<8x8xf32>
// WHOLE: kiln.cast [[W]] : tensor<8x8xf32> to tensor<8x8xbf16>
// WHOLE-NOT: tensor<4x8xbf16>

kiln.state @cast : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @both : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @types : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8x8xf32> {kiln.gradient = @cast}, tensor<8x8xf32> {kiln.gradient = @both}, tensor<8x8xf32> {kiln.gradient = @types}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
  %c = kiln.read @cast : tensor<8x8xf32>
  %b = kiln.read @both : tensor<8x8xf32>
  %t = kiln.read @types : tensor<8x8xf32>
  %cn = kiln.cast %c : tensor<8x8xf32> to tensor<8x8xbf16>
  %cm = kiln.mul %cn, %cn : tensor<8x8xbf16>
  %dc = kiln.cast %cm : tensor<8x8xbf16> to tensor<8x8xf32>
  %bn = kiln.cast %b : tensor<8x8xf32> to tensor<8x8xbf16>
  %bw = kiln.cast %bn : tensor<8x8xbf16> to tensor<8x8xf32>
  %db = kiln.mul %b, %bw : tensor<8x8xf32>
  %tn = kiln.cast %t : tensor<8x8xf32> to tensor<8x8xbf16>
  %th = kiln.cast %t : tensor<8x8xf32> to tensor<8x8xf16>
  %tw = kiln.cast %tn : tensor<8x8xbf16> to tensor<8x8xf32>
  %tx = kiln.cast %th : tensor<8x8xf16> to tensor<8x8xf32>
  %dt = kiln.mul %tw, %tx : tensor<8x8xf32>
  kiln.return %scale, %dc, %db, %dt : tensor<f64>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
