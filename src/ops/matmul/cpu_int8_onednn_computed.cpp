// A product of 8-bit integers by oneDNN whose right operand is computed. Its
// kernels see no zero points: with row sums A of a and column sums B of b, Σ (a - x)(b - y) = Σ a b - x B - y A + K x y. Exact.
#include <algorithm>
#include <optional>

#include "ops/core/align.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/onednn/offer.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/sums_pass.h"
#include "ops/matmul/int8_problem.h"
#include "ops/matmul/packed_in_run.h"
#include "ops/matmul/simd/int8_sums.h"

namespace smelt::ops::matmul {
namespace {

using dnnl::memory;

struct Plan {
  bool flips_a = false, flips_b = false;  // by 128, in a copy: a to unsigned bytes, b to signed ones
  bool is_signed = false;                 // a's, as oneDNN sees them
  int64_t rows = 1;                       // made at a time
  memory::desc a, b, sums;
};

Plan plan(const Product& q, bool flips_a, int threads) {
  const Problem& p = q.problem;
  Plan r;
  r.flips_a = flips_a;
  r.flips_b = q.bound.inputs[q.b].type == DType::u8;
  r.is_signed = q.bound.inputs[q.a].type == DType::i8 && !flips_a;
  r.rows = q.node->program ? IntegerSums(p.n, threads).rows_at_a_time(p.m) : p.m;
  r.a = {{r.rows, p.k}, r.is_signed ? memory::data_type::s8 : memory::data_type::u8, memory::dims{r.flips_a ? p.k : q.a_row, 1}};
  r.b = {{p.k, p.n}, memory::data_type::s8, memory::dims{q.b_row, q.b_column}};
  r.sums = {{r.rows, p.n}, memory::data_type::s32, memory::format_tag::ab};
  return r;
}

std::vector<onednn::Implementation> choices(const Plan& r, int threads, const Offer& offer) {
  const Threads scope(threads);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return onednn::implementations(dnnl::matmul::primitive_desc(onednn::engine(), r.a, r.b, r.sums, attr), offer);
}

class Int8OnednnComputed final : public Kernel {
 public:
  Int8OnednnComputed(const Product& q, const Plan& plan, const onednn::Implementation& choice, int threads)
      : plan_(plan),
        threads_(threads),
        m_(q.problem.m),
        k_(q.problem.k),
        n_(q.problem.n),
        a_row_(q.a_row),
        b_row_(q.b_row),
        b_column_(q.b_column),
        a_(q.a),
        b_(q.b),
        a_signed_(q.bound.inputs[q.a].type == DType::i8),
        b_signed_(q.bound.inputs[q.b].type == DType::i8),
        quantization_(q.quantization()),
        batches_(q, 1),
        count_(q.problem.b_batch.empty() ? 1 : elements(q.batch)),
        sums_(n_, threads),
        primitive_(choice.primitive(threads), choice.scratchpad) {
    if (q.node->program) epilogue_.emplace(q.bound, q.operands, q.bound.outputs[0].shape.size() - 1, quantization_.scales);
    quantization_.bias.resize(static_cast<size_t>(n_), 0);
    zeros_.resize(static_cast<size_t>(n_), 0);
    start_.resize(static_cast<size_t>(n_), 0);
    primitive_.add(DNNL_ARG_SRC, plan.a);
    primitive_.add(DNNL_ARG_WEIGHTS, plan.b);
    primitive_.add(DNNL_ARG_DST, plan.sums);
  }

  int64_t workspace() const override {
    return a_bytes() + b_bytes() + primitive_.scratch() +
           (epilogue_ ? sums_.bytes(plan_.rows) + threads_ * epilogue_->scratch() : 0);
  }

  void run(const Buffers& b) override {
    const Threads scope(threads_);
    a_zero_ = quantization_.a_zero_input ? byte(b.inputs[*quantization_.a_zero_input], a_signed_) : quantization_.a_zero;
    for (size_t j = 0; j < zeros_.size(); ++j) {
      const std::vector<int32_t>& all = quantization_.b_zeros;
      zeros_[j] =
          (quantization_.b_zero_input ? byte(b.inputs[*quantization_.b_zero_input], b_signed_) : all[all.size() == 1 ? 0 : j]) -
          (plan_.flips_b ? 128 : 0);
    }
    a_zero_ += plan_.flips_a ? 128 : 0;
    corrects_rows_ = std::ranges::any_of(zeros_, [](int32_t z) { return z != 0; });
    for (int64_t i = 0; i < count_; ++i) one(b, i);
  }

 private:
  int64_t a_bytes() const { return plan_.flips_a ? aligned(m_ * k_) : 0; }
  int64_t b_bytes() const { return plan_.flips_b ? aligned(k_ * n_) : 0; }
  static int32_t byte(const void* p, bool is_signed) {
    return is_signed ? *static_cast<const int8_t*>(p) : *static_cast<const uint8_t*>(p);
  }

  /// `rows` rows of so many bytes, `step` apart, flipped to dense ones.
  void flip(const uint8_t* from, int64_t step, int64_t rows, int64_t bytes, uint8_t* to) const {
    parallel(useful_threads(threads_, rows * bytes / 8), rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) int8_sums_table().flip(from + r * step, to + r * bytes, bytes);
    });
  }

  void one(const Buffers& buffers, int64_t batch) {
    char* memory = static_cast<char*>(buffers.workspace);
    const uint8_t* a = static_cast<const uint8_t*>(buffers.inputs[a_]) + batches_.a(batch);
    const uint8_t* b = static_cast<const uint8_t*>(buffers.inputs[b_]) + batches_.b(batch);
    const bool along = b_column_ != 1;  // b's columns are stored as rows
    if (plan_.flips_a) {
      flip(a, a_row_, m_, k_, reinterpret_cast<uint8_t*>(memory));
      a = reinterpret_cast<const uint8_t*>(memory);
    }
    memory += a_bytes();
    if (plan_.flips_b) {
      flip(b, along ? b_column_ : b_row_, along ? n_ : k_, along ? k_ : n_, reinterpret_cast<uint8_t*>(memory));
      b = reinterpret_cast<const uint8_t*>(memory);
    }
    memory += b_bytes();
    sum_columns(reinterpret_cast<const int8_t*>(b), along);
    char* scratch = memory;
    memory += primitive_.scratch();
    int32_t* sums = epilogue_ ? reinterpret_cast<int32_t*>(memory) : static_cast<int32_t*>(buffers.outputs[0]) + batch * m_ * n_;
    std::optional<CpuEpilogue::Runner> finish;
    if (epilogue_) finish.emplace(*epilogue_, buffers, memory + sums_.bytes(plan_.rows));
    primitive_.set(DNNL_ARG_WEIGHTS, const_cast<uint8_t*>(b));
    const int64_t step = plan_.flips_a ? k_ : a_row_;
    for (int64_t row = 0; row < m_; row += plan_.rows) {
      primitive_.set(DNNL_ARG_SRC, const_cast<uint8_t*>(a + row * step));
      primitive_.set(DNNL_ARG_DST, sums);
      primitive_.run(scratch);
      correct(a + row * step, step, sums);
      if (finish) sums_.run(sums, batch * m_ + row, plan_.rows, *finish);
    }
  }

  /// start_: the bias, and what a's zero point takes off.
  void sum_columns(const int8_t* b, bool along) {
    std::ranges::copy(quantization_.bias, start_.begin());
    if (a_zero_ == 0) return;
    constexpr int64_t grain = 64;
    parallel(useful_threads(threads_, k_ * n_ / 8), n_, grain, [&](int64_t begin, int64_t end, int) {
      int32_t own[grain];
      for (int64_t j = begin; j < end; j += grain) {
        const int64_t count = std::min(grain, end - j);
        std::fill_n(own, count, 0);
        if (along)
          for (int64_t i = 0; i < count; ++i) own[i] = int8_sums_table().row(b + (j + i) * step_of_column(), k_);
        else
          int8_sums_table().columns(b + j, step_of_row(), k_, count, own);
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(j + i);
          start_[at] -= wrapped(a_zero_, own[i]) - wrapped(wrapped(a_zero_, zeros_[at]), static_cast<int32_t>(k_));
        }
      }
    });
  }
  int64_t step_of_row() const { return plan_.flips_b ? n_ : b_row_; }
  int64_t step_of_column() const { return plan_.flips_b ? k_ : b_column_; }
  static int32_t wrapped(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  }

  void correct(const uint8_t* a, int64_t step, int32_t* sums) const {
    const bool starts = std::ranges::any_of(start_, [](int32_t v) { return v != 0; });
    if (!starts && !corrects_rows_) return;
    parallel(useful_threads(threads_, plan_.rows * (n_ + k_) / 4), plan_.rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const uint8_t* row = a + r * step;
        int32_t sum = 0;
        if (corrects_rows_)
          sum = plan_.is_signed ? int8_sums_table().row(reinterpret_cast<const int8_t*>(row), k_)
                                : int8_sums_table().unsigned_row(row, k_);
        int8_sums_table().correct(sums + r * n_, start_.data(), zeros_.data(), sum, n_);
      }
    });
  }

  Plan plan_;
  int threads_;
  int64_t m_, k_, n_, a_row_, b_row_, b_column_;
  size_t a_, b_;
  bool a_signed_, b_signed_;
  Quantization quantization_;
  Batches batches_;
  int64_t count_;
  IntegerSums sums_;
  onednn::Primitive primitive_;
  std::optional<CpuEpilogue> epilogue_;
  int32_t a_zero_ = 0;                  // as oneDNN's operand has it
  bool corrects_rows_ = false;          // a zero point of b is not 0
  std::vector<int32_t> zeros_, start_;  // b's zero points as its operand has them; what columns begin with
};

std::optional<Refusal> rejects(const Product& q) {
  if (auto why = rejects_int8_tensors(q)) return why;
  if (q.a_column != 1) return refuse(Reason::wrong_layout, "the left operand is transposed");
  if (q.b_row != 1 && q.b_column != 1) return refuse(Reason::wrong_layout, "a right operand of neither rows nor columns");
  return std::nullopt;
}

}  // namespace

void offer_int8_onednn_computed(const Product& q, int threads, Offer& offer) {
  if (const auto why = rejects(q)) return offer.refuse("onednn", *why);
  if (!offer.asks_for("onednn") || !rejects_int8(q)) return;  // else cpu_int8_onednn.cpp takes it
  const Problem& p = q.problem;
  const onednn::WeightRange range{-128, 127, 128 * p.k};
  onednn::offer_exact(offer, range, [&, threads] {
    Plan r = plan(q, q.bound.inputs[q.a].type == DType::i8 && !onednn::multiplies_signed_bytes(), threads);
    std::vector<onednn::Implementation> found = choices(r, threads, offer);
    if (r.is_signed && !onednn::keep_on_amx(found)) r = plan(q, true, threads), found = choices(r, threads, offer);
    constexpr double passed_per_us = 4e3, copied_per_us = 8e3;  // sums and bytes of one core
    const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
    const double moved = m * n / passed_per_us + (m * k + 2 * n * k) / copied_per_us;
    const double count = static_cast<double>(p.batch());
    return onednn::ByteProducts{
        std::move(found), r.is_signed,
        [=, flops = p.flops()](const onednn::Implementation& c) {
          const double compute = onednn::byte_product_us(c.name, flops, p.batch() * p.m, p.n);
          return 5 + 4 * count + (compute + count * moved) / threads;
        },
        [q, r, threads](const onednn::Implementation& c) { return std::make_unique<Int8OnednnComputed>(q, r, c, threads); }};
  });
}

}  // namespace smelt::ops::matmul
