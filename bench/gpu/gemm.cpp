// Matrix products with bias and an activation, weights [K, N] by rows: the 24 shapes that the project measures itself by in f16,
// four large ones, and every configuration for any shape and type.
#include <fstream>
#include <limits>
#include <map>
#include <regex>

#include "device/cuda/ceilings.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cublaslt.h"
#include "product.h"

namespace smelt::bench {
namespace {

constexpr Mnk shapes[] = {
    {48, 4608, 4096},   {48, 4096, 4096},   {48, 4096, 13696},  {2, 4608, 4096},     {2, 4096, 4096},   {2, 4096, 13696},
    {34, 4096, 4096},   {34, 4096, 11008},  {2, 4096, 11008},   {2, 4096, 40000},    {2, 4096, 44032},  {2, 4096, 176128},
    {2, 1024, 40000},   {2, 1024, 4000},    {512, 4608, 1152},  {512, 1152, 4608},   {512, 3456, 1152}, {512, 1152, 1152},
    {3072, 3072, 768},  {3072, 768, 3072},  {197, 3072, 768},   {4096, 1408, 512},   {4096, 512, 1408}, {4096, 32000, 512},
    {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192}, {4096, 4096, 11008},  // behind the 24: bound by operations
};

/// What else models multiply: rows of a batch or a sequence by these columns and depths.
constexpr int64_t row_counts[] = {1, 8, 16, 32, 64, 128, 256, 384, 768, 1536, 4096};
constexpr Mnk of_models[] = {{0, 768, 768},   {0, 3072, 768},  {0, 768, 3072}, {0, 2304, 768},
                             {0, 1024, 1024}, {0, 4096, 1024}, {0, 320, 1280}, {0, 11008, 4096}};

/// The line that a table of figures is worth nothing without.
void print_machine() {
  fmt::print("{}, driver {}, {}, {}\n", gpu()->info.name, gpu()->info.driver, cuda::compiler_version(),
             cuda::cublaslt_missing().empty() ? cuda::cublaslt_version() : "no cuBLASLt");
}

struct Timed {
  std::string name;
  double us = std::numeric_limits<double>::infinity();
};

/// Operations a second of mma.sync on registers alone, where it runs as long as the products beside it.
double mma_sync_rate(DType type) {
  const cuda::Module module(gpu()->device, gpu()->cubins->get(cuda::ceiling_kernels(), gpu()->info.arch), "ceilings");
  const auto& function = module.function(fmt::format("mma_{}", name(type)));
  const auto blocks = static_cast<unsigned>(gpu()->info.multiprocessors * 2);
  void* nowhere = nullptr;
  int rounds = 1024;
  void* parameters[] = {&nowhere, &rounds};
  const auto us = cuda::time_graph(gpu()->device,
                                   [&](int, cuda::abi::Stream stream) {
                                     function.launch({.grid = {blocks, 1, 1}, .block = {256, 1, 1}}, parameters, stream);
                                   },
                                   {.calls = 20, .replays = 30, .budget_us = 2e5});
  const double operations = type == DType::i8 ? 2.0 * 16 * 8 * 32 : 2.0 * 16 * 8 * 16;
  std::vector<double> sorted = us;
  std::ranges::sort(sorted);
  return blocks * 8.0 * rounds * 8 * operations / quantile(sorted, 0.5) * 1e6;
}

/// What a test of the cost model has of a product: its fastest tiles, those that take 4% longer among them.
std::string row_of_ranks(const std::string& epilogue, int64_t m, int64_t n, int64_t k, std::vector<Timed> all) {
  std::ranges::sort(all, {}, &Timed::us);
  std::string fastest;
  for (const Timed& t : all)
    if (t.us <= 1.04 * all[0].us) fastest += (fastest.empty() ? "" : ", ") + t.name;
  return fmt::format("    {{\"{}\", {}, {}, {}, \"{}\"}},\n", epilogue, m, n, k, fastest);
}

/// The norm of x - y over y's.
double norm_difference(const Tensor& x, const Tensor& y) {
  double apart = 0, norm = 0;
  const auto add = [&](double a, double b) { apart += (a - b) * (a - b), norm += b * b; };
  for (int64_t i = 0; i < y.size(); ++i) {
    if (y.type() == DType::f16)
      add(float(x.data<Half>()[i]), float(y.data<Half>()[i]));
    else
      add(float(x.data<BFloat>()[i]), float(y.data<BFloat>()[i]));
  }
  return std::sqrt(apart / norm);
}

}  // namespace

void gemm_tiles(const std::string& epilogue, const std::string& wanted, const std::vector<std::array<int64_t, 3>>& problems) {
  print_machine();
  for (const auto& [m, n, k] : problems) {
    const Product product({m, n, k}, ProductKind::parse(epilogue));
    const auto found = ops::matmul::cuda_problem(product.node());
    std::vector<ops::matmul::CudaConfig> configs = *ops::matmul::product_configs(*found, *gpu());
    for (const auto& c : ops::matmul::streamed_configs(*found, *gpu())) configs.push_back(c);
    std::erase_if(configs, [&](const auto& c) { return !std::regex_search(c.print(), std::regex(wanted)); });
    std::vector<std::future<std::unique_ptr<ops::Kernel>>> kernels;
    for (const auto& c : configs)
      kernels.push_back(std::async(std::launch::async, [&found, &c] { return ops::matmul::cuda_product(*found, c, *gpu()); }));
    Timed theirs;
    std::unique_ptr<ops::Kernel> vendor;
    for (const ops::Candidate& c : offer_of(product).candidates)
      if (c.tactic == "cublaslt") {
        auto kernel = c.prepare();
        const double us = quantile(product.time(*kernel, 10), 0.5);
        if (us < theirs.us) theirs = {c.config, us}, vendor = std::move(kernel);
      }
    const Tensor want = vendor && m * n <= (1 << 24) ? product.result(*vendor) : Tensor();
    const double ceiling = mma_sync_rate(found->type), flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
    fmt::print(
        "{} {} {} {}: mma.sync {:.1f} TFLOP/s, cublaslt {:.2f} us; us, share of mma.sync, of cublaslt, guessed, difference\n", m,
        n, k, epilogue, ceiling * 1e-12, theirs.us);
    struct Row {
      double us, apart, guessed;
      std::string config;
    };
    std::vector<Row> rows;
    for (size_t i = 0; i < configs.size(); ++i) {
      const auto kernel = kernels[i].get();
      const double apart = want.valid() ? norm_difference(product.result(*kernel), want) : 0;
      rows.push_back({quantile(product.time(*kernel, 10), 0.5), apart, ops::matmul::cuda_estimate_us(*found, configs[i], *gpu()),
                      configs[i].print()});
    }
    std::ranges::sort(rows, {}, &Row::us);
    for (const Row& r : rows)
      fmt::print("{:9.2f} {:6.3f} {:6.2f} {:9.2f}  {:.1e}{}  {}\n", r.us, flops / r.us * 1e6 / ceiling, theirs.us / r.us,
                 r.guessed, r.apart, r.apart < 2e-3 ? "" : " WRONG", r.config);
    std::fflush(stdout);
  }
}

void gemm(std::span<const std::string> epilogues, size_t first, size_t last, bool cuda_too) {
  print_machine();
  fmt::print("{:>18} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6}  {}\n", "m n k", "", "cuda", "hopper", "early", "cublaslt",
             "ratio", "early", "TB/s", "the best of each; ratio: smelt's best to cuBLASLt's, and hopper's with early launch");
  for (size_t s = first; s < std::min(last, std::size(shapes)); ++s) {
    for (const std::string& epilogue : epilogues) {
      const Product p(shapes[s], ProductKind::parse(epilogue));
      ops::Offer offer = offer_of(p);
      if (!cuda_too) std::erase_if(offer.candidates, [](const ops::Candidate& c) { return c.tactic == "cuda"; });
      auto kernels = prepare(p, offer);
      std::map<std::string, Timed> tactics;
      for (size_t i = 0; i < kernels.size(); ++i) {
        const auto kernel = kernels[i].get();
        Timed& best = tactics[offer.candidates[i].tactic];
        const double first = quantile(p.time(*kernel, 5), 0.5);
        // A tile may gain more or less than others by early launch, up to what is between two kernels.
        if (Timed& early = tactics["early"]; offer.candidates[i].tactic == "hopper" && first < 1.2 * early.us)
          if (const double us = quantile(p.time(*kernel, 15, true), 0.5); us < early.us) early = {offer.candidates[i].config, us};
        if (first > 1.05 * best.us) continue;
        const double us = quantile(p.time(*kernel, 30), 0.5);
        if (us < best.us) best = {offer.candidates[i].config, us};
      }
      const Timed &cuda = tactics["cuda"], &hopper = tactics["hopper"], &early = tactics["early"], &theirs = tactics["cublaslt"];
      const double ours = std::min(cuda.us, hopper.us);
      fmt::print("{:>18} {:>9} {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:6.2f} {:6.2f} {:6.2f}  {}, {}, {}, {}\n",
                 fmt::format("{} {} {}", shapes[s].m, shapes[s].n, shapes[s].k), epilogue, cuda.us, hopper.us, early.us,
                 theirs.us, ours / theirs.us, early.us / theirs.us, static_cast<double>(p.moved()) / ours / 1e6, cuda.name,
                 hopper.name, early.name, theirs.name);
      std::fflush(stdout);
    }
  }
}

void gemm_every(const std::string& file, const std::vector<std::array<int64_t, 3>>& problems, const std::string& epilogue,
                const std::string& wanted) {
  print_machine();
  fmt::print("{:>18} {:>8} {:>8} {:>6} {:>9} {:>5}  {}\n", "m n k", "hopper", "cublaslt", "ratio", "first 8", "rank",
             "the best; first 8: the best of those offered so, over the best; rank of the best among the offered");
  std::ofstream csv(file, std::ios::app);
  constexpr size_t most = 160, first_offered = 8;
  std::string rows;
  int64_t kept = 0, close = 0, count = 0;  // problems whose best is among the first offered, or takes 2% less than theirs
  for (const auto& [m, n, k] : problems) {
    const Product product({m, n, k}, ProductKind::parse(epilogue));
    const auto found = ops::matmul::cuda_problem(product.node());
    const ops::matmul::CudaProblem& p = *found;
    std::vector<ops::matmul::HopperConfig> configs = *ops::matmul::hopper_configs(p, *gpu());
    const double guess = ops::matmul::hopper_estimate_us(p, configs.at(0), *gpu());
    const std::regex names(wanted);
    std::erase_if(configs, [&](const auto& c) {
      return wanted.empty() ? ops::matmul::hopper_estimate_us(p, c, *gpu()) > 1.8 * guess : !std::regex_search(c.print(), names);
    });
    if (configs.size() > most) configs.resize(most);
    if (configs.empty()) continue;
    std::vector<std::future<std::unique_ptr<ops::Kernel>>> kernels;
    for (size_t i = 0; i < product.copies(); ++i) product.node(i);  // made before threads ask for them
    for (const auto& c : configs)
      kernels.push_back(std::async(std::launch::async, [&product, &c] { return hopper_kernel(product, c); }));
    Timed best, theirs;
    double first = best.us;
    size_t rank = 0;
    std::vector<Timed> all;
    std::map<std::string, size_t> offered;
    for (const auto& c : ops::matmul::hopper_offered(configs, configs.size())) offered.try_emplace(c.print(), offered.size());
    for (size_t i = 0; i < configs.size(); ++i) {
      const double us = quantile(product.time(*kernels[i].get(), 5), 0.5);
      csv << fmt::format("{},{},{},{},{},{:.3f},{:.3f}\n", m, n, k, epilogue, configs[i].print(), us,
                         ops::matmul::hopper_estimate_us(p, configs[i], *gpu()));
      const auto at = offered.find(configs[i].print());
      const size_t place = at == offered.end() ? configs.size() : at->second;
      if (us < best.us) best = {configs[i].print(), us}, rank = place;
      all.push_back({configs[i].print(), us});
      if (place < first_offered) first = std::min(first, us);
    }
    ++count, kept += rank < first_offered ? 1 : 0, close += first <= 1.02 * best.us ? 1 : 0;
    for (const ops::Candidate& c : offer_of(product).candidates)
      if (c.tactic == "cublaslt")
        if (const double us = quantile(product.time(*c.prepare(), 5), 0.5); us < theirs.us) theirs = {c.config, us};
    csv << fmt::format("{},{},{},{},cublaslt,{:.3f},0\n", m, n, k, epilogue, theirs.us) << std::flush;
    fmt::print("{:>18} {:8.2f} {:8.2f} {:6.2f} {:9.3f} {:>5}  {}\n", fmt::format("{} {} {}", m, n, k), best.us, theirs.us,
               best.us / theirs.us, first / best.us, fmt::format("{}/{}", rank, configs.size()), best.name);
    rows += row_of_ranks(epilogue, m, n, k, std::move(all));
    std::fflush(stdout);
  }
  fmt::print("Rows of tests/ops/matmul/hopper_ranks_test.cpp:\n{}", rows);
  fmt::print("of {} problems the best is among the first {} offered in {}, theirs takes at most 2% longer in {}\n", count,
             first_offered, kept, close);
}

std::vector<std::array<int64_t, 3>> gemm_shapes(size_t first, size_t last) {
  std::vector<std::array<int64_t, 3>> list;
  for (size_t s = first; s < std::min(last, std::size(shapes)); ++s) list.push_back({shapes[s].m, shapes[s].n, shapes[s].k});
  for (size_t s = std::max(first, std::size(shapes));
       s < std::min(last, std::size(shapes) + std::size(row_counts) * std::size(of_models)); ++s) {
    const size_t at = s - std::size(shapes);
    const Mnk& p = of_models[at % std::size(of_models)];
    list.push_back({row_counts[at / std::size(of_models)], p.n, p.k});
  }
  return list;
}

void gemm_candidates(int64_t m, int64_t n, int64_t k, const std::string& epilogue, DType type) {
  const Product product({m, n, k}, ProductKind{type, epilogue});
  const auto found = ops::matmul::cuda_problem(product.node());
  const ops::matmul::CudaProblem& p = *found;
  std::vector<ops::matmul::CudaConfig> configs = *ops::matmul::product_configs(p, *gpu());
  const double guess = ops::matmul::cuda_estimate_us(p, configs.at(0), *gpu());
  for (const auto& c : ops::matmul::streamed_configs(p, *gpu())) configs.push_back(c);
  std::erase_if(configs, [&](const auto& c) { return ops::matmul::cuda_estimate_us(p, c, *gpu()) > 2 * guess; });
  struct Row {
    double guessed;
    std::string config;
    std::future<std::unique_ptr<ops::Kernel>> kernel;
  };
  std::vector<Row> kernels;
  for (const auto& c : configs)
    kernels.push_back({ops::matmul::cuda_estimate_us(p, c, *gpu()), c.print(),
                       std::async(std::launch::async, [&p, &c] { return ops::matmul::cuda_product(p, c, *gpu()); })});
  const auto hopper = ops::matmul::hopper_configs(p, *gpu());
  for (size_t i = 0; hopper && i < hopper->size(); ++i) {
    const auto& c = (*hopper)[i];
    kernels.push_back({ops::matmul::hopper_estimate_us(p, c, *gpu()), "hopper " + c.print(),
                       std::async(std::launch::async, [&p, &c] { return ops::matmul::hopper_product(p, c, *gpu()); })});
  }
  std::vector<std::tuple<double, double, std::string>> rows;
  for (Row& r : kernels) rows.emplace_back(quantile(product.time(*r.kernel.get(), 5), 0.5), r.guessed, r.config);
  std::ranges::sort(rows);
  print_machine();
  fmt::print("{} {} {} {} {}: us, guessed\n", m, n, k, epilogue, name(type));
  for (const auto& [us, guessed, config] : rows) fmt::print("{:8.2f} {:8.2f}  {}\n", us, guessed, config);
  std::fflush(stdout);
}

}  // namespace smelt::bench
