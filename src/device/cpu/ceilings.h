// What this machine can do at best, measured: the roofs that profiles are held against.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "smelt/dtype.h"

namespace smelt::device::cpu {

struct Rate {
  DType type = DType::f32;
  double flops_per_s = 0;          // operations; a multiply-add counts two, for integers too
  std::string how;                 // "fma loop, avx2", "oneDNN matmul brg:avx512_core_amx"
};

struct Ceilings {
  int threads = 0;
  double read_bytes_per_s = 0;     // summing an array four times the last-level cache, at least 256 MiB
  double copy_bytes_per_s = 0;     // copying it: bytes read plus bytes written
  double launch_us = 0;  // starting and joining an empty parallel region, the median: what a kernel costs before it works
  std::vector<Rate> rates;         // the best found for each type; types the CPU has no fast path for are left out
};

/// Takes about `seconds` in all. `progress` is told what is being measured. Best of the repetitions: a ceiling is what the
/// machine reaches when nothing else runs.
Ceilings measure_ceilings(int threads, double seconds = 3, const std::function<void(const std::string&)>& progress = {});

}  // namespace smelt::device::cpu
