// A matrix product whose right operand is computed, or whose batches each have their own, or whose left operand is transposed:
// the operands are packed in the run, then multiplied as in cpu_indirect.cpp.
#include <fmt/core.h>

#include "ops/core/align.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/igemm/simd/panels.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/cpu/parallel.h"
#include "ops/matmul/cpu_indirect_rows.h"
#include "ops/matmul/offer.h"
#include "ops/matmul/packed_in_run.h"

namespace smelt::ops::matmul {
namespace {

using igemm::tile_columns;

/// Panel `panel` of B, element (k, n) at from[k * row + n * column].
void pack_panel(float* packed, const float* from, int64_t panel, int64_t k, int64_t n, int64_t row, int64_t column, float alpha) {
  const int64_t first = panel * tile_columns, left = n - first, width = left <= 8 ? 8 : tile_columns;
  avx2::pack_panel(packed + first * k, width, from + first * column, row, column, k, std::min(width, left), alpha);
}

class ComputedProduct final : public Kernel {
 public:
  ComputedProduct(const Product& p, CpuEpilogue epilogue, int threads)
      : epilogue_(std::move(epilogue)),
        converted_a_(p.bound.inputs[0], threads),
        converted_b_(p.bound.inputs[1], threads),
        alpha_(static_cast<float>(p.alpha)),
        n_(p.problem.n),
        k_(p.problem.k),
        a_row_(p.a_row),
        a_column_(p.a_column),
        b_row_(p.b_row),
        b_column_(p.b_column),
        threads_(threads),
        batches_(p, threads) {
    const bool tall = p.problem.b_batch.empty();
    m_ = p.problem.m;
    const std::vector<igemm::Part> parts = igemm::split(std::vector<int64_t>{k_});
    schedule_ = igemm::schedule(m_, n_, parts, !epilogue_.simple(), batches_.share());
    const Shape own_rows = {m_}, packed_step = {k_}, stored_step = {a_row_};
    const igemm::RowMap map = tall && !packs_a() ? tall_rows(p) : igemm::RowMap(own_rows, packs_a() ? packed_step : stored_step);
    for (int i = 0; i < batches_.workers(); ++i) rows_.emplace_back(map, parts);
    const Shape c_step = {n_};
    c_rows_ = igemm::RowMap(own_rows, c_step);
  }

  int64_t workspace() const override {
    return converted_a_.workspace() + converted_b_.workspace() + batches_.workers() * worker_bytes() +
           threads_ * epilogue_.scratch();
  }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const float* a = converted_a_.into_f32(b.inputs[0], memory);
    const float* right = converted_b_.into_f32(b.inputs[1], memory);
    char* workers_memory = memory;
    const CpuEpilogue::Runner runner(epilogue_, b, memory + batches_.workers() * worker_bytes());
    batches_.run([&](int64_t batch, int worker, int thread) {
      one(a, right, batch, rows_[static_cast<size_t>(worker)], workers_memory + worker * worker_bytes(), runner, thread);
    });
  }

 private:
  bool packs_a() const { return a_column_ != 1; }
  int64_t panels_bytes() const { return aligned(igemm::packed_floats(k_, n_) * 4); }
  int64_t rows_bytes() const { return packs_a() ? aligned(m_ * k_ * 4) : 0; }
  int64_t worker_bytes() const { return panels_bytes() + rows_bytes() + aligned(igemm::workspace(schedule_)); }

  void one(const float* a, const float* right, int64_t batch, MatrixRows& rows, char* memory, const CpuEpilogue::Runner& runner,
           int thread) {
    float* panels = reinterpret_cast<float*>(memory);
    float* left = reinterpret_cast<float*>(memory + panels_bytes());
    a += batches_.a(batch);
    right += batches_.b(batch);
    parallel(batches_.share(), (n_ + tile_columns - 1) / tile_columns, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = begin; panel < end; ++panel) pack_panel(panels, right, panel, k_, n_, b_row_, b_column_, alpha_);
    });
    if (packs_a()) pack_left(left, a, m_, k_, a_row_, a_column_, batches_.share());
    rows.set(packs_a() ? left : a);
    igemm::Run r;
    r.rows = &rows;
    r.b = panels;
    r.workspace = memory + panels_bytes() + rows_bytes();
    runner.end(r);
    // This batch's part of the output, whose matrices are dense.
    const BatchRows shifted(runner, batch * m_, 0, thread);
    if (r.finish) r.finish = &shifted;
    r.c += batch * m_ * n_;
    r.c_rows = &c_rows_;
    if (r.residual) {
      r.residual += batch * m_ * n_;
      r.residual_rows = &c_rows_;
    }
    igemm::run(schedule_, r);
  }

  CpuEpilogue epilogue_;
  ConvertToF32 converted_a_, converted_b_;
  float alpha_;
  int64_t m_, n_, k_, a_row_, a_column_, b_row_, b_column_;
  int threads_;
  Batches batches_;
  igemm::RowMap c_rows_;
  igemm::Schedule schedule_;
  std::vector<MatrixRows> rows_;  // one a worker
};

std::optional<Refusal> rejects(const Request& r) {
  const Product& p = r.product;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  const auto floating = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; };
  if (!floating(p.problem.input) || !floating(p.problem.output) || p.bound.inputs[1].type != p.problem.input) {
    return refuse(Reason::wrong_type, "types {} > {}", smelt::name(p.problem.input), smelt::name(p.problem.output));
  }
  if (p.bound.inputs[1].constant.valid() && p.a_column == 1 && p.problem.b_batch.empty())
    return refuse(Reason::unsupported, "a constant right operand, packed beforehand");
  if (auto why = rejects_operands(p.bound.inputs.size())) return why;
  return std::nullopt;
}

}  // namespace

void offer_indirect_packed_in_run(const Request& r, Offer& offer) {
  if (const auto why = rejects(r)) return offer.refuse("avx2", *why);
  const Problem& p = r.product.problem;
  // One Zen 3 core at 3.2 GHz, measured: 80 GFLOP/s. On a Xeon an element of a right operand takes half a nanosecond, of a transposed left
  // one, whose rows are a power of two apart, four.
  constexpr double packed_per_us = 2e3, turned_per_us = 250, bytes_per_us = 12e3;
  const double flops_per_us = 80e3 * igemm::rate();
  const double packed = static_cast<double>(p.batch() * p.k) * static_cast<double>(p.n) / packed_per_us;
  const double turned = p.a_columns ? static_cast<double>(p.batch() * p.k) * static_cast<double>(p.m) / turned_per_us : 0;
  const double compute = p.flops() * igemm::padding(p.n) / flops_per_us,
               memory = static_cast<double>(p.batch()) * igemm::moved(p.m, p.n, p.k) / bytes_per_us;
  const double tiles = static_cast<double>(p.batch()) * igemm::tiles_us(p.m, p.n);
  offer.candidates.push_back({"avx2", "packed in the run", 3 + (std::max(compute, memory) + tiles + packed + turned) / r.threads,
                              [product = r.product, epilogue = r.epilogue, threads = r.threads] {
                                return std::make_unique<ComputedProduct>(product, epilogue, threads);
                              }});
}

}  // namespace smelt::ops::matmul
