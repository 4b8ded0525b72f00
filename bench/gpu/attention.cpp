#include <atomic>
#include <regex>
#include <thread>

#include "bench.h"

namespace smelt::bench {
namespace {

struct Problem {
  std::string name;
  DType type;
  int64_t batch, heads, kv_heads, queries, keys, depth;
  enum { none, causal, run_time } mask = none;  // causal: constant; run_time: the same values, known only on the device
  bool beside = false;                          // heads lie beside each other: [batch, length, heads, depth]
};

const Problem problems[] = {
    {"vit_b_16", DType::f16, 1, 12, 12, 197, 197, 64},
    {"bert_base", DType::f16, 8, 12, 12, 384, 384, 64},
    {"llama_gpt causal", DType::bf16, 4, 16, 4, 1024, 1024, 32, Problem::causal},
    {"llama_gpt causal beside", DType::bf16, 4, 16, 4, 1024, 1024, 32, Problem::causal, true},
    {"llama_gpt mask", DType::bf16, 4, 16, 4, 1024, 1024, 32, Problem::run_time},
    {"dit_xl_2", DType::f16, 2, 16, 16, 256, 256, 72},
    {"sd15 4096", DType::f16, 2, 8, 8, 4096, 4096, 40},
    {"sd15 4096 beside", DType::f16, 2, 8, 8, 4096, 4096, 40, Problem::none, true},
    {"sd15 4096 cross", DType::f16, 2, 8, 8, 4096, 77, 40},
    {"sd15 1024", DType::f16, 2, 8, 8, 1024, 1024, 80},
    {"sd15 1024 cross", DType::f16, 2, 8, 8, 1024, 77, 80},
    {"sd15 256", DType::f16, 2, 8, 8, 256, 256, 160},
    {"sd15 64", DType::f16, 2, 8, 8, 64, 64, 160},
    {"llama7b_decode", DType::f16, 2, 32, 32, 1, 1025, 128},
    {"decode 2048", DType::f16, 1, 32, 32, 1, 2048, 128},
    {"decode grouped", DType::f16, 8, 32, 8, 1, 4096, 128},
    {"prefill 2048", DType::f16, 2, 16, 16, 2048, 2048, 128},
    {"prefill 2048 causal", DType::f16, 2, 16, 16, 2048, 2048, 128, Problem::causal},
    {"vit_b_16 f32", DType::f32, 1, 12, 12, 197, 197, 64},
    {"bert_base f32", DType::f32, 8, 12, 12, 384, 384, 64},
    {"dit_xl_2 f32", DType::f32, 2, 16, 16, 256, 256, 72},
};

/// A problem's node, where its tensors lie, and what it reads and writes.
struct Case {
  std::string name;
  Node node;
  ops::BoundNode bound;
  Tensor mask;  // the values of the last input, where it has some of its own

  void in(DType type, Shape shape, Tensor constant = {}) {
    node.inputs.push_back(ValueId(static_cast<int>(node.inputs.size())));
    bound.inputs.push_back({type, std::move(shape), ops::Layout::plain, {}, std::move(constant)});
  }
  void out(DType type, Shape shape) {
    node.outputs = {ValueId(100)};
    bound.outputs.push_back({type, std::move(shape)});
  }
};

Case attention_case(const Problem& p) {
  Case c;
  c.name = fmt::format("attention {} {} {}x{}/{}x{}x{}x{}", p.name, name(p.type), p.batch, p.heads, p.kv_heads, p.queries, p.keys,
                       p.depth);
  c.node.domain = smelt_domain;
  c.node.op = "Attention";
  c.node.attrs["scale"] = 0.1f;
  c.in(p.type, {p.batch, p.heads, p.queries, p.depth});
  c.in(p.type, {p.batch, p.kv_heads, p.keys, p.depth});
  c.in(p.type, {p.batch, p.kv_heads, p.keys, p.depth});
  c.out(p.type, {p.batch, p.heads, p.queries, p.depth});
  if (p.beside) {
    const auto beside = [&](int64_t heads, int64_t length) {
      return Shape{length * heads * p.depth, p.depth, heads * p.depth, 1};
    };
    c.bound.inputs[0].strides = c.bound.outputs[0].strides = beside(p.heads, p.queries);
    c.bound.inputs[1].strides = c.bound.inputs[2].strides = beside(p.kv_heads, p.keys);
  }
  if (p.mask == Problem::none) return c;
  Tensor mask = Tensor::empty(DType::f32, {p.queries, p.keys});
  for (int64_t i = 0; i < p.queries; ++i)
    for (int64_t j = 0; j < p.keys; ++j) mask.data<float>()[i * p.keys + j] = j > i ? -3e38f : 0;
  c.mask = mask.cast(DType::bf16);
  c.in(DType::bf16, {p.queries, p.keys}, p.mask == Problem::causal ? c.mask : Tensor());
  c.node.program = expr::Program::parse("(in0:f32, in1:bf16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; return %3 }");
  return c;
}

Case rotary_case(const Problem& p) {
  Case c;
  c.name = fmt::format("rotary {} {} {}x{}x{}x{}", p.name, name(p.type), p.batch, p.heads, p.queries, p.depth);
  c.node.domain = smelt_domain;
  c.node.op = "RotaryEmbedding";
  c.in(p.type, {p.batch, p.heads, p.queries, p.depth});
  for (int t = 0; t < 2; ++t) c.in(p.type, {p.queries, p.depth / 2});
  c.out(p.type, {p.batch, p.heads, p.queries, p.depth});
  return c;
}

void run(Case& c, const std::string& wanted) {
  c.bound.node = &c.node;
  ops::Machine machine;
  machine.gpu = gpu();
  ops::Offer offer = ops::offer(c.bound, machine);
  const std::regex match(wanted);
  std::erase_if(offer.candidates, [&](const auto& o) { return !std::regex_search(o.tactic + " " + o.config, match); });
  int64_t moved = 0;
  for (const auto* tensors : {&c.bound.inputs, &c.bound.outputs})
    for (const ops::BoundTensor& t : *tensors) moved += bytes(t.type, elements(t.shape));
  std::vector<Rotating> in;
  for (const ops::BoundTensor& t : c.bound.inputs) in.emplace_back(t.type, elements(t.shape), moved);
  if (c.mask.valid()) in.back().fill(c.mask);
  const Rotating y(c.bound.outputs[0].type, elements(c.bound.outputs[0].shape), moved);

  std::vector<std::unique_ptr<ops::Kernel>> kernels(offer.candidates.size());
  {
    std::atomic<size_t> next = 0;
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < std::min(16u, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back([&] {
        for (size_t i = next++; i < kernels.size(); i = next++) try {
            kernels[i] = offer.candidates[i].prepare();
          } catch (const Error& e) {
            fmt::print(stderr, "{} {}: {}\n", offer.candidates[i].tactic, offer.candidates[i].config, e.what());
          }
      });
  }
  std::vector<double> best;
  std::string tactic;
  std::vector<std::vector<double>> times(kernels.size());
  for (size_t n = 0; n < 2 * kernels.size(); ++n) {
    const size_t i = n % kernels.size();
    if (!kernels[i]) continue;
    const Rotating workspace(DType::f32, std::max<int64_t>(1, kernels[i]->workspace() / 4 + 1), moved + kernels[i]->workspace());
    const auto us = cuda::time_graph(gpu()->device,
                                     [&](int call, cuda::abi::Stream stream) {
                                       std::vector<const void*> inputs;
                                       for (const Rotating& x : in) inputs.push_back(x.at(call));
                                       void* out = y.at(call);
                                       kernels[i]->run({inputs, {&out, 1}, workspace.at(call), stream});
                                     },
                                     {.calls = 20, .replays = 20, .budget_us = 2e5});
    times[i].insert(times[i].end(), us.begin(), us.end());
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::vector<double>& us = times[i];
    if (us.empty()) continue;
    std::ranges::sort(us);
    const ops::Candidate& of = offer.candidates[i];
    report(c.name, fmt::format("{} {} ({:.1f})", of.tactic, of.config, of.estimate_us), us, moved);
    if (best.empty() || quantile(us, 0.5) < quantile(best, 0.5)) best = us, tactic = of.tactic + " " + of.config;
  }
  if (best.empty()) return;
  report(c.name, "best: " + tactic, best, moved);
}

}  // namespace

void attention(std::string_view filter, const std::string& wanted) {
  for (const Problem& p : problems) {
    std::vector<Case> cases{attention_case(p)};
    if (p.name.starts_with("llama") && !p.beside && p.mask != Problem::run_time) cases.push_back(rotary_case(p));
    for (Case& c : cases)
      if (c.name.find(filter) != std::string::npos) run(c, wanted);
  }
}

}  // namespace smelt::bench
