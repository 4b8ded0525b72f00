// Reductions, softmax, data movement and sorting: every candidate of a problem, the fastest last.
#include "bench.h"
#include "ops/tactics.h"

namespace smelt::bench {
namespace {

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

Tensor random(DType type, const Shape& shape, double low = -2, double high = 2) {
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
};

/// A problem of `op` whose inputs but the first are constants.
Problem problem(const std::string& name, const std::string& op, std::vector<Tensor> inputs, DType type, const Shape& shape,
                std::map<std::string, Attribute> attributes = {}, ops::Layout layout = ops::Layout::plain) {
  Problem p{name, {}, std::move(inputs), {}};
  p.node.op = op;
  p.node.attrs = std::move(attributes);
  p.outputs.push_back({type, shape, layout, {}, {}});
  p.moved = ops::storage_bytes(p.outputs[0]);
  for (const Tensor& t : p.inputs) p.moved += t.valid() ? t.nbytes() : 0;
  return p;
}

void time(const Problem& p) {
  ops::BoundNode b;
  b.node = &p.node;
  std::vector<std::unique_ptr<Copies>> in, out;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Tensor& t = p.inputs[i];
    ops::BoundTensor bound;
    if (t.valid()) bound.type = t.type(), bound.shape = t.shape();
    if (t.valid() && i > 0) bound.constant = t;
    if (i == 0) bound.layout = p.outputs[0].layout;
    b.inputs.push_back(bound);
    in.push_back(t.valid() ? std::make_unique<Copies>(t, p.moved) : nullptr);
  }
  b.outputs = p.outputs;
  for (const ops::BoundTensor& t : b.outputs)
    out.push_back(std::make_unique<Copies>(Tensor::zeros(DType::u8, {ops::storage_bytes(t)}), p.moved));
  ops::Machine machine;
  machine.gpu = gpu();
  std::vector<double> best;
  std::string tactic;
  for (const ops::Candidate& c : ops::offer(b, machine).candidates) {
    const auto kernel = c.prepare();
    const auto workspace = gpu()->device->allocate(std::max<int64_t>(1, kernel->workspace()), "a workspace");
    auto us = cuda::time_graph(gpu()->device, [&](int call, cuda::abi::Stream stream) {
      std::vector<const void*> from;
      std::vector<void*> to;
      for (const auto& i : in) from.push_back(i ? i->at(call) : nullptr);
      for (const auto& o : out) to.push_back(o->at(call));
      kernel->run({from, to, reinterpret_cast<void*>(workspace->address()), stream});
    }, {.calls = p.moved > (64 << 20) ? 10 : 40, .replays = 15});
    std::ranges::sort(us);
    report(p.name, c.config, us, p.moved);
    if (best.empty() || quantile(us, 0.5) < quantile(best, 0.5)) best = us, tactic = c.config;
  }
  report(p.name, "best: " + tactic, best, p.moved);
}

Tensor ints(std::vector<int64_t> v) { return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); }

}  // namespace

void reduce() {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{4096, 4096}, {32768, 1024}, {16384, 8192}, {4096, 91}}) {
    time(problem(fmt::format("sum of rows bf16 [{}, {}]", rows, columns), "ReduceSum",
                 {random(DType::bf16, {rows, columns}), ints({1})}, DType::bf16, {rows, 1}));
    time(problem(fmt::format("sum of columns bf16 [{}, {}]", rows, columns), "ReduceSum",
                 {random(DType::bf16, {rows, columns}), ints({0})}, DType::bf16, {1, columns}));
  }
  time(problem("sum of all f32 [67108864]", "ReduceSum", {random(DType::f32, {1 << 26}), ints({0})}, DType::f32, {1}));
  for (const Shape& s : {Shape{1, 72, 28, 28}, {1, 480, 14, 14}, {1, 960, 7, 7}, {32, 2048, 7, 7}})
    time(problem(fmt::format("mean of images nhwc f16 [{}, {}, {}, {}]", s[0], s[1], s[2], s[3]), "GlobalAveragePool",
                 {random(DType::f16, s)}, DType::f16, {s[0], s[1], 1, 1}, {}, ops::Layout::nhwc));
  time(problem("argmax f16 [64, 32000]", "ArgMax", {random(DType::f16, {64, 32000})}, DType::i64, {64, 1},
               {{"axis", int64_t{1}}}));
}

void softmax() {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {4096, 4096}, {32768, 1024}, {16384, 8192}, {3234, 91}, {2364, 197}, {64, 32000}, {1, 300000}}) {
    const DType type = columns == 91 ? DType::f32 : DType::bf16;
    time(problem(fmt::format("softmax {} [{}, {}]", name(type), rows, columns), "Softmax", {random(type, {rows, columns})}, type,
                 {rows, columns}));
  }
  time(problem("softmax of columns f16 [32, 256, 4096]", "Softmax", {random(DType::f16, {32, 256, 4096})}, DType::f16,
               {32, 256, 4096}, {{"axis", int64_t{1}}}));
}

void movement() {
  const auto index = [](int64_t count, int64_t extent) {
    Tensor t = Tensor::empty(DType::i64, {count});
    for (int64_t i = 0; i < count; ++i) t.data<int64_t>()[i] = i * 7919 % extent;
    return t;
  };
  for (const auto& [count, width] : std::vector<std::pair<int64_t, int64_t>>{{3072, 768}, {4096, 512}, {131072, 512}}) {
    Problem p = problem(fmt::format("embedding f16 {} of [30522, {}]", count, width), "Gather",
                        {random(DType::f16, {30522, width}), index(count, 30522)}, DType::f16, {count, width});
    p.moved = 4 * count * width;
    time(p);
  }
  for (const Shape& s : {Shape{1, 256, 20, 20}, {1, 128, 40, 40}, {2, 1280, 32, 32}})
    time(problem(fmt::format("nearest x2 nhwc f16 [{}, {}, {}, {}]", s[0], s[1], s[2], s[3]), "Resize",
                 {random(DType::f16, s), Tensor(), Tensor::of<float>({4}, {1, 1, 2, 2})}, DType::f16,
                 {s[0], s[1], 2 * s[2], 2 * s[3]},
                 {{"mode", std::string("nearest")},
                  {"coordinate_transformation_mode", std::string("asymmetric")},
                  {"nearest_mode", std::string("floor")}},
                 ops::Layout::nhwc));
  time(problem("pad 1 nhwc f16 [8, 64, 56, 56]", "Pad", {random(DType::f16, {8, 64, 56, 56}), ints({0, 0, 1, 1, 0, 0, 1, 1})},
               DType::f16, {8, 64, 58, 58}, {}, ops::Layout::nhwc));
  for (const auto& [lines, extent, k] :
       std::vector<std::array<int64_t, 3>>{{91, 3234, 300}, {1, 3234, 300}, {1, 300000, 1000}, {4096, 64, 2}}) {
    Problem p = problem(fmt::format("top {} f32 of [{}, {}]", k, lines, extent), "TopK",
                        {random(DType::f32, {lines, extent}), ints({k})}, DType::f32, {lines, k});
    p.outputs.push_back({DType::i64, {lines, k}, ops::Layout::plain, {}, {}});
    time(p);
  }
  time(problem("cumulative sum f32 [64, 65536]", "CumSum", {random(DType::f32, {64, 65536}), Tensor::scalar<int64_t>(1)},
               DType::f32, {64, 65536}));
}

}  // namespace smelt::bench
