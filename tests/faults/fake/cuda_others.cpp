// Every function of the driver that smelt asks for and cuda.cpp does not write itself: it is not supported.
#include "device/cuda/abi/driver.h"

#define X(name, symbol, ...) \
  extern "C" __attribute__((weak, visibility("default"))) int symbol() { return 801; }
SMELT_CUDA_DRIVER(X)
#undef X
