#include "tune/trial.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/caches.h"
#include "ops/core/cost.h"

namespace smelt::tune {
namespace {

/// Bytes that fill huge pages, but for a block that lies in a core's own caches.
int64_t in_whole_pages(int64_t bytes) {
  constexpr int64_t small = 128 << 10;
  return bytes < small ? bytes : std::max(bytes, huge_page);
}

}  // namespace

Tensor trial_memory(int64_t bytes) { return Tensor::zeros(DType::u8, {in_whole_pages(bytes)}); }

void fill_random(std::span<std::byte> memory, DType type, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto fill = [&]<class T>(T, auto&& draw) {
    auto* p = reinterpret_cast<T*>(memory.data());
    const auto n = static_cast<int64_t>(memory.size() / sizeof(T));
    // A short period makes filling cheap; kernels do not look for repetition.
    std::vector<T> period(1021);
    for (T& x : period) x = draw();
    for (int64_t i = 0; i < n; ++i) p[i] = period[static_cast<size_t>(i) % period.size()];
  };
  switch (type) {
    case DType::f32: fill(float{}, [&] { return uniform(random); }); break;
    case DType::f64: fill(double{}, [&] { return static_cast<double>(uniform(random)); }); break;
    case DType::f16: fill(Half{}, [&] { return Half(uniform(random)); }); break;
    case DType::bf16: fill(BFloat{}, [&] { return BFloat(uniform(random)); }); break;
    case DType::u8:
    case DType::i8: fill(uint8_t{}, [&] { return static_cast<uint8_t>(random()); }); break;
    default: break;
  }
}

void fill_random(Tensor& t, DType type, std::mt19937& random) {
  fill_random({static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.nbytes())}, type, random);
}

Trial::Trial(const ops::BoundNode& node, const ops::Machine& machine, std::span<std::byte* const> given) : node_(node) {
  node_.weights = &weights_;
  offer_ = ops::offer(node_, machine);
  constexpr int64_t step = 64, own_nothing = -1;
  int64_t size = 0;
  const auto place = [&](size_t i, const ops::BoundTensor& t) {
    if (t.constant.valid() || t.type == DType::undefined || (i < given.size() && given[i])) return own_nothing;
    return std::exchange(size, size + (ops::storage_bytes(t) + step - 1) / step * step);
  };
  const size_t inputs = node_.inputs.size();
  std::vector<int64_t> in_at, out_at;
  for (size_t i = 0; i < inputs; ++i) in_at.push_back(place(i, node_.inputs[i]));
  for (size_t i = 0; i < node_.outputs.size(); ++i) out_at.push_back(place(inputs + i, node_.outputs[i]));
  memory_ = trial_memory(size);
  auto* begin = static_cast<std::byte*>(memory_.raw());
  std::mt19937 random(1);
  const auto others = [&](size_t i) { return i < given.size() ? given[i] : nullptr; };
  for (size_t i = 0; i < inputs; ++i) {
    const auto& t = node_.inputs[i];
    if (t.constant.valid() || t.type == DType::undefined)
      in_.push_back(t.constant.raw());
    else
      in_.push_back(in_at[i] < 0 ? others(i) : begin + in_at[i]);
    if (in_at[i] >= 0) fill_random({begin + in_at[i], static_cast<size_t>(ops::storage_bytes(t))}, t.type, random);
  }
  for (size_t i = 0; i < out_at.size(); ++i)
    out_.push_back(node_.outputs[i].type == DType::undefined ? nullptr : out_at[i] < 0 ? others(inputs + i) : begin + out_at[i]);
}

std::vector<std::span<const std::byte>> Trial::cold(const std::vector<ops::PackedForms::Form>& packed) const {
  constexpr int64_t page = 4096;
  std::vector<Tensor> read;
  int64_t constants = 0, bytes = 0;
  for (const ops::BoundTensor& t : node_.inputs) {
    if (!t.constant.valid() || t.type == DType::string) continue;
    constants += t.constant.nbytes();
    read.push_back(t.constant);
  }
  if (ops::cost(node_).bytes < constants) return {};  // a table
  for (const auto& [constant, form] : packed) read.push_back(form);
  // A form stands for what it was made of, be that a form itself.
  std::erase_if(read, [&](const Tensor& t) {
    return std::ranges::any_of(packed, [&](const auto& p) { return p.first.raw() == t.raw() && p.second.raw() != t.raw(); });
  });
  std::vector<std::span<const std::byte>> parts;
  for (const Tensor& t : read) {
    parts.emplace_back(static_cast<const std::byte*>(t.raw()), static_cast<size_t>(t.nbytes()));
    bytes += t.nbytes();
  }
  if (bytes < page) parts.clear();
  return parts;
}

Trial::Runner Trial::runner(const std::string& tactic, const std::string& config) {
  const auto at =
      std::ranges::find_if(offer_.candidates, [&](const auto& c) { return c.tactic == tactic && c.config == config; });
  if (at == offer_.candidates.end()) fail("{}: the offer has no candidate {} {} the second time", offer_.problem, tactic, config);
  const ops::PackedForms forms;
  kernels_.push_back(at->prepare());
  ops::Kernel* kernel = kernels_.back().get();
  if (workspaces_.empty() || workspaces_.back().nbytes() < kernel->workspace())
    workspaces_.push_back(trial_memory(kernel->workspace()));
  void* workspace = workspaces_.back().raw();
  return {[this, kernel, workspace] { kernel->run({in_, out_, workspace}); }, cold(forms.list())};
}

Measured measure(std::span<const Trial::Runner> runners, bool cold, const MeasureOptions& options, const Stopwatch& watch) {
  const TimeRuns time = [&](size_t i, int times) {
    const double begin = watch.now_us();
    for (int k = 0; k < times; ++k) runners[i].run();
    return (watch.now_us() - begin) / times;
  };
  std::function<void(size_t)> cool;
  if (cold && std::ranges::any_of(runners, [](const Trial::Runner& r) { return !r.cold.empty(); })) {
    cool = [&](size_t i) {
      for (const std::span<const std::byte> part : runners[i].cold) device::cpu::evict(part);
    };
  }
  return measure(runners.size(), time, options, watch, cool);
}

}  // namespace smelt::tune
