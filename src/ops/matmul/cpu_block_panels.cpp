// A product of many rows with weights in blocks: some columns at a time are made panels of floats in a thread's memory, and multiplied
// as in cpu_indirect.cpp. Every weight is widened once; no float form of all of them takes memory.
#include <fmt/core.h>

#include "ops/core/align.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/matmul/block_problem.h"
#include "ops/matmul/cpu_indirect_rows.h"

namespace smelt::ops::matmul {
namespace {

using igemm::tile_columns;

/// Sums of some columns, as those of all.
class ColumnsFrom final : public igemm::Finish {
 public:
  ColumnsFrom(const igemm::Finish& to, int64_t column, int thread) : to_(to), column_(column), thread_(thread) {}
  void take(const igemm::Sums& sums) const override {
    igemm::Sums s = sums;
    s.column += column_;
    s.thread = thread_;
    to_.take(s);
  }

 private:
  const igemm::Finish& to_;
  int64_t column_;
  int thread_;
};

/// Columns of a task: at most 2 MB of panels, and several tasks for each thread.
int64_t columns_at_once(const BlockProduct& p, int threads) {
  constexpr int64_t most_floats = 512 << 10, widest = 256, tasks_each = 4;
  const int64_t fitting = most_floats / std::max<int64_t>(p.k, 1), shared = p.n / (threads * tasks_each);
  return std::clamp(std::min(fitting, shared) / tile_columns * tile_columns, int64_t{2 * tile_columns}, widest);
}

class BlockPanels final : public Kernel {
 public:
  BlockPanels(const BlockProduct& p, CpuEpilogue epilogue, int threads)
      : threads_(threads),
        epilogue_(std::move(epilogue)),
        converted_(p.bound.inputs[block_a], threads),
        weights_(p.weights),
        zeros_(block_zero_points(p, weights_)),
        n_(p.n),
        columns_(columns_at_once(p, threads)),
        parts_(igemm::split(std::vector<int64_t>{p.k})),
        rows_(igemm::RowMap(Shape{p.m}, Shape{p.k}), parts_),
        schedule_(igemm::schedule(p.m, std::min(columns_, n_), parts_, !epilogue_.simple(), 1)),
        last_(igemm::schedule(p.m, n_ - (n_ - 1) / columns_ * columns_, parts_, !epilogue_.simple(), 1)) {
    if (zeros_.valid()) weights_.zeros = zeros_.data<uint8_t>();
  }

  int64_t workspace() const override { return converted_.workspace() + threads_ * (thread_bytes() + epilogue_.scratch()); }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const float* a = converted_.into_f32(b.inputs[block_a], memory);
    weights_.q = static_cast<const uint8_t*>(b.inputs[block_weights]);
    weights_.scales = b.inputs[block_scales];
    rows_.set(a);
    const CpuEpilogue::Runner runner(epilogue_, b, memory + threads_ * thread_bytes());
    parallel_dynamic(threads_, (n_ + columns_ - 1) / columns_,
                     [&](int64_t task, int thread) { some(task * columns_, runner, memory + thread * thread_bytes(), thread); });
  }

 private:
  int64_t panels_bytes() const { return aligned(igemm::packed_floats(schedule_.k, columns_) * 4); }
  int64_t thread_bytes() const {
    return panels_bytes() + aligned(std::max(igemm::workspace(schedule_), igemm::workspace(last_)));
  }

  void some(int64_t column, const CpuEpilogue::Runner& runner, char* memory, int thread) const {
    const igemm::Schedule& schedule = column + columns_ <= n_ ? schedule_ : last_;
    float* panels = reinterpret_cast<float*>(memory);
    for (int64_t j = 0; j < schedule.n; j += tile_columns) {
      const int64_t left = schedule.n - j, width = left <= 8 ? 8 : tile_columns;
      avx2::block_panel(block_weights_at(weights_, column + j), std::min(left, width), width, 0, schedule.k,
                        panels + j * schedule.k);
    }
    igemm::Run r;
    r.rows = &rows_;
    r.b = panels;
    r.workspace = memory + panels_bytes();
    runner.end(r);
    const ColumnsFrom finish(runner, column, thread);
    if (r.finish) r.finish = &finish;
    r.c += column;
    if (r.bias) r.bias += column;
    if (r.residual) r.residual += column;
    igemm::run(schedule, r);
  }

  int threads_;
  CpuEpilogue epilogue_;
  ConvertToF32 converted_;
  BlockWeights weights_;
  Tensor zeros_;
  int64_t n_, columns_;
  std::vector<igemm::Part> parts_;
  MatrixRows rows_;
  igemm::Schedule schedule_, last_;  // of a task, and of the last
};

}  // namespace

void offer_block_panels(const BlockRequest& r, Offer& offer) {
  if (!igemm::supported()) return offer.refuse("avx2", Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  const BlockProduct& p = r.product;
  // One Zen 3 core at 3.2 GHz, measured: 90 GFLOP/s, and 5 weights widened in a nanosecond.
  const double weights = static_cast<double>(p.n) * static_cast<double>(p.k);
  const double us = 2 * weights * static_cast<double>(p.m) / 90e3 + weights / 5e3;
  offer.candidates.push_back(
      {"avx2", "panels in the run", 2 + us / r.threads, [product = p, epilogue = r.epilogue, threads = r.threads] {
         return std::make_unique<BlockPanels>(product, epilogue, threads);
       }});
}

}  // namespace smelt::ops::matmul
