// A product of rows (a token, or a few) with weights in blocks: they are read as the model stored them, once for each group of rows,
// and widened in registers. As floats for a few rows; rounded to 8 bits, where the model lets that, for any count.
#include <fmt/core.h>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/matmul/block_problem.h"
#include "ops/matmul/cpu_sums.h"

namespace smelt::ops::matmul {
namespace {

const BlockTable& of_floats() {
  return simd::best() == simd::Isa::avx2 ? avx2::block_product_table() : base::block_product_table();
}

class BlockRows final : public Kernel {
 public:
  BlockRows(const BlockProduct& p, CpuEpilogue epilogue, const BlockTable& table, int threads)
      : table_(table),
        epilogue_(std::move(epilogue)),
        converted_(p.bound.inputs[block_a], 1),
        weights_(p.weights),
        zeros_(block_zero_points(p, weights_)),
        m_(p.m),
        n_(p.n),
        k_(p.k),
        row_(table.row_floats(weights_)) {
    weights_.taken = table.taken(weights_.bits);
    if (zeros_.valid()) weights_.zeros = zeros_.data<uint8_t>();
    threads_ = useful_threads(threads, n_ * k_ / 4);
    // Columns of a task: several tasks for each thread, whose weights stay in the L2 cache while groups of rows go by.
    constexpr int64_t widest = 128, grain = 8, tasks_each = 4;
    block_ = std::min(widest, divide_up(divide_up(n_, threads_ * tasks_each), grain) * grain);
    // Elements of K at a time: a group's rows stay in the L1 cache.
    constexpr int64_t l1_floats = 6144;
    const int64_t step = std::max(weights_.block, table.unit(weights_));
    const int64_t rows = std::min<int64_t>(m_, table.rows_of(block_rows)), steps = std::max<int64_t>(divide_up(k_, step), 1);
    range_ = std::max(l1_floats * steps / (rows * row_), int64_t{1}) * step;
  }

  int64_t workspace() const override {
    return converted_.workspace() + rows_bytes() + threads_ * (thread_bytes() + epilogue_.scratch());
  }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const float* a = converted_.into_f32(b.inputs[block_a], memory);
    float* rows = reinterpret_cast<float*>(memory);
    float* sums_of_a = rows + m_ * row_;
    parallel_dynamic(useful_threads(threads_, m_ * k_), m_, [&](int64_t m, int) {
      table_.spread(weights_, a + m * k_, rows + m * row_, starts() ? sums_of_a + m * weights_.blocks : nullptr);
    });
    memory += rows_bytes();
    BlockWeights weights = weights_;
    weights.q = static_cast<const uint8_t*>(b.inputs[block_weights]);
    weights.scales = b.inputs[block_scales];
    const CpuEpilogue::Runner runner(epilogue_, b, memory + threads_ * thread_bytes());
    parallel_dynamic(threads_, divide_up(n_, block_), [&](int64_t block, int thread) {
      float* sums = reinterpret_cast<float*>(memory + thread * thread_bytes());
      const int64_t column = block * block_, columns = std::min(block_, n_ - column);
      multiply(block_weights_at(weights, column), columns, rows, sums_of_a, sums);
      finish_sums(epilogue_, runner, b, {0, m_, column, columns, sums, block_, thread}, n_);
    });
  }

 private:
  bool starts() const { return weights_.zeros || (weights_.zero != weights_.taken && !table_.takes_common_zero); }
  int64_t rows_bytes() const { return aligned(m_ * (row_ + weights_.blocks) * 4); }
  int64_t sums_floats() const { return m_ * block_; }
  int64_t thread_bytes() const { return aligned((sums_floats() + 4 * weights_.blocks + block_memory) * 4); }

  void multiply(const BlockWeights& w, int64_t columns, const float* rows, const float* sums_of_a, float* sums) const {
    float* memory = sums + sums_floats();
    for (int64_t row = 0, count = 0; row < m_; row += count) {
      const int group = table_.rows_of(m_ - row);
      count = group;
      float* y = sums + row * block_;
      if (starts())
        table_.start(w, columns, sums_of_a + row * w.blocks, w.blocks, group, y, block_, memory);
      else
        std::fill_n(y, count * block_, 0.0f);
      for (int64_t from = 0; from < k_; from += range_)
        table_.add(w, columns, from, std::min(k_, from + range_), rows + row * row_, row_, group, y, block_, memory);
    }
  }

  const BlockTable& table_;
  CpuEpilogue epilogue_;
  ConvertToF32 converted_;
  BlockWeights weights_;
  Tensor zeros_;
  int64_t m_, n_, k_, row_, block_ = 0, range_ = 0;
  int threads_ = 1;
};

}  // namespace

void offer_block_rows(const BlockRequest& r, Offer& offer) {
  const BlockProduct& p = r.product;
  constexpr int64_t most_rows = 32;
  if (p.m > most_rows && igemm::supported())
    return offer.refuse("cpu", Reason::not_profitable, "{} rows; it pays up to {}", p.m, most_rows);
  // One Zen 3 core at 3.2 GHz, measured: 18 weights widened in a nanosecond, 55 GFLOP/s where 4 rows share them; 12 GB/s from memory.
  const double weights = static_cast<double>(p.n) * static_cast<double>(p.k), groups = static_cast<double>(divide_up(p.m, 4));
  const double bytes = weights * p.weights.bits / 8, flops = 2 * weights * static_cast<double>(p.m);
  const double us = std::max({bytes / 12e3, groups * weights / 18e3, flops / 55e3});
  offer.candidates.push_back({"cpu", "in place", 1 + us / r.threads, [product = p, epilogue = r.epilogue, threads = r.threads] {
                                return std::make_unique<BlockRows>(product, epilogue, of_floats(), threads);
                              }});
}

void offer_block_bytes(const BlockRequest& r, Offer& offer) {
  const BlockProduct& p = r.product;
  if (!rounds_to_bytes(*p.bound.node) || simd::best() != simd::Isa::avx2) return;  // then sums are of floats
  // One Zen 4 core at 3.7 GHz, measured: weights of a nanosecond where a register of rows shares them, and of memory's 12 GB/s.
  const double products = simd::has_dots() ? 90e3 : 45e3, widened = simd::has_dots() ? 60e3 : 35e3;
  const double weights = static_cast<double>(p.n) * static_cast<double>(p.k), rows = static_cast<double>(p.m);
  const double us = std::max({weights * p.weights.bits / 8 / 12e3, weights / widened, weights * rows / products});
  const BlockTable& table = simd::has_dots() ? avx512::block_bytes_table() : avx2::block_bytes_table();
  offer.candidates.push_back({"cpu", simd::has_dots() ? "bytes vnni" : "bytes avx2", 1 + us / r.threads,
                              [product = p, epilogue = r.epilogue, &table, threads = r.threads] {
                                return std::make_unique<BlockRows>(product, epilogue, table, threads);
                              }});
}

}  // namespace smelt::ops::matmul
