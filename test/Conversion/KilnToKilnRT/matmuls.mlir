// The workspaces of GEMMs, and the types of the matrices that they read and
// write.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule=max-threads=2 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: sed 's/"cpu"/"cuda"/' %s | kiln-opt --kiln-form-dispatches --kiln-schedule=max-threads=2 | FileCheck %s --check-prefixes=CHECK,GPU

module attributes {kiln.target = "cpu"} {

// On a CPU, each thread converts blocks of the bf16 operands to f32, and has an
// f32 block of the result if the result is bf16. On a GPU, the vendor library
// stores split-K partial sums; the emulated library needs more bytes, which are
// the size of the workspace.
// CHECK-LABEL: kilnrt.program @narrow
// CHECK: [[Y:%.+]] = kilnrt.slot "matmul" class output {{.*}} bytes 3072
// CPU: [[S:%.+]] = kilnrt.slot "matmul" class workspace {{.*}} bytes 94208 lifetime [0, 0] why "workspace of the GEMM"
// GPU: [[S:%.+]] = kilnrt.slot "matmul" class workspace {{.*}} bytes 47104 lifetime [0, 0] why "workspace of the GEMM"
// CHECK: [[SUM:%.+]] = kilnrt.slot "matmul" class output {{.*}} bytes 6144
// CPU: [[T:%.+]] = kilnrt.slot "matmul" class workspace {{.*}} bytes 81920 lifetime [1, 1]
// GPU: [[T:%.+]] = kilnrt.slot "matmul" class workspace {{.*}} bytes 40960 lifetime [1, 1]
// CHECK: [[XV:%.+]] = kilnrt.view {{%.+}}[0] : memref<48x520xbf16>
// CHECK: [[WV:%.+]] = kilnrt.view {{%.+}}[0] : memref<32x520xbf16>
// CHECK: [[YV:%.+]] = kilnrt.view [[Y]][0] : memref<48x32xbf16>
// CHECK: [[SUMV:%.+]] = kilnrt.view [[SUM]][0] : memref<48x32xf32>
// CHECK: kilnrt.gemm on @compute (ro [[XV]], ro [[WV]] transposed, wo [[YV]]) grid [1, 1] scratch([[S]])
// CHECK: kilnrt.gemm on @compute (ro [[XV]], ro [[WV]] transposed, wo [[SUMV]]) grid [1, 1] scratch([[T]])
kiln.program @narrow(%x: tensor<48x520xbf16> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<32x520xbf16> {kiln.name = "w", kiln.input = #kiln.input<data>}) -> (tensor<48x32xbf16> {kiln.name = "y"}, tensor<48x32xf32> {kiln.name = "sum"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %y = kiln.matmul %x, %w trans_b {grid = array<i64: 1, 1>} : (tensor<48x520xbf16>, tensor<32x520xbf16>) -> tensor<48x32xbf16>
  %sum = kiln.matmul %x, %w trans_b {grid = array<i64: 1, 1>} : (tensor<48x520xbf16>, tensor<32x520xbf16>) -> tensor<48x32xf32>
  kiln.return %y, %sum : tensor<48x32xbf16>, tensor<48x32xf32>
}

// A GEMM of f32 needs no workspace on a CPU. A GEMM with a small k needs none
// on a GPU either.
// CHECK-LABEL: kilnrt.program @full
// CPU-NOT: class workspace
// GPU: [[S:%.+]] = kilnrt.slot "matmul" class workspace {{.*}} bytes 12288 lifetime [1, 1]
// GPU-NOT: class workspace
// CHECK: kilnrt.gemm on @compute ({{.*}}) grid [1, 1]{{$}}
// CPU: kilnrt.gemm on @compute ({{.*}}) grid [1, 1]{{$}}
// GPU: kilnrt.gemm on @compute ({{.*}}) grid [1, 1] scratch([[S]])
kiln.program @full(%x: tensor<48x511xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<511x520xf32> {kiln.name = "w", kiln.input = #kiln.input<data>}, %v: tensor<520x32xf32> {kiln.name = "v", kiln.input = #kiln.input<data>}) -> (tensor<48x32xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<48x511xf32>, tensor<511x520xf32>) -> tensor<48x520xf32>
  %z = kiln.matmul %y, %v {grid = array<i64: 1, 1>} : (tensor<48x520xf32>, tensor<520x32xf32>) -> tensor<48x32xf32>
  kiln.return %z : tensor<48x32xf32>
}

}
