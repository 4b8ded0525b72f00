// Attention's products of two computed matrices of 8-bit integers, beside the product alone of their parts: dequantized, in f32 and f16.
#include <future>
#include <limits>
#include <map>

#include "ops/core/family.h"
#include "problem.h"

namespace smelt::bench {
namespace {

struct Heads {
  const char* name;
  int64_t heads, tokens, depth;  // heads: of all images
};
constexpr Heads heads[] = {{"vit_b_16", 12, 197, 64},    {"vit_b_16 of 8", 96, 197, 64}, {"bert 128", 12, 128, 64},
                           {"bert 384", 12, 384, 64},    {"bert 384 of 8", 96, 384, 64}, {"segformer", 5, 1024, 64},
                           {"llama 2048", 32, 2048, 128}};

struct Best {
  double us = std::numeric_limits<double>::infinity();
  std::string config;
};

/// The fastest candidate of each tactic. Both operands are computed.
std::map<std::string, Best> best_of(const Problem& p) {
  ops::BoundNode b = bound(p);
  b.inputs[1].constant = {};
  const Copies left(p.inputs[0], p.moved), right(p.inputs[1], p.moved);
  const Copies y(Tensor::zeros(DType::u8, {ops::storage_bytes(p.outputs[0])}), p.moved);
  const ops::Offer offer = ops::offer(b, machine());
  std::vector<std::future<std::unique_ptr<ops::Kernel>>> made;
  for (const ops::Candidate& c : offer.candidates) made.push_back(std::async(std::launch::async, c.prepare));
  std::map<std::string, Best> found;
  std::vector<const void*> in(p.inputs.size());
  for (size_t i = 0; i < made.size(); ++i) {
    const auto kernel = made[i].get();
    const auto workspace = gpu()->device->allocate(std::max<int64_t>(1, kernel->workspace()), "a workspace");
    auto us = cuda::time_graph(gpu()->device,
                               [&](int call, cuda::abi::Stream stream) {
                                 in[0] = left.at(call), in[1] = right.at(call);
                                 void* out[] = {y.at(call)};
                                 kernel->run({in, out, reinterpret_cast<void*>(workspace->address()), stream});
                               },
                               {.calls = p.moved > (64 << 20) ? 10 : 40, .replays = 8, .budget_us = 1e5});
    std::ranges::sort(us);
    if (Best& best = found[offer.candidates[i].tactic]; quantile(us, 0.5) < best.us)
      best = {quantile(us, 0.5), offer.candidates[i].config};
  }
  return found;
}

/// [heads, m, k] by [heads, k, n], or by [heads, n, k] transposed.
Problem product_of(int64_t count, int64_t m, int64_t n, int64_t k, bool trans_b, DType type, bool zeros) {
  const Shape a{count, m, k}, b = trans_b ? Shape{count, n, k} : Shape{count, k, n}, y{count, m, n};
  std::map<std::string, Attribute> turned;
  if (trans_b) turned["transB"] = int64_t{1};
  const bool integers = type == DType::u8 || type == DType::i8;
  const double low = type == DType::u8 ? 0 : integers ? -128 : -1, high = type == DType::u8 ? 255 : integers ? 127 : 1;
  std::vector<Tensor> inputs{random(type, a, low, high), random(type, b, low, high)};
  const Tensor zero = zeros ? Tensor::scalar<int64_t>(117).cast(type) : Tensor();
  if (integers) inputs.insert(inputs.end(), {Tensor::scalar(0.02f), zero, Tensor::scalar(0.02f), zero});
  Problem p = problem(integers ? "8 bits" : "floats", integers ? "QLinearMatMul" : "MatMul", inputs, type, y, turned);
  p.node.domain = smelt_domain;
  if (integers)
    p.node.program = expr::Program::parse(
        fmt::format("(in0:f32) {{ %1 = const(0.37):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; %4 = const({0}):f32; "
                    "%5 = const({1}):f32; %6 = clip(%3, %4, %5):f32; %7 = cast(%6):{2}; return %7 }}",
                    type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127, name(type)));
  return p;
}

}  // namespace

void gemm_int8_computed() {
  fmt::print("{:>26} {:>10} {:>10} {:>10} {:>10}  {}\n", "us", "u8, zeros", "i8", "f32", "f16", "the fastest of 8 bits");
  for (const Heads& h : heads)
    for (const bool scores : {true, false})
      for (const bool trans_b : {true, false}) {
        if (!scores && trans_b) continue;
        const auto [n, k] = scores ? std::pair(h.tokens, h.depth) : std::pair(h.depth, h.tokens);
        double us[4];
        std::string configs;
        int i = 0;
        for (const DType type : {DType::u8, DType::i8, DType::f32, DType::f16}) {
          us[i] = std::numeric_limits<double>::infinity();
          for (const auto& [tactic, best] : best_of(product_of(h.heads, h.tokens, n, k, trans_b, type, type == DType::u8))) {
            us[i] = std::min(us[i], best.us);
            if (i < 2) configs += fmt::format(" {} {} {:.2f};", tactic, best.config, best.us);
          }
          ++i;
        }
        fmt::print("{:>26} {:10.2f} {:10.2f} {:10.2f} {:10.2f} {}\n",
                   fmt::format("{} {}", h.name,
                               !scores   ? "values"
                               : trans_b ? "scores"
                                         : "scores, K across"),
                   us[0], us[1], us[2], us[3], configs);
        std::fflush(stdout);
      }
}

}  // namespace smelt::bench
