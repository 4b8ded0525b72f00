// A driver that is made up, as libcuda.so.1: memory is the host's, copies and fills are done when they are put on a stream or
// when the graph that they were captured into is launched, kernels do nothing. What it says of itself and which calls fail is set
// here.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace smelt::fake {

struct Cuda {
  int version = 13000, devices = 1, major = 8, minor = 7;
  size_t memory = size_t{1} << 30;  // bytes of the device
  size_t used = 0;
  struct Fault {
    int after = 0, result = 0;  // calls that succeed first; what later ones return
    int times = 1 << 30;        // that they return it
  };
  std::map<std::string, Fault> faults;  // by the function's name; errors from 700 on are returned by every call from then on
  std::map<std::string, int> calls;
  unsigned group = 16;       // multiprocessors of one of its groups: no cluster has more blocks
  int on_legacy_stream = 0;  // copies and fills put on it: each makes another thread's capture fail
};

}  // namespace smelt::fake

/// That of the library, which has to be looked up in it.
extern "C" smelt::fake::Cuda* smelt_fake_cuda();
