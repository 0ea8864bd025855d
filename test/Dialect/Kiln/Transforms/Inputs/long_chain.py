# ===- long_chain.py - A parameter with many transposes ----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""long_chain.py COUNT: prints a forward program that transposes its weight COUNT times, an
even number, before the matmul."""

import sys

shapes = "4x8xf32", "8x4xf32"
count = int(sys.argv[1])
print("""kiln.state @table : tensor<8x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<8x4xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %w0 = kiln.read @w : tensor<4x8xf32>""")
for i in range(count):
    print(f"  %w{i + 1} = kiln.transpose %w{i} [1, 0] : tensor<{shapes[i % 2]}> to tensor<{shapes[1 - i % 2]}>")
print(f"""  %y = kiln.matmul %x, %w{count} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.cross_entropy %y, %targets, %scale : (tensor<8x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}}""")
