// RUN: kiln-opt %s --kiln-form-dispatches --kiln-print-row-programs=check-text -split-input-file -o /dev/null | FileCheck %s

// A norm has three sweeps over the row: one per level of sums and one for y.
// CHECK-LABEL: // dispatch 0 of @layer_norm
// CHECK-NEXT: row_program space [8, 64] sweeps 3 {
// CHECK-NEXT:   %0 = load %arg0[r, c] : f32 -> full<f32>              in sweeps 0, 1, 2
// CHECK-NEXT:   %1 = load %arg1[c] : f32 -> column<f32>               in sweep 2
// CHECK-NEXT:   %2 = load %arg2[c] : f32 -> column<f32>               in sweep 2
// CHECK-NEXT:   %3 = reduce_sum %0 : row<f32>                         in sweep 0
// CHECK-NEXT:   %4 = constant 0.015625 : scalar<f32>
// CHECK-NEXT:   %5 = mul %3, %4 : row<f32>                            after sweep 0
// CHECK-NEXT:   %6 = sub %0, %5 : full<f32>                           in sweeps 1, 2
// CHECK-NEXT:   %7 = mul %6, %6 : full<f32>                           in sweep 1
// CHECK-NEXT:   %8 = reduce_sum %7 : row<f32>                         in sweep 1
// CHECK-NEXT:   %9 = constant 1e-05 : scalar<f32>
// CHECK-NEXT:   %10 = fma %8, %4, %9 : row<f32>                       after sweep 1
// CHECK-NEXT:   %11 = constant 1 : scalar<f32>
// CHECK-NEXT:   %12 = sqrt %10 : row<f32>                             after sweep 1
// CHECK-NEXT:   %13 = div %11, %12 : row<f32>                         after sweep 1
// CHECK-NEXT:   %14 = mul %6, %13 : full<f32>                         in sweep 2
// CHECK-NEXT:   %15 = fma %14, %1, %2 : full<f32>                     in sweep 2
// CHECK-NEXT:   store %15, %res0[r, c] : f32                          in sweep 2
// CHECK-NEXT:   store %13, %res1[r] : f32                             after sweep 1
// CHECK-NEXT: }
kiln.program @layer_norm(%x: tensor<8x64xf32> {kiln.name = "x"}, %g: tensor<64xf32> {kiln.name = "g"}, %b: tensor<64xf32> {kiln.name = "b"}) -> (tensor<8x64xf32>, tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-05} : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
  kiln.return %y, %rstd : tensor<8x64xf32>, tensor<8xf32>
}

// -----

// The logit of the target is loaded by its index, which is safe for a row that is ignored.
// CHECK-LABEL: // dispatch 0 of @softmax_cross_entropy
// CHECK-NEXT: row_program space [4, 32] sweeps 3 {
// CHECK-NEXT:   %0 = load %arg0[r, c] : bf16 -> full<f32>             in sweeps 0, 1, 2
// CHECK-NEXT:   %1 = load %arg1[r] : i32 -> row<i32>
// CHECK-NEXT:   %2 = constant 0 : scalar<f32>
// CHECK-NEXT:   %3 = constant 1 : scalar<f32>
// CHECK-NEXT:   %4 = constant -100 : scalar<i32>
// CHECK-NEXT:   %5 = equal %1, %4 : row<i1>
// CHECK-NEXT:   %6 = constant 0 : scalar<i32>
// CHECK-NEXT:   %7 = select %5, %6, %1 : row<i32>
// CHECK-NEXT:   %8 = load %arg0[r, %7] : bf16 -> row<f32>
// CHECK-NEXT:   %9 = reduce_max %0 : row<f32>                         in sweep 0
// CHECK-NEXT:   %10 = sub %0, %9 : full<f32>                          in sweeps 1, 2
// CHECK-NEXT:   %11 = exp %10 : full<f32>                             in sweeps 1, 2
// CHECK-NEXT:   %12 = reduce_sum %11 : row<f32>                       in sweep 1
// CHECK-NEXT:   %13 = div %3, %12 : row<f32>                          after sweep 1
// CHECK-NEXT:   %14 = mul %11, %13 : full<f32>                        in sweep 2
// CHECK-NEXT:   %15 = log %12 : row<f32>                              after sweep 1
// CHECK-NEXT:   %16 = sub %8, %9 : row<f32>                           after sweep 0
// CHECK-NEXT:   %17 = sub %15, %16 : row<f32>                         after sweep 1
// CHECK-NEXT:   %18 = select %5, %2, %17 : row<f32>                   after sweep 1
// CHECK-NEXT:   %19 = load %arg2[] : f64 -> scalar<f64>
// CHECK-NEXT:   %20 = cast %19 : scalar<f32>
// CHECK-NEXT:   %21 = column_index : column<i32>                      in sweep 2
// CHECK-NEXT:   %22 = equal %21, %7 : full<i1>                        in sweep 2
// CHECK-NEXT:   %23 = sub %14, %3 : full<f32>                         in sweep 2
// CHECK-NEXT:   %24 = select %22, %23, %14 : full<f32>                in sweep 2
// CHECK-NEXT:   %25 = mul %20, %24 : full<f32>                        in sweep 2
// CHECK-NEXT:   %26 = select %5, %2, %25 : full<f32>                  in sweep 2
// CHECK-NEXT:   %27 = round %26 to bf16 : full<f32>                   in sweep 2
// CHECK-NEXT:   store %18, %res0[r] : f32                             after sweep 1
// CHECK-NEXT:   store %27, %res1[r, c] : bf16                         in sweep 2
// CHECK-NEXT: }
kiln.program @softmax_cross_entropy(%x: tensor<4x32xbf16> {kiln.name = "x"}, %t: tensor<4xi32> {kiln.name = "t"}, %s: tensor<f64> {kiln.name = "s"}) -> (tensor<4xf32>, tensor<4x32xbf16>) attributes {kind = #kiln.program_kind<train>} {
  %l, %d = kiln.softmax_cross_entropy %x, %t, %s : (tensor<4x32xbf16>, tensor<4xi32>, tensor<f64>) -> (tensor<4xf32>, tensor<4x32xbf16>)
  kiln.return %l, %d : tensor<4xf32>, tensor<4x32xbf16>
}

// -----

// The key of the dropout random numbers is an immediate.
// CHECK-LABEL: // dispatch 0 of @gelu_dropout
// CHECK-NEXT: row_program space [6, 16] sweeps 1 immediates [3] {
// CHECK-NEXT:   %0 = load %arg0[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %1 = mul %0, %0 : full<f32>                           in sweep 0
// CHECK-NEXT:   %2 = constant 0.071354814 : scalar<f32>
// CHECK-NEXT:   %3 = constant 1.5957692 : scalar<f32>
// CHECK-NEXT:   %4 = fma %1, %2, %3 : full<f32>                       in sweep 0
// CHECK-NEXT:   %5 = mul %0, %4 : full<f32>                           in sweep 0
// CHECK-NEXT:   %6 = neg %5 : full<f32>                               in sweep 0
// CHECK-NEXT:   %7 = exp %6 : full<f32>                               in sweep 0
// CHECK-NEXT:   %8 = constant 1 : scalar<f32>
// CHECK-NEXT:   %9 = add %7, %8 : full<f32>                           in sweep 0
// CHECK-NEXT:   %10 = div %0, %9 : full<f32>                          in sweep 0
// CHECK-NEXT:   %11 = random %arg1 key %imm0 rows_per_sequence 3 : full<i32>  in sweep 0
// CHECK-NEXT:   %12 = constant 429496729 : scalar<i32>
// CHECK-NEXT:   %13 = less_unsigned %11, %12 : full<i1>               in sweep 0
// CHECK-NEXT:   %14 = constant 0 : scalar<f32>
// CHECK-NEXT:   %15 = constant 1.1111112 : scalar<f32>
// CHECK-NEXT:   %16 = select %13, %14, %15 : full<f32>                in sweep 0
// CHECK-NEXT:   %17 = mul %10, %16 : full<f32>                        in sweep 0
// CHECK-NEXT:   store %17, %res0[r, c] : f32                          in sweep 0
// CHECK-NEXT: }
kiln.program @gelu_dropout(%x: tensor<6x16xf32> {kiln.name = "x"}, %r: tensor<1x3xi64> {kiln.name = "r"}) -> tensor<6x16xf32> attributes {kind = #kiln.program_kind<train>} {
  %g = kiln.gelu %x tanh : tensor<6x16xf32>
  %d = kiln.dropout %g, %r {p = 1.0e-01, key = 3, sequences = 2} : (tensor<6x16xf32>, tensor<1x3xi64>) -> tensor<6x16xf32>
  kiln.return %d : tensor<6x16xf32>
}

// -----

// Scalars are computed once, in f64.
// CHECK-LABEL: // dispatch 0 of @adam
// CHECK-NEXT: row_program space [4, 8] flat sweeps 1 {
// CHECK-NEXT:   %0 = load %arg0[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %1 = load %arg1[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %2 = load %arg2[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %3 = load %arg3[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %4 = load %arg4[] : f64 -> scalar<f64>
// CHECK-NEXT:   %5 = load %arg5[] : f64 -> scalar<f64>
// CHECK-NEXT:   %6 = load %arg6[] : i64 -> scalar<i64>
// CHECK-NEXT:   %7 = constant 1 : scalar<f64>
// CHECK-NEXT:   %8 = constant 0.9 : scalar<f64>
// CHECK-NEXT:   %9 = pow_int %8, %6 : scalar<f64>
// CHECK-NEXT:   %10 = sub %7, %9 : scalar<f64>
// CHECK-NEXT:   %11 = div %5, %10 : scalar<f64>
// CHECK-NEXT:   %12 = constant 0.999 : scalar<f64>
// CHECK-NEXT:   %13 = pow_int %12, %6 : scalar<f64>
// CHECK-NEXT:   %14 = sub %7, %13 : scalar<f64>
// CHECK-NEXT:   %15 = sqrt %14 : scalar<f64>
// CHECK-NEXT:   %16 = div %7, %15 : scalar<f64>
// CHECK-NEXT:   %17 = cast %4 : scalar<f32>
// CHECK-NEXT:   %18 = mul %17, %3 : full<f32>                         in sweep 0
// CHECK-NEXT:   %19 = constant 0.1 : scalar<f64>
// CHECK-NEXT:   %20 = mul %5, %19 : scalar<f64>
// CHECK-NEXT:   %21 = sub %7, %20 : scalar<f64>
// CHECK-NEXT:   %22 = cast %21 : scalar<f32>
// CHECK-NEXT:   %23 = mul %0, %22 : full<f32>                         in sweep 0
// CHECK-NEXT:   %24 = constant 0.9 : scalar<f32>
// CHECK-NEXT:   %25 = constant 0.1 : scalar<f32>
// CHECK-NEXT:   %26 = mul %25, %18 : full<f32>                        in sweep 0
// CHECK-NEXT:   %27 = fma %24, %1, %26 : full<f32>                    in sweep 0
// CHECK-NEXT:   %28 = constant 0.999 : scalar<f32>
// CHECK-NEXT:   %29 = constant 0.001 : scalar<f32>
// CHECK-NEXT:   %30 = mul %18, %18 : full<f32>                        in sweep 0
// CHECK-NEXT:   %31 = mul %29, %30 : full<f32>                        in sweep 0
// CHECK-NEXT:   %32 = fma %28, %2, %31 : full<f32>                    in sweep 0
// CHECK-NEXT:   %33 = sqrt %32 : full<f32>                            in sweep 0
// CHECK-NEXT:   %34 = cast %16 : scalar<f32>
// CHECK-NEXT:   %35 = constant 1e-08 : scalar<f32>
// CHECK-NEXT:   %36 = fma %33, %34, %35 : full<f32>                   in sweep 0
// CHECK-NEXT:   %37 = neg %11 : scalar<f64>
// CHECK-NEXT:   %38 = cast %37 : scalar<f32>
// CHECK-NEXT:   %39 = div %27, %36 : full<f32>                        in sweep 0
// CHECK-NEXT:   %40 = fma %38, %39, %23 : full<f32>                   in sweep 0
// CHECK-NEXT:   store %40, %res0[r, c] : f32                          in sweep 0
// CHECK-NEXT:   store %27, %res1[r, c] : f32                          in sweep 0
// CHECK-NEXT:   store %32, %res2[r, c] : f32                          in sweep 0
// CHECK-NEXT: }
kiln.program @adam(%p: tensor<4x8xf32> {kiln.name = "p"}, %m: tensor<4x8xf32> {kiln.name = "m"}, %v: tensor<4x8xf32> {kiln.name = "v"}, %g: tensor<4x8xf32> {kiln.name = "g"}, %f: tensor<f64> {kiln.name = "f"}, %lr: tensor<f64> {kiln.name = "lr"}, %t: tensor<i64> {kiln.name = "t"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %p1, %m1, %v1 = kiln.adam %p, %m, %v, %g, %f, %lr, %t decoupled {beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-01} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  kiln.return %p1, %m1, %v1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A gather of rows, and a table that repeats every 4 rows.
// CHECK-LABEL: // dispatch 0 of @embedding
// CHECK-NEXT: row_program space [8, 16] sweeps 1 {
// CHECK-NEXT:   %0 = load %arg0[r] : i32 -> row<i32>
// CHECK-NEXT:   %1 = load %arg1[%0, c] : f32 -> full<f32>             in sweep 0
// CHECK-NEXT:   %2 = load %arg2[r mod 4, c] : f32 -> full<f32>        in sweep 0
// CHECK-NEXT:   %3 = add %1, %2 : full<f32>                           in sweep 0
// CHECK-NEXT:   store %3, %res0[r, c] : f32                           in sweep 0
// CHECK-NEXT: }
kiln.program @embedding(%t: tensor<8xi32> {kiln.name = "t"}, %w: tensor<100x16xf32> {kiln.name = "w"}, %p: tensor<4x16xf32> {kiln.name = "p"}) -> tensor<8x16xf32> attributes {kind = #kiln.program_kind<train>} {
  %e = kiln.embedding %t, %w : (tensor<8xi32>, tensor<100x16xf32>) -> tensor<8x16xf32>
  %q = kiln.broadcast %p dims [1, 2] : tensor<4x16xf32> to tensor<2x4x16xf32>
  %r = kiln.reshape %q : tensor<2x4x16xf32> to tensor<8x16xf32>
  %y = kiln.add %e, %r : tensor<8x16xf32>
  kiln.return %y : tensor<8x16xf32>
}

// -----

// Each element of the first result is the sum of a column over 64 rows; the
// second kernel adds these slices.
// CHECK-LABEL: // dispatch 0 of @column_sums
// CHECK-NEXT: row_program space [128, 16] sweeps 1 {
// CHECK-NEXT:   %0 = load %arg0[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %1 = load %arg1[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %2 = constant 0 : scalar<f32>
// CHECK-NEXT:   %3 = less %2, %0 : full<i1>                           in sweep 0
// CHECK-NEXT:   %4 = select %3, %1, %2 : full<f32>                    in sweep 0
// CHECK-NEXT:   store %4, %res0[r, c] : f32                           in sweep 0
// CHECK-NEXT:   store %4, %res1[sum 64, c] : f32                      in sweep 0
// CHECK-NEXT: }
// CHECK-LABEL: // dispatch 1 of @column_sums
// CHECK-NEXT: row_program space [1, 16] flat sweeps 1 {
// CHECK-NEXT:   %0 = load %arg0[sum 2, r, c] : f32 -> full<f32>       in sweep 0
// CHECK-NEXT:   store %0, %res0[r, c] : f32                           in sweep 0
// CHECK-NEXT: }
kiln.program @column_sums(%x: tensor<128x16xf32> {kiln.name = "x"}, %dy: tensor<128x16xf32> {kiln.name = "dy"}) -> (tensor<128x16xf32>, tensor<16xf32>) attributes {kind = #kiln.program_kind<train>} {
  %dx = kiln.relu_grad %x, %dy : tensor<128x16xf32>
  %s = kiln.reduce_partial %dx chunk 64 : tensor<128x16xf32> to tensor<2x16xf32>
  %c = kiln.reduce_combine %s : (tensor<2x16xf32>) -> tensor<16xf32>
  kiln.return %dx, %c : tensor<128x16xf32>, tensor<16xf32>
}

// -----

// The matmul is operand 0 of its epilogue.
// CHECK-LABEL: // epilogue of dispatch 0 of @epilogue
// CHECK-NEXT: row_program space [8, 16] sweeps 1 {
// CHECK-NEXT:   %0 = load %arg1[c] : f32 -> column<f32>               in sweep 0
// CHECK-NEXT:   %1 = load %arg0[r, c] : f32 -> full<f32>              in sweep 0
// CHECK-NEXT:   %2 = add %1, %0 : full<f32>                           in sweep 0
// CHECK-NEXT:   store %2, %res0[r, c] : f32                           in sweep 0
// CHECK-NEXT: }
kiln.program @epilogue(%x: tensor<8x4xf32> {kiln.name = "x"}, %w: tensor<4x16xf32> {kiln.name = "w"}, %b: tensor<16xf32> {kiln.name = "b"}) -> tensor<8x16xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %bb = kiln.broadcast %b dims [1] : tensor<16xf32> to tensor<8x16xf32>
  %p = kiln.add %m, %bb : tensor<8x16xf32>
  kiln.return %p : tensor<8x16xf32>
}

// -----

// The first value has no readers, so its kernel stores nothing.
// CHECK-LABEL: // dispatch 0 of @unused
// CHECK-NEXT: row_program space [4, 4] flat sweeps 0 {
// CHECK-NEXT: }
kiln.program @unused(%x: tensor<4x4xf32> {kiln.name = "x"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.relu %x : tensor<4x4xf32>
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %m : tensor<4x4xf32>
}
