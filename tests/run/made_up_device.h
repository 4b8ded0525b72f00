// A device that is made up: memory of its own that the host's kernels happen to reach, streams, and recordings. What is copied,
// recorded and repeated is the executor's doing, and seen here without a GPU.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "ops/core/machine.h"
#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

class FakeDevice;

class FakeRecording final : public Recording {
 public:
  FakeRecording(FakeDevice& device, std::function<void(void*)> enqueue, bool early);
  void launch(void* stream) override;
  size_t early() const override;

 private:
  FakeDevice& device_;
  std::function<void(void*)> enqueue_;
  bool early_;
  std::vector<const void*> copied_;  // addresses, in the order of the copies
};

class FakeTimestamps final : public Timestamps {
 public:
  explicit FakeTimestamps(const int64_t& clock) : clock_(clock) {}
  void record(void*) override { at_.push_back(clock_ + static_cast<int64_t>(at_.size())); }
  std::vector<int64_t> times() override {
    std::vector<int64_t> times;
    for (const int64_t t : at_) times.push_back(t - at_.front());
    return times;
  }

 private:
  const int64_t& clock_;
  std::vector<int64_t> at_;
};

/// Sees every copy, one after the other: each takes a nanosecond, and begins two after the one before.
class FakeTrace final : public Trace {
 public:
  explicit FakeTrace(FakeTrace*& place) : place_(place) { place_ = this; }
  ~FakeTrace() override { place_ = nullptr; }
  void name_copies(std::string_view name) override { name_ = name; }
  void see_recorded() { result_.work.push_back({at_, at_ + 1}), at_ += 2; }
  void see(CopyTime::Way way, int64_t bytes) { result_.copies.push_back({name_, way, bytes, at_, at_ + 1}), at_ += 2; }
  Result stop() override { return std::move(result_); }

 private:
  FakeTrace*& place_;
  std::string name_;
  Result result_;
  int64_t at_ = 0;
};

/// Records and waits in words: "record 1", by the streams' first bytes.
class FakeEvent final : public StreamEvent {
 public:
  explicit FakeEvent(std::vector<std::string>& told) : told_(told) {}
  void record(void* stream) override { told_.push_back(fmt::format("record {}", *static_cast<int*>(stream))); }
  void wait(void* stream) override { told_.push_back(fmt::format("wait {}", *static_cast<int*>(stream))); }

 private:
  std::vector<std::string>& told_;
};

class FakeDevice final : public Backend {
 public:
  bool is_host() const override { return false; }
  void refuse_if_lost() const override {
    if (!lost.empty()) throw Error("lost since " + lost);
  }
  int64_t block_alignment() const override { return 256; }
  int64_t caller_alignment() const override { return 16; }

  Tensor allocate(DType type, const Shape& shape, std::string_view) override {
    if (allocations_left-- == 0) throw Error("no memory left");
    const int64_t bytes = smelt::bytes(type, elements(shape));
    auto* p = static_cast<char*>(std::aligned_alloc(256, static_cast<size_t>(std::max<int64_t>(bytes, 1) + 255) / 256 * 256));
    std::memset(p, 0xff, static_cast<size_t>(bytes));
    blocks_[p] = bytes;
    ++allocations;
    std::shared_ptr<void> keep(p, [this](void* block) {
      blocks_.erase(static_cast<char*>(block));
      std::free(block);
    });
    return Tensor::borrow(type, shape, p, std::move(keep));
  }
  Tensor allocate_host(DType type, const Shape& shape) override {
    if (pins_nothing) throw Error("no memory can be pinned");
    Tensor t = Tensor::empty(type, shape);
    pinned.push_back(t.raw());
    return t;
  }
  bool copies_are_slow_from(const void* address) const override {
    return knows_pinned && std::ranges::find(pinned, address) == pinned.end();
  }
  bool reaches(const void* address) const override { return !address || holds(address, 1); }
  const void* constant(const Tensor& t) override {
    Tensor& copy = constants_[t.raw()];
    if (!copy.valid()) {
      copy = allocate(t.type(), t.shape(), "a constant");
      std::memcpy(copy.raw(), t.raw(), static_cast<size_t>(t.nbytes()));
    }
    return copy.raw();
  }
  int64_t constant_bytes() const override {
    int64_t sum = 0;
    for (const auto& [key, t] : constants_) sum += t.nbytes();
    return sum;
  }

  std::shared_ptr<void> stream() override { return std::make_shared<int>(0); }
  void copy(void* to, const void* from, int64_t bytes, void* stream) override {
    copy_rows(to, bytes, from, bytes, bytes, 1, stream);
  }
  void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs, void* stream) override {
    for (const plan::ConcatCopy::Part& part : concat.parts)
      copy_rows(static_cast<char*>(to) + part.offset, concat.row, inputs[part.input], part.chunk, part.chunk, concat.outer,
                stream);
  }
  void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t width, int64_t rows, void* stream) {
    EXPECT_NE(stream, nullptr);
    copied.push_back(from);
    copied.push_back(to);
    if (recording) return;
    if (trace_ && launching)
      trace_->see_recorded();
    else if (trace_)
      trace_->see(way(to, from), width * rows);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(static_cast<char*>(to) + r * to_step, static_cast<const char*>(from) + r * from_step,
                  static_cast<size_t>(width));
  }
  void wait(void*) override {}
  void wait_for_all() override { ++waits_for_all; }
  Tensor allocate_on(DType type, const Shape& shape, std::string_view what, void* stream) override {
    Tensor t = allocate(type, shape, what);
    first_used[t.raw()] = stream;
    return t;
  }
  void share(void* stream, const void* address) override { shared.emplace_back(stream, address); }
  std::unique_ptr<StreamEvent> event() override { return std::make_unique<FakeEvent>(events); }
  bool is_capturing(void* stream) const override { return stream == capturing; }

  std::unique_ptr<Recording> record(const std::function<void(void*)>& enqueue, bool early) override {
    ++recordings;
    early_recordings += early ? 1 : 0;
    return std::make_unique<FakeRecording>(*this, enqueue, early);
  }
  size_t recorded_so_far(void*) const override { return copied.size() / 2 - copied_before_recording; }
  std::unique_ptr<Trace> trace() override { return traces ? std::make_unique<FakeTrace>(trace_) : nullptr; }
  std::unique_ptr<Timestamps> timestamps() override { return std::make_unique<FakeTimestamps>(clock); }
  bool begins_early() const override { return early_kernels > 0; }

  bool holds(const void* address, int64_t bytes) const {
    auto at = blocks_.upper_bound(static_cast<const char*>(address));
    if (at == blocks_.begin()) return false;
    --at;
    return static_cast<const char*>(address) + bytes <= at->first + at->second;
  }

  int64_t clock = 0;                  // ns
  int64_t late_ns = 0, early_ns = 0;  // that a launch of a recording takes
  size_t early_kernels = 0;           // of a recording that may begin early
  int recordings = 0, early_recordings = 0, launches = 0, allocations = 0, waits_for_all = 0;
  bool recording = false, launching = false;
  bool traces = false;              // it has what CUPTI is to a GPU
  int allocations_left = -1;        // before one fails, once; -1: none does
  std::vector<const void*> pinned;  // of the host: allocate_host's
  bool knows_pinned = false;        // copies from other memory of the host's are slow
  bool pins_nothing = false;
  std::string lost;  // since when
  std::vector<const void*> copied;
  size_t copied_before_recording = 0;  // pieces
  std::map<const void*, void*> first_used;
  std::vector<std::pair<void*, const void*>> shared;
  std::vector<std::string> events;
  void* capturing = nullptr;

 private:
  CopyTime::Way way(const void* to, const void* from) const {
    if (!holds(to, 1)) return CopyTime::Way::to_host;
    return holds(from, 1) ? CopyTime::Way::on_device : CopyTime::Way::to_device;
  }

  FakeTrace* trace_ = nullptr;
  std::map<const char*, int64_t> blocks_;
  std::map<const void*, Tensor> constants_;
};

// The kernels are the processor's, which run whenever they are called: a recording calls them again, and holds its copies against
// those that were recorded.
inline FakeRecording::FakeRecording(FakeDevice& device, std::function<void(void*)> enqueue, bool early)
    : device_(device), enqueue_(std::move(enqueue)), early_(early) {
  const auto before = device_.copied.size();
  device_.copied_before_recording = before / 2;
  device_.recording = true;
  enqueue_(&device_);
  device_.recording = false;
  copied_.assign(device_.copied.begin() + static_cast<std::ptrdiff_t>(before), device_.copied.end());
}

inline void FakeRecording::launch(void* stream) {
  ++device_.launches;
  const auto before = device_.copied.size();
  device_.copied_before_recording = before / 2;
  device_.launching = true;
  enqueue_(stream);
  device_.launching = false;
  device_.clock += early_ ? device_.early_ns : device_.late_ns;
  EXPECT_TRUE(std::equal(copied_.begin(), copied_.end(), device_.copied.begin() + static_cast<std::ptrdiff_t>(before)))
      << "a recording of other addresses was launched";
}

inline size_t FakeRecording::early() const { return early_ ? device_.early_kernels : 0; }

struct Made {
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::shared_ptr<PlanImpl> plan;

  explicit Made(Graph g, const Options& options = quick()) {
    const ops::Machine machine = ops::this_machine(options.threads);
    plan = std::make_shared<PlanImpl>(
        std::move(g),
        Platform{std::make_shared<plan::Context>(machine, options, target_of(device), tune::Cache::in_memory()), device});
    plan->prepare();
  }

  Tensor place(const Tensor& t) const { return plan->place(t); }
};

/// y = concat(x + c, x · c) in two places that are copied: neither input of the concatenation is contiguous in it.
inline Graph copying_graph() {
  Builder b;
  const ValueId x = b.input("x", to_sym({4, 6}));
  const ValueId c = b.constant("c", random_tensor({4, 6}, 9));
  const ValueId sum = b.node("sum", "Add", {x, c}, to_sym({4, 6}));
  const ValueId product = b.node("product", "Mul", {x, c}, to_sym({4, 6}));
  b.output(b.node("y", "Concat", {sum, product}, to_sym({4, 12}), DType::f32, {{"axis", int64_t{1}}}));
  b.output(sum);
  return std::move(b.g);
}

/// The elements of x above 0, doubled.
inline Graph selecting_graph() {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId positive = b.node("positive", "Greater", {x, b.scalar(0)}, {Dim("n")}, DType::boolean);
  const ValueId where = b.node("where", "NonZero", {positive}, {Dim(1), Dim("k")}, DType::i64);
  const ValueId index =
      b.node("index", "Transpose", {where}, {Dim("k"), Dim(1)}, DType::i64, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId picked = b.node("picked", "GatherND", {x, index}, {Dim("k")});
  b.output(b.node("doubled", "Add", {picked, picked}, {Dim("k")}));
  return std::move(b.g);
}

/// Places of x above 0 and, of the rows of x whose first element is, those rows; the first alone is read on.
inline Graph finding_graph() {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim(3)});
  const ValueId positive = b.node("positive", "Greater", {x, b.scalar(0)}, {Dim("n"), Dim(3)}, DType::boolean);
  const ValueId where = b.node("where", "NonZero", {positive}, {Dim(2), Dim("k")}, DType::i64);
  const ValueId first =
      b.node("first", "Slice", {positive, b.ints({0}), b.ints({1}), b.ints({1})}, {Dim("n"), Dim(1)}, DType::boolean);
  const ValueId flat = b.node("flat", "Reshape", {first, b.ints({-1})}, {Dim("n")}, DType::boolean);
  const ValueId rows = b.node("rows", "Compress", {x, flat}, {Dim("m"), Dim(3)}, DType::f32, {{"axis", int64_t{0}}});
  const ValueId sums = b.node("sums", "Add", {rows, rows}, {Dim("m"), Dim(3)});
  const ValueId again = b.node("again", "NonZero", {sums}, {Dim(2), Dim("l")}, DType::i64);
  b.output(where);
  b.output(sums);
  b.output(b.node("turned", "Transpose", {again}, {Dim("l"), Dim(2)}, DType::i64, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

}  // namespace smelt::run
