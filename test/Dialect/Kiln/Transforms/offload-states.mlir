// RUN: kiln-opt %s --kiln-offload-states=optimizer=1 --split-input-file | FileCheck %s --check-prefixes=CHECK,OPT
// RUN: kiln-opt %s --kiln-offload-states=parameters=1 --split-input-file | FileCheck %s --check-prefixes=CHECK,PAR
// RUN: kiln-opt %s --kiln-offload-states="optimizer=1 parameters=1" --split-input-file | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: kiln-opt %s --kiln-offload-states --split-input-file | FileCheck %s --check-prefix=NONE

// Parameters are stored on the host in every case. What is frozen has no update:
// it moves where parameters are stored on the host alone, as does a buffer, unless
// a program writes it. Moments go with their updates. Where parameters are not
// stored on the host alone, each has a mirror.
// CHECK: kiln.state @a : tensor<4x4xf32, #kiln.memory<host>> {{.*}}role<parameter>
// OPT: kiln.state @a.device : tensor<4x4xf32> {{{.*}}of = @a, role = #kiln.role<mirror>}
// CHECK: kiln.state @a.m
// OPT-SAME: #kiln.memory<host>
// PAR-NOT: host
// BOTH-SAME: #kiln.memory<host>
// CHECK: kiln.state @b : {{.*}}#kiln.memory<host>
// CHECK: kiln.state @c : {{.*}}#kiln.memory<host>
// CHECK: kiln.state @d : {{.*}}#kiln.memory<host>
// OPT: kiln.state @table : tensor<4x4xf32> {frozen, init
// PAR: kiln.state @table : tensor<4x4xf32, #kiln.memory<host>> {frozen, init
// BOTH: kiln.state @table : tensor<4x4xf32, #kiln.memory<host>> {frozen, init
// CHECK-NOT: @table.device
// NONE-NOT: host
// NONE-NOT: kiln.copy
// NONE-NOT: mirror
kiln.state @a : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @a.m : tensor<4x4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @a, slot = "m"}
kiln.state @b : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @d : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @table : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}

// A gradient leaves as soon as it is complete; its update waits for it, on the
// host, when two more gradients are on their way, and no longer than the end. The
// new value comes back behind the update, or behind the mirror's last reader.
// OPT-LABEL: kiln.program @train
// OPT-DAG: [[A:%.+]] = kiln.read @a : tensor<4x4xf32, #kiln.memory<host>>
// OPT-DAG: [[AM:%.+]] = kiln.read @a.m
// OPT-DAG: [[B:%.+]] = kiln.read @b : tensor<4x4xf32, #kiln.memory<host>>
// OPT-DAG: [[BD:%.+]] = kiln.read @b.device
// OPT-DAG: [[C:%.+]] = kiln.read @c : tensor<4x4xf32, #kiln.memory<host>>
// OPT-DAG: [[CD:%.+]] = kiln.read @c.device
// OPT-DAG: [[D:%.+]] = kiln.read @d : tensor<4x4xf32, #kiln.memory<host>>
// OPT-DAG: [[DD:%.+]] = kiln.read @d.device
// OPT-DAG: [[T:%.+]] = kiln.read @table
// OPT: kiln.add {{%.+}}, [[T]]
// OPT: [[GD:%.+]] = kiln.matmul
// OPT-NEXT: [[FD:%.+]] = kiln.copy_out [[GD]]
// OPT-NEXT: kiln.matmul {{%.+}}, [[DD]] trans_b
// OPT-NEXT: [[GC:%.+]] = kiln.matmul
// OPT-NEXT: [[FC:%.+]] = kiln.copy_out [[GC]]
// OPT-NEXT: kiln.matmul {{%.+}}, [[CD]] trans_b
// OPT-NEXT: [[GB:%.+]] = kiln.matmul
// OPT-NEXT: [[HD:%.+]] = kiln.copy_wait [[FD]], [[GD]]
// OPT-NEXT: [[D1:%.+]] = kiln.sgd [[D]], [[HD]], {{.*}} -> {{.*}}#kiln.memory<host>
// OPT-NEXT: kiln.write @d, [[D1]]
// OPT-NEXT: [[FB:%.+]] = kiln.copy_out [[GB]]
// OPT-NEXT: kiln.matmul {{%.+}}, [[BD]] trans_b
// OPT-NEXT: [[GA:%.+]] = kiln.matmul
// OPT-NEXT: [[HC:%.+]] = kiln.copy_wait [[FC]], [[GC]]
// OPT-NEXT: [[C1:%.+]] = kiln.sgd [[C]], [[HC]], {{.*}} -> {{.*}}#kiln.memory<host>
// OPT-NEXT: [[RC:%.+]] = kiln.copy_in [[C1]]
// OPT-NEXT: kiln.write @c, [[C1]]
// OPT-NEXT: [[FA:%.+]] = kiln.copy_out [[GA]]
// OPT-NEXT: kiln.matmul {{%.+}}, [[DD]]
// OPT-NEXT: [[RD:%.+]] = kiln.copy_in [[D1]]
// OPT-NEXT: [[HB:%.+]] = kiln.copy_wait [[FB]], [[GB]]
// OPT-NEXT: [[B1:%.+]] = kiln.sgd [[B]], [[HB]], {{.*}} -> {{.*}}#kiln.memory<host>
// OPT-NEXT: [[RB:%.+]] = kiln.copy_in [[B1]]
// OPT-NEXT: kiln.write @b, [[B1]]
// OPT-NEXT: [[HA:%.+]] = kiln.copy_wait [[FA]], [[GA]]
// OPT-NEXT: [[A1:%.+]], [[AM1:%.+]] = kiln.momentum [[A]], [[AM]], [[HA]], {{.*}} -> {{.*}}#kiln.memory<host>
// OPT-NEXT: [[RA:%.+]] = kiln.copy_in [[A1]]
// OPT-NEXT: kiln.write @a, [[A1]]
// OPT-NEXT: kiln.write @a.m, [[AM1]]
// OPT-NEXT: [[ND:%.+]] = kiln.copy_wait [[RD]], [[D1]]
// OPT-NEXT: kiln.write @d.device, [[ND]]
// OPT-NEXT: [[NC:%.+]] = kiln.copy_wait [[RC]], [[C1]]
// OPT-NEXT: kiln.write @c.device, [[NC]]
// OPT-NEXT: [[NB:%.+]] = kiln.copy_wait [[RB]], [[B1]]
// OPT-NEXT: kiln.write @b.device, [[NB]]
// OPT-NEXT: [[NA:%.+]] = kiln.copy_wait [[RA]], [[A1]]
// OPT-NEXT: kiln.write @a.device, [[NA]]
// OPT-NEXT: kiln.return

// Updates stay on the device. The copies of their results to the host overlap with
// the next two updates: the wait for a copy precedes the third. Reads keep their
// types; kiln-place-copies inserts the copies.
// PAR-LABEL: kiln.program @train
// PAR-NOT: kiln.copy_in
// PAR: [[D1:%.+]] = kiln.sgd {{.*}} -> tensor<4x4xf32>{{$}}
// PAR-NEXT: [[FD:%.+]] = kiln.copy_out [[D1]]
// PAR: kiln.matmul
// PAR-NEXT: [[GC:%.+]] = kiln.matmul
// PAR-NEXT: [[C1:%.+]] = kiln.sgd
// PAR-NEXT: [[FC:%.+]] = kiln.copy_out [[C1]]
// PAR: [[B1:%.+]] = kiln.sgd
// PAR-NEXT: [[FB:%.+]] = kiln.copy_out [[B1]]
// PAR: [[HD:%.+]] = kiln.copy_wait [[FD]], [[D1]]
// PAR-NEXT: [[A1:%.+]], [[AM1:%.+]] = kiln.momentum
// PAR-NEXT: [[FA:%.+]] = kiln.copy_out [[A1]]
// PAR-NEXT: kiln.write @a.m, [[AM1]]
// PAR: kiln.write @d, [[HD]]
// PAR-NEXT: [[HC:%.+]] = kiln.copy_wait [[FC]], [[C1]]
// PAR-NEXT: kiln.write @c, [[HC]]
// PAR-NEXT: [[HB:%.+]] = kiln.copy_wait [[FB]], [[B1]]
// PAR-NEXT: kiln.write @b, [[HB]]
// PAR-NEXT: [[HA:%.+]] = kiln.copy_wait [[FA]], [[A1]]
// PAR-NEXT: kiln.write @a, [[HA]]
// PAR-NEXT: kiln.return

// With both options, updates access the parameters on the host, through separate
// reads. The new parameters are not copied back to the device.
// BOTH-LABEL: kiln.program @train
// BOTH-NOT: kiln.copy_in
// BOTH: [[DH:%.+]] = kiln.read @d : tensor<4x4xf32, #kiln.memory<host>>
// BOTH: [[D:%.+]] = kiln.read @d : tensor<4x4xf32>{{$}}
// BOTH: [[GD:%.+]] = kiln.matmul
// BOTH-NEXT: [[FD:%.+]] = kiln.copy_out [[GD]]
// BOTH-NEXT: kiln.matmul {{%.+}}, [[D]] trans_b
// BOTH: [[HD:%.+]] = kiln.copy_wait [[FD]], [[GD]]
// BOTH-NEXT: [[D1:%.+]] = kiln.sgd [[DH]], [[HD]], {{.*}} -> {{.*}}#kiln.memory<host>
// BOTH-NEXT: kiln.write @d, [[D1]]
// BOTH: kiln.return
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<4x4xf32>
  %am = kiln.read @a.m : tensor<4x4xf32>
  %b = kiln.read @b : tensor<4x4xf32>
  %c = kiln.read @c : tensor<4x4xf32>
  %d = kiln.read @d : tensor<4x4xf32>
  %t = kiln.read @table : tensor<4x4xf32>
  %dy = kiln.add %x, %t : tensor<4x4xf32>
  %gd = kiln.matmul %x, %dy trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1 = kiln.sgd %d, %gd, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @d, %d1 : tensor<4x4xf32>
  %dc = kiln.matmul %dy, %d trans_b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %gc = kiln.matmul %x, %dc trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c1 = kiln.sgd %c, %gc, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @c, %c1 : tensor<4x4xf32>
  %db = kiln.matmul %dc, %c trans_b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %gb = kiln.matmul %x, %db trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b1 = kiln.sgd %b, %gb, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @b, %b1 : tensor<4x4xf32>
  %da = kiln.matmul %db, %b trans_b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %ga = kiln.matmul %x, %da trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a1, %am1 = kiln.momentum %a, %am, %ga, %one, %lr {mu = 0.9, weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  kiln.write @a, %a1 : tensor<4x4xf32>
  kiln.write @a.m, %am1 : tensor<4x4xf32>
  %y = kiln.matmul %da, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// The other programs read what lies on the device.
// OPT-LABEL: kiln.program @evaluate
// OPT-NOT: kiln.read @a :
// OPT: kiln.read @a.device
// PAR-LABEL: kiln.program @evaluate
// PAR: kiln.read @a : tensor<4x4xf32>{{$}}
// BOTH-LABEL: kiln.program @evaluate
// BOTH: kiln.read @a : tensor<4x4xf32>{{$}}
kiln.program @evaluate(%x: tensor<4x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %a = kiln.read @a : tensor<4x4xf32>
  %y = kiln.matmul %x, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// What only forwards a state's value is no update.
// CHECK: kiln.state @w : tensor<4xf32> {init
// CHECK-LABEL: kiln.program @forwards
// CHECK-NOT: kiln.copy
// CHECK: kiln.return
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forwards(%x: tensor<4xf32> {kiln.name = "x"}) attributes {kind = #kiln.program_kind<train>} {
  kiln.write @w, %x : tensor<4xf32>
  kiln.return
}

// -----

// The sum of micro-batches is complete behind their loop.
// OPT-LABEL: kiln.program @microbatches
// OPT: [[W:%.+]] = kiln.read @w.device
// OPT: [[G:%.+]] = kiln.microbatches
// OPT: kiln.matmul {{%.+}}, [[W]]
// OPT: kiln.yield
// OPT-NEXT: }
// OPT-NEXT: [[F:%.+]] = kiln.copy_out [[G]]
// OPT-NEXT: [[H:%.+]] = kiln.copy_wait [[F]], [[G]]
// OPT-NEXT: kiln.sgd {{%.+}}, [[H]], {{.*}} -> {{.*}}#kiln.memory<host>
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @microbatches(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %g = kiln.microbatches sliced(%x) count 2 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<4x4xf32>):
    %y = kiln.matmul %part, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %s = kiln.matmul %part, %y accumulate %sum trans_a : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %s : tensor<4x4xf32>
  }
  %w1 = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %w1 : tensor<4x4xf32>
  kiln.return
}

// -----

// If gradients are sums over micro-batches, updates are in the order in which a
// micro-batch completes the sums. At most two gradients are on the host at a time.
// OPT-LABEL: kiln.program @several
// OPT: [[G:%.+]]:3 = kiln.microbatches
// OPT: kiln.yield
// OPT-NEXT: }
// OPT-NEXT: [[FC:%.+]] = kiln.copy_out [[G]]#2
// OPT-NEXT: [[FB:%.+]] = kiln.copy_out [[G]]#1
// OPT-NEXT: [[HC:%.+]] = kiln.copy_wait [[FC]], [[G]]#2
// OPT-NEXT: kiln.sgd {{%.+}}, [[HC]],
// OPT-NEXT: kiln.copy_in
// OPT-NEXT: kiln.write @c,
// OPT-NEXT: [[FA:%.+]] = kiln.copy_out [[G]]#0
// OPT-NEXT: [[HB:%.+]] = kiln.copy_wait [[FB]], [[G]]#1
// OPT-NEXT: kiln.sgd {{%.+}}, [[HB]],
// OPT-NEXT: kiln.copy_in
// OPT-NEXT: kiln.write @b,
// OPT-NEXT: [[HA:%.+]] = kiln.copy_wait [[FA]], [[G]]#0
// OPT-NEXT: kiln.sgd {{%.+}}, [[HA]],
// PAR-LABEL: kiln.program @several
// BOTH-LABEL: kiln.program @several
// NONE-LABEL: kiln.program @several
kiln.state @a : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @several(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<4x4xf32>
  %b = kiln.read @b : tensor<4x4xf32>
  %c = kiln.read @c : tensor<4x4xf32>
  %g:3 = kiln.microbatches sliced(%x) count 2 : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%part: tensor<2x4xf32>, %p: tensor<4x4xf32>, %q: tensor<4x4xf32>, %r: tensor<4x4xf32>):
    %r1 = kiln.matmul %part, %part accumulate %r trans_a : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q1 = kiln.matmul %part, %part accumulate %q trans_a : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %p1 = kiln.matmul %part, %part accumulate %p trans_a : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %p1, %q1, %r1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %a1 = kiln.sgd %a, %g#0, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @a, %a1 : tensor<4x4xf32>
  %b1 = kiln.sgd %b, %g#1, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @b, %b1 : tensor<4x4xf32>
  %c1 = kiln.sgd %c, %g#2, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @c, %c1 : tensor<4x4xf32>
  kiln.return
}

// -----

// An update stays before the readers of its result.
// PAR-LABEL: kiln.program @read_result
// PAR: kiln.sgd
// PAR: kiln.relu
// OPT-LABEL: kiln.program @read_result
// BOTH-LABEL: kiln.program @read_result
// NONE-LABEL: kiln.program @read_result
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @read_result(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %g = kiln.microbatches sliced(%x) count 2 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<4x4xf32>):
    %s = kiln.matmul %part, %part accumulate %sum trans_a : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %s : tensor<4x4xf32>
  }
  %w1 = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %w1 : tensor<4x4xf32>
  %z = kiln.relu %w1 : tensor<4x4xf32>
  kiln.return %z : tensor<4x4xf32>
}

// -----

// A mirror leaves the names of the model alone.
// OPT: kiln.state @w.device : tensor<2x2xf32>
// OPT: kiln.state @[[MIRROR:w.device_[0-9]+]] : {{.*}}of = @w, role = #kiln.role<mirror>
// OPT-LABEL: kiln.program @train
// OPT: kiln.read @w.device : tensor<2x2xf32>
// OPT: kiln.read @[[MIRROR]] : tensor<4x4xf32>
// OPT: kiln.write @[[MIRROR]]
// PAR-LABEL: kiln.program @train
// BOTH-LABEL: kiln.program @train
// NONE-LABEL: kiln.program @train
kiln.state @w.device : tensor<2x2xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}, tensor<2x2xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<train>} {
  %z = kiln.read @w.device : tensor<2x2xf32>
  %w = kiln.read @w : tensor<4x4xf32>
  %y = kiln.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = kiln.matmul %x, %y trans_a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %w1 : tensor<4x4xf32>
  kiln.return %y, %z : tensor<4x4xf32>, tensor<2x2xf32>
}

// -----

// A buffer moves like a frozen parameter. Constants stay, and so does what a
// program writes.
// OPT-NOT: kiln.state {{.*}}host
// PAR: kiln.state @buffer : tensor<4xf32, #kiln.memory<host>>
// BOTH: kiln.state @buffer : tensor<4xf32, #kiln.memory<host>>
// CHECK: kiln.state @written : tensor<4xf32> {init
// CHECK: kiln.state @frozen : tensor<4xf32> {frozen, init
// CHECK: kiln.state @constant : tensor<4xf32> {init
// CHECK-NOT: kiln.copy
kiln.state @buffer : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @written : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @frozen : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.state @constant : tensor<4xf32> {role = #kiln.role<constant>, init = #kiln.splat<value = 0.0>}
kiln.program @writes(%x: tensor<4xf32> {kiln.name = "x"}) attributes {kind = #kiln.program_kind<train>} {
  %b = kiln.read @buffer : tensor<4xf32>
  %c = kiln.read @constant : tensor<4xf32>
  %f = kiln.read @frozen : tensor<4xf32>
  %y = kiln.add %b, %c : tensor<4xf32>
  %z = kiln.add %f, %x : tensor<4xf32>
  kiln.write @written, %y : tensor<4xf32>
  kiln.write @frozen, %z : tensor<4xf32>
  kiln.return
}

// -----

// Other readers of the result of an update on the host read a separate copy.
// CHECK-LABEL: kiln.program @returned
// OPT: [[P:%.+]] = kiln.sgd {{.*}} -> tensor<4x4xf32, #kiln.memory<host>>
// OPT-NEXT: kiln.copy_in [[P]]
// OPT-NEXT: [[F:%.+]] = kiln.copy_in [[P]]
// OPT-NEXT: [[D:%.+]] = kiln.copy_wait [[F]], [[P]]
// OPT-NEXT: kiln.write @w, [[P]] : tensor<4x4xf32, #kiln.memory<host>>
// OPT: kiln.return [[D]]
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @returned(%g: tensor<4x4xf32> {kiln.name = "g"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %p = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32>
  kiln.return %p : tensor<4x4xf32>
}
