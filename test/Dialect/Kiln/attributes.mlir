// The syntax of every attribute of every op. The script reports missing attributes.

// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: %python %S/Inputs/attributes_shown.py %s %kiln_src/docs/reference/kiln-dialect.md %kiln_src/docs/reference/kiln-vendor-ops.md

// CHECK: kiln.state @w : tensor<4x8xf32> {aliases = ["v"], copies = ["head.w"], frozen, init = #kiln.normal<mean = 0.000000e+00 : f64, stddev = 2.000000e-02 : f64>, role = #kiln.role<parameter>, source = "layer.w"}
kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>, source = "layer.w", aliases = ["v"], copies = ["head.w"], frozen}
// CHECK: kiln.state @w.m : tensor<4x8xf32> {init = #kiln.splat<value = 0.000000e+00 : f64>, of = @w, role = #kiln.role<optimizer>, slot = "m"}
kiln.state @w.m : tensor<4x8xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @w, slot = "m"}

// CHECK: kiln.program @states(%{{.*}}: tensor<4x8xf32> {kiln.name = "x"}) -> (tensor<4x8xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>}
kiln.program @states(%x: tensor<4x8xf32> {kiln.name = "x"}) -> (tensor<4x8xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.read @w : tensor<4x8xf32>
  %w = kiln.read @w : tensor<4x8xf32>
  // CHECK: kiln.write @w.m, %{{.*}} : tensor<4x8xf32>
  kiln.write @w.m, %x : tensor<4x8xf32>
  kiln.return %w : tensor<4x8xf32>
}

// Attributes that describe an arrangement of elements are in the syntax of the op.

// CHECK: kiln.program @shapes
kiln.program @shapes(%x: tensor<4x8xf32>, %c: tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.constant dense<1.000000e+00> : tensor<8xf32> -> tensor<8xf32>
  %0 = kiln.constant dense<1.0> : tensor<8xf32> -> tensor<8xf32>
  // CHECK: kiln.scale %{{.*}} by 5.000000e-01 : tensor<4x8xf32>
  %1 = kiln.scale %x by 5.0e-01 : tensor<4x8xf32>
  // CHECK: kiln.broadcast %{{.*}} dims [1] : tensor<8xf32> to tensor<4x8xf32>
  %2 = kiln.broadcast %c dims [1] : tensor<8xf32> to tensor<4x8xf32>
  // CHECK: kiln.reduce max %{{.*}} dims [0] : tensor<4x8xf32> to tensor<8xf32>
  %3 = kiln.reduce max %x dims [0] : tensor<4x8xf32> to tensor<8xf32>
  // CHECK: kiln.reduce_partial %{{.*}} chunk 2 : tensor<4x8xf32> to tensor<2x8xf32>
  %4 = kiln.reduce_partial %x chunk 2 : tensor<4x8xf32> to tensor<2x8xf32>
  // CHECK: kiln.transpose %{{.*}} [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  %5 = kiln.transpose %x [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  // CHECK: kiln.slice %{{.*}} [0, 2] : tensor<4x8xf32> to tensor<4x2xf32>
  %6 = kiln.slice %x [0, 2] : tensor<4x8xf32> to tensor<4x2xf32>
  // CHECK: kiln.concat %{{.*}}, %{{.*}} dim 1 : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<4x10xf32>
  %7 = kiln.concat %x, %6 dim 1 : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<4x10xf32>
  // CHECK: kiln.pad %{{.*}} low [1, 0] : tensor<4x8xf32> to tensor<6x8xf32>
  %8 = kiln.pad %x low [1, 0] : tensor<4x8xf32> to tensor<6x8xf32>
  // CHECK: kiln.microbatches sliced(%{{.*}}) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  %9 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%part: tensor<2x8xf32>, %sum: tensor<2x8xf32>):
    %n = kiln.add %sum, %part : tensor<2x8xf32>
    kiln.yield %n : tensor<2x8xf32>
  }
  // CHECK: kiln.microbatches sliced(%{{.*}}) count 2 order <"one-forward-one-backward:2"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  %14 = kiln.microbatches sliced(%x) count 2 order <"one-forward-one-backward:2"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%part: tensor<2x8xf32>, %sum: tensor<2x8xf32>):
    %n = kiln.add %sum, %part : tensor<2x8xf32>
    kiln.yield %n : tensor<2x8xf32>
  }
  // CHECK: kiln.dispatch row(%{{.*}}) space [4, 8] : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  %10 = kiln.dispatch row(%x) space [4, 8] : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    // CHECK: kiln.gelu %{{.*}} tanh : tensor<4x8xf32>
    %b = kiln.gelu %a tanh : tensor<4x8xf32>
    // CHECK: kiln.gelu_grad %{{.*}}, %{{.*}} tanh : tensor<4x8xf32>
    %d = kiln.gelu_grad %a, %b tanh : tensor<4x8xf32>
    kiln.yield %d : tensor<4x8xf32>
  }
  kiln.return
}

// CHECK: kiln.program @matrices
kiln.program @matrices(%x: tensor<4x8xf32>, %c: tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} trans_a {grid = array<i64: 1, 1>} :
  %0 = kiln.matmul %x, %x trans_a {grid = array<i64: 1, 1>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} trans_b :
  %1 = kiln.matmul %x, %x trans_b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  // CHECK: kiln.linear %{{.*}}, %{{.*}}, %{{.*}} trans_a {grid = array<i64: 1, 1>} :
  %2 = kiln.linear %x, %x, %c trans_a {grid = array<i64: 1, 1>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.linear %{{.*}}, %{{.*}}, %{{.*}} trans_b :
  %3 = kiln.linear %2, %2, %c trans_b : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.linear_gelu %{{.*}}, %{{.*}}, %{{.*}} trans_a trans_b {grid = array<i64: 1, 1>} :
  %4:2 = kiln.linear_gelu %2, %2, %c trans_a trans_b {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  // CHECK: kiln.matmul_gelu_grad %{{.*}}, %{{.*}}, %{{.*}} trans_a trans_b {grid = array<i64: 1, 1>} :
  %5 = kiln.matmul_gelu_grad %2, %2, %4#1 trans_a trans_b {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.matmul_bias_grad %{{.*}}, %{{.*}} trans_a trans_b of_a {grid = array<i64: 1, 1>} :
  %6:2 = kiln.matmul_bias_grad %2, %2 trans_a trans_b of_a {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  kiln.return
}

// Options of ops and attributes that passes set are in the dictionary.

// CHECK: kiln.program @options
kiln.program @options(%x: tensor<8x8xf32>, %k: tensor<8x4xf32>, %c: tensor<8xf32>, %tokens: tensor<2x4xi32>, %table: tensor<4x4xf32>, %scale: tensor<f64>, %rng: tensor<1x3xi64>, %row_rank: tensor<i32>, %step: tensor<i64>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.layer_norm {{.*}} {eps = 1.000000e-05 : f64}
  %0:3 = kiln.layer_norm %x, %c, %c {eps = 1.0e-05} : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: kiln.rms_norm {{.*}} {eps = 1.000000e-05 : f64}
  %1:2 = kiln.rms_norm %x, %c {eps = 1.0e-05} : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  // CHECK: kiln.dropout {{.*}} {key = 3 : i64, p = 1.000000e-01 : f64, sequences = 2 : i64}
  %2 = kiln.dropout %x, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
  // CHECK: kiln.dropout {{.*}} {key = 3 : i64, length = 7 : i64, p = 1.000000e-01 : f64, sequences = 2 : i64}
  %part = kiln.dropout %x, %rng, %row_rank {p = 1.0e-01, key = 3, sequences = 2, length = 7} : (tensor<8x8xf32>, tensor<1x3xi64>, tensor<i32>) -> tensor<8x8xf32>
  // CHECK: kiln.embedding {{.*}} {padding_index = 5 : i64}
  %3 = kiln.embedding %tokens, %x {padding_index = 5} : (tensor<2x4xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.embedding_grad {{.*}} {padding_index = 5 : i64}
  %4 = kiln.embedding_grad %tokens, %x {padding_index = 5} : (tensor<2x4xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.rope {{.*}} inverse {heads = 1 : i64, sequences = 2 : i64}
  %5 = kiln.rope %x, %table, %table inverse {heads = 1, sequences = 2} : (tensor<8x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.attention {{.*}} rng %{{.*}} causal {heads = 2 : i64, key = 4 : i64, kv_heads = 1 : i64, kv_tile = 64 : i64, p = 1.000000e-01 : f64, scale = 5.000000e-01 : f64, sequences = 2 : i64}
  %6:2 = kiln.attention %x, %k, %k rng %rng causal {sequences = 2, heads = 2, kv_heads = 1, scale = 5.0e-01, p = 0.1, key = 4, kv_tile = 64} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<1x3xi64>) -> (tensor<8x8xf32>, tensor<4x4xf32>)
  // CHECK: kiln.attention_grad {{.*}} rng %{{.*}} causal {heads = 2 : i64, key = 4 : i64, kv_heads = 1 : i64, kv_tile = 64 : i64, p = 1.000000e-01 : f64, scale = 5.000000e-01 : f64, sequences = 2 : i64}
  %7:3 = kiln.attention_grad %x, %k, %k, %6#0, %6#1, %x rng %rng causal {sequences = 2, heads = 2, kv_heads = 1, scale = 5.0e-01, p = 0.1, key = 4, kv_tile = 64} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<4x4xf32>, tensor<8x8xf32>, tensor<1x3xi64>) -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
  // CHECK: kiln.linear_cross_entropy {{.*}} {rows = 4 : i64}
  %8 = kiln.linear_cross_entropy %x, %x, %tokens, %scale {rows = 4} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  // CHECK: kiln.linear_cross_entropy_with_grad {{.*}} {rows = 4 : i64}
  %9:3 = kiln.linear_cross_entropy_with_grad %x, %x, %tokens, %scale {rows = 4} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x4xi32>, tensor<f64>) -> (tensor<f64>, tensor<8x8xf32>, tensor<8x8xf32>)
  // CHECK: kiln.bucket_encode {{.*}} {borders = array<f64: -1.000000e+00, 0.000000e+00, 1.000000e+00>}
  %10 = kiln.bucket_encode %x {borders = array<f64: -1.0, 0.0, 1.0>} : (tensor<8x8xf32>) -> tensor<16xi8>
  // CHECK: kiln.bucket_decode {{.*}} {levels = array<f64: 0.000000e+00, 2.500000e-01, 7.500000e-01, 1.000000e+00>}
  %11 = kiln.bucket_decode %10, %x {levels = array<f64: 0.0, 0.25, 0.75, 1.0>} : (tensor<16xi8>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: kiln.sketch_rows {{.*}} {key = 3 : i64, sequences = 2 : i64}
  %12 = kiln.sketch_rows %x, %rng {key = 3, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<4x8xf32>
  // CHECK: kiln.block_scales {{.*}} {bits = 4 : i64}
  %18 = kiln.block_scales %x {bits = 4} : (tensor<8x8xf32>) -> tensor<2xf32>
  // CHECK: kiln.dither {{.*}} {key = 4 : i64}
  %19 = kiln.dither %x, %18, %rng {key = 4} : (tensor<8x8xf32>, tensor<2xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
  // CHECK: kiln.adam {{.*}} decoupled {beta1 = 9.000000e-01 : f64, beta2 = 7.500000e-01 : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-01 : f64}
  %13:3 = kiln.adam %x, %x, %x, %x, %scale, %scale, %step decoupled {beta1 = 9.0e-01, beta2 = 7.5e-01, eps = 1.0e-08, weight_decay = 1.0e-01} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
  // CHECK: kiln.sgd {{.*}} {weight_decay = 1.000000e-01 : f64}
  %14 = kiln.sgd %x, %x, %scale, %scale {weight_decay = 1.0e-01} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<f64>, tensor<f64>) -> tensor<8x8xf32>
  // CHECK: kiln.momentum {{.*}} nesterov {mu = 9.000000e-01 : f64, weight_decay = 1.000000e-01 : f64}
  %15:2 = kiln.momentum %x, %x, %x, %scale, %scale nesterov {mu = 9.0e-01, weight_decay = 1.0e-01} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<f64>, tensor<f64>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  // CHECK: kiln.cumsum %{{.*}} reverse : tensor<8x8xf32>
  %17 = kiln.cumsum %x reverse : tensor<8x8xf32>
  // CHECK: kiln.lion {{.*}} {beta1 = 9.000000e-01 : f64, beta2 = 5.000000e-01 : f64, weight_decay = 1.000000e-01 : f64}
  %16:2 = kiln.lion %x, %x, %x, %scale, %scale {beta1 = 9.0e-01, beta2 = 5.0e-01, weight_decay = 1.0e-01} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<f64>, tensor<f64>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  kiln.return
}

// CHECK: kiln.program @gathers() attributes {kiln.gather_height = 4096 : i64, kind = #kiln.program_kind<train>}
kiln.program @gathers() attributes {kiln.gather_height = 4096 : i64, kind = #kiln.program_kind<train>} {
  kiln.return
}

// CHECK: kiln.program @limited() attributes {kiln.arena_search = array<i64: 4096, 1000>, kind = #kiln.program_kind<train>}
kiln.program @limited() attributes {kiln.arena_search = array<i64: 4096, 1000>, kind = #kiln.program_kind<train>} {
  kiln.return
}

// Outside of kiln.microbatches, an order is printed with its mnemonic.
// CHECK: module attributes {user.orders = [#kiln.order<"alternate">, #kiln.order<"all-forward-first">, #kiln.order<"F0 F1 B1 B0">]}
module attributes {user.orders = [#kiln.order<"alternate">, #kiln.order<"all-forward-first">, #kiln.order<"F0 F1 B1 B0">]} {
}

// The factors of low-rank adapters.

// CHECK: module attributes {kiln.lora = "r=2"}
module attributes {kiln.lora = "r=2"} {
// CHECK: kiln.state @up.a : tensor<2x4xf32> {adapter = #kiln.adapter<a of @up, transposed = true>, init
kiln.state @up.a : tensor<2x4xf32> {adapter = #kiln.adapter<a of @up, transposed = true>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK: kiln.state @up.b : tensor<8x2xf32> {adapter = #kiln.adapter<b of @up, transposed = true>, init
kiln.state @up.b : tensor<8x2xf32> {adapter = #kiln.adapter<b of @up, transposed = true>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @up : tensor<4x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

// Quantized weights, and the kernel of a GEMM.

// CHECK: kiln.state @codes : tensor<44xi8> {frozen, init = #kiln.normal<mean = 0.000000e+00 : f64, stddev = 2.000000e-02 : f64>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>, role = #kiln.role<parameter>}
kiln.state @codes : tensor<44xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>}
// CHECK: kiln.state @values : tensor<272xf32> {init = #kiln.nf4_table, role = #kiln.role<constant>}
kiln.state @values : tensor<272xf32> {role = #kiln.role<constant>, init = #kiln.nf4_table}
// CHECK: kiln.state @bytes : tensor<68xi8> {frozen, {{.+}}, quantized = #kiln.quantized<int8, tensor<8x8xf32>, block = 64>, role
kiln.state @bytes : tensor<68xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<int8, tensor<8x8xf32>, block = 64>}
// CHECK: kiln.state @outliers : tensor<136xi8> {frozen, {{.+}}, quantized = #kiln.quantized<int8, tensor<8x8xbf16>, block = 8, outliers = 2, inputs = 1>, role
kiln.state @outliers : tensor<136xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<int8, tensor<8x8xbf16>, block = 8, outliers = 2, inputs = 1>}
// CHECK: kiln.program @quantized
kiln.program @quantized(%x: tensor<4x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  %c = kiln.read @codes : tensor<44xi8>
  %t = kiln.read @values : tensor<272xf32>
  // CHECK: kiln.dequantize %{{.*}}, %{{.*}} {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<272xf32>) -> tensor<8x8xbf16>
  %w = kiln.dequantize %c, %t {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<272xf32>) -> tensor<8x8xbf16>
  %o = kiln.read @outliers : tensor<136xi8>
  // CHECK: kiln.dequantize %{{[^,]*}} {encoding = #kiln.quantized<int8, tensor<8x8xbf16>, block = 8, outliers = 2, inputs = 1>} : (tensor<136xi8>) -> tensor<8x8xf32>
  %u = kiln.dequantize %o {encoding = #kiln.quantized<int8, tensor<8x8xbf16>, block = 8, outliers = 2, inputs = 1>} : (tensor<136xi8>) -> tensor<8x8xf32>
  // CHECK: kiln.matmul %{{.*}}, %{{.*}} {grid = array<i64: 1, 1>, kernel = "avx512"}
  %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>, kernel = "avx512"} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  kiln.return
}

// Optimizer states that are 8-bit codes.

// CHECK: kiln.program @encoded
kiln.program @encoded(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<1xf32>, %v: tensor<2x128xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.encoded_update(%{{.*}}) stores [#kiln.moment_storage<signed>, #kiln.moment_storage<plain>] :
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: kiln.adam
  // CHECK-NEXT: kiln.yield
  %u:4 = kiln.encoded_update(%p, %c, %s, %v, %g, %r, %r, %n) stores [#kiln.moment_storage<signed>, #kiln.moment_storage<plain>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>) {
  ^bb0(%p0: tensor<2x128xf32>, %m0: tensor<2x128xf32>, %v0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>, %n0: tensor<i64>):
    %q:3 = kiln.adam %p0, %m0, %v0, %g0, %f0, %r0, %n0 {beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>)
    kiln.yield %q#0, %q#1, %q#2 : tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>
  }
  // The unsigned map.
  // CHECK: kiln.encoded_update({{.*}} stores [#kiln.moment_storage<unsigned>]
  %w:3 = kiln.encoded_update(%p, %c, %s, %g, %r, %r) stores [#kiln.moment_storage<unsigned>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>)
    kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  kiln.return
}

// Collectives name an axis of the mesh.

module attributes {kiln.mesh = {dp = 2 : i64, tp = 2 : i64}} {
// CHECK: kiln.state @owned : tensor<4xf32> {{{.*}}shard = #kiln.shard<tensor<4xf32> over "dp" owner = 1>}
kiln.state @owned : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4xf32> over "dp" owner = 1>}
// CHECK: kiln.state @divided : tensor<2xf32> {{{.*}}shard = #kiln.shard<tensor<4xf32> over "dp">}
kiln.state @divided : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4xf32> over "dp">}
kiln.program @ranks(%h: tensor<8x6xf32>, %targets: tensor<8xi32>, %scale: tensor<f64>, %rank: tensor<i32>, %x: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // CHECK: kiln.all_reduce %{{.*}} over "dp" : tensor<4xf32>
  %0 = kiln.all_reduce %x over "dp" : tensor<4xf32>
  // CHECK: [[T:%.+]] = kiln.collective_start all_reduce %{{.*}} over "dp" : tensor<4xf32> -> tensor<4xf32>
  %1 = kiln.collective_start all_reduce %x over "dp" : tensor<4xf32> -> tensor<4xf32>
  // CHECK: kiln.collective_wait [[T]] : tensor<4xf32>
  %2 = kiln.collective_wait %1 : tensor<4xf32>
  // CHECK: kiln.reduce_scatter %{{.*}} over "dp" : tensor<4xf32> -> tensor<2xf32>
  %3 = kiln.reduce_scatter %x over "dp" : tensor<4xf32> -> tensor<2xf32>
  // CHECK: kiln.all_gather %{{.*}} over "dp" : tensor<2xf32> -> tensor<4xf32>
  %4 = kiln.all_gather %3 over "dp" : tensor<2xf32> -> tensor<4xf32>
  // CHECK: kiln.reduce_scatter %{{.*}} over "dp" owners [1] : tensor<4xf32> -> tensor<4xf32>
  %owned = kiln.reduce_scatter %x over "dp" owners [1] : tensor<4xf32> -> tensor<4xf32>
  // CHECK: kiln.all_gather %{{.*}} over "dp" owners [1] : tensor<4xf32> -> tensor<4xf32>
  %given = kiln.all_gather %owned over "dp" owners [1] : tensor<4xf32> -> tensor<4xf32>
  // CHECK: kiln.collective_start all_gather %{{.*}} over "dp" owners [1] : tensor<4xf32> -> tensor<4xf32>
  %token = kiln.collective_start all_gather %owned over "dp" owners [1] : tensor<4xf32> -> tensor<4xf32>
  %waited = kiln.collective_wait %token : tensor<4xf32>
  // CHECK: kiln.take_shard %{{.*}} over "dp" owner 1 : tensor<4xf32> -> tensor<4xf32>
  %taken = kiln.take_shard %x over "dp" owner 1 : tensor<4xf32> -> tensor<4xf32>
  // CHECK: kiln.take_shard %{{.*}} over "dp" : tensor<4xf32> -> tensor<2xf32>
  %5 = kiln.take_shard %x over "dp" : tensor<4xf32> -> tensor<2xf32>
  // CHECK: kiln.share %{{.*}} over "tp" : tensor<8x6xf32>
  %t0 = kiln.share %h over "tp" : tensor<8x6xf32>
  // CHECK: kiln.shard_rows {{.*}} {padding_index = 3 : i64, rows = 5 : i64}
  %t1 = kiln.shard_rows %targets, %rank {rows = 5, padding_index = 3} : (tensor<8xi32>, tensor<i32>) -> tensor<8xi32>
  // CHECK: kiln.shard_positions %{{.*}} {period = 4 : i64} : (tensor<i32>) -> tensor<6xi32>
  %positions = kiln.shard_positions %rank {period = 4} : (tensor<i32>) -> tensor<6xi32>
  // CHECK: kiln.shard_softmax {{.*}} {classes = 9 : i64}
  %t2:2 = kiln.shard_softmax %h, %targets, %rank {classes = 9} : (tensor<8x6xf32>, tensor<8xi32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: kiln.shard_cross_entropy {{.*}} {classes = 9 : i64}
  %t3 = kiln.shard_cross_entropy %h, %targets, %rank, %t2#0, %t2#1, %scale {classes = 9} : (tensor<8x6xf32>, tensor<8xi32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>) -> tensor<8xf32>
  // CHECK: kiln.linear_cross_entropy {{.*}} rank %{{.*}} {classes = 15 : i64}
  %t4 = kiln.linear_cross_entropy %h, %h, %targets, %scale rank %rank {classes = 15} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8xi32>, tensor<f64>, tensor<i32>) -> tensor<f64>
  // CHECK: kiln.linear_cross_entropy_with_grad {{.*}} rank %{{.*}} {classes = 15 : i64}
  %t5:3 = kiln.linear_cross_entropy_with_grad %h, %h, %targets, %scale rank %rank {classes = 15} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8xi32>, tensor<f64>, tensor<i32>) -> (tensor<f64>, tensor<8x6xf32>, tensor<8x6xf32>)
  kiln.return
}
}
