#include "device/cuda/stream_place.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

thread_local const StreamPlace* innermost = nullptr;

Functions<abi::Places> open() {
  Functions<abi::Places> f({"NVIDIA's driver", {"libcuda.so.1", "libcuda.so"}, "without it there is no GPU to run on"},
                           "Install a driver of CUDA 12.4 or newer.");
#define X(name, symbol, ...) f.load(&abi::Places::name, #symbol);
  SMELT_CUDA_PLACES(X)
#undef X
  return f;
}

const Functions<abi::Places>& opened() {
  static const Functions<abi::Places> f = open();
  return f;
}

const abi::Places& places() { return opened().get(); }

/// Streams that were made at a place, with what keeps their multiprocessors.
struct Made {
  std::mutex mutex;
  std::map<abi::Stream, std::shared_ptr<const Multiprocessors>> streams;
};

Made& made() {
  static auto* m = new Made;  // streams may go after main() has ended
  return *m;
}

}  // namespace

std::string stream_places_missing() { return opened().missing(); }

Multiprocessors::Multiprocessors(std::shared_ptr<Device> device, abi::Resource& part)
    : device_(std::move(device)), count_(static_cast<int>(part.multiprocessors.count)) {
  const std::string doing = fmt::format("giving streams {} multiprocessors", count_);
  abi::ResourceDescription description = nullptr;
  check(places().describe(&description, &part, 1), doing);
  abi::Device which = 0;
  check(driver().device_get(&which, device_->info().ordinal), doing);
  check(places().create(&context_, description, which, abi::green_context_default_stream), doing);
}

Multiprocessors::~Multiprocessors() {
  const Device::Current current(*device_);
  if (context_) opened().get().destroy(context_);
}

std::pair<std::shared_ptr<const Multiprocessors>, std::shared_ptr<const Multiprocessors>> Multiprocessors::split(
    const std::shared_ptr<Device>& device, int first) {
  const int all = device->info().multiprocessors;
  if (first < 1 || first >= all) fail_usage("{} of {} multiprocessors leave none for one of the groups", first, all);
  const Device::Current current(*device);
  const char* doing = "splitting the multiprocessors";
  abi::Device which = 0;
  check(driver().device_get(&which, device->info().ordinal), doing);
  abi::Resource whole{}, part{}, rest{};
  unsigned groups = 1;
  check(places().device_resource(which, &whole, abi::resource_multiprocessors), doing);
  check(places().split(&part, &groups, &whole, &rest, 0, static_cast<unsigned>(first)), doing);
  if (groups < 1 || rest.multiprocessors.count == 0)
    fail_usage("{} of {} multiprocessors leave none for one of the groups", first, all);
  return {std::shared_ptr<const Multiprocessors>(new Multiprocessors(device, part)),
          std::shared_ptr<const Multiprocessors>(new Multiprocessors(device, rest))};
}

StreamPlace::StreamPlace(Priority priority, std::shared_ptr<const Multiprocessors> on)
    : priority_(priority), on_(std::move(on)), outer_(std::exchange(innermost, this)) {}

StreamPlace::~StreamPlace() { innermost = outer_; }

const StreamPlace* StreamPlace::current() { return innermost; }

abi::Stream StreamPlace::make() const {
  int last = 0, first = 0;
  check(places().priority_range(&last, &first), "asking for the streams' priorities");
  const int priority = priority_ == Priority::first ? first : priority_ == Priority::last ? last : 0;
  abi::Stream stream = nullptr;
  if (on_)
    check(places().green_stream(&stream, on_->context_, abi::stream_non_blocking, priority), "making a stream");
  else
    check(places().stream_create(&stream, abi::stream_non_blocking, priority), "making a stream");
  const std::lock_guard lock(made().mutex);
  made().streams.emplace(stream, on_);
  return stream;
}

bool StreamPlace::destroy(abi::Stream stream) {
  std::shared_ptr<const Multiprocessors> on;
  {
    const std::lock_guard lock(made().mutex);
    const auto at = made().streams.find(stream);
    if (at == made().streams.end()) return false;
    on = std::move(at->second);
    made().streams.erase(at);
  }
  driver().stream_synchronize(stream);  // what it used may go with it
  driver().stream_destroy(stream);
  return true;
}

}  // namespace smelt::device::cuda
