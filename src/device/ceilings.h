// What a processor or a GPU can do at best, measured: the roofs that profiles are held against.
#pragma once

#include <string>
#include <vector>

#include "smelt/dtype.h"

namespace smelt::device {

struct Rate {
  DType type = DType::f32;
  double flops_per_s = 0;  // operations; a multiply-add counts two, for integers too
  std::string how;         // "fma loop, avx2", "oneDNN matmul brg:avx512_core_amx", "mma.sync loop"
};

struct Ceilings {
  int threads = 0;              // of the processor; 0: a GPU's
  double read_bytes_per_s = 0;  // summing an array that no cache holds
  double copy_bytes_per_s = 0;  // copying it: bytes read plus bytes written
  double launch_us = 0;         // what a kernel costs before it works: starting and joining an empty parallel region, on a GPU
                                // from one empty kernel of a CUDA graph to the next
  std::vector<Rate> rates;      // the best found for each type; types without a fast path are left out
  bool under_load = false;      // other work had the cores through some measurement: they may be higher
};

}  // namespace smelt::device
