// Gradients that ranks sum as 8-bit codes with common scales.

// DEFINE: %{step} = kiln-opt %s '--kiln-build-step=optimizer=sgd clip=false mesh=dp
// RUN: %{step}=2' --kiln-compress-gradients=scheme=int8 | FileCheck %s
// RUN: not %{step}=2' --kiln-compress-gradients=scheme=int4 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not %{step}=2' --kiln-compress-gradients 2>&1 | FileCheck %s --check-prefix=EMPTY

// NAME: error: scheme is 'int4', expected one of int8, powersgd:N with N from 1 to 64, gradzip:N with N from 1 to 64, count-sketch:N with N from 2 to 256
// EMPTY: error: scheme is '', expected the name of a scheme, such as powersgd:4

// CHECK: module attributes {kiln.encoded = [#kiln.encoded<value = "a", as = "int8", lossy = true, bytes = 16384, encoded_bytes = 4160>]
// CHECK-LABEL: kiln.program @train
// CHECK-SAME: [[RNG:%[a-z0-9]+]]: tensor<1x3xi64> {kiln.name = "rng"}
// CHECK: [[DA:%.+]] = kiln.mul {{.*}} : tensor<64x64xf32>
// CHECK: [[DB:%.+]] = kiln.mul {{.*}} : tensor<2x16xf32>
// CHECK: [[OWN:%.+]] = kiln.block_scales [[DA]] {bits = 8 : i64} : (tensor<64x64xf32>) -> tensor<16xf32>
// CHECK: [[PART:%.+]] = kiln.scale [[OWN]] by 1.016
// CHECK: [[S:%.+]] = kiln.all_reduce [[PART]] over "dp" : tensor<16xf32>
// CHECK: [[N:%.+]] = kiln.dither [[DA]], [[S]], [[RNG]] {key = 0 : i64}
// CHECK: [[C:%.+]] = kiln.block_encode [[N]], [[S]] : (tensor<64x64xf32>, tensor<16xf32>) -> tensor<4096xi8>
// CHECK: [[SUM:%.+]] = kiln.all_reduce [[C]] over "dp" : tensor<4096xi8>
// CHECK: kiln.all_reduce [[DB]] over "dp" : tensor<2x16xf32>
// CHECK: [[G:%.+]] = kiln.block_decode [[SUM]], [[S]] : (tensor<4096xi8>, tensor<16xf32>) -> tensor<64x64xf32>
// CHECK: kiln.sgd {{%.+}}, [[G]],

kiln.state @a : tensor<64x64xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<2x16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<64x64xf32> {kiln.gradient = @a}, tensor<2x16xf32> {kiln.gradient = @b}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
  %a = kiln.read @a : tensor<64x64xf32>
  %b = kiln.read @b : tensor<2x16xf32>
  %da = kiln.mul %a, %a : tensor<64x64xf32>
  %db = kiln.mul %b, %b : tensor<2x16xf32>
  kiln.return %scale, %da, %db : tensor<f64>, tensor<64x64xf32>, tensor<2x16xf32>
}
