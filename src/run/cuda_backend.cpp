#include "run/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/activity.h"
#include "device/cuda/booleans.h"
#include "device/cuda/graph.h"
#include "device/cuda/upload.h"
#include "ops/core/align.h"
#include "plan/segment.h"

namespace smelt::run {
namespace {

namespace cuda = device::cuda;
using cuda::abi::Address;

cuda::abi::Stream of(void* stream) { return static_cast<cuda::abi::Stream>(stream); }

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

class GraphRecording final : public Recording {
 public:
  GraphRecording(std::shared_ptr<cuda::Device> device, const std::function<void(void*)>& enqueue, bool early)
      : graph_(std::move(device), enqueue, early) {}
  void launch(void* stream) override { graph_.launch(of(stream)); }
  size_t early() const override { return graph_.early_nodes(); }

 private:
  cuda::CapturedGraph graph_;
};

class EventTimestamps final : public Timestamps {
 public:
  explicit EventTimestamps(std::shared_ptr<cuda::Device> device) : device_(std::move(device)) {}
  void record(void* stream) override {
    events_.push_back(std::make_unique<cuda::Event>(device_));
    events_.back()->record(of(stream));
  }
  std::vector<int64_t> times() override {
    std::vector<int64_t> times;
    if (!events_.empty()) events_.back()->synchronize();
    for (const auto& e : events_) times.push_back(static_cast<int64_t>(e->since(*events_.front()) * 1e3));
    return times;
  }

 private:
  std::shared_ptr<cuda::Device> device_;
  std::vector<std::unique_ptr<cuda::Event>> events_;
};

class CudaEvent final : public StreamEvent {
 public:
  explicit CudaEvent(std::shared_ptr<cuda::Device> device) : event_(std::move(device), false) {}
  void record(void* stream) override { event_.record(of(stream)); }
  void wait(void* stream) override { event_.delay(of(stream)); }

 private:
  cuda::Event event_;
};

/// Whether an address lies in the host's memory, and nobody pinned it.
bool is_pageable(const void* address) {
  unsigned type = 0;
  const auto at = reinterpret_cast<cuda::abi::Address>(address);
  return cuda::driver().pointer_attribute(&type, cuda::abi::pointer_memory_type, at) == cuda::abi::invalid_value;
}

/// The copies that a backend is asked for while they are traced, in their order: CUPTI's records do not say what was copied.
class RequestedCopies {
 public:
  struct One {
    std::string name;
    int64_t bytes = 0;
  };
  bool wanted() const { return wanted_; }
  void begin() {
    const std::lock_guard lock(mutex_);
    all_.clear();
    name_.clear();
    wanted_ = true;
  }
  void name(std::string_view name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
  }
  void add(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    all_.push_back({name_, bytes});
  }
  std::vector<One> end() {
    const std::lock_guard lock(mutex_);
    wanted_ = false;
    return std::exchange(all_, {});
  }

 private:
  std::atomic<bool> wanted_ = false;
  std::mutex mutex_;
  std::string name_;
  std::vector<One> all_;
};

class ActivityTracing final : public Trace {
 public:
  ActivityTracing(std::shared_ptr<cuda::Device> device, std::shared_ptr<RequestedCopies> requested)
      : trace_(std::move(device)), requested_(std::move(requested)) {
    requested_->begin();
  }
  ~ActivityTracing() override { requested_->end(); }
  void name_copies(std::string_view name) override { requested_->name(name); }
  Result stop() override {
    Result seen;
    const std::vector<cuda::Activity> all = trace_.stop();
    std::optional<uint32_t> copying;  // the correlation of the last copy: one in several pieces
    for (const cuda::Activity& a : all) {
      const auto begin = static_cast<int64_t>(a.begin_ns - all.front().begin_ns);
      const auto end = static_cast<int64_t>(a.end_ns - all.front().begin_ns);
      if (a.graph_node != 0) {
        seen.work.push_back({begin, end});
      } else if (a.kind == cuda::Activity::Kind::copy && copying == a.correlation) {
        seen.copies.back().bytes += a.bytes;
        seen.copies.back().end_ns = std::max(seen.copies.back().end_ns, end);
      } else if (a.kind == cuda::Activity::Kind::copy) {
        copying = a.correlation;
        seen.copies.push_back({"", a.way, a.bytes, begin, end});
      }
    }
    // Libraries may copy too: what nobody asked for keeps no name.
    const std::vector<RequestedCopies::One> requested = requested_->end();
    auto next = requested.begin();
    for (CopyTime& c : seen.copies) {
      const auto at = std::find_if(next, requested.end(), [&](const RequestedCopies::One& one) { return one.bytes == c.bytes; });
      if (at == requested.end()) continue;
      c.name = at->name;
      next = at + 1;
    }
    return seen;
  }

 private:
  cuda::ActivityTrace trace_;
  std::shared_ptr<RequestedCopies> requested_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::shared_ptr<cuda::Device> device) : device_(std::move(device)) {}

  bool is_host() const override { return false; }
  void refuse_if_lost() const override { cuda::refuse_if_lost(); }
  int64_t block_alignment() const override { return 256; }
  int64_t caller_alignment() const override { return 16; }

  Tensor allocate(DType type, const Shape& shape, std::string_view what) override {
    return tensor_in(device_->allocate(bytes(type, elements(shape)), what), type, shape);
  }
  Tensor allocate_on(DType type, const Shape& shape, std::string_view what, void* stream) override {
    return tensor_in(device_->allocate(bytes(type, elements(shape)), what, of(stream)), type, shape);
  }
  void share(void* stream, const void* address) override { device_->follow(of(stream), address); }

  Tensor allocate_host(DType type, const Shape& shape) override {
    auto memory = std::make_shared<cuda::PinnedMemory>(device_, bytes(type, elements(shape)));
    void* address = memory->data();
    return Tensor::borrow(type, shape, address, std::move(memory));
  }

  bool copies_are_slow_from(const void* address) const override { return is_pageable(address); }

  bool reaches(const void* address) const override { return !address || cuda::device_of(address) == device_->info().ordinal; }

  void upload(std::span<const Tensor> constants, int threads) override {
    const std::lock_guard lock(mutex_);
    std::map<std::pair<const void*, int64_t>, Constant> fresh;
    int64_t bytes = 0;
    for (const Tensor& t : constants) {
      const std::pair key{t.raw(), t.nbytes()};
      if (t.nbytes() == 0 || constants_.contains(key) || !fresh.try_emplace(key, Constant{t, nullptr, bytes}).second) continue;
      bytes += ops::device_aligned(t.nbytes());
    }
    if (fresh.empty()) return;
    const std::shared_ptr<cuda::Memory> memory = device_->allocate(bytes, "the model's constants");
    std::vector<cuda::Upload> uploads;
    for (auto& [key, c] : fresh) {
      c.memory = memory;
      uploads.push_back({c.address(), c.source.raw(), c.source.nbytes()});
    }
    cuda::upload(device_, uploads, threads);
    for (const cuda::Upload& u : uploads) constant_bytes_ += u.bytes;
    constants_.merge(fresh);
  }
  const void* constant(const Tensor& t) override {
    if (t.nbytes() == 0) return nullptr;
    upload({&t, 1}, 1);
    const std::lock_guard lock(mutex_);
    return reinterpret_cast<const void*>(constants_.at({t.raw(), t.nbytes()}).address());
  }
  void forget_constants() override {
    const std::lock_guard lock(mutex_);
    constants_.clear();
    constant_bytes_ = 0;
  }
  int64_t constant_bytes() const override { return constant_bytes_; }

  std::shared_ptr<void> stream() override {
    refuse_if_lost();
    auto stream = std::make_shared<cuda::Stream>(device_);
    return {stream, stream->get()};
  }

  void copy(void* to, const void* from, int64_t bytes, void* stream) override {
    if (bytes == 0) return;
    const cuda::Device::Current current(*device_);
    note_copy(bytes, of(stream));
    cuda::check(cuda::driver().copy(address_of(to), address_of(from), static_cast<size_t>(bytes), of(stream)),
                "copying a tensor");
  }

  void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs, void* stream) override {
    for (const plan::ConcatCopy::Part& part : concat.parts)
      copy_rows(static_cast<char*>(to) + part.offset, concat.row, inputs[part.input], part.chunk, part.chunk, concat.outer,
                stream);
  }

  /// `rows` times `width` bytes, the rows `to_step` and `from_step` bytes apart.
  void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t width, int64_t rows, void* stream) {
    if (rows == 1 || (width == to_step && width == from_step)) return copy(to, from, rows * width, stream);
    cuda::abi::Copy2d c;
    c.from = address_of(from);
    c.to = address_of(to);
    c.from_pitch = static_cast<size_t>(from_step);
    c.to_pitch = static_cast<size_t>(to_step);
    c.width = static_cast<size_t>(width);
    c.height = static_cast<size_t>(rows);
    const cuda::Device::Current current(*device_);
    note_copy(width * rows, of(stream));
    cuda::check(cuda::driver().copy_2d(&c, of(stream)), "copying rows of a tensor");
  }

  void load_booleans() override { booleans_.load(); }
  void make_booleans_0_or_1(void* at, int64_t count, void* stream) override {
    booleans_.make_0_or_1(address_of(at), count, of(stream));
  }

  void wait(void* stream) override {
    const cuda::Device::Current current(*device_);
    cuda::check(cuda::driver().stream_synchronize(of(stream)), "waiting for the GPU");
  }
  std::unique_ptr<StreamEvent> event() override { return std::make_unique<CudaEvent>(device_); }
  bool is_capturing(void* stream) const override {
    const cuda::Device::Current current(*device_);
    return cuda::is_capturing(of(stream));
  }
  void wait_for_all() override {
    const cuda::Device::Current current(*device_);
    cuda::check(cuda::driver().context_synchronize(), "waiting for the GPU");
  }

  std::unique_ptr<Recording> record(const std::function<void(void*)>& enqueue, bool early) override {
    return std::make_unique<GraphRecording>(device_, enqueue, early);
  }
  bool begins_early() const override { return device_->info().major >= 9; }
  size_t recorded_so_far(void* stream) const override {
    const cuda::Device::Current current(*device_);
    return cuda::captured_nodes(of(stream));
  }
  std::unique_ptr<Trace> trace() override {
    try {
      return std::make_unique<ActivityTracing>(device_, requested_);
    } catch (const Error& e) {
      if (!warned_.exchange(true)) warn("{}; steps are timed one by one, with the gaps that launching them makes", e.what());
      return nullptr;
    }
  }
  std::unique_ptr<Timestamps> timestamps() override { return std::make_unique<EventTimestamps>(device_); }

 private:
  struct Constant {
    Tensor source;                         // keeps the host's memory, and with it the key, from being reused
    std::shared_ptr<cuda::Memory> memory;  // one block for all that were uploaded together
    int64_t offset = 0;
    Address address() const { return memory->address() + static_cast<Address>(offset); }
  };

  /// What is captured is no copy yet.
  void note_copy(int64_t bytes, cuda::abi::Stream stream) const {
    if (requested_->wanted() && !cuda::is_capturing(stream)) requested_->add(bytes);
  }
  static Tensor tensor_in(std::shared_ptr<cuda::Memory> memory, DType type, const Shape& shape) {
    void* address = reinterpret_cast<void*>(memory->address());
    return Tensor::borrow(type, shape, address, std::move(memory));
  }

  std::shared_ptr<cuda::Device> device_;
  std::mutex mutex_;
  std::map<std::pair<const void*, int64_t>, Constant> constants_;
  cuda::Booleans booleans_{device_};
  std::atomic<int64_t> constant_bytes_ = 0;
  std::atomic<bool> warned_ = false;
  std::shared_ptr<RequestedCopies> requested_ = std::make_shared<RequestedCopies>();
};

}  // namespace

std::shared_ptr<Backend> cuda_backend(std::shared_ptr<device::cuda::Device> device) {
  return std::make_shared<CudaBackend>(std::move(device));
}

}  // namespace smelt::run
