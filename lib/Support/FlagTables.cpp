//===- FlagTables.cpp - Flags of kilnc and of executables -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These tables define which program has which flag; the parsers define the
// meaning of the flags. A test compares the tables with the --help text of both
// programs.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Flags.h"

namespace kiln::support {

const FlagTable &compilerFlags() {
  static const FlagTable table = {
      {"adapter", "DIR"},
      {"attention", "NAME"},
      {"batch", "N"},
      {"bucket-size", "SIZE"},
      {"clip", "on|off"},
      {"compress-gradients", "SCHEME"},
      {"dropout", "X"},
      {"emit", "STAGE"},
      {"emit-gradients", ""},
      {"eval", "on|off"},
      {"fuse", "on|off"},
      {"gemm", "NAME"},
      {"gpu-arch", "LIST", /*repeats=*/true},
      {"host-memory-budget", "SIZE"},
      {"ignore-config-keys", "NAME,..."},
      {"kernel-cache", "DIR"},
      {"library-epilogues", "on|off"},
      {"list-config-keys", ""},
      {"lora", "LIST"},
      {"lossy", "LIST"},
      {"machine", "FILE"},
      {"max-threads", "N"},
      {"mcpu", "NAME"},
      {"measure-machine", ""},
      {"memory-budget", "SIZE"},
      {"mesh", "LIST"},
      {"parameter-server", ""},
      {"zero", "STAGE"},
      {"zero-by", "WAY"},
      {"microbatches", "N|auto"},
      {"o", "FILE"},
      {"offload", "LIST"},
      {"optimizer", "NAME"},
      {"order", "NAME|FILE"},
      {"precision", "TYPE"},
      {"print-pipeline", ""},
      {"quantize", "FORMAT"},
      {"quantize-weights", "ENCODING"},
      {"rebuild", "on|off"},
      {"recompute", "POLICY"},
      {"remarks", "FILE"},
      {"report", "FILE"},
      {"seq", "N"},
      {"sequence-parallel", ""},
      {"simulate-link", "RATE"},
      {"simulate-network", "RATE"},
      {"states", "LIST"},
      {"sync-every", "H"},
      {"target", "NAME"},
      {"val-batches", "N"},
      {"val-data", "FILE"},
  };
  return table;
}

const FlagTable &executableFlags() {
  static const FlagTable table = {
      {"adapter", "DIR"},
      {"base", "FILE|DIR"},
      {"base-batch", "N"},
      {"check-memory", ""},
      {"check-ops", "FILE"},
      {"check-trace", "FILE"},
      {"cooldown-steps", "N"},
      {"data", "FILE"},
      {"describe", ""},
      {"dump-gradients", "FILE"},
      {"emu-seed", "SEED"},
      {"from-scratch", ""},
      {"generate", "N"},
      {"gpu-algorithms", "FILE"},
      {"grad-clip", "X"},
      {"init", "FILE|DIR"},
      {"init-ignore", "NAME,..."},
      {"inputs", "FILE"},
      {"keep", "K"},
      {"lockstep", "FD", /*repeats=*/false, /*internal=*/true},
      {"log", "FILE"},
      {"loss-mask", "FILE"},
      {"loss-scale", "LIST"},
      {"lr", "X"},
      {"lr-gamma", "X"},
      {"lr-scaling", "linear|sqrt"},
      {"lr-schedule", "NAME"},
      {"min-lr", "X"},
      {"peer-timeout", "SECONDS"},
      {"prompt", "TEXT"},
      {"resume", "DIR"},
      {"resume-changing", "LIST"},
      {"save", "DIR"},
      {"save-every", "N"},
      {"save-merged", "DIR"},
      {"seed", "N"},
      {"shuffle", "SEED"},
      {"steps", "N"},
      {"stress-copies", "SEED"},
      {"sync-ops", ""},
      {"temperature", "X"},
      {"tensorboard", "DIR"},
      {"threads", "N"},
      {"top-k", "K"},
      {"trace", "FILE"},
      {"val-batches", "N"},
      {"val-data", "FILE"},
      {"val-every", "N"},
      {"val-inputs", "FILE"},
      {"val-loss-mask", "FILE"},
      {"warmup", "gradual|constant"},
      {"warmup-steps", "N"},
  };
  return table;
}

} // namespace kiln::support
