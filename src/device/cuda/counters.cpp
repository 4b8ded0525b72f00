#include "device/cuda/counters.h"

#include <fmt/core.h>

#include <limits>

#include "base/error.h"
#include "device/cuda/abi/cupti_profiler.h"
#include "device/cuda/driver.h"

namespace smelt::device::cuda {
namespace {

using abi::CuptiRangeProfiler;

constexpr size_t most_passes = 64;  // more would be an error of ours

Functions<CuptiRangeProfiler> open() {
  std::vector<std::string> files{"libcupti.so.12"};
  if (driver_version() >= 13000) files.insert(files.begin(), "libcupti.so.13");
  Functions<CuptiRangeProfiler> f({"CUPTI", files, "with it smelt reads the GPU's counters"},
                                  "pip install nvidia-cuda-cupti, 12.6 or later, or install the CUDA toolkit.");
#define X(name, symbol, call) f.load(&CuptiRangeProfiler::name, #symbol);
  SMELT_CUDA_CUPTI_PROFILER(X)
#undef X
  f.load(&CuptiRangeProfiler::result_text, "cuptiGetResultString");
  if (const std::string why = driver_missing(); !why.empty()) f.refuse(why);
  return f;
}

const Functions<CuptiRangeProfiler>& opened() {
  static const Functions<CuptiRangeProfiler> f = open();
  return f;
}

const CuptiRangeProfiler& api() { return opened().get(); }

void check_cupti(abi::CuptiResult result, const char* doing) {
  if (result == abi::cupti_success) return;
  const char* text = nullptr;
  api().result_text(result, &text);
  const std::string message = fmt::format("reading the GPU's counters: {}: {}", doing, text ? text : std::to_string(result));
  if (result != abi::cupti_insufficient_privileges && result != abi::cupti_virtual_insufficient_privileges) throw Error(message);
  throw Error(
      message,
      "The administrator allows it by the driver's option NVreg_RestrictProfilingToAdminUsers=0, or run with CAP_SYS_ADMIN.",
      ExitCode::unsupported);
}

/// Calls one of CUPTI's functions with its structure, whose size it fills in.
template <class Call> void call(abi::CuptiResult (*function)(Call*), Call& c, const char* doing) {
  c.size = Call::bytes_used();
  check_cupti(function(&c), doing);
}

abi::Context current_context() {
  abi::Context context = nullptr;
  check(driver().context_pop(&context), "asking for the context");
  check(driver().context_push(context), "asking for the context");
  return context;
}

/// The profiler's interface, until this goes.
class Profiler {
 public:
  Profiler() {
    abi::ProfilerInitialize c;
    call(api().start_profiler, c, "starting");
  }
  ~Profiler() {
    abi::ProfilerEnd c;
    c.size = abi::ProfilerEnd::bytes_used();
    api().end_profiler(&c);
  }
  Profiler(const Profiler&) = delete;
};

/// What turns names of metrics into counters, and counters into values.
class Host {
 public:
  Host(int ordinal, abi::Context context) {
    abi::ChipName chip;
    chip.device = static_cast<size_t>(ordinal);
    call(api().chip_name, chip, "asking for the chip");
    chip_ = chip.name;
    abi::Availability a;
    a.context = context;
    call(api().availability, a, "asking for what may be counted");
    available_.resize(a.bytes);
    a.image = available_.data();
    call(api().availability, a, "asking for what may be counted");
    start();
  }
  ~Host() { end(); }
  Host(const Host&) = delete;

  /// False where the chip has no such metric. CUPTI's object takes nothing more once it refused a name: another takes its place.
  bool add(const std::string& metric) {
    if (take(metric)) {
      taken_.push_back(metric);
      return true;
    }
    end();
    start();
    for (const std::string& m : taken_)
      if (!take(m)) fail("reading the GPU's counters: {} was known and is not now", m);
    return false;
  }
  std::vector<uint8_t> config() {
    abi::ConfigSize size;
    size.host = host_;
    call(api().config_size, size, "sizing the configuration");
    std::vector<uint8_t> image(size.bytes);
    abi::ConfigImage c;
    c.host = host_, c.bytes = image.size(), c.image = image.data();
    call(api().config_image, c, "making the configuration");
    return image;
  }
  double value(const std::vector<uint8_t>& data, size_t range, const std::string& metric) {
    const char* name = metric.c_str();
    double value = std::numeric_limits<double>::quiet_NaN();
    abi::Evaluate c;
    c.host = host_, c.data = data.data(), c.bytes = data.size(), c.range = range, c.names = &name, c.count = 1, c.values = &value;
    call(api().evaluate, c, "evaluating");
    return value;
  }

 private:
  void start() {
    abi::HostInitialize h;
    h.chip = chip_.c_str(), h.availability = available_.data();
    call(api().host, h, "knowing the chip");
    host_ = h.host;
  }
  void end() {
    abi::HostEnd c;
    c.size = abi::HostEnd::bytes_used(), c.host = host_;
    api().end_host(&c);
  }
  bool take(const std::string& metric) {
    const char* name = metric.c_str();
    abi::AddMetrics c;
    c.size = abi::AddMetrics::bytes_used(), c.host = host_, c.names = &name, c.count = 1;
    return api().add_metrics(&c) == abi::cupti_success;
  }

  std::string chip_;
  std::vector<uint8_t> available_;
  std::vector<std::string> taken_;
  abi::CuptiHost host_ = nullptr;
};

/// Counting on one context, kernel by kernel.
class Ranges {
 public:
  explicit Ranges(abi::Context context) {
    abi::RangesEnable c;
    c.context = context;
    call(api().enable, c, "turning the counters on");
    ranges_ = c.ranges;
  }
  ~Ranges() {
    abi::RangesDisable c;
    c.size = abi::RangesDisable::bytes_used(), c.ranges = ranges_;
    api().disable(&c);
  }
  Ranges(const Ranges&) = delete;

  std::vector<uint8_t> image(std::vector<const char*>& metrics, size_t most) {
    abi::DataSize size;
    size.ranges = ranges_, size.names = metrics.data(), size.count = metrics.size(), size.most = most;
    size.nodes = static_cast<uint32_t>(most);
    call(api().data_size, size, "sizing the counters");
    std::vector<uint8_t> data(size.bytes);
    abi::DataInitialize c;
    c.ranges = ranges_, c.bytes = data.size(), c.data = data.data();
    call(api().data_initialize, c, "making room for the counters");
    return data;
  }
  void configure(const std::vector<uint8_t>& config, std::vector<uint8_t>& data, size_t most, abi::CuptiReplay replay) {
    abi::RangesConfig c;
    c.replay = replay;
    c.ranges = ranges_, c.config = config.data(), c.config_bytes = config.size(), c.data = data.data(), c.bytes = data.size();
    c.most = most;
    call(api().configure, c, "configuring the counters");
  }
  /// Whether that was the last pass.
  bool pass(const std::function<void()>& run) {
    abi::RangesStart start;
    start.ranges = ranges_;
    call(api().start, start, "starting a pass");
    run();
    abi::RangesStop stop;
    stop.ranges = ranges_;
    call(api().stop, stop, "ending a pass");
    return stop.all_passes != 0;
  }
  void decode() {
    abi::RangesDecode c;
    c.ranges = ranges_;
    call(api().decode, c, "reading the counters");
  }

 private:
  abi::CuptiRanges ranges_ = nullptr;
};

/// cuProfilerStart and cuProfilerStop, which do nothing where no profiler is.
void tell_profiler(const Device& device, const char* function) {
  static const Library driver("NVIDIA's driver", {"libcuda.so.1", "libcuda.so"}, "");
  const Device::Current current(device);
  if (void* const found = driver.find(function)) reinterpret_cast<abi::Result (*)()>(found)();
}

}  // namespace

Watched::Watched(std::shared_ptr<Device> device) : device_(std::move(device)) { tell_profiler(*device_, "cuProfilerStart"); }
Watched::~Watched() { tell_profiler(*device_, "cuProfilerStop"); }

std::string counters_missing() { return opened().missing(); }

std::vector<std::vector<double>> count(const std::shared_ptr<Device>& device, const std::vector<std::string>& metrics,
                                       size_t most, const std::function<void()>& run, Replay replay) {
  api();  // throws where it is missing
  const Device::Current current(*device);
  const abi::Context context = current_context();
  const Profiler profiler;
  Host host(device->info().ordinal, context);
  std::vector<bool> known;
  std::vector<const char*> counted;
  for (const std::string& m : metrics) {
    known.push_back(host.add(m));
    if (known.back()) counted.push_back(m.c_str());
  }
  const std::vector<uint8_t> config = host.config();
  Ranges ranges(context);
  std::vector<uint8_t> data = ranges.image(counted, most);
  ranges.configure(config, data, most, replay == Replay::user ? abi::cupti_user_replay : abi::cupti_kernel_replay);
  for (size_t passes = 0; !ranges.pass(run); ++passes)
    if (passes > most_passes) fail("reading the GPU's counters: more than {} passes", most_passes);
  ranges.decode();

  abi::DataInfo info;
  info.data = data.data(), info.bytes = data.size();
  call(api().data_info, info, "counting the kernels");
  std::vector<std::vector<double>> values(info.found);
  for (size_t r = 0; r < info.found; ++r)
    for (size_t m = 0; m < metrics.size(); ++m)
      values[r].push_back(known[m] ? host.value(data, r, metrics[m]) : std::numeric_limits<double>::quiet_NaN());
  return values;
}

}  // namespace smelt::device::cuda
