//===- Main.cpp - kiln-measure, a benchmark of the machine ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kilnc --measure-machine runs this program. The program uses the GEMM kernels,
// the BLAS library and the thread team that executables use. It prints a JSON
// object with members of a machine file to standard output.
//
//   kiln-measure describe            names of the CPU and BLAS
//   kiln-measure THREADS SECONDS     all measurements
//
//===----------------------------------------------------------------------===//

#include "../Engine/CpuFeatures.h"
#include "../Engine/Gemm.h"
#include "GemmRates.h"
#include "MemoryRates.h"
#include "kiln/Support/Json.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

/// Returns a name such as "Intel(R) Xeon(R) Processor, family 6 model 143". A
/// virtual machine may report a generic name. Therefore the name includes
/// family and model.
static std::string cpuName() {
  std::istringstream lines(readCpuInfo());
  std::string line, name = "unknown CPU", family, model;
  while (std::getline(lines, line)) {
    std::size_t colon = line.find(": ");
    if (colon == std::string::npos)
      continue;
    std::string key = line.substr(0, line.find_first_of("\t:"));
    std::string value = line.substr(colon + 2);
    if (key == "model name")
      name = value;
    else if (key == "cpu family")
      family = value;
    else if (key == "model")
      model = value;
  }
  if (!family.empty())
    name += ", family " + family + " model " + model;
  return name;
}

int main(int argc, char **argv) {
  std::string what = "\"cpu\": " + jsonQuoted(cpuName()) +
                     ", \"blas\": " + jsonQuoted(blasName());
  if (argc == 2 && !std::strcmp(argv[1], "describe")) {
    std::printf("{%s}\n", what.c_str());
    return 0;
  }
  int threads = argc == 3 ? std::atoi(argv[1]) : 0;
  double seconds = argc == 3 ? std::atof(argv[2]) : 0;
  if (threads < 1 || threads > 1024 || !(seconds > 0 && seconds < 3600)) {
    std::fprintf(stderr, "usage: kiln-measure describe, or kiln-measure "
                         "THREADS (1 to 1024) SECONDS (up to 3600)\n");
    return 2;
  }
  int64_t memory =
      int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));

  DenormalsFlushed flushed;
  ThreadTeam team(threads);
  prepareBlas(team);
  Sampler sampler;
  GemmRates singles(ElementType::F32, team, sampler);
  GemmRates doubles(ElementType::F64, team, sampler);
  GemmRates narrow(ElementType::BF16, team, sampler);
  MemoryRates others(memory, team, sampler);
  sampler.run(seconds, [](double done) {
    std::fprintf(stderr, "\rmeasuring: %3.0f %%", 100 * done);
  });
  std::fprintf(stderr, "\n");
  std::printf("{%s, \"threads\": %d, \"memory_bytes\": %lld, "
              "\"disturbed\": %s, \"rounds\": %d, %s, "
              "\"gemm\": {\"fp32\": %s, \"fp64\": %s, \"bf16\": %s}}\n",
              what.c_str(), threads, static_cast<long long>(memory),
              numberText(sampler.disturbedShare()).c_str(), sampler.rounds(),
              others.json().c_str(), singles.json().c_str(),
              doubles.json().c_str(), narrow.json().c_str());
  return 0;
}
