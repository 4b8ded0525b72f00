#include "device/cuda/activity.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/abi/cupti.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

constexpr abi::ActivityKind kinds[] = {abi::activity_kernel, abi::activity_copy, abi::activity_fill};
constexpr size_t buffer_bytes = 4 << 20;  // some 20,000 records

using abi::Cupti;

Functions<Cupti> open() {
  // CUPTI wants a driver of its own version or newer.
  std::vector<std::string> files{"libcupti.so.12"};
  if (driver_version() >= 13000) files.insert(files.begin(), "libcupti.so.13");
  Functions<Cupti> f({"CUPTI", files, "with it smelt sees each kernel's time on the GPU"},
                     "pip install nvidia-cuda-cupti, or install the CUDA toolkit.");
#define X(name, symbol, ...) f.load(&Cupti::name, #symbol);
  SMELT_CUDA_CUPTI(X)
#undef X
  if (const std::string why = driver_missing(); !why.empty()) f.refuse(why);
  return f;
}

const Functions<Cupti>& opened() {
  static const Functions<Cupti> f = open();
  return f;
}

const Cupti& cupti() { return opened().get(); }

void check_start(abi::CuptiResult result) {
  if (result == abi::cupti_success) return;
  const char* text = nullptr;
  cupti().result_text(result, &text);
  const std::string message = fmt::format("starting to trace the GPU: {}", text ? text : std::to_string(result));
  if (result != abi::cupti_multiple_subscribers) throw Error(message);
  throw Error(message + ": another profiler watches this process",
              "Profile without Nsight, compute-sanitizer or another framework's profiler beside it.");
}

/// What CUPTI's callbacks fill: they are plain functions, called by any thread.
struct Collector {
  std::mutex mutex;
  bool busy = false;  // a trace is there
  size_t lost = 0;    // records
  std::vector<Activity> activities;
};

Collector& collector() {
  static auto* c = new Collector;  // CUPTI may call after main() has ended
  return *c;
}

CopyTime::Way way_of(abi::ActivityCopyKind kind) {
  switch (kind) {
    case abi::copy_host_to_device: return CopyTime::Way::to_device;
    case abi::copy_device_to_host: return CopyTime::Way::to_host;
    case abi::copy_device_to_device: return CopyTime::Way::on_device;
    default: return CopyTime::Way::other;
  }
}

Activity of_kernel(const abi::KernelRecord& r) {
  Activity a{Activity::Kind::kernel,     r.name ? r.name : "?",      r.start,       r.end,
             static_cast<int>(r.device), static_cast<int>(r.stream), r.correlation, r.graph_node};
  std::ranges::copy(r.grid, a.grid.begin());
  std::ranges::copy(r.block, a.block.begin());
  a.registers = r.registers;
  a.static_shared_bytes = r.static_shared;
  a.dynamic_shared_bytes = r.dynamic_shared;
  return a;
}

Activity of_transfer(const abi::TransferRecord& r, Activity::Kind kind) {
  Activity a{kind,
             "fill",
             r.start,
             r.end,
             static_cast<int>(r.device),
             static_cast<int>(r.stream),
             r.correlation,
             r.graph_node,
             static_cast<int64_t>(r.bytes)};
  if (kind == Activity::Kind::fill) return a;
  a.way = way_of(r.copy_kind);
  a.name = fmt::format("copy {}", name(a.way));
  return a;
}

void append(const abi::ActivityRecord& record, std::vector<Activity>& to) {
  switch (record.kind) {
    case abi::activity_kernel: return to.push_back(of_kernel(reinterpret_cast<const abi::KernelRecord&>(record)));
    case abi::activity_copy:
      return to.push_back(of_transfer(reinterpret_cast<const abi::TransferRecord&>(record), Activity::Kind::copy));
    case abi::activity_fill:
      return to.push_back(of_transfer(reinterpret_cast<const abi::TransferRecord&>(record), Activity::Kind::fill));
    default: return;
  }
}

void buffer_wanted(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *bytes = *buffer ? buffer_bytes : 0;
  *most_records = 0;
}

void buffer_full(abi::Context, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  Collector& c = collector();
  const abi::Cupti& api = opened().get();
  {
    std::lock_guard lock(c.mutex);
    abi::ActivityRecord* record = nullptr;
    while (valid_bytes > 0 && api.next_record(buffer, valid_bytes, &record) == abi::cupti_success) {
      if (!c.busy) continue;  // of a trace that has ended
      try {
        append(*record, c.activities);
      } catch (const std::bad_alloc&) {
        ++c.lost;
      }
    }
    size_t dropped = 0;
    if (api.dropped_records(nullptr, 0, &dropped) == abi::cupti_success) c.lost += dropped;
  }
  std::free(buffer);
}

void no_callback(void*, int, uint32_t, const void*) {}

}  // namespace

std::string activity_missing() { return opened().missing(); }

LibraryState activity_library() {
  uint32_t version = 0;
  if (activity_missing().empty()) cupti().version(&version);
  return opened().state(version > 0 ? fmt::format("interface {}", version) : "");
}

ActivityTrace::ActivityTrace(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const abi::Cupti& api = cupti();
  Collector& c = collector();
  {
    std::lock_guard lock(c.mutex);
    if (std::exchange(c.busy, true)) fail("a trace of the GPU is going on in this process already");
  }
  try {
    // Subscribing is how CUPTI's users learn of each other; no callback is asked for.
    check_start(api.subscribe(&subscriber_, no_callback, nullptr));
    check_start(api.register_buffers(buffer_wanted, buffer_full));
    for (const abi::ActivityKind kind : kinds) check_start(api.enable(kind));
  } catch (...) {
    detach();
    throw;
  }
}

ActivityTrace::~ActivityTrace() {
  try {
    if (device_) detach();
  } catch (const std::exception& e) {
    warn("a trace of the GPU did not end: {}", e.what());
  }
}

std::pair<std::vector<Activity>, size_t> ActivityTrace::detach() {
  const abi::Cupti& api = cupti();
  if (subscriber_) {
    for (const abi::ActivityKind kind : kinds) api.disable(kind);
    api.flush(abi::activity_flush_forced);
    api.unsubscribe(subscriber_);
  }
  device_ = nullptr;
  Collector& c = collector();
  std::lock_guard lock(c.mutex);
  c.busy = false;
  return {std::exchange(c.activities, {}), std::exchange(c.lost, 0)};
}

std::vector<Activity> ActivityTrace::stop() {
  if (!device_) fail("a trace of the GPU is stopped once");
  device_->synchronize();
  auto [activities, lost] = detach();
  if (lost > 0) fail("{} of {} records of what the GPU did were lost", lost, lost + activities.size());
  std::ranges::stable_sort(activities, {}, &Activity::begin_ns);
  return activities;
}

}  // namespace smelt::device::cuda
