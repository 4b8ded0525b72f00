// A product of 8-bit integers of little depth, exact: packing, tiles and sums in memory would cost more than the products. Some columns of
// b at a time become pairs in the L1 cache, where all rows of a go by; sums go from registers to where they belong.
#include <algorithm>
#include <cstring>

#include "expr/simd/widest.h"
#include "ops/core/align.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/parallel.h"
#include "ops/matmul/int8_problem.h"
#include "ops/matmul/packed_in_run.h"
#include "ops/matmul/simd/int8_shallow.h"

namespace smelt::ops::matmul {
namespace {

int32_t byte_at(const void* p, int64_t i, DType t) {
  return t == DType::u8 ? static_cast<const uint8_t*>(p)[i] : static_cast<const int8_t*>(p)[i];
}

const Int8ShallowTable& table() { return simd::widest_of(base::int8_shallow, avx2::int8_shallow, avx512::int8_shallow); }

/// Whether b less its zero points is bytes, which dot products of four take as they are: signed ones have none, unsigned ones 128.
bool by_quads(const Product& q) {
  if (!table().pack_quads) return false;
  const Quantization& z = q.quantization();
  const int32_t none = q.bound.inputs[q.b].type == DType::u8 ? 128 : 0;
  if (z.b_zero_input || (z.b_zeros.empty() && none != 0)) return false;
  return std::ranges::all_of(z.b_zeros, [&](int32_t v) { return v == none; });
}

class Int8Shallow final : public Kernel {
 public:
  Int8Shallow(const Product& q, int threads)
      : a_type_(q.bound.inputs[q.a].type),
        b_type_(q.bound.inputs[q.b].type),
        a_input_(q.a),
        b_input_(q.b),
        quantization_(q.quantization()),
        n_(q.problem.n),
        k_(q.problem.k),
        quads_(by_quads(q)),
        words_(quads_ ? (k_ + 3) / 4 : (k_ + 1) / 2),
        a_row_(q.a_row),
        a_column_(q.a_column),
        b_row_(q.b_row),
        b_column_(q.b_column) {
    if (!q.batch.empty()) a_batch_ = igemm::RowMap(q.batch, q.a_steps), b_batch_ = igemm::RowMap(q.batch, q.b_steps);
    // A batch that only a has is part of M.
    (q.problem.b_batch.empty() ? a_batches_ : batches_) = elements(q.batch);
    rows_ = q.problem.m;
    m_ = rows_ / a_batches_;
    threads_ = useful_threads(threads, batches_ * (rows_ * n_ * (words_ + 2) / 8 + k_ * n_ / 4));
    start_ = quantization_.bias;
    start_.resize(static_cast<size_t>(n_ + 16), 0);
    zeros_.resize(static_cast<size_t>(n_), 0);
    for (size_t i = 0; i < zeros_.size() && !quantization_.b_zeros.empty(); ++i)
      zeros_[i] = quantization_.b_zeros[quantization_.b_zeros.size() == 1 ? 0 : i];
    if (q.node->program) epilogue_.emplace(q.bound, q.operands, q.bound.outputs[0].shape.size() - 1, quantization_.scales);
  }

  int64_t workspace() const override {
    return a_bytes() + threads_ * thread_bytes() + threads_ * (epilogue_ ? epilogue_->scratch() : 0);
  }
  bool in_place(size_t i) const override { return epilogue_ && epilogue_->in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    if (quantization_.b_zero_input) std::ranges::fill(zeros_, byte_at(b.inputs[*quantization_.b_zero_input], 0, b_type_));
    widen_rows(b, reinterpret_cast<int32_t*>(memory));
    std::optional<CpuEpilogue::Runner> finish;
    if (epilogue_) finish.emplace(*epilogue_, b, memory + a_bytes() + threads_ * thread_bytes());
    // Columns in parts, of few columns rows too.
    const int64_t parts = (n_ + shallow_columns - 1) / shallow_columns;
    const int64_t row_parts = std::clamp<int64_t>(4 * threads_ / (parts * batches_), 1, (rows_ + block_rows - 1) / block_rows);
    const int64_t each = (rows_ + row_parts - 1) / row_parts;
    parallel_dynamic(threads_, batches_ * parts * row_parts, [&](int64_t task, int thread) {
      const int64_t batch = task / (parts * row_parts), column = task / row_parts % parts * shallow_columns;
      const int64_t first = task % row_parts * each;
      if (first >= rows_) return;
      some(b, finish ? &*finish : nullptr, batch,
           {first, std::min(each, rows_ - first), column, std::min(shallow_columns, n_ - column), nullptr, 0, thread}, memory);
    });
  }

 private:
  static constexpr int64_t block_rows = 16;  // whose sums an epilogue takes at a time
  int64_t a_bytes() const { return aligned(batches_ * rows_ * words_ * 4); }
  int64_t panel_bytes() const { return aligned(quads_ ? shallow_quads_panel + (shallow_columns + 16) * 4 : shallow_panel * 2); }
  int64_t thread_bytes() const { return panel_bytes() + (epilogue_ ? aligned(block_rows * shallow_columns * 4) : 0); }

  int32_t a_zero(const Buffers& b) const {
    return quantization_.a_zero_input ? byte_at(b.inputs[*quantization_.a_zero_input], 0, a_type_) : quantization_.a_zero;
  }

  /// All rows of a as quads of unsigned bytes: signed ones are 128 more.
  void quad_rows(const Buffers& b, int32_t* to) const {
    const auto* a = static_cast<const uint8_t*>(b.inputs[a_input_]);
    const uint8_t flip = a_type_ == DType::i8 ? 128 : 0;
    for (int64_t batch = 0; batch < a_batches_ * batches_; ++batch)
      for (int64_t m = 0; m < m_; ++m) {
        const uint8_t* row = a + a_batch_.offset(batch) + m * a_row_;
        int64_t k = 0;
        if (a_column_ == 1)
          for (; k + 4 <= k_; k += 4, ++to) {
            uint32_t quad;
            std::memcpy(&quad, row + k, sizeof quad);
            *to = static_cast<int32_t>(quad ^ flip * 0x01010101u);
          }
        for (; k < k_; k += 4) {
          uint8_t quad[4] = {};
          for (int64_t i = 0; i < std::min<int64_t>(4, k_ - k); ++i) quad[i] = row[(k + i) * a_column_] ^ flip;
          std::memcpy(to++, quad, sizeof quad);
        }
      }
  }

  /// All rows of a as pairs less the zero point.
  void widen_rows(const Buffers& b, int32_t* to) const {
    if (quads_) return quad_rows(b, to);
    const void* a = b.inputs[a_input_];
    const int32_t zero = a_zero(b);
    const auto at = [&](int64_t i) { return static_cast<uint16_t>(byte_at(a, i, a_type_) - zero); };
    for (int64_t batch = 0; batch < a_batches_ * batches_; ++batch)
      for (int64_t m = 0; m < m_; ++m) {
        const int64_t row = a_batch_.offset(batch) + m * a_row_;
        for (int64_t p = 0; p < words_; ++p) {
          const uint32_t low = at(row + 2 * p * a_column_), high = 2 * p + 1 < k_ ? at(row + (2 * p + 1) * a_column_) : 0;
          *to++ = static_cast<int32_t>(low | high << 16);
        }
      }
  }

  void some(const Buffers& b, const igemm::Finish* finish, int64_t batch, igemm::Sums s, char* memory) const {
    const int32_t* a = reinterpret_cast<const int32_t*>(memory) + (batch * rows_ + s.row) * words_;
    char* own = memory + a_bytes() + s.thread * thread_bytes();
    const auto* from = static_cast<const uint8_t*>(b.inputs[b_input_]) + b_batch_.offset(batch) + s.column * b_column_;
    const ShallowColumns columns = {from, k_, s.columns, b_row_, b_column_, b_type_ == DType::i8, zeros_.data() + s.column};
    const int32_t* start = start_.data() + s.column;
    if (quads_) {
      auto* starts = reinterpret_cast<int32_t*>(own + shallow_quads_panel);
      table().pack_quads(reinterpret_cast<int8_t*>(own), columns, start, a_zero(b) + (a_type_ == DType::i8 ? 128 : 0), starts);
      start = starts;
    } else {
      table().pack(reinterpret_cast<int16_t*>(own), columns);
    }
    const auto multiply = [&](int64_t rows, int32_t* to, int64_t stride) {
      if (quads_)
        table().multiply_quads(a, rows, reinterpret_cast<const int8_t*>(own), words_, s.columns, start, to, stride);
      else
        table().multiply(a, rows, reinterpret_cast<const int16_t*>(own), words_, s.columns, start, to, stride);
    };
    if (!finish) return multiply(s.rows, static_cast<int32_t*>(b.outputs[0]) + (batch * rows_ + s.row) * n_ + s.column, n_);
    auto* sums = reinterpret_cast<int32_t*>(own + panel_bytes());
    for (const int64_t end = s.row + s.rows; s.row < end; s.row += block_rows, a += block_rows * words_) {
      const int64_t rows = std::min(block_rows, end - s.row);
      multiply(rows, sums, s.columns);
      finish->take({batch * rows_ + s.row, rows, s.column, s.columns, reinterpret_cast<const float*>(sums), s.columns, s.thread});
    }
  }

  DType a_type_, b_type_;
  size_t a_input_, b_input_;
  Quantization quantization_;
  int64_t m_ = 1, n_, k_;
  bool quads_;     // of bytes; else pairs of 16 bits
  int64_t words_;  // of a row
  int64_t a_row_, a_column_, b_row_, b_column_;
  int64_t batches_ = 1, a_batches_ = 1, rows_ = 0;  // products; their left operands' batches that are rows; rows of a product
  igemm::RowMap a_batch_, b_batch_;
  int threads_ = 1;
  std::vector<int32_t> start_, zeros_;  // of the columns
  std::optional<CpuEpilogue> epilogue_;
};

std::optional<Refusal> rejects(const Product& q) {
  if (auto why = rejects_int8_tensors(q, true)) return why;
  const int64_t deepest = by_quads(q) ? shallow_quads_k : shallow_k;
  if (q.problem.k > deepest) return refuse(Reason::not_profitable, "K = {}; it pays up to {}", q.problem.k, deepest);
  return std::nullopt;
}

}  // namespace

void offer_int8_shallow(const Product& q, int threads, Offer& offer) {
  if (const auto why = rejects(q)) return offer.refuse("avx2", *why);
  const Problem& p = q.problem;
  // One Zen 4 core at 3.7 GHz, measured.
  const double flops_per_us = by_quads(q) ? 400e3 : 200e3, packed_per_us = 15e3;
  const double packed = static_cast<double>(p.batch() * p.k) * static_cast<double>(p.n);
  offer.candidates.push_back({"avx2", "shallow", 1.5 + (p.flops() / flops_per_us + packed / packed_per_us) / threads,
                              [q, threads] { return std::make_unique<Int8Shallow>(q, threads); }});
}

}  // namespace smelt::ops::matmul
