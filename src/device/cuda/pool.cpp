// A device's pool of memory: blocks from the driver, kept when they are freed.
#include <algorithm>

#include "base/error.h"
#include "device/cuda/device.h"

namespace smelt::device::cuda {
namespace {

// Blocks of the pool: small ones in steps of 512 bytes, large ones of 2 MiB, so that one that was freed serves the next of about
// its size.
int64_t block_size(int64_t bytes) {
  const int64_t step = bytes < (1 << 20) ? 512 : 2 << 20;
  return std::max<int64_t>(1, (bytes + step - 1) / step) * step;
}

/// All that a stream has been given by now. Made and used with the device's context current: it holds no reference to the
/// device, whose pool holds it.
class EndOfUse final : public Moment {
 public:
  explicit EndOfUse(abi::Stream stream) {
    if (driver().event_create(&event_, abi::event_disable_timing) != abi::success) event_ = nullptr;
    if (event_ && driver().event_record(event_, stream) == abi::success) return;
    // A driver short of memory makes no event to ask later: the work is waited for now.
    driver().stream_synchronize(stream);
    recorded_ = false;
  }
  ~EndOfUse() override {
    if (event_) driver().event_destroy(event_);
  }
  EndOfUse(const EndOfUse&) = delete;
  bool passed() const override { return !recorded_ || driver().event_query(event_) != abi::not_ready; }
  void wait() const override {
    if (recorded_) driver().event_synchronize(event_);
  }

 private:
  abi::Event event_ = nullptr;
  bool recorded_ = true;
};

/// Lets this thread allocate, free and ask for events while it, or another, captures: none of that is part of what is captured.
class BesideCaptures {
 public:
  BesideCaptures() { driver().thread_capture_mode(&mode_); }
  ~BesideCaptures() { driver().thread_capture_mode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;

 private:
  abi::CaptureMode mode_ = abi::capture_relaxed;  // the thread's own, while this one is in its place
};

}  // namespace

std::shared_ptr<Memory> Device::allocate(int64_t bytes, std::string_view what, std::optional<abi::Stream> stream) {
  const int64_t block = block_size(bytes);
  const Current current(*this);
  const BesideCaptures beside;
  std::vector<Kept> done;  // let go of behind the lock: whose memory it is may take locks of its own
  std::unique_lock lock(mutex_);
  const auto still_used = std::partition(kept_.begin(), kept_.end(), [](const Kept& k) { return k.end->passed(); });
  done.assign(std::make_move_iterator(kept_.begin()), std::make_move_iterator(still_used));
  kept_.erase(kept_.begin(), still_used);
  const auto hand_out = [&](abi::Address address, int64_t size) {
    in_use_[address] = {size, stream ? std::vector{*stream} : std::vector<abi::Stream>()};
    used_ += size;
    return std::shared_ptr<Memory>(new Memory(shared_from_this(), address, bytes, size));
  };
  if (const auto free = free_.take(block, stream)) return hand_out(free->address, free->bytes);
  const auto short_of = [&](std::string_view why) {
    throw OutOfMemory(fmt::format("no memory for {}: {} bytes asked for, {} held by smelt on GPU {}, {} free{}", what, bytes,
                                  held_, info_.ordinal, free_bytes(), why),
                      "Bind smaller extents, or free the GPU's memory.");
  };
  if (limit_ > 0 && held_ + block > limit_) {
    lock.unlock();
    trim();
    lock.lock();
    if (held_ + block > limit_) short_of(fmt::format("; the limit is {} bytes", limit_));
  }
  abi::Address address = 0;
  abi::Result r = driver().memory_allocate(&address, static_cast<size_t>(block));
  if (r == abi::out_of_memory && !free_.empty()) {
    lock.unlock();
    trim();
    lock.lock();
    r = driver().memory_allocate(&address, static_cast<size_t>(block));
  }
  if (r == abi::out_of_memory) short_of("");
  check(r, fmt::format("allocating {} bytes for {}", bytes, what));
  held_ += block;
  return hand_out(address, block);
}

void Device::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

int64_t Device::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

int64_t Device::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_;
}

int64_t Device::held_bytes() const {
  std::lock_guard lock(mutex_);
  return held_;
}

void Device::trim() {
  const Current current(*this);
  const BesideCaptures beside;
  std::lock_guard lock(mutex_);
  for (const FreeBlock& block : free_.take_all()) {
    for (const StreamUse& use : block.uses) use.end->wait();
    driver().memory_free(block.address);  // fails only where the context is lost already
    held_ -= block.bytes;
  }
}

void Device::release(abi::Address address, int64_t bytes) {
  const Current current(*this);
  std::lock_guard lock(mutex_);
  FreeBlock block{address, bytes, {}};
  const auto at = in_use_.find(address);
  for (abi::Stream stream : at->second.streams) block.uses.push_back({stream, std::make_shared<EndOfUse>(stream)});
  in_use_.erase(at);
  used_ -= bytes;
  free_.add(std::move(block));
}

Device::Held* Device::held(const void* address) {
  const auto wanted = reinterpret_cast<abi::Address>(address);
  auto at = in_use_.upper_bound(wanted);
  if (at == in_use_.begin()) return nullptr;
  --at;
  return wanted < at->first + static_cast<abi::Address>(at->second.bytes) ? &at->second : nullptr;
}

std::vector<abi::Stream> Device::streams_of(const void* address) {
  std::lock_guard lock(mutex_);
  const Held* at = held(address);
  return at ? at->streams : std::vector<abi::Stream>();
}

void Device::used_on(abi::Stream stream, const void* address) {
  std::lock_guard lock(mutex_);
  Held* at = held(address);
  if (at && std::ranges::find(at->streams, stream) == at->streams.end()) at->streams.push_back(stream);
}

void Device::follow(abi::Stream stream, const void* address) {
  for (abi::Stream other : streams_of(address)) {
    if (other == stream) continue;
    const Event now(shared_from_this(), false);
    now.record(other);
    now.delay(stream);
  }
  used_on(stream, address);
}

void Device::keep(std::shared_ptr<const void> used, abi::Stream stream) {
  const Current current(*this);
  std::lock_guard lock(mutex_);
  kept_.push_back({std::move(used), std::make_shared<EndOfUse>(stream)});
}

void Device::wait_for(const void* address) {
  const Current current(*this);
  for (abi::Stream stream : streams_of(address)) check(driver().stream_synchronize(stream), "waiting for a tensor");
}

Memory::Memory(std::shared_ptr<Device> device, abi::Address address, int64_t bytes, int64_t block)
    : device_(std::move(device)), address_(address), bytes_(bytes), block_(block) {}

Memory::~Memory() { device_->release(address_, block_); }

}  // namespace smelt::device::cuda
