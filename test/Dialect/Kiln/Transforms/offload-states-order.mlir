// RUN: kiln-opt %s --kiln-offload-states | FileCheck %s

// All updates follow the norm of the gradients. @s1 and @s2 have moments on the
// host, @h1 to @h3 are updated on the host. The updates on the host come first,
// except the last two, whose gradients are still being copied: they come before
// the first update of a state with moments on the host. The updates of @s1 and
// @s2 are spread among the other updates on the device.

// CHECK-LABEL: kiln.program @train
// CHECK: kiln.exp
// CHECK: kiln.write @h1,
// CHECK: kiln.write @d1,
// CHECK: kiln.write @h2,
// CHECK: kiln.write @h3,
// CHECK: kiln.write @s1,
// CHECK: kiln.write @d2,
// CHECK: kiln.write @d3,
// CHECK: kiln.write @s2,
// CHECK: kiln.write @d4,

kiln.state @s1 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @s1.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @s1, slot = "m", kiln.residency = #kiln.residency<host>}
kiln.state @s2 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @s2.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @s2, slot = "m", kiln.residency = #kiln.residency<host>}
kiln.state @d1 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @d1.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @d1, slot = "m"}
kiln.state @d2 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @d2.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @d2, slot = "m"}
kiln.state @d3 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @d3.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @d3, slot = "m"}
kiln.state @d4 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @d4.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @d4, slot = "m"}
kiln.state @h1 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, kiln.residency = #kiln.residency<updated_on_host>}
kiln.state @h1.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @h1, slot = "m"}
kiln.state @h2 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, kiln.residency = #kiln.residency<updated_on_host>}
kiln.state @h2.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @h2, slot = "m"}
kiln.state @h3 : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, kiln.residency = #kiln.residency<updated_on_host>}
kiln.state @h3.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @h3, slot = "m"}

kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) attributes {kind = #kiln.program_kind<train>} {
  %s1 = kiln.read @s1 : tensor<4x4xf32>
  %s1m = kiln.read @s1.m : tensor<4x4xf32>
  %s2 = kiln.read @s2 : tensor<4x4xf32>
  %s2m = kiln.read @s2.m : tensor<4x4xf32>
  %d1 = kiln.read @d1 : tensor<4x4xf32>
  %d1m = kiln.read @d1.m : tensor<4x4xf32>
  %d2 = kiln.read @d2 : tensor<4x4xf32>
  %d2m = kiln.read @d2.m : tensor<4x4xf32>
  %d3 = kiln.read @d3 : tensor<4x4xf32>
  %d3m = kiln.read @d3.m : tensor<4x4xf32>
  %d4 = kiln.read @d4 : tensor<4x4xf32>
  %d4m = kiln.read @d4.m : tensor<4x4xf32>
  %h1 = kiln.read @h1 : tensor<4x4xf32>
  %h1m = kiln.read @h1.m : tensor<4x4xf32>
  %h2 = kiln.read @h2 : tensor<4x4xf32>
  %h2m = kiln.read @h2.m : tensor<4x4xf32>
  %h3 = kiln.read @h3 : tensor<4x4xf32>
  %h3m = kiln.read @h3.m : tensor<4x4xf32>
  %s1g = kiln.matmul %x, %s1 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s2g = kiln.matmul %x, %s2 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1g = kiln.matmul %x, %d1 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d2g = kiln.matmul %x, %d2 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d3g = kiln.matmul %x, %d3 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d4g = kiln.matmul %x, %d4 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h1g = kiln.matmul %x, %h1 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h2g = kiln.matmul %x, %h2 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h3g = kiln.matmul %x, %h3 trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %norm = kiln.exp %one : tensor<f64>
  %s11, %s1m1 = kiln.momentum %s1, %s1m, %s1g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @s1, %s11 : tensor<4x4xf32>
  kiln.write @s1.m, %s1m1 : tensor<4x4xf32>
  %s21, %s2m1 = kiln.momentum %s2, %s2m, %s2g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @s2, %s21 : tensor<4x4xf32>
  kiln.write @s2.m, %s2m1 : tensor<4x4xf32>
  %d11, %d1m1 = kiln.momentum %d1, %d1m, %d1g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @d1, %d11 : tensor<4x4xf32>
  kiln.write @d1.m, %d1m1 : tensor<4x4xf32>
  %d21, %d2m1 = kiln.momentum %d2, %d2m, %d2g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @d2, %d21 : tensor<4x4xf32>
  kiln.write @d2.m, %d2m1 : tensor<4x4xf32>
  %d31, %d3m1 = kiln.momentum %d3, %d3m, %d3g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @d3, %d31 : tensor<4x4xf32>
  kiln.write @d3.m, %d3m1 : tensor<4x4xf32>
  %d41, %d4m1 = kiln.momentum %d4, %d4m, %d4g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @d4, %d41 : tensor<4x4xf32>
  kiln.write @d4.m, %d4m1 : tensor<4x4xf32>
  %h11, %h1m1 = kiln.momentum %h1, %h1m, %h1g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @h1, %h11 : tensor<4x4xf32>
  kiln.write @h1.m, %h1m1 : tensor<4x4xf32>
  %h21, %h2m1 = kiln.momentum %h2, %h2m, %h2g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @h2, %h21 : tensor<4x4xf32>
  kiln.write @h2.m, %h2m1 : tensor<4x4xf32>
  %h31, %h3m1 = kiln.momentum %h3, %h3m, %h3g, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @h3, %h31 : tensor<4x4xf32>
  kiln.write @h3.m, %h3m1 : tensor<4x4xf32>
  kiln.return
}
