// Products of 8-bit integers: the best of smelt's tactics, as sums and requantised by column.
#include <cstring>
#include <future>
#include <limits>
#include <map>

#include "ops/core/family.h"
#include "problem.h"

namespace smelt::bench {
namespace {

/// i8 by i8, as sums of i32, or as i8 with a scale for each column.
Problem product_of(int64_t m, int64_t n, int64_t k, bool requantised) {
  const Tensor a = random(DType::i8, {m, k}, -128, 127), w = random(DType::i8, {k, n}, -128, 127);
  const Tensor zero = Tensor::scalar<int64_t>(0).cast(DType::i8);
  if (!requantised) return problem("i32", "MatMulInteger", {a, w}, DType::i32, {m, n});
  return problem("i8", "QLinearMatMul",
                 {a, Tensor::scalar(0.02f), zero, w, random(DType::f32, {n}, 0.001, 0.003), zero, Tensor::scalar(0.5f), zero},
                 DType::i8, {m, n});
}

struct Timed {
  std::string config;
  double us = std::numeric_limits<double>::infinity();
};

/// The kernels' time, each in turn: they keep weights of their own, which are as cold so as what a call brings.
double time_in_turn(const Problem& p, const std::vector<std::unique_ptr<ops::Kernel>>& kernels, int replays) {
  const Copies a(p.inputs[0], p.moved), y(Tensor::zeros(DType::u8, {ops::storage_bytes(p.outputs[0])}), p.moved);
  const auto workspace = gpu()->device->allocate(std::max<int64_t>(1, kernels[0]->workspace()), "a workspace");
  std::vector<const void*> in(p.inputs.size());
  auto us = cuda::time_graph(gpu()->device,
                             [&](int call, cuda::abi::Stream stream) {
                               in[0] = a.at(call);
                               void* out[] = {y.at(call)};
                               kernels[static_cast<size_t>(call) % kernels.size()]->run(
                                   {in, out, reinterpret_cast<void*>(workspace->address()), stream});
                             },
                             {.calls = p.moved > (64 << 20) ? 20 : 60, .replays = replays, .budget_us = 2e5});
  std::ranges::sort(us);
  return quantile(us, 0.5);
}

/// Kernels of one candidate, each with a copy of the weights, input `w`: as many as three L2 caches do not hold.
std::vector<std::unique_ptr<ops::Kernel>> with_copies(const Problem& p, size_t w, size_t candidate) {
  const int64_t copies = std::clamp<int64_t>(3 * gpu()->info.l2_bytes / p.inputs[w].nbytes() + 1, 2, 64);
  std::vector<std::unique_ptr<ops::Kernel>> kernels;
  for (int64_t i = 0; i < copies; ++i) {
    ops::BoundNode b = bound(p);
    b.inputs[w].constant = Tensor::empty(DType::i8, p.inputs[w].shape());
    std::memcpy(b.inputs[w].constant.raw(), p.inputs[w].raw(), static_cast<size_t>(p.inputs[w].nbytes()));
    kernels.push_back(ops::offer(b, machine()).candidates.at(candidate).prepare());
  }
  return kernels;
}

}  // namespace

void gemm_int8(const std::vector<std::array<int64_t, 3>>& problems) {
  fmt::print("{:>18} {:>4} {:>9} {:>9}  {}\n", "m n k", "y", "cuda", "hopper",
             "us, weights in L2; the best again with cold ones, TOP/s");
  for (const auto& [m, n, k] : problems)
    for (const bool requantised : {false, true}) {
      const Problem p = product_of(m, n, k, requantised);
      const ops::Offer offer = ops::offer(bound(p), machine());
      std::vector<std::future<std::unique_ptr<ops::Kernel>>> made;
      for (const ops::Candidate& c : offer.candidates) made.push_back(std::async(std::launch::async, c.prepare));
      std::map<std::string, Timed> tactics;
      size_t fastest = 0;
      double us = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < made.size(); ++i) {
        std::vector<std::unique_ptr<ops::Kernel>> kernel;
        kernel.push_back(made[i].get());
        const double t = time_in_turn(p, kernel, 8);
        if (Timed& best = tactics[offer.candidates[i].tactic]; t < best.us) best = {offer.candidates[i].config, t};
        if (t < us) us = t, fastest = i;
      }
      const double cold = time_in_turn(p, with_copies(p, requantised ? 3 : 1, fastest), 20);
      fmt::print("{:>18} {:>4} {:9.2f} {:9.2f}  {} {}; {:.2f} us, {:.0f} TOP/s\n", fmt::format("{} {} {}", m, n, k), p.name,
                 tactics["cuda"].us, tactics["hopper"].us, offer.candidates[fastest].tactic, offer.candidates[fastest].config,
                 cold, 2e-6 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / cold);
      std::fflush(stdout);
    }
}

}  // namespace smelt::bench
