#include "device/cuda/driver.h"

#include <mutex>

#include "base/error.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

using abi::Driver;

struct Opened {
  Functions<Driver> driver;
  int version = 0;
};

std::string text_of(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Opened open() {
  Opened o{{{"NVIDIA's driver", {"libcuda.so.1", "libcuda.so"}, "without it there is no GPU to run on"},
            "Run on the CPU (--device cpu), or install NVIDIA's driver."}};
  Functions<Driver>& f = o.driver;
  // The version first: a driver that is too old is said to be that, not to lack some function.
  f.load(&Driver::driver_version, "cuDriverGetVersion");
  if (!f.missing().empty()) return o;
  if (f.get().driver_version(&o.version) != abi::success || o.version < oldest_driver) {
    f.refuse(fmt::format("the driver is of CUDA {}, smelt needs {} or newer", text_of(o.version), text_of(oldest_driver)));
    return o;
  }
#define X(name, symbol, ...) f.load(&Driver::name, #symbol);
  SMELT_CUDA_DRIVER(X)
#undef X
  if (!f.missing().empty()) return o;
  if (const abi::Result r = f.get().init(0); r != abi::success) {
    const char* text = nullptr;
    f.get().error_text(r, &text);
    f.refuse(fmt::format("the driver (CUDA {}) does not start: {}", text_of(o.version), text ? text : std::to_string(r)));
  }
  return o;
}

const Opened& opened() {
  static const Opened o = open();
  return o;
}

struct Lost {
  std::mutex mutex;
  std::string why;
};

Lost& lost_work() {
  static Lost l;
  return l;
}

}  // namespace

std::string driver_missing() { return opened().driver.missing(); }

int driver_version() { return driver_missing().empty() ? opened().version : 0; }

const Driver& driver() { return opened().driver.get(); }

std::string describe(abi::Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver_missing().empty()) {
    driver().error_name(result, &name);
    driver().error_text(result, &text);
  }
  return name && text ? fmt::format("{} ({})", name, text) : fmt::format("CUDA error {}", result);
}

bool is_fatal(abi::Result result) {
  switch (result) {
    case abi::ecc_uncorrectable:
    case abi::illegal_address:
    case abi::launch_timeout:
    case abi::assert_failed:
    case abi::hardware_stack_error:
    case abi::illegal_instruction:
    case abi::misaligned_address:
    case abi::invalid_address_space:
    case abi::invalid_pc:
    case abi::launch_failed:
    case abi::unknown: return true;
    default: return false;
  }
}

void check(abi::Result result, std::string_view doing) {
  if (result == abi::success) return;
  const std::string text = fmt::format("{}: {}", doing, describe(result));
  if (result == abi::out_of_memory) throw OutOfMemory(text);
  if (!is_fatal(result)) throw Error(text);
  Lost& l = lost_work();
  std::lock_guard lock(l.mutex);
  if (l.why.empty()) l.why = text;
  throw Error(text, "The GPU's work in this process is lost: start the process again.");
}

std::string lost() {
  Lost& l = lost_work();
  std::lock_guard lock(l.mutex);
  return l.why;
}

void refuse_if_lost() {
  if (const std::string why = lost(); !why.empty())
    throw Error("the GPU's work in this process is lost since " + why, "Start the process again.");
}

}  // namespace smelt::device::cuda
