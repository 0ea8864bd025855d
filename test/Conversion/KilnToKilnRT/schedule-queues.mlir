// Queues, and which of them wait for which: a gpu executes commands on device
// memory and the host's code at the same time, a cpu all of them one after another.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule --kiln-verify-schedule -split-input-file | FileCheck %s
// RUN: sed 's/"cuda-emu"/"cpu"/' %s | kiln-opt --kiln-form-dispatches --kiln-schedule --kiln-verify-schedule -split-input-file | FileCheck %s --check-prefix=CPU --implicit-check-not='queue @host' --implicit-check-not='on @host' --implicit-check-not='@compute,' --implicit-check-not='and ['

// A transfer begins after the commands of the device, and after those of the host if
// it reads what they write. Both queues wait for a transfer that a command of the
// host conflicts with. The optimizer on the host waits for the factor that the device
// computes.
// CHECK-DAG: kilnrt.queue @compute engine device
// CHECK-DAG: kilnrt.queue @host engine host
// CHECK-DAG: kilnrt.queue @copy_out engine link
// CHECK-DAG: kilnrt.queue @copy_in engine link
// CHECK-LABEL: kilnrt.program @train
// CHECK: kilnrt.gemm on @compute (
// CHECK: kilnrt.gemm on @compute (
// CHECK: kilnrt.begin copy [[T:%.+]] on @copy_out after [@compute] (
// CHECK: [[FACTOR:%.+]] = kilnrt.view {{.*}} : memref<f64>
// CHECK: kilnrt.launch @{{.+}} on @compute ({{.*}}wo [[FACTOR]])
// CHECK: kilnrt.wait [[T]] on @compute and [@host]
// CHECK: [[W:%.+]] = kilnrt.view {{.*}} : memref<4x4xf32, #kiln.memory<host>>
// CHECK: kilnrt.launch @{{.+}} on @host after [@compute] (ro [[W]], ro {{%.+}}, ro [[FACTOR]], ro {{%.+}}, wo [[W]])
// CHECK: kilnrt.begin copy [[U:%.+]] on @copy_in after [@compute, @host] (
// CHECK: kilnrt.wait [[U]] on @compute and [@host]

// CPU-DAG: kilnrt.queue @compute engine host
// CPU-DAG: kilnrt.queue @copy_out engine link
// CPU-DAG: kilnrt.queue @copy_in engine link
// CPU-LABEL: kilnrt.program @train
// CPU: kilnrt.begin copy [[T:%.+]] on @copy_out after [@compute] (
// CPU: kilnrt.launch @{{.+}} on @compute (
// CPU: kilnrt.wait [[T]] on @compute{{$}}
// CPU: kilnrt.launch @{{.+}} on @compute ({{.*}}, wo {{%.+}})
// CPU: kilnrt.begin copy [[U:%.+]] on @copy_in after [@compute] (
// CPU: kilnrt.wait [[U]] on @compute{{$}}
module attributes {kiln.target = "cuda-emu"} {
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.device : tensor<4x4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %d = kiln.read @w.device : tensor<4x4xf32>
  %y = kiln.matmul %x, %d {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = kiln.matmul %x, %y trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = kiln.copy_out %g : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %factor = kiln.exp %one : tensor<f64>
  %h = kiln.copy_wait %f, %g : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %p = kiln.sgd %w, %h, %factor, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  %i = kiln.copy_in %p : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  %n = kiln.copy_wait %i, %p : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  kiln.write @w.device, %n : tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}
}

// -----

// A command of the device that writes bytes which the host has read waits for it.
// CHECK-LABEL: kilnrt.program @reuse
// CHECK: kilnrt.slot "one" class input offset [[OFFSET:[0-9]+]] bytes 8 lifetime [0, 3]
// CHECK: [[REUSED:%.+]] = kilnrt.slot "matmul" class activation offset [[OFFSET]] bytes 112 lifetime [4, 5]
// CHECK: [[ONE:%.+]] = kilnrt.view {{.*}} : memref<f64>
// CHECK-NEXT: kilnrt.input "one" at [[ONE]]
// CHECK: kilnrt.launch @{{.+}} on @host after [@compute] ({{.*}}ro [[ONE]],
// CHECK-NEXT: [[V:%.+]] = kilnrt.view [[REUSED]][0]
// CHECK-NEXT: kilnrt.gemm on @compute after [@host] ({{.*}}, wo [[V]])
// CPU-LABEL: kilnrt.program @reuse
// CPU: kilnrt.gemm on @compute (
module attributes {kiln.target = "cuda-emu"} {
kiln.state @v : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @reuse(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %v = kiln.read @v : tensor<4x4xf32, #kiln.memory<host>>
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %f = kiln.copy_out %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %q = kiln.sgd %v, %h, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  %factor = kiln.exp %one : tensor<f64>
  %p = kiln.sgd %w, %h, %factor, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  %y = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = kiln.matmul %y, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = kiln.matmul %z, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.write @v, %q : tensor<4x4xf32, #kiln.memory<host>>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  kiln.return %a : tensor<4x4xf32>
}
}

// -----

// Scalars that the caller writes need no wait.
// CHECK-LABEL: kilnrt.program @caller
// CHECK: kilnrt.gemm on @compute (
// CHECK: kilnrt.launch @{{.+}} on @host (
// CPU-LABEL: kilnrt.program @caller
module attributes {kiln.target = "cuda-emu"} {
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @caller(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %y = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = kiln.copy_out %y : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %y : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %p = kiln.sgd %w, %h, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  kiln.return %y : tensor<4x4xf32>
}
}
