// Every form of syntax an op has, beyond the example in its description (which
// examples.test parses), printed as it was written.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --emit-bytecode | kiln-opt | diff %t -

// CHECK: #layer = #kiln.layer<"h.3", 3>
// CHECK: module attributes {kiln.model = {batch = 2 : i64}}
module attributes {kiln.model = {batch = 2 : i64}} {
// CHECK: kiln.state @p : tensor<4x8xf32> {aliases = ["other.w"], frozen, init = #kiln.normal<mean = 0.000000e+00 : f64, stddev = 2.000000e-02 : f64>, role = #kiln.role<parameter>, source = "model.w"}
kiln.state @p : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>, source = "model.w", aliases = ["other.w"], frozen}
// CHECK: kiln.state @m : tensor<4x8xf64> {{.*}}of = @p, role = #kiln.role<optimizer>, slot = "m"
kiln.state @m : tensor<4x8xf64> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @p, slot = "m"}
// CHECK: kiln.state @b : tensor<f32> {{.*}}#kiln.uniform<low = -1.000000e+00 : f64, high = 1.000000e+00 : f64>, role = #kiln.role<buffer>
kiln.state @b : tensor<f32> {role = #kiln.role<buffer>, init = #kiln.uniform<low = -1.0, high = 1.0>}
// A frequency that six digits would change.
// CHECK: kiln.state @t : tensor<4x2xf32> {{.*}}#kiln.rope_table<sine = true, scale = 1.000000e+00 : f64, inv_freq = array<f64: 1.000000e+00, 0.12345678901234559>>, role = #kiln.role<constant>
kiln.state @t : tensor<4x2xf32> {role = #kiln.role<constant>, init = #kiln.rope_table<sine = true, scale = 1.0, inv_freq = array<f64: 1.0, 0.1234567890123456>>}

// CHECK-LABEL: kiln.program @names(
// CHECK-SAME: %{{.*}}: tensor<2x4xi32> {kiln.name = "tokens"}
// CHECK-SAME: -> (tensor<4x8xf32> {kiln.gradient = @p}, tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<train>}
kiln.program @names(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %x: tensor<4x8xf32>, %s: tensor<f64>)
    -> (tensor<4x8xf32> {kiln.gradient = @p}, tensor<f64> {kiln.name = "loss"})
    attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.read @p : tensor<4x8xf32>
  %p = kiln.read @p : tensor<4x8xf32>
  // CHECK: kiln.write @p, %{{.*}} : tensor<4x8xf32>
  kiln.write @p, %x : tensor<4x8xf32>
  // CHECK: kiln.return %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<f64>
  kiln.return %p, %s : tensor<4x8xf32>, tensor<f64>
}

// CHECK-LABEL: kiln.program @kinds
// CHECK: kiln.return{{$}}
kiln.program @kinds() attributes {kind = #kiln.program_kind<evaluate>} {
  kiln.return
}

// CHECK-LABEL: kiln.program @elementwise
kiln.program @elementwise(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: kiln.gelu [[X:%.+]] : tensor<4x8xf32>
  %0 = kiln.gelu %x : tensor<4x8xf32>
  // CHECK: kiln.gelu [[X]] tanh : tensor<4x8xf32>
  %1 = kiln.gelu %x tanh : tensor<4x8xf32>
  // CHECK: kiln.gelu_grad [[X]], [[X]] : tensor<4x8xf32>
  %2 = kiln.gelu_grad %x, %x : tensor<4x8xf32>
  // CHECK: kiln.gelu_grad [[X]], [[X]] tanh : tensor<4x8xf32>
  %3 = kiln.gelu_grad %x, %x tanh : tensor<4x8xf32>
  // CHECK: kiln.softplus [[X]] : tensor<4x8xf32>
  %s = kiln.softplus %x : tensor<4x8xf32>
  // CHECK: kiln.cumsum [[X]] : tensor<4x8xf32>
  %c = kiln.cumsum %x : tensor<4x8xf32>
  // CHECK: kiln.cumsum [[X]] reverse : tensor<4x8xf32>
  %r = kiln.cumsum %x reverse : tensor<4x8xf32>
  // CHECK: kiln.scale [[X]] by 1.000000e-01 : tensor<4x8xf32>
  %4 = kiln.scale %x by 0.1 : tensor<4x8xf32>
  // CHECK: kiln.constant dense<5.000000e-01> : tensor<f64> -> tensor<f64>
  %5 = kiln.constant dense<0.5> : tensor<f64> -> tensor<f64>
  // CHECK: kiln.cast [[X]] : tensor<4x8xf32> to tensor<4x8xf64>
  %6 = kiln.cast %x : tensor<4x8xf32> to tensor<4x8xf64>
  // CHECK: kiln.add %{{.*}}, %{{.*}} : tensor<4x8xf64>
  %7 = kiln.add %6, %6 : tensor<4x8xf64>
  kiln.return
}

// CHECK-LABEL: kiln.program @optional_operands
kiln.program @optional_operands(%x: tensor<4x8xf32>, %c: tensor<8xf32>, %r: tensor<4xf32>, %s: tensor<f64>, %t: tensor<4xi32>,
    %rng: tensor<1x3xi64>, %lse: tensor<1x4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: kiln.normalize %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  %0 = kiln.normalize %x, %r : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  // CHECK: kiln.affine %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = kiln.affine %x, %c : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: kiln.softmax_cross_entropy %{{.*}} -> tensor<4xf32>
  %2 = kiln.softmax_cross_entropy %x, %t, %s : (tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> tensor<4xf32>
  // CHECK: kiln.linear_cross_entropy {{.*}} {rows = 2 : i64}
  %3 = kiln.linear_cross_entropy %x, %x, %t, %s {rows = 2 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> tensor<f64>
  // CHECK: kiln.embedding_grad %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4xi32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = kiln.embedding_grad %t, %x, %x : (tensor<4xi32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kiln.embedding %{{.*}}, %{{.*}} {padding_index = 3 : i64} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %padded = kiln.embedding %t, %x {padding_index = 3} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kiln.embedding_grad %{{.*}}, %{{.*}} {padding_index = 0 : i64} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dpadded = kiln.embedding_grad %t, %x {padding_index = 0} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kiln.reduce_combine %{{.*}} accumulate %{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = kiln.reduce_combine %x accumulate %c : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: kiln.attention {{.*}} rng %{{.*}} causal {heads = 2 : i64, key = 3 : i64, kv_heads = 2 : i64, kv_tile = 64 : i64, p = 1.000000e-01 : f64
  %o, %l = kiln.attention %x, %x, %x rng %rng causal {sequences = 1, heads = 2, kv_heads = 2, scale = 0.5, p = 0.1, key = 3, kv_tile = 64}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x3xi64>) -> (tensor<4x8xf32>, tensor<2x4xf32>)
  // CHECK: kiln.attention_grad {{.*}} rng %{{.*}} {heads = 2 : i64
  %6:3 = kiln.attention_grad %x, %x, %x, %o, %l, %x rng %rng {sequences = 1, heads = 2, kv_heads = 2, scale = 0.5, p = 0.1}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<2x4xf32>, tensor<4x8xf32>, tensor<1x3xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  kiln.return
}

// CHECK-LABEL: kiln.program @matmul
kiln.program @matmul(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>, %d: tensor<2x3x5xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %0 = kiln.matmul %a, %b : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} accumulate %{{.*}} trans_b {grid = array<i64: 1, 2>}
  %1 = kiln.matmul %a, %a accumulate %c trans_b {grid = array<i64: 1, 2>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} trans_a trans_b : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %2 = kiln.matmul %a, %b trans_a trans_b : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} trans_a : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x5x5xf32>
  %3 = kiln.matmul %d, %d trans_a : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x5x5xf32>
  kiln.return
}

// CHECK-LABEL: kiln.program @shapes
kiln.program @shapes(%x: tensor<4x8xf32>, %s: tensor<f32>, %t: tensor<4x2xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: kiln.broadcast %{{.*}} dims [] : tensor<f32> to tensor<2x3xf32>
  %0 = kiln.broadcast %s dims [] : tensor<f32> to tensor<2x3xf32>
  // CHECK: kiln.reduce mean %{{.*}} dims [0, 1] : tensor<4x8xf32> to tensor<f32>
  %1 = kiln.reduce mean %x dims [0, 1] : tensor<4x8xf32> to tensor<f32>
  // CHECK: kiln.reduce max %{{.*}} dims [1] : tensor<4x8xf32> to tensor<4xf32>
  %2 = kiln.reduce max %x dims [1] : tensor<4x8xf32> to tensor<4xf32>
  // CHECK: kiln.reshape %{{.*}} : tensor<4x2xi32> to tensor<8xi32>
  %3 = kiln.reshape %t : tensor<4x2xi32> to tensor<8xi32>
  // CHECK: kiln.slice %{{.*}} [3, 0] : tensor<4x2xi32> to tensor<1x2xi32>
  %4 = kiln.slice %t [3, 0] : tensor<4x2xi32> to tensor<1x2xi32>
  // CHECK: kiln.concat %{{.*}}, %{{.*}}, %{{.*}} dim 0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
  %5 = kiln.concat %x, %x, %x dim 0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
  kiln.return
}

// CHECK-LABEL: kiln.program @regions
kiln.program @regions(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.phase backward
  kiln.phase backward
  // CHECK: kiln.microbatches sliced(%{{.*}}) count 4 : (tensor<4x8xf32>) -> (tensor<1x8xf32>, tensor<f64>) {
  %0:2 = kiln.microbatches sliced(%x) count 4 : (tensor<4x8xf32>) -> (tensor<1x8xf32>, tensor<f64>) {
  // CHECK: ^bb0(%{{.*}}: tensor<1x8xf32>, %{{.*}}: tensor<1x8xf32>, %{{.*}}: tensor<f64>):
  ^bb0(%part: tensor<1x8xf32>, %sum: tensor<1x8xf32>, %loss: tensor<f64>):
    %1 = kiln.add %sum, %part : tensor<1x8xf32>
    // CHECK: kiln.yield %{{.*}}, %{{.*}} : tensor<1x8xf32>, tensor<f64>
    kiln.yield %1, %loss : tensor<1x8xf32>, tensor<f64>
  }
  // CHECK: kiln.microbatches sliced(%{{.*}}) count 2 order <"F1 F0 B0 B1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  %8 = kiln.microbatches sliced(%x) count 2 order <"F1 F0 B0 B1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  // CHECK-NEXT: ^bb0([[PART:%.+]]: tensor<2x8xf32>):
  ^bb0(%part: tensor<2x8xf32>):
    // CHECK-NEXT: [[H:%.+]] = kiln.relu [[PART]] : tensor<2x8xf32>
    %h = kiln.relu %part : tensor<2x8xf32>
    // CHECK-NEXT: [[D:%.+]] = kiln.cast [[PART]] : tensor<2x8xf32> to tensor<2x8xbf16>
    %d = kiln.cast %part : tensor<2x8xf32> to tensor<2x8xbf16>
    // CHECK-NEXT: kiln.yield [[H]], [[D]] : tensor<2x8xf32>, tensor<2x8xbf16>
    kiln.yield %h, %d : tensor<2x8xf32>, tensor<2x8xbf16>
  // CHECK-NEXT: } backward {
  } backward {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<2x8xf32>, [[H:%.+]]: tensor<2x8xf32>, %{{.*}}: tensor<2x8xbf16>, [[SUM:%.+]]: tensor<2x8xf32>):
  ^bb0(%part: tensor<2x8xf32>, %h: tensor<2x8xf32>, %d: tensor<2x8xbf16>, %sum: tensor<2x8xf32>):
    // CHECK-NEXT: [[NEW:%.+]] = kiln.add [[SUM]], [[H]] : tensor<2x8xf32>
    %new = kiln.add %sum, %h : tensor<2x8xf32>
    // CHECK-NEXT: kiln.yield [[NEW]] : tensor<2x8xf32>
    kiln.yield %new : tensor<2x8xf32>
  }
  // A step without sums has segments without sum arguments.
  // CHECK: kiln.microbatches sliced(%{{.*}}) count 1 : (tensor<4x8xf32>) -> () forward {
  kiln.microbatches sliced(%x) count 1 : (tensor<4x8xf32>) -> () forward {
  ^bb0(%part: tensor<4x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%part: tensor<4x8xf32>):
    kiln.yield
  }
  // CHECK: kiln.dispatch row() space [1, 1] : () -> tensor<1xf32> {
  %2 = kiln.dispatch row() space [1, 1] : () -> tensor<1xf32> {
    %3 = kiln.constant dense<1.0> : tensor<1xf32> -> tensor<1xf32>
    kiln.yield %3 : tensor<1xf32>
  }
  // CHECK: kiln.dispatch permute(%{{.*}}) : (tensor<4x8xf32>) -> tensor<8x4xf32> {
  %4 = kiln.dispatch permute(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %5 = kiln.transpose %a [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
    kiln.yield %5 : tensor<8x4xf32>
  }
  // CHECK: kiln.recompute() : () -> tensor<1xf32> {
  %6 = kiln.recompute() : () -> tensor<1xf32> {
    %7 = kiln.constant dense<1.0> : tensor<1xf32> -> tensor<1xf32>
    kiln.yield %7 : tensor<1xf32>
  }
  kiln.return
}

// CHECK-LABEL: kiln.program @optimizers
kiln.program @optimizers(%p: tensor<4xf32>, %s: tensor<f64>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.adam {{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{.*}} : f64, eps = 1.000000e-08 : f64, weight_decay = 0.000000e+00 : f64}
  %0:3 = kiln.adam %p, %p, %p, %p, %s, %s, %n {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: kiln.momentum {{.*}} nesterov {mu = 9.000000e-01 : f64, weight_decay = 1.000000e-01 : f64}
  %1:2 = kiln.momentum %p, %p, %p, %s, %s nesterov {mu = 0.9, weight_decay = 0.1} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>)
  kiln.return
}

// CHECK: kiln.state @far : tensor<4xf32, #kiln.memory<host>> {init = #kiln.splat<value = 0.000000e+00 : f64>, role = #kiln.role<parameter>}
kiln.state @far : tensor<4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK: kiln.state @far.device : tensor<4xf32> {init = {{.*}}, of = @far, role = #kiln.role<mirror>}
kiln.state @far.device : tensor<4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @far}

// CHECK-LABEL: kiln.program @copies
kiln.program @copies(%g: tensor<4xf32>, %s: tensor<f64>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: [[X:%.+]] = kiln.relu %{{.*}} {kiln.offload = array<i64: 0, 6, 4>} : tensor<4xf32>
  %x = kiln.relu %g {kiln.offload = array<i64: 0, 6, 4>} : tensor<4xf32>
  // CHECK: kiln.relu %{{.*}} {kiln.layer = #layer} : tensor<4xf32>
  %layered = kiln.relu %g {kiln.layer = #kiln.layer<"h.3", 3>} : tensor<4xf32>
  // CHECK: kiln.read @far {kiln.prefetch = array<i64: 2, 3>} : tensor<4xf32>{{$}}
  %near = kiln.read @far {kiln.prefetch = array<i64: 2, 3>} : tensor<4xf32>
  // CHECK: [[P:%.+]] = kiln.read @far : tensor<4xf32, #kiln.memory<host>>
  %p = kiln.read @far : tensor<4xf32, #kiln.memory<host>>
  // CHECK: [[OUT:%.+]] = kiln.copy_out [[X]] : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %out = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  // CHECK: [[IN:%.+]] = kiln.copy_in [[P]] : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>
  %in = kiln.copy_in %p : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>
  // CHECK: [[H:%.+]] = kiln.copy_wait [[OUT]], [[X]] : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %out, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>
  // CHECK: kiln.copy_wait [[IN]], [[P]] : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>
  %d = kiln.copy_wait %in, %p : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>
  // CHECK: kiln.adam [[P]], [[P]], [[P]], [[H]], {{.*}}eps = 1.000000e-08 : f64, weight_decay = 0.000000e+00 : f64} : (tensor<4xf32, #kiln.memory<host>>, {{.*}} tensor<f64>, tensor<i64>) -> (tensor<4xf32, #kiln.memory<host>>,
  %0:3 = kiln.adam %p, %p, %p, %h, %s, %s, %n {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0}
      : (tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>)
  // CHECK: kiln.momentum {{.*}} -> (tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>)
  %1:2 = kiln.momentum %p, %p, %h, %s, %s {mu = 0.9, weight_decay = 0.1} : (tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> (tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>)
  // CHECK: kiln.sgd {{.*}} -> tensor<4xf32, #kiln.memory<host>>
  %2 = kiln.sgd %p, %h, %s, %s {weight_decay = 0.1} : (tensor<4xf32, #kiln.memory<host>>, tensor<4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4xf32, #kiln.memory<host>>
  // CHECK: kiln.dispatch row({{.*}}) space [1, 4] : (tensor<4xf32, #kiln.memory<host>>) -> tensor<4xf32, #kiln.memory<host>> {
  %3 = kiln.dispatch row(%2) space [1, 4] : (tensor<4xf32, #kiln.memory<host>>) -> tensor<4xf32, #kiln.memory<host>> {
  ^bb0(%a: tensor<4xf32, #kiln.memory<host>>):
    %4 = kiln.relu %a : tensor<4xf32, #kiln.memory<host>>
    kiln.yield %4 : tensor<4xf32, #kiln.memory<host>>
  }
  kiln.return
}
}
