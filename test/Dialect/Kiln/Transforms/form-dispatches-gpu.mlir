// RUN: kiln-opt %s --kiln-form-dispatches | FileCheck %s --check-prefix=CPU
// RUN: sed 's/^module/module attributes {kiln.target = "cuda"}/' %s | kiln-opt --kiln-form-dispatches | FileCheck %s --check-prefix=GPU

// A GPU has few threads per row: reduce_combine is not fused with sum_squares.
// CPU-LABEL: kiln.program @bias
// CPU-COUNT-1: kiln.dispatch row
// CPU-NOT: kiln.dispatch row
// GPU-LABEL: kiln.program @bias
// GPU: kiln.dispatch row
// GPU: kiln.reduce_combine
// GPU: kiln.dispatch row
// GPU: kiln.sum_squares
module {
  kiln.program @bias(%parts: tensor<64x8xf32>) -> (tensor<8xf32>, tensor<1xf64>) attributes {kind = #kiln.program_kind<train>} {
    %g = kiln.reduce_combine %parts : (tensor<64x8xf32>) -> tensor<8xf32>
    %s = kiln.sum_squares %g : (tensor<8xf32>) -> tensor<1xf64>
    kiln.return %g, %s : tensor<8xf32>, tensor<1xf64>
  }
}
