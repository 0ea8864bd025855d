// RUN: kiln-opt %s --kiln-offload-states --split-input-file | FileCheck %s
// RUN: not kiln-opt %s --kiln-offload-states=optimizer=1.5 2>&1 | FileCheck %s --check-prefix=SHARE
// SHARE: a share of kiln-offload-states is 1.500000e+00, expected at least 0 and at most 1

// Each state has its own residency. The moments of @swapped are on the host and are
// updated on the device: the new ones are copied out, and kiln-place-copies will
// insert the copies to the device. @hosted is updated on the host and has no mirror,
// @mirrored has one. All updates follow the norm of the gradients, so the update of
// @swapped comes after that of @stays, and the copy of the new @mirrored parameter
// after those for @swapped.

// CHECK-DAG: kiln.state @stays : tensor<4x4xf32> {init
// CHECK-DAG: kiln.state @stays.m : tensor<4x4xf32> {init
// CHECK-DAG: kiln.state @swapped : tensor<4x4xf32> {init
// CHECK-DAG: kiln.state @swapped.m : tensor<4x4xf32, #kiln.memory<host>> {init
// CHECK-DAG: kiln.state @hosted : tensor<4x4xf32, #kiln.memory<host>> {init
// CHECK-DAG: kiln.state @hosted.m : tensor<4x4xf32, #kiln.memory<host>> {init
// CHECK-DAG: kiln.state @mirrored : tensor<4x4xf32, #kiln.memory<host>> {init
// CHECK-DAG: kiln.state @mirrored.device : tensor<4x4xf32> {init
// CHECK-NOT: kiln.residency
// CHECK-NOT: @hosted.device
kiln.state @swapped : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @swapped.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @swapped, slot = "m", kiln.residency = #kiln.residency<host>}
kiln.state @stays : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @stays.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @stays, slot = "m"}
kiln.state @hosted : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, kiln.residency = #kiln.residency<updated_on_host>}
kiln.state @hosted.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @hosted, slot = "m"}
kiln.state @mirrored : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, kiln.residency = #kiln.residency<mirrored>}
kiln.state @mirrored.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @mirrored, slot = "m"}

// CHECK-LABEL: kiln.program @train
// CHECK-DAG: [[MOMENT:%.+]] = kiln.read @swapped.m : tensor<4x4xf32>{{$}}
// CHECK: [[NORM:%.+]] = kiln.exp
// CHECK: kiln.momentum {{.*}}, [[NORM]], {{.*}} -> (tensor<4x4xf32>, tensor<4x4xf32>){{$}}
// CHECK: kiln.write @stays,
// CHECK: kiln.momentum {{.*}}#kiln.memory<host>>){{$}}
// CHECK: kiln.write @hosted,
// CHECK: [[NEW:%.+]], {{%.+}} = kiln.momentum {{.*}}#kiln.memory<host>>){{$}}
// CHECK: kiln.write @mirrored,
// CHECK: {{%.+}}, [[M:%.+]] = kiln.momentum {{%.+}}, [[MOMENT]], {{.*}} -> (tensor<4x4xf32>, tensor<4x4xf32>){{$}}
// CHECK-NEXT: [[OUT:%.+]] = kiln.copy_out [[M]]
// CHECK-NEXT: kiln.write @swapped,
// CHECK-NEXT: [[SENT:%.+]] = kiln.copy_wait [[OUT]], [[M]]
// CHECK-NEXT: kiln.write @swapped.m, [[SENT]]
// CHECK-NEXT: [[IN:%.+]] = kiln.copy_in [[NEW]]
// CHECK-NEXT: [[BACK:%.+]] = kiln.copy_wait [[IN]], [[NEW]]
// CHECK-NEXT: kiln.write @mirrored.device, [[BACK]]
// CHECK-NEXT: kiln.return
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.read @swapped : tensor<4x4xf32>
  %sm = kiln.read @swapped.m : tensor<4x4xf32>
  %k = kiln.read @stays : tensor<4x4xf32>
  %km = kiln.read @stays.m : tensor<4x4xf32>
  %h = kiln.read @hosted : tensor<4x4xf32>
  %hm = kiln.read @hosted.m : tensor<4x4xf32>
  %m = kiln.read @mirrored : tensor<4x4xf32>
  %mm = kiln.read @mirrored.m : tensor<4x4xf32>
  %gs = kiln.matmul %x, %s trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %gk = kiln.matmul %x, %k trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %gh = kiln.matmul %x, %h trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %gm = kiln.matmul %x, %m trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %norm = kiln.exp %one : tensor<f64>
  %s1, %sm1 = kiln.momentum %s, %sm, %gs, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @swapped, %s1 : tensor<4x4xf32>
  kiln.write @swapped.m, %sm1 : tensor<4x4xf32>
  %k1, %km1 = kiln.momentum %k, %km, %gk, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @stays, %k1 : tensor<4x4xf32>
  kiln.write @stays.m, %km1 : tensor<4x4xf32>
  %h1, %hm1 = kiln.momentum %h, %hm, %gh, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @hosted, %h1 : tensor<4x4xf32>
  kiln.write @hosted.m, %hm1 : tensor<4x4xf32>
  %m1, %mm1 = kiln.momentum %m, %mm, %gm, %norm, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @mirrored, %m1 : tensor<4x4xf32>
  kiln.write @mirrored.m, %mm1 : tensor<4x4xf32>
  kiln.return
}
