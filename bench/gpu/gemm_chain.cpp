// Chains of matrix products in one CUDA graph, each of which reads the result of the one before it: as a model has them, and with
// early launch (device/cuda/early_kernels.h).
#include "product.h"

namespace smelt::bench {
namespace {

constexpr int calls = 40;  // in a graph

/// Products of m rows: k columns to n, n to k, and so on.
class Chain {
 public:
  Chain(int64_t m, int64_t n, int64_t k, const std::string& epilogue)
      : products_{Product({m, n, k}, ProductKind{DType::f16, epilogue}), Product({m, k, n}, ProductKind{DType::f16, epilogue})},
        wide_(DType::f16, m * n, 1 << 30),
        narrow_(DType::f16, m * k, 1 << 30) {}
  const Product& product(int i) const { return products_[i]; }

  /// Sorted samples, µs a product.
  std::vector<double> time(ops::Kernel& first, ops::Kernel& second, bool early) const {
    void* memory = workspace(std::max<int64_t>(1, std::max(first.workspace(), second.workspace())));
    auto us = cuda::time_graph(gpu()->device,
                               [&](int call, cuda::abi::Stream stream) {
                                 const bool odd = call % 2 != 0;
                                 const Product& p = products_[odd];
                                 const void* in[] = {(odd ? wide_ : narrow_).at(0), p.weights(call), p.bias(call)};
                                 void* out[] = {(odd ? narrow_ : wide_).at(0)};
                                 (odd ? second : first).run({in, out, memory, stream});
                               },
                               {.calls = calls, .replays = 30, .budget_us = 2e5, .early = early});
    std::ranges::sort(us);
    return us;
  }

 private:
  Product products_[2];
  Rotating wide_, narrow_;
};

struct Choice {
  double us;
  std::string tactic, config;
  std::unique_ptr<ops::Kernel> kernel;
};

/// The candidates of a product, the fastest by itself first.
std::vector<Choice> choices(const Product& p) {
  const ops::Offer offer = offer_of(p);
  auto kernels = prepare(p, offer);
  std::vector<Choice> all;
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::unique_ptr<ops::Kernel> kernel = kernels[i].get();
    const double us = quantile(p.time(*kernel, 5), 0.5);
    all.push_back({us, offer.candidates[i].tactic, offer.candidates[i].config, std::move(kernel)});
  }
  std::ranges::sort(all, {}, &Choice::us);
  return all;
}

}  // namespace

void gemm_chain(const std::vector<std::array<int64_t, 3>>& problems, const std::string& epilogue) {
  constexpr size_t tried = 4;  // of hopper's candidates
  fmt::print("{:>18} {:>8} {:>8} {:>8}  {}\n", "m n k", "alone", "chain", "early",
             "us a product: apart with all operands cold, in a chain, in a chain with early launch");
  for (const auto& [m, n, k] : problems) {
    const Chain chain(m, n, k, epilogue);
    std::vector<Choice> first = choices(chain.product(0)), second = choices(chain.product(1));
    for (const char* tactic : {"hopper", "cuda", "cublaslt"}) {
      const auto other = [&](const Choice& c) { return c.tactic != tactic; };
      std::vector<Choice*> a, b;
      for (Choice& c : first)
        if (!other(c)) a.push_back(&c);
      for (Choice& c : second)
        if (!other(c)) b.push_back(&c);
      const size_t count = std::min({a.size(), b.size(), std::string_view(tactic) == "hopper" ? tried : size_t{1}});
      for (size_t i = 0; i < count; ++i) {
        const auto plain = chain.time(*a[i]->kernel, *b[i]->kernel, false),
                   early = chain.time(*a[i]->kernel, *b[i]->kernel, true);
        fmt::print("{:>18} {:8.2f} {:8.2f} {:8.2f}  {} {}, {}\n", fmt::format("{} {} {}", m, n, k), (a[i]->us + b[i]->us) / 2,
                   quantile(plain, 0.5), quantile(early, 0.5), tactic, a[i]->config, b[i]->config);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace smelt::bench
