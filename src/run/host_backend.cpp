// The processor: tensors lie in the host's memory, and a call's work is done when it returns.
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "plan/arena.h"
#include "run/backend.h"
#include "run/copy.h"

namespace smelt::run {
namespace {

class HostTimestamps final : public Timestamps {
 public:
  using Clock = std::chrono::steady_clock;
  /// In the memory of those before them: to get some takes as long as a short step.
  HostTimestamps() : at_(std::move(spare())) { at_.clear(); }
  ~HostTimestamps() override { spare() = std::move(at_); }
  void record(void*) override { at_.push_back(Clock::now()); }
  std::vector<int64_t> times() override {
    std::vector<int64_t> times;
    for (Clock::time_point t : at_)
      times.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(t - at_.front()).count());
    return times;
  }

 private:
  static std::vector<Clock::time_point>& spare() {
    thread_local std::vector<Clock::time_point> of_thread;
    return of_thread;
  }
  std::vector<Clock::time_point> at_;
};

class HostBackend final : public Backend {
 public:
  bool is_host() const override { return true; }
  int64_t block_alignment() const override { return plan::arena_alignment; }
  int64_t caller_alignment() const override { return 1; }

  Tensor allocate(DType type, const Shape& shape, std::string_view what) override {
    try {
      return Tensor::empty(type, shape);
    } catch (const Error& e) {
      throw e.at(what);
    }
  }
  Tensor allocate_host(DType type, const Shape& shape) override { return Tensor::empty(type, shape); }
  bool reaches(const void*) const override { return true; }
  const void* constant(const Tensor& t) override { return t.raw(); }
  int64_t constant_bytes() const override { return 0; }

  std::shared_ptr<void> stream() override { return nullptr; }
  void copy(void* to, const void* from, int64_t bytes, void*) override { copy_bytes(to, from, bytes); }
  void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs, void*) override {
    run::concatenate(to, concat, inputs);
  }
  void wait(void*) override {}
  void wait_for_all() override {}

  std::unique_ptr<Recording> record(const std::function<void(void*)>&, bool) override { return nullptr; }
  size_t recorded_so_far(void*) const override { return 0; }
  std::unique_ptr<Trace> trace() override { return nullptr; }
  std::unique_ptr<Timestamps> timestamps() override { return std::make_unique<HostTimestamps>(); }
};

}  // namespace

std::shared_ptr<Backend> host_backend() { return std::make_shared<HostBackend>(); }

}  // namespace smelt::run
