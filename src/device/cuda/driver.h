// The CUDA driver: opened when first asked for, every call checked.
#pragma once

#include <string>
#include <string_view>

#include "device/cuda/abi/driver.h"
#include "smelt/error.h"

namespace smelt::device::cuda {

/// The driver's functions. Throws Error (unsupported) where there is no driver or it is too old, saying which.
const abi::Driver& driver();
/// Why driver() would throw; empty when it would not.
std::string driver_missing();
/// 13000: the newest CUDA that it runs; 0 where driver() would throw.
int driver_version();

/// The device had too little memory; the same call may succeed when less of it is in use.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws Error, OutOfMemory where it is that, for a result other than success: "launching conv_3: CUDA_ERROR_ILLEGAL_ADDRESS (an
/// illegal memory access …)".
void check(abi::Result result, std::string_view doing);
/// Whether this error ends the process's work on the device: every later call then returns it again.
bool is_fatal(abi::Result result);
/// The first such error that check() met, with what it was doing; empty before.
std::string lost();
/// Throws Error (failed) after such an error.
void refuse_if_lost();
/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string describe(abi::Result result);

/// The oldest driver that smelt runs on: CUDA 12.3, of which it uses cuStreamGetCaptureInfo_v3.
inline constexpr int oldest_driver = 12030;

}  // namespace smelt::device::cuda
