#include "ops/cuda/launches.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "device/cuda/driver.h"
#include "ops/core/align.h"
#include "ops/cuda/planned.h"

namespace smelt::ops {

namespace cuda = device::cuda;

Launch& Launch::at(const BufferRef& buffer) {
  const void* none = nullptr;
  tensors_.push_back({arguments_.append(&none, sizeof none, alignof(void*)), buffer});
  return *this;
}

Launch& Launch::value(const WalkArgument& walk) { return arguments_.bytes(walk.data(), walk.size()), *this; }

cuda::LaunchShape blocks_of(int64_t threads, unsigned block) {
  return {.grid = {(threads + block - 1) / block, 1, 1}, .block = {block, 1, 1}};
}

BufferRef LaunchPlan::reserve(int64_t bytes) {
  const BufferRef p{BufferRef::workspace, 0, workspace};
  workspace += device_aligned(bytes);
  return p;
}

BufferRef LaunchPlan::table_of(std::vector<std::byte> bytes) {
  tables.push_back(std::move(bytes));
  return {BufferRef::table, tables.size() - 1, 0};
}

Launch& LaunchPlan::launch(KernelEntry entry, cuda::LaunchShape shape) {
  steps_.push_back({Step::launch, std::make_unique<Launch>(std::move(entry), shape), {}, {}});
  return *steps_.back().launched;
}

void LaunchPlan::fill(const BufferRef& to, int64_t bytes, unsigned char value) {
  if (bytes > 0) steps_.push_back({Step::fill, nullptr, {}, to, bytes, value});
}

void LaunchPlan::copy(const BufferRef& from, const BufferRef& to, int64_t bytes) {
  if (bytes > 0) steps_.push_back({Step::copy, nullptr, from, to, bytes});
}

class LaunchedKernel final : public Kernel {
 public:
  LaunchedKernel(LaunchPlan plan, const Gpu& gpu, std::vector<size_t> in_place)
      : plan_(std::move(plan)), in_place_(std::move(in_place)), device_(gpu.device) {
    const cuda::Source source{plan_.name, whole_source(), {}};
    for (const LaunchPlan::Step& s : plan_.steps_) {
      if (s.kind != LaunchPlan::Step::launch) continue;
      const std::string& name = s.launched->entry_.name;
      const auto same = [&](const auto& e) { return e->name == name; };
      if (std::ranges::none_of(entries_, same)) entries_.push_back(std::make_unique<Entry>(gpu, source, name));
      order_.push_back(std::ranges::find_if(entries_, same)->get());
    }
    if (!device_) return;
    if (plan_.tables.empty()) return;
    // On a stream of its own: work on the legacy one makes another thread's capture fail.
    const cuda::Device::Current current(*device_);
    const cuda::Stream stream(device_);
    for (const std::vector<std::byte>& t : plan_.tables) {
      memory_.push_back(device_->allocate(static_cast<int64_t>(t.size()), "a kernel's table"));
      cuda::check(cuda::driver().copy_to_device(memory_.back()->address(), t.data(), t.size(), stream.get()),
                  "uploading a table");
    }
    stream.synchronize();
    plan_.tables.clear();
  }

  int64_t workspace() const override { return plan_.workspace; }
  bool in_place(size_t i) const override { return std::ranges::find(in_place_, i) != in_place_.end(); }
  bool reads(size_t i) const override {
    const auto is = [i](const BufferRef& p) { return p.kind == BufferRef::input && p.index == i; };
    return std::ranges::any_of(plan_.steps_, [&](const LaunchPlan::Step& s) {
      if (s.kind != LaunchPlan::Step::launch) return s.kind == LaunchPlan::Step::copy && is(s.from);
      return std::ranges::any_of(s.launched->tensors_, [&](const Launch::Tensor& t) { return is(t.buffer); });
    });
  }

  void run(const Buffers& b) override {
    const auto stream = static_cast<cuda::abi::Stream>(b.stream);
    auto next = order_.begin();
    for (const LaunchPlan::Step& s : plan_.steps_) {
      if (s.kind == LaunchPlan::Step::launch) {
        enqueue(b, *s.launched, **next++);
        continue;
      }
      if (auto* planned = PlannedLaunches::current()) {
        planned->add_other(s.kind == LaunchPlan::Step::copy ? "copy" : "fill", s.bytes);
        continue;
      }
      const cuda::Device::Current current(*device_);
      const cuda::abi::Address to = address(b, s.to), from = s.kind == LaunchPlan::Step::copy ? address(b, s.from) : 0;
      if (s.kind == LaunchPlan::Step::fill) {
        cuda::check(cuda::driver().fill_bytes(to, s.value, static_cast<size_t>(s.bytes), stream), "filling memory");
      } else if (to != from) {
        cuda::check(cuda::driver().copy_on_device(to, from, static_cast<size_t>(s.bytes), stream), "copying on the device");
      }
    }
  }

 private:
  struct Entry final : CompiledKernel {
    Entry(const Gpu& gpu, const cuda::Source& source, const std::string& entry)
        : CompiledKernel(gpu, source, entry), name(entry) {}
    void run(const Buffers&) override { fail("a step of a kernel is not run by itself"); }
    void enqueue(const Buffers& b, const cuda::LaunchShape& shape, const Arguments& a) const { launch(b, shape, a); }
    std::string name;
  };

  /// With one entry for launches of one name, which have arguments of one type.
  std::string whole_source() const {
    std::string source = plan_.source;
    std::set<std::string> printed;
    for (const LaunchPlan::Step& s : plan_.steps_)
      if (s.kind == LaunchPlan::Step::launch && printed.insert(s.launched->entry_.name).second)
        source += entry_source(s.launched->entry_, s.launched->arguments_.size());
    return source;
  }

  /// Puts this run's addresses into the launch's argument.
  void enqueue(const Buffers& b, Launch& l, const Entry& entry) const {
    if (l.shape_.grid[0] == 0 || l.shape_.grid[1] == 0 || l.shape_.grid[2] == 0) return;
    for (const Launch::Tensor& t : l.tensors_) l.arguments_.set(t.offset, reinterpret_cast<const void*>(address(b, t.buffer)));
    entry.enqueue(b, l.shape_, l.arguments_);
  }

  cuda::abi::Address address(const Buffers& b, const BufferRef& p) const {
    const auto of = [&](const void* base) {
      return base ? reinterpret_cast<cuda::abi::Address>(base) + static_cast<cuda::abi::Address>(p.offset) : 0;
    };
    switch (p.kind) {
      case BufferRef::input: return of(b.inputs[p.index]);
      case BufferRef::output: return of(b.outputs[p.index]);
      case BufferRef::workspace: return of(b.workspace);
      default:
        if (memory_.empty()) return 0;  // the GPU is not here: nobody looks at it
        return memory_[p.index]->address() + static_cast<cuda::abi::Address>(p.offset);
    }
  }

  LaunchPlan plan_;
  std::vector<size_t> in_place_;
  std::shared_ptr<cuda::Device> device_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<const Entry*> order_;                    // of the launches
  std::vector<std::shared_ptr<cuda::Memory>> memory_;  // of the tables
};

std::unique_ptr<Kernel> launched(LaunchPlan plan, const Gpu& gpu, std::vector<size_t> in_place) {
  return std::make_unique<LaunchedKernel>(std::move(plan), gpu, std::move(in_place));
}

}  // namespace smelt::ops
