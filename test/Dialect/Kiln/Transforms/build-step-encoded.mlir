// Optimizer states of large parameters that are no tables become 8-bit codes and scales.

// RUN: kiln-opt %s '--kiln-build-step=states=moments:dynamic8' | FileCheck %s --check-prefixes=CHECK,ADAM
// RUN: kiln-opt %s '--kiln-build-step=states=moments:dynamic8 optimizer=momentum' | FileCheck %s --check-prefixes=CHECK,MOMENTUM
// RUN: kiln-opt %s '--kiln-build-step=states=moments:bf16/dynamic8' | FileCheck %s --check-prefix=SECOND
// RUN: kiln-opt %s '--kiln-build-step=states=moments:dynamic8' --kiln-set-numerics --kiln-form-dispatches --kiln-print-row-programs -o /dev/null 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: kiln-opt %s '--kiln-build-step=states=moments:dynamic8' --kiln-offload-states=optimizer=1 | FileCheck %s --check-prefix=HOST

// The initial codes are those of zero.
// ADAM-DAG: kiln.state @w.m.codes : tensor<64x128xi8> {init = #kiln.splat<value = 1.270000e+02 : f64>, of = @w, role = #kiln.role<optimizer>, slot = "m.codes"}
// ADAM-DAG: kiln.state @w.m.scales : tensor<32xf32> {init = #kiln.splat<value = 0.000000e+00 : f64>, of = @w, role = #kiln.role<optimizer>, slot = "m.scales"}
// ADAM-DAG: kiln.state @w.v.codes : tensor<64x128xi8> {init = #kiln.splat<value = 0.000000e+00 : f64>
// ADAM-DAG: kiln.state @w.v.scales : tensor<32xf32>
// MOMENTUM-DAG: kiln.state @w.momentum.codes : tensor<64x128xi8>

// Embeddings, parameters of fewer than 4096 elements, and parameters whose number of elements is
// not a multiple of 256 keep their states.
// CHECK-DAG: kiln.state @table.m{{(omentum)?}} : tensor<64x128xf32>
// CHECK-DAG: kiln.state @small.m{{(omentum)?}} : tensor<31x128xf32>
// CHECK-DAG: kiln.state @odd.m{{(omentum)?}} : tensor<4100xf32>
// CHECK-DAG: kiln.encoded_update(%{{[^)]*}}) stores [#kiln.moment_storage<signed>{{(, #kiln.moment_storage<unsigned>)?}}]
// CHECK-DAG: kiln.write @w.m{{(omentum)?}}.codes
// CHECK-DAG: kiln.write @w.m{{(omentum)?}}.scales

// SECOND-DAG: kiln.state @w.m : tensor<64x128xbf16>
// SECOND-DAG: kiln.state @w.v.codes : tensor<64x128xi8>
// SECOND-DAG: kiln.state @table.v : tensor<64x128xf32>
// SECOND: kiln.encoded_update({{.*}}) stores [#kiln.moment_storage<plain>, #kiln.moment_storage<unsigned>]

// A row is a block. The largest magnitudes need one sweep, the codes a second one. The codes may
// be stored in place.
// ROWS: row_program space [32, 256] sweeps 2 {
// ROWS: [[CODES:%.+]] = load %arg1[r, c] : i8 -> full<i8>
// ROWS: [[SCALE:%.+]] = load %arg2[r] : f32 -> row<f32>
// ROWS: [[VALUE:%.+]] = decode_signed [[CODES]] : full<f32>
// ROWS: mul [[VALUE]], [[SCALE]] : full<f32>
// ROWS: decode_unsigned
// ROWS: reduce_max
// ROWS: encode_signed {{.*}} in sweep 1
// ROWS: encode_unsigned {{.*}} in sweep 1
// ROWS: store {{.*}} %res2[r] : f32

// The body of an update on the host does not depend on the memory.
// HOST: kiln.encoded_update({{.*}}tensor<64x128xi8, #kiln.memory<host>>
// HOST-NEXT: ^bb0(%{{[^:]+}}: tensor<64x128xf32>,

kiln.state @table : tensor<64x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @small : tensor<31x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @odd : tensor<4100xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<64x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%loss: tensor<f64> {kiln.name = "loss_scale"}, %tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<64x128xf32> {kiln.gradient = @table}, tensor<31x128xf32> {kiln.gradient = @small}, tensor<4100xf32> {kiln.gradient = @odd}, tensor<64x128xf32> {kiln.gradient = @w}) attributes {kind = #kiln.program_kind<train>} {
  %table = kiln.read @table : tensor<64x128xf32>
  %small = kiln.read @small : tensor<31x128xf32>
  %odd = kiln.read @odd : tensor<4100xf32>
  %w = kiln.read @w : tensor<64x128xf32>
  %e = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<64x128xf32>) -> tensor<8x128xf32>
  %dtable = kiln.embedding_grad %tokens, %e : (tensor<2x4xi32>, tensor<8x128xf32>) -> tensor<64x128xf32>
  %dsmall = kiln.mul %small, %small : tensor<31x128xf32>
  %dodd = kiln.mul %odd, %odd : tensor<4100xf32>
  %dw = kiln.mul %w, %w : tensor<64x128xf32>
  kiln.return %loss, %dtable, %dsmall, %dodd, %dw : tensor<f64>, tensor<64x128xf32>, tensor<31x128xf32>, tensor<4100xf32>, tensor<64x128xf32>
}
