// A product of 8-bit integers whose right operand is computed, or whose batches each have their own, or whose left operand is
// transposed (attention's products in a quantized model): the right operand is packed in the run as pairs of 16-bit integers less
// their zero points, then multiplied as in cpu_int8_indirect.cpp. Exact.
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <type_traits>

#include "ops/core/align.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/integer.h"
#include "ops/cpu/integer/widened_rows.h"
#include "ops/matmul/cpu_indirect_rows.h"
#include "ops/matmul/int8_problem.h"
#include "ops/matmul/int8_sums.h"
#include "ops/matmul/offer.h"
#include "ops/matmul/packed_in_run.h"

namespace smelt::ops::matmul {
namespace {

using igemm::tile_columns;

/// The right operand as it lies in memory: element [k, n] at k * row + n * column.
struct RightOperand {
  int64_t k, n, row, column;
};

#ifdef __SSE2__
/// Eight bytes, the lower half of a register, as 16-bit integers.
template <class T> __m128i widened(__m128i bytes) {
  const __m128i none = _mm_setzero_si128();
  return _mm_unpacklo_epi8(bytes, std::is_signed_v<T> ? _mm_cmpgt_epi8(none, bytes) : none);
}

/// Eight columns of all pairs but a last half one: two rows' elements in turn.
template <class T> void pack_eight(int16_t* to, const T* from, const RightOperand& b, int64_t width, const int32_t* zeros) {
  const __m128i zero = _mm_packs_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros)),
                                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros + 4)));
  const auto row = [&](const T* p) {
    return _mm_sub_epi16(widened<T>(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), zero);
  };
  for (int64_t k = 0; k + 1 < b.k; k += 2, to += 2 * width) {
    const __m128i even = row(from + k * b.row), odd = row(from + (k + 1) * b.row);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(even, odd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm_unpackhi_epi16(even, odd));
  }
  if (b.k % 2 == 0) return;
  const __m128i even = row(from + (b.k - 1) * b.row), odd = _mm_setzero_si128();
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(even, odd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm_unpackhi_epi16(even, odd));
}
#endif

/// Pairs of K for `used` columns from `from` on, `width` columns apart: to[pair][column][half].
template <class T>
void pack_rows(int16_t* to, const T* from, const RightOperand& b, int64_t width, int64_t used, const int32_t* zeros) {
#ifdef __SSE2__
  for (; used >= 8; used -= 8, to += 16, from += 8, zeros += 8) pack_eight(to, from, b, width, zeros);
  if (used == 0) return;
#endif
  for (int64_t k = 0; k < b.k; k += 2, to += 2 * width) {
    const T *even = from + k * b.row, *odd = even + b.row;
    if (k + 1 < b.k) {
      for (int64_t j = 0; j < used; ++j) {
        to[2 * j] = static_cast<int16_t>(even[j] - zeros[j]);
        to[2 * j + 1] = static_cast<int16_t>(odd[j] - zeros[j]);
      }
    } else {
      for (int64_t j = 0; j < used; ++j) {
        to[2 * j] = static_cast<int16_t>(even[j] - zeros[j]);
        to[2 * j + 1] = 0;
      }
    }
  }
}

/// The same where a column's elements lie side by side, or anywhere.
template <class T>
void pack_columns(int16_t* to, const T* from, const RightOperand& b, int64_t width, int64_t used, const int32_t* zeros) {
  for (int64_t j = 0; j < used; ++j) {
    const T* in = from + j * b.column;
    int16_t* at = to + 2 * j;
    const int32_t zero = zeros[j];
    for (int64_t k = 0; k + 1 < b.k; k += 2, at += 2 * width) {
      at[0] = static_cast<int16_t>(in[k * b.row] - zero);
      at[1] = static_cast<int16_t>(in[(k + 1) * b.row] - zero);
    }
    if (b.k % 2 == 1) at[0] = static_cast<int16_t>(in[(b.k - 1) * b.row] - zero), at[1] = 0;
  }
}

template <class T> void pack_panel(int16_t* packed, const T* from, int64_t panel, const RightOperand& b, const int32_t* zeros) {
  const int64_t first = panel * tile_columns, left = b.n - first, width = left <= 8 ? 8 : tile_columns;
  const int64_t used = std::min(width, left), pairs = (b.k + 1) / 2;
  int16_t* to = packed + 2 * first * pairs;
  if (used < width) std::fill_n(to, 2 * pairs * width, int16_t{0});
  (b.column == 1 ? pack_rows<T> : pack_columns<T>)(to, from + first * b.column, b, width, used, zeros + first);
}

class Int8Computed final : public Kernel {
 public:
  Int8Computed(const Product& q, int threads)
      : a_(q.bound.inputs[q.a]),
        b_type_(q.bound.inputs[q.b].type),
        a_input_(q.a),
        b_input_(q.b),
        quantization_(q.quantization()),
        right_{q.problem.k, q.problem.n, q.b_row, q.b_column},
        m_(q.problem.m),
        pairs_((q.problem.k + 1) / 2),
        a_row_(q.a_row),
        a_column_(q.a_column),
        threads_(threads),
        batches_(q, threads) {
    const std::vector<igemm::Part> parts = igemm::split(std::vector<int64_t>{pairs_});
    columns_ = columns_at_once(right_.n, 4 * pairs_, batches_.share());
    schedule_ = igemm::schedule(m_, columns_, parts, true, batches_.share());
    last_ = igemm::schedule(m_, right_.n - (right_.n - 1) / columns_ * columns_, parts, true, batches_.share());
    const Shape own_rows = {m_}, step = {packs_a() ? right_.k : a_row_};
    const igemm::RowMap map = q.problem.b_batch.empty() && !packs_a() ? tall_rows(q) : igemm::RowMap(own_rows, step);
    for (int i = 0; i < batches_.workers(); ++i) rows_.emplace_back(map, right_.k, a_.type == DType::i8, parts);
    for (igemm::Schedule* s : {&schedule_, &last_}) s->row_bytes = rows_[0].copy_bytes(s->block_tiles * igemm::tile_rows);
    start_ = quantization_.bias;
    start_.resize(static_cast<size_t>(right_.n + tile_columns), 0);
    zeros_.resize(static_cast<size_t>(right_.n), 0);
    for (size_t i = 0; i < zeros_.size() && !quantization_.b_zeros.empty(); ++i)
      zeros_[i] = quantization_.b_zeros[quantization_.b_zeros.size() == 1 ? 0 : i];
    if (q.node->program) epilogue_.emplace(q.bound, q.operands, q.bound.outputs[0].shape.size() - 1, quantization_.scales);
  }

  int64_t workspace() const override {
    return batches_.workers() * worker_bytes() + threads_ * (epilogue_ ? epilogue_->scratch() : 0);
  }
  bool in_place(size_t i) const override { return epilogue_ && epilogue_->in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    if (quantization_.b_zero_input) std::ranges::fill(zeros_, byte(b.inputs[*quantization_.b_zero_input], b_type_));
    if (epilogue_) {
      const CpuEpilogue::Runner finish(*epilogue_, b, memory + batches_.workers() * worker_bytes());
      all(b, memory, finish);
    } else {
      const StoreSums finish(static_cast<int32_t*>(b.outputs[0]), right_.n);
      all(b, memory, finish);
    }
  }

 private:
  bool packs_a() const { return a_column_ != 1; }
  int64_t panels_bytes() const { return aligned(igemm::packed_floats(pairs_, columns_) * 4); }
  int64_t rows_bytes() const { return packs_a() ? aligned(m_ * right_.k) : 0; }
  int64_t worker_bytes() const {
    return panels_bytes() + rows_bytes() + aligned(std::max(igemm::workspace(schedule_), igemm::workspace(last_)));
  }

  static int32_t byte(const void* p, DType t) {
    return t == DType::u8 ? *static_cast<const uint8_t*>(p) : *static_cast<const int8_t*>(p);
  }

  void all(const Buffers& b, char* memory, const igemm::Finish& finish) {
    batches_.run([&](int64_t batch, int worker, int thread) {
      one(b, batch, rows_[static_cast<size_t>(worker)], memory + worker * worker_bytes(), finish, thread);
    });
  }

  void one(const Buffers& buffers, int64_t batch, integer::WidenedRows& rows, char* memory, const igemm::Finish& finish,
           int thread) {
    int16_t* panels = reinterpret_cast<int16_t*>(memory);
    uint8_t* left = reinterpret_cast<uint8_t*>(memory + panels_bytes());
    const uint8_t* a = static_cast<const uint8_t*>(buffers.inputs[a_input_]) + batches_.a(batch);
    const uint8_t* right = static_cast<const uint8_t*>(buffers.inputs[b_input_]) + batches_.b(batch);
    if (packs_a()) pack_left(left, a, m_, right_.k, a_row_, a_column_, batches_.share());
    rows.set(packs_a() ? left : a,
             quantization_.a_zero_input ? byte(buffers.inputs[*quantization_.a_zero_input], a_.type) : quantization_.a_zero);
    for (int64_t column = 0; column < right_.n; column += columns_) {
      const igemm::Schedule& schedule = column + columns_ <= right_.n ? schedule_ : last_;
      RightOperand some = right_;
      some.n = schedule.n;
      parallel(batches_.share(), (some.n + tile_columns - 1) / tile_columns, 1, [&](int64_t begin, int64_t end, int) {
        const int32_t* zeros = zeros_.data() + column;
        for (int64_t panel = begin; panel < end; ++panel) {
          if (b_type_ == DType::u8)
            pack_panel(panels, right + column * some.column, panel, some, zeros);
          else
            pack_panel(panels, reinterpret_cast<const int8_t*>(right) + column * some.column, panel, some, zeros);
        }
      });
      const BatchRows shifted(finish, batch * m_, column, thread);
      igemm::Run r;
      r.integer = true;
      r.rows = &rows;
      r.b = reinterpret_cast<const float*>(panels);
      r.bias = reinterpret_cast<const float*>(start_.data() + column);
      r.workspace = memory + panels_bytes() + rows_bytes();
      r.finish = &shifted;
      igemm::run(schedule, r);
    }
  }

  BoundTensor a_;
  DType b_type_;
  size_t a_input_, b_input_;
  Quantization quantization_;
  RightOperand right_;
  int64_t m_, pairs_, a_row_, a_column_;
  int threads_;
  Batches batches_;
  int64_t columns_;                         // that are packed at a time
  igemm::Schedule schedule_, last_;         // of so many, and of the last
  std::vector<integer::WidenedRows> rows_;  // one a worker
  std::vector<int32_t> start_, zeros_;      // of the columns
  std::optional<CpuEpilogue> epilogue_;
};

std::optional<Refusal> rejects(const Product& p) {
  if (auto why = rejects_int8_tensors(p, true)) return why;
  if (p.bound.inputs[p.b].constant.valid() && p.a_column == 1 && p.problem.b_batch.empty())
    return refuse(Reason::unsupported, "a constant right operand, packed beforehand");
  return std::nullopt;
}

}  // namespace

void offer_int8_packed_in_run(const Product& q, int threads, Offer& offer) {
  if (const auto why = rejects(q)) return offer.refuse("avx2", *why);
  const Problem& p = q.problem;
  // One Zen 3 core at 3.2 GHz, measured; two packed elements a nanosecond.
  constexpr double flops_per_us = 150e3, packed_per_us = 2e3;
  const double packed = static_cast<double>(p.batch() * p.k) * static_cast<double>(p.n + (q.a_column != 1 ? p.m : 0));
  offer.candidates.push_back({"avx2", "pairs packed in the run",
                              3 + (p.flops() / flops_per_us + packed / packed_per_us) / threads,
                              [q, threads] { return std::make_unique<Int8Computed>(q, threads); }});
}

}  // namespace smelt::ops::matmul
