#include "tune/trial.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::tune {
void fill_random(Tensor& t, DType type, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto fill = [&]<class T>(T, auto&& draw) {
    auto* p = static_cast<T*>(t.raw());
    const int64_t n = t.nbytes() / static_cast<int64_t>(sizeof(T));
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

Trial::Trial(const ops::BoundNode& node, const ops::Machine& machine) : node_(node) {
  node_.weights = &weights_;
  offer_ = ops::offer(node_, machine);
  std::mt19937 random(1);
  for (const auto& t : node_.inputs) {
    Tensor memory = t.constant;
    if (!memory.valid() && t.type != DType::undefined) {
      memory = Tensor::zeros(DType::u8, {ops::storage_bytes(t)});
      fill_random(memory, t.type, random);
    }
    inputs_.push_back(memory);
    in_.push_back(inputs_.back().raw());
  }
  for (const auto& t : node_.outputs) {
    outputs_.push_back(t.type == DType::undefined ? Tensor() : Tensor::zeros(DType::u8, {ops::storage_bytes(t)}));
    out_.push_back(outputs_.back().raw());
  }
}

std::function<void()> Trial::runner(const std::string& tactic, const std::string& config) {
  const auto at =
      std::ranges::find_if(offer_.candidates, [&](const auto& c) { return c.tactic == tactic && c.config == config; });
  if (at == offer_.candidates.end()) fail("{}: the offer has no candidate {} {} the second time", offer_.problem, tactic, config);
  kernels_.push_back(at->prepare());
  ops::Kernel* kernel = kernels_.back().get();
  workspaces_.push_back(Tensor::zeros(DType::u8, {kernel->workspace()}));
  void* workspace = workspaces_.back().raw();
  return [this, kernel, workspace] { kernel->run({in_, out_, workspace}); };
}

}  // namespace smelt::tune
