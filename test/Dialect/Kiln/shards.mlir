// Ops and states of tensors that are divided over ranks.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --emit-bytecode | kiln-opt | diff %t -

module attributes {kiln.mesh = {dp = 3 : i64}} {
// A shard may have another rank than the tensor.
// CHECK: kiln.state @w : tensor<14xf32> {{{.*}}shard = #kiln.shard<tensor<5x8xf32> over "dp">
kiln.state @w : tensor<14xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.02>, shard = #kiln.shard<tensor<5x8xf32> over "dp">}
// The axis is a string, which need not be a symbol.
// CHECK: kiln.state @w.m : tensor<14xf32> {{{.*}}of = @w
kiln.state @w.m : tensor<14xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @w, slot = "m", shard = #kiln.shard<tensor<5x8xf32> over "dp">}
// A mirror is divided like its parameter, or whole.
// CHECK: kiln.state @w.bf16 : tensor<14xbf16> {{{.*}}role = #kiln.role<mirror>, shard = #kiln.shard<tensor<5x8xbf16> over "dp">
kiln.state @w.bf16 : tensor<14xbf16> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w, shard = #kiln.shard<tensor<5x8xbf16> over "dp">}
// CHECK: kiln.state @w.whole : tensor<5x8xbf16> {{{.*}}role = #kiln.role<mirror>}
kiln.state @w.whole : tensor<5x8xbf16> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}
// The shards of a small tensor may have as many elements as the tensor.
// CHECK: kiln.state @scalar : tensor<1xf32> {{{.*}}shard = #kiln.shard<tensor<f32> over "dp">
kiln.state @scalar : tensor<1xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<f32> over "dp">}

// CHECK-LABEL: kiln.program @train
kiln.program @train(%x: tensor<5x8xf32>, %y: tensor<6xf32>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: [[S:%.+]]:2 = kiln.reduce_scatter %{{.+}}, %{{.+}} over "dp" : tensor<5x8xf32>, tensor<6xf32> -> tensor<14xf32>, tensor<2xf32>
  %s:2 = kiln.reduce_scatter %x, %y over "dp" : tensor<5x8xf32>, tensor<6xf32> -> tensor<14xf32>, tensor<2xf32>
  // CHECK: kiln.all_gather [[S]]#0, [[S]]#1 over "dp" : tensor<14xf32>, tensor<2xf32> -> tensor<5x8xf32>, tensor<6xf32>
  %g:2 = kiln.all_gather %s#0, %s#1 over "dp" : tensor<14xf32>, tensor<2xf32> -> tensor<5x8xf32>, tensor<6xf32>
  // CHECK: kiln.take_shard %{{.+}} over "dp" : tensor<5x8xf32> -> tensor<2x8xf32>
  %t = kiln.take_shard %x over "dp" : tensor<5x8xf32> -> tensor<2x8xf32>
  // CHECK: [[T:%.+]]:2 = kiln.collective_start reduce_scatter %{{.+}}, %{{.+}} over "dp" : tensor<5x8xf32>, tensor<6xf32> -> tensor<14xf32>, tensor<2xf32>
  %u:2 = kiln.collective_start reduce_scatter %x, %y over "dp" : tensor<5x8xf32>, tensor<6xf32> -> tensor<14xf32>, tensor<2xf32>
  // CHECK: kiln.collective_wait [[T]]#0, [[T]]#1 : tensor<14xf32>, tensor<2xf32>
  %v:2 = kiln.collective_wait %u#0, %u#1 : tensor<14xf32>, tensor<2xf32>
  // CHECK: [[U:%.+]] = kiln.collective_start all_gather %{{.+}} over "dp" : tensor<14xf32> -> tensor<5x8xf32>
  %a = kiln.collective_start all_gather %v#0 over "dp" : tensor<14xf32> -> tensor<5x8xf32>
  // CHECK: kiln.collective_wait [[U]] : tensor<5x8xf32>
  %b = kiln.collective_wait %a : tensor<5x8xf32>
  kiln.return
}
}
