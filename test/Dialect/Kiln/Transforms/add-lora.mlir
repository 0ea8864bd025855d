// RUN: kiln-opt %s --kiln-add-lora=lora=r=2,alpha=6,targets=up:down,dropout=0.25 | FileCheck %s
// RUN: kiln-opt %s --kiln-add-lora=lora=r=2,alpha=6,targets=all-linear,rslora=on | FileCheck %s --check-prefix=ALL
// RUN: kiln-opt %s --kiln-add-lora | FileCheck %s --check-prefix=NONE

// Every parameter is frozen. The factors have the names of PEFT. A linear layer may store its
// weight as [inputs, outputs], and several matmuls may read one weight.
// CHECK: module attributes {kiln.lora = "r=2,alpha=6,dropout=0.25,targets=down:up"}
// CHECK: kiln.state @table : tensor<16x8xf32> {frozen,
// CHECK: kiln.state @h.0.up.weight : tensor<8x6xf32> {frozen, {{.*}}source = "t.h.0.up.weight"
// CHECK: kiln.state @down.weight : tensor<8x6xf32> {frozen,
// CHECK-DAG: kiln.state @h.0.up.lora_A.weight : tensor<2x8xf32> {adapter = #kiln.adapter<a of @h.0.up.weight, transposed = true>, init = #kiln.uniform<low = -0.353{{.*}}, high = 0.353{{.*}}>, role = #kiln.role<parameter>, source = "base_model.model.t.h.0.up.lora_A.weight"}
// CHECK-DAG: kiln.state @h.0.up.lora_B.weight : tensor<6x2xf32> {adapter = #kiln.adapter<b of @h.0.up.weight, transposed = true>, init = #kiln.splat<value = 0.0{{.*}}>, role = #kiln.role<parameter>, source = "base_model.model.t.h.0.up.lora_B.weight"}
// CHECK-DAG: kiln.state @down.lora_A.weight : tensor<2x6xf32> {adapter = #kiln.adapter<a of @down.weight>,
// CHECK-DAG: kiln.state @down.lora_B.weight : tensor<8x2xf32> {adapter = #kiln.adapter<b of @down.weight>,

// The keys of the new dropout follow the largest key of the program.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[X:%.+]] = kiln.dropout {{.*}}key = 7
// CHECK: [[W:%.+]] = kiln.read @h.0.up.weight
// CHECK: [[D:%.+]] = kiln.dropout [[X]], %{{.+}} {key = 8 : i64, kiln.layer = #layer, p = 2.5{{.*}}, sequences = 2 : i64} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
// CHECK: [[A:%.+]] = kiln.read @h.0.up.lora_A.weight : tensor<2x8xf32>
// CHECK: [[S:%.+]] = kiln.matmul [[D]], [[A]] trans_b {kiln.layer = #layer} : (tensor<8x8xf32>, tensor<2x8xf32>) -> tensor<8x2xf32>
// CHECK: [[T:%.+]] = kiln.scale [[S]] by 3.0{{.*}} {kiln.layer = #layer} : tensor<8x2xf32>
// CHECK: [[B:%.+]] = kiln.read @h.0.up.lora_B.weight : tensor<6x2xf32>
// CHECK: [[L:%.+]] = kiln.matmul [[T]], [[B]] trans_b {kiln.layer = #layer} : (tensor<8x2xf32>, tensor<6x2xf32>) -> tensor<8x6xf32>
// CHECK: kiln.matmul [[X]], [[W]] accumulate [[L]] {kiln.layer = #layer}
// CHECK: kiln.dropout {{.*}}key = 9
// CHECK: kiln.read @down.lora_A.weight
// CHECK: kiln.dropout {{.*}}key = 10
// CHECK: kiln.read @down.lora_A.weight
// CHECK-NOT: kiln.dropout
// CHECK: kiln.linear_cross_entropy

// The classifier is not a linear layer. rsLoRA scales by alpha / sqrt(r).
// ALL: kiln.lora = "r=2,alpha=6,dropout=0,targets=all-linear,rslora=on"
// ALL-NOT: lora_{{[AB]}}.weight : {{.*}}16
// ALL: kiln.scale %{{.+}} by 4.24264068{{.*}}
// ALL: kiln.linear_cross_entropy

// NONE-NOT: lora
// NONE-NOT: frozen

#layer = #kiln.layer<"h.0", 0>
kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @h.0.up.weight : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, source = "t.h.0.up.weight"}
kiln.state @down.weight : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %e = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %x = kiln.dropout %e, %rng {p = 1.0e-01, key = 7, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
  %up = kiln.read @h.0.up.weight : tensor<8x6xf32>
  %u = kiln.matmul %x, %up {kiln.layer = #layer} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %down = kiln.read @down.weight : tensor<8x6xf32>
  %d = kiln.matmul %u, %down trans_b : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x8xf32>
  %v = kiln.matmul %u, %down accumulate %d trans_b : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %v, %table, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
