// A product of a few rows (a token, a batch of one) with a matrix that is read once, where the model stored it and in its own
// type: nothing is packed, so a model's weights stay in its mapped file, and half-precision ones cost half the memory traffic. Of a
// product with one column the operands change places: its right one is the row then.
#include <fmt/core.h>

#include "base/number.h"
#include "expr/simd/widest.h"
#include "ops/core/align.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/matmul/cpu_sums.h"
#include "ops/matmul/offer.h"
#include "ops/matmul/simd/skinny.h"

namespace smelt::ops::matmul {
namespace {

const SkinnyTable& table() { return simd::widest_of(base::skinny_table, avx2::skinny_table, avx512::skinny_table); }

class SkinnyProduct final : public Kernel {
 public:
  SkinnyProduct(const Product& p, bool turned, CpuEpilogue epilogue, int threads)
      : epilogue_(std::move(epilogue)),
        rows_input_(turned ? 1 : 0),
        rows_type_(p.bound.inputs[rows_input_].type),
        converted_(p.bound.inputs[rows_input_], 1),
        type_(required_float_kind(p.problem.input)),
        m_(turned ? 1 : p.problem.m),
        n_(turned ? p.problem.m : p.problem.n),
        k_(p.problem.k),
        alpha_(static_cast<float>(p.alpha)),
        turned_(turned),
        across_(turned ? p.a_row == 1 && p.a_column != 1 : p.b_column == 1),
        b_step_(turned    ? (across_ ? p.a_column : p.a_row)
                : across_ ? p.b_row
                          : p.b_column) {
    threads_ = useful_threads(threads, n_ * k_);
    // Columns of a task: a block of sums stays in the L1 cache while the rows of b go by.
    constexpr int64_t widest = 1024, grain = 64;
    block_ = std::min(widest, (divide_up(n_, threads_) + grain - 1) / grain * grain);
  }

  int64_t workspace() const override { return rows_bytes() + threads_ * (sums_bytes() + epilogue_.scratch()); }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const float* a = static_cast<const float*>(b.inputs[rows_input_]);
    if (copies_rows()) {
      float* rows = reinterpret_cast<float*>(memory);
      converted_.run(rows, b.inputs[rows_input_]);
      if (alpha_ != 1) {
        for (int64_t i = 0; i < m_ * k_; ++i) rows[i] *= alpha_;
      }
      a = rows;
      memory += rows_bytes();
    }
    const CpuEpilogue::Runner runner(epilogue_, b, memory + threads_ * sums_bytes());
    parallel_dynamic(threads_, divide_up(n_, block_), [&](int64_t block, int thread) {
      float* sums = reinterpret_cast<float*>(memory + thread * sums_bytes());
      const int64_t column = block * block_, columns = std::min(block_, n_ - column);
      const int64_t element = type_ == FloatKind::f32 ? 4 : 2;
      const char* from = static_cast<const char*>(b.inputs[1 - rows_input_]) + (across_ ? column : column * b_step_) * element;
      const SkinnyTable& kernels = table();
      for (int64_t row = 0; row < m_; row += skinny_rows) {
        const int rows = static_cast<int>(std::min<int64_t>(skinny_rows, m_ - row));
        (across_ ? kernels.across : kernels.along)(type_, from, b_step_, k_, columns, a + row * k_, k_, rows, sums + row * block_,
                                                   block_);
      }
      if (turned_)
        finish_sums(epilogue_, runner, b, {column, columns, 0, 1, sums, 1, thread}, 1);
      else
        finish_sums(epilogue_, runner, b, {0, m_, column, columns, sums, block_, thread}, n_);
    });
  }

 private:
  bool copies_rows() const { return rows_type_ != DType::f32 || alpha_ != 1; }
  int64_t rows_bytes() const { return copies_rows() ? aligned(m_ * k_ * 4) : 0; }
  int64_t sums_bytes() const { return aligned(m_ * block_ * 4); }

  CpuEpilogue epilogue_;
  size_t rows_input_;  // of the operand whose rows are few
  DType rows_type_;
  ConvertToF32 converted_;
  FloatKind type_;
  int64_t m_, n_, k_;
  float alpha_;
  bool turned_, across_;  // across: rows of the other operand are those of K; else those of N
  int64_t b_step_, block_ = 0;
  int threads_ = 1;
};

/// Whether the operands change places.
bool is_turned(const Problem& p) { return p.n == 1 && p.m > 2 * skinny_rows; }

std::optional<Refusal> rejects(const Request& r) {
  const Product& p = r.product;
  constexpr int64_t most_rows = 2 * skinny_rows;
  if (p.problem.m > most_rows && !is_turned(p.problem))
    return refuse(Reason::not_profitable, "{} rows; it pays up to {}", p.problem.m, most_rows);
  if (!p.problem.b_batch.empty() || (!is_turned(p.problem) && (p.a_column != 1 || p.a_row != p.problem.k)))
    return refuse(Reason::wrong_layout, "rows that are not one after the other, or a batch");
  if (!float_kind(p.problem.input) || p.bound.inputs[1].type != p.problem.input)
    return refuse(Reason::wrong_type, "types {}", smelt::name(p.problem.input));
  if (p.b_column != 1 && p.b_row != 1) return refuse(Reason::wrong_layout, "a right operand of neither rows nor columns");
  if (auto why = rejects_operands(p.bound.inputs.size())) return why;
  return std::nullopt;
}

}  // namespace

void offer_skinny(const Request& r, Offer& offer) {
  if (const auto why = rejects(r)) return offer.refuse("cpu", *why);
  const Problem& p = r.product.problem;
  // One Zen 3 core at 3.2 GHz: 12 GB/s of B from memory, as indirect.cpp's, and 30 GFLOP/s where several rows reuse it.
  const double bytes = static_cast<double>(smelt::bytes(p.input, (is_turned(p) ? p.m : p.n) * p.k));
  offer.candidates.push_back({"cpu", "in place", 1 + std::max(bytes / 12e3, p.flops() / 30e3) / r.threads,
                              [product = r.product, epilogue = r.epilogue, threads = r.threads] {
                                return std::make_unique<SkinnyProduct>(product, is_turned(product.problem), epilogue, threads);
                              }});
}

}  // namespace smelt::ops::matmul
