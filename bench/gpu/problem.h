// Problems of single nodes with given inputs: every candidate timed, the fastest last.
#pragma once

#include "bench.h"
#include "ops/core/family.h"

namespace smelt::bench {

/// A tensor's copies on the device, more than three L2 caches hold where a call moves that much.
class Copies {
 public:
  Copies(const Tensor& values, int64_t bytes_of_a_call) {
    const int64_t wanted = 3 * gpu()->info.l2_bytes, size = std::max<int64_t>(1, values.nbytes());
    const int64_t count = std::clamp<int64_t>(wanted / std::max<int64_t>(1, bytes_of_a_call) + 1, 2, 512);
    const cuda::Device::Current current(*gpu()->device);
    for (int64_t c = 0; c < count; ++c) {
      memory_.push_back(gpu()->device->allocate(size, "a benchmark"));
      cuda::check(
          cuda::driver().copy_to_device(memory_.back()->address(), values.raw(), static_cast<size_t>(values.nbytes()), nullptr),
          "copying");
      cuda::check(cuda::driver().stream_synchronize(nullptr), "copying");
    }
  }
  void* at(int call) const { return reinterpret_cast<void*>(memory_[static_cast<size_t>(call) % memory_.size()]->address()); }

 private:
  std::vector<std::shared_ptr<cuda::Memory>> memory_;
};

inline Tensor random(DType type, const Shape& shape, double low = -2, double high = 2) {
  std::mt19937 engine(11);
  std::uniform_real_distribution<float> next(static_cast<float>(low), static_cast<float>(high));
  std::vector<float> period(65521);
  for (float& v : period) v = next(engine);
  Tensor t = Tensor::empty(DType::f32, shape);
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = period[static_cast<size_t>(i % 65521)];
  return type == DType::f32 ? t : t.cast(type);
}

struct Problem {
  std::string name;
  Node node;
  std::vector<Tensor> inputs;
  std::vector<ops::BoundTensor> outputs;
  int64_t moved = 0;
  bool slow = false;  // some candidates take tens of milliseconds: few calls are timed
};

/// A problem of `op` whose inputs but the first are constants.
inline Problem problem(const std::string& name, const std::string& op, std::vector<Tensor> inputs, DType type, const Shape& shape,
                       std::map<std::string, Attribute> attributes = {}, ops::Layout layout = ops::Layout::plain) {
  Problem p{name, {}, std::move(inputs), {}};
  p.node.op = op;
  p.node.attrs = std::move(attributes);
  p.outputs.push_back({type, shape, layout, {}, {}});
  p.moved = ops::storage_bytes(p.outputs[0]);
  for (const Tensor& t : p.inputs) p.moved += t.valid() ? t.nbytes() : 0;
  return p;
}

/// A kernel that is not among the candidates, timed beside them.
struct Other {
  std::string name;
  std::unique_ptr<ops::Kernel> kernel;
};

/// The problem as a node is bound: its inputs but the first are constants.
inline ops::BoundNode bound(const Problem& p) {
  ops::BoundNode b;
  b.node = &p.node;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Tensor& t = p.inputs[i];
    ops::BoundTensor x;
    if (t.valid()) x.type = t.type(), x.shape = t.shape();
    if (t.valid() && i > 0) x.constant = t;
    if (i == 0) x.layout = p.outputs[0].layout;
    b.inputs.push_back(x);
  }
  b.outputs = p.outputs;
  return b;
}

inline ops::Machine machine() {
  ops::Machine machine;
  machine.gpu = gpu();
  return machine;
}

inline void time(const Problem& p, std::vector<Other> others = {}) {
  const ops::BoundNode b = bound(p);
  std::vector<std::unique_ptr<Copies>> in, out;
  for (const Tensor& t : p.inputs) in.push_back(t.valid() ? std::make_unique<Copies>(t, p.moved) : nullptr);
  for (const ops::BoundTensor& t : b.outputs)
    out.push_back(std::make_unique<Copies>(Tensor::zeros(DType::u8, {ops::storage_bytes(t)}), p.moved));
  std::vector<double> best;
  std::string tactic;
  const auto run = [&](const std::string& name, ops::Kernel& kernel) {
    const auto workspace = gpu()->device->allocate(std::max<int64_t>(1, kernel.workspace()), "a workspace");
    auto us = cuda::time_graph(gpu()->device,
                               [&](int call, cuda::abi::Stream stream) {
                                 std::vector<const void*> from;
                                 std::vector<void*> to;
                                 for (const auto& i : in) from.push_back(i ? i->at(call) : nullptr);
                                 for (const auto& o : out) to.push_back(o->at(call));
                                 kernel.run({from, to, reinterpret_cast<void*>(workspace->address()), stream});
                               },
                               {.calls = p.slow                 ? 3
                                         : p.moved > (64 << 20) ? 10
                                                                : 40,
                                .replays = p.slow ? 5 : 15});
    std::ranges::sort(us);
    report(p.name, name, us, p.moved);
    return us;
  };
  for (const Other& o : others) run(o.name, *o.kernel);
  for (const ops::Candidate& c : ops::offer(b, machine()).candidates) {
    const auto us = run(c.config, *c.prepare());
    if (best.empty() || quantile(us, 0.5) < quantile(best, 0.5)) best = us, tactic = c.config;
  }
  report(p.name, "best: " + tactic, best, p.moved);
}

inline Tensor ints(std::vector<int64_t> v) { return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); }

}  // namespace smelt::bench
