// A product of 8-bit integers with a constant right operand by oneDNN: 32-bit sums of some rows at a time, and the epilogue over
// them while they are in the cache. Its kernels see no zero points: the left operand's is folded into what the sums start from,
// the right one's into its packed bytes; where these then are no bytes any more, its zero points times the rows' sums are taken off.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/onednn/offer.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/sums_pass.h"
#include "ops/matmul/int8_problem.h"
#include "ops/matmul/simd/int8_sums.h"

namespace smelt::ops::matmul {
namespace {

using dnnl::memory;

struct Plan {
  bool flips = false;   // signed bytes of a to unsigned ones, in a copy
  bool stored = false;  // b is packed with its zero points (u8: less 128)
  memory::data_type type = memory::data_type::u8;
  int64_t rows = 1;   // made at a time
  int64_t pitch = 0;  // the k of oneDNN's product: in a copy of a where it is more than k, of zeros
  bool copies(int64_t k) const { return flips || pitch != k; }
};

/// Rows that lie a multiple of 2048 bytes apart share few places of the L1 cache. Of few columns a kernel reads the same place of some 30
/// rows: these are copied apart, as longer ones, since oneDNN's kernels take no rows with gaps.
int64_t pitch_of(const Problem& p) {
  constexpr int64_t way = 4096, line = 64, fewest_rows = 8, most_columns = 32;
  const bool together = p.k >= way / 4 && (p.k + line / 2) % (way / 2) < line;
  return together && p.m >= fewest_rows && p.n <= most_columns ? aligned(p.k) + line : p.k;
}

Plan plan(const Product& q, bool flips, bool stored, int threads) {
  Plan r;
  r.flips = flips;
  r.stored = stored;
  if (q.bound.inputs[q.a].type == DType::i8 && !flips) r.type = memory::data_type::s8;
  const Problem& p = q.problem;
  r.rows = IntegerSums(p.n, threads).rows_at_a_time(p.m);
  r.pitch = pitch_of(p);
  return r;
}

std::vector<onednn::Implementation> choices(const Problem& p, const Plan& r, int threads, const Offer& offer) {
  const Threads scope(threads);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return onednn::implementations(
      dnnl::matmul::primitive_desc(onednn::engine(), {{r.rows, r.pitch}, r.type, memory::format_tag::ab},
                                   onednn::any_layout({r.pitch, p.n}, DType::i8),
                                   {{r.rows, p.n}, memory::data_type::s32, memory::format_tag::ab}, attr),
      offer);
}

class Int8Onednn final : public Kernel {
 public:
  Int8Onednn(const Product& q, const Plan& plan, const onednn::Implementation& choice, int threads)
      : plan_(plan),
        threads_(threads),
        m_(q.problem.m),
        k_(q.problem.k),
        n_(q.problem.n),
        a_input_(q.a),
        zero_input_(q.quantization().a_zero_input),
        a_signed_(q.bound.inputs[q.a].type == DType::i8),
        sums_(n_, threads),
        bias_(q.quantization().bias),
        primitive_(choice.primitive(threads), choice.scratchpad) {
    bias_.resize(static_cast<size_t>(n_), 0);
    if (q.node->program) epilogue_.emplace(q.bound, q.operands, q.bound.outputs[0].shape.size() - 1, q.quantization().scales);
    columns_.resize(bias_.size());
    for (int64_t n = 0; n < n_; ++n)
      for (int64_t k = 0; k < k_; ++k) columns_[static_cast<size_t>(n)] += int8_weight(q, k, n);
    start_ = bias_;
    if (!zero_input_) fold(q.quantization().a_zero, start_.data());
    starts_ = std::ranges::any_of(start_, [](int32_t v) { return v != 0; });
    const Tensor& b = q.bound.inputs[q.b].constant;
    const memory::desc layout = choice.weights;
    const auto pack = [&] { return pack_weights(q, layout); };
    const std::vector<int32_t>& zeros = q.quantization().b_zeros;
    Key form("onednn");
    form.field(q.b_row).field(q.b_column).field(onednn::form_name(layout));
    if (plan.stored) {
      zeros_.assign(static_cast<size_t>(n_), zeros[0]);
      if (zeros.size() > 1) std::ranges::copy(zeros, zeros_.begin());
      for (int32_t& z : zeros_) z -= b.type() == DType::u8 ? 128 : 0;
    } else {
      form.field(Shape(zeros.begin(), zeros.end()));
    }
    packed_ = q.bound.weights ? q.bound.weights->packed(b, form.text(), pack) : pack();
    primitive_.add(DNNL_ARG_SRC, choice.source);
    primitive_.add(DNNL_ARG_WEIGHTS, layout, packed_.raw());
    primitive_.add(DNNL_ARG_DST, choice.result);
  }

  int64_t workspace() const override {
    return copy_bytes() + start_bytes() + primitive_.scratch() +
           (epilogue_ ? sums_.bytes(plan_.rows) + threads_ * epilogue_->scratch() : 0);
  }

  bool in_place(size_t i) const override { return epilogue_ && epilogue_->in_place(i); }

  void run(const Buffers& b) override {
    const Threads scope(threads_);
    char* memory = static_cast<char*>(b.workspace);
    const uint8_t* a = static_cast<const uint8_t*>(b.inputs[a_input_]);
    if (plan_.copies(k_)) {
      uint8_t* copy = reinterpret_cast<uint8_t*>(memory);
      parallel(useful_threads(threads_, m_ * k_ / 8), m_, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          uint8_t* to = copy + i * plan_.pitch;
          if (plan_.flips)
            int8_sums_table().flip(a + i * k_, to, k_);
          else
            std::memcpy(to, a + i * k_, static_cast<size_t>(k_));
          std::fill(to + k_, to + plan_.pitch, uint8_t{0});
        }
      });
      a = copy;
      memory += copy_bytes();
    }
    const int32_t* start = starts_ ? start_.data() : nullptr;
    if (zero_input_) {
      const void* z = b.inputs[*zero_input_];
      int32_t* own = reinterpret_cast<int32_t*>(memory);
      std::ranges::copy(bias_, own);
      fold(a_signed_ ? *static_cast<const int8_t*>(z) : *static_cast<const uint8_t*>(z), own);
      start = own;
      memory += start_bytes();
    }
    char* scratch = memory;
    memory += primitive_.scratch();
    int32_t* sums = epilogue_ ? reinterpret_cast<int32_t*>(memory) : static_cast<int32_t*>(b.outputs[0]);
    std::optional<CpuEpilogue::Runner> finish;
    if (epilogue_) finish.emplace(*epilogue_, b, memory + sums_.bytes(plan_.rows), 0, plan_.stored ? nullptr : start);
    for (int64_t row = 0; row < m_; row += plan_.rows) {
      primitive_.set(DNNL_ARG_SRC, const_cast<uint8_t*>(a + row * plan_.pitch));
      primitive_.set(DNNL_ARG_DST, sums);
      primitive_.run(scratch);
      if (plan_.stored) correct(a + row * plan_.pitch, start ? start : start_.data(), sums);
      if (finish) {
        sums_.run(sums, row, plan_.rows, *finish);
        continue;
      }
      if (start && !plan_.stored) sums_.add(sums, plan_.rows, start);
      sums += plan_.rows * n_;
    }
  }

 private:
  int64_t copy_bytes() const { return plan_.copies(k_) ? aligned(m_ * plan_.pitch) : 0; }
  int64_t start_bytes() const { return zero_input_ ? aligned(n_ * 4) : 0; }

  /// Σ (a - zero) · b = Σ a · b - zero · Σ b.
  void fold(int32_t zero, int32_t* start) const {
    if (plan_.flips) zero += 128;
    for (int64_t n = 0; n < n_; ++n) start[n] -= zero * columns_[static_cast<size_t>(n)];
  }

  /// Σ a · (b - zero) = Σ a · b - zero · Σ a, and what the sums start from.
  void correct(const uint8_t* a, const int32_t* start, int32_t* sums) const {
    const Int8SumsTable& table = int8_sums_table();
    const bool is_signed = plan_.type == memory::data_type::s8;
    parallel(useful_threads(threads_, plan_.rows * (n_ + k_) / 4), plan_.rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const uint8_t* row = a + r * plan_.pitch;
        const int32_t sum = is_signed ? table.row(reinterpret_cast<const int8_t*>(row), k_) : table.unsigned_row(row, k_);
        table.correct(sums + r * n_, start, zeros_.data(), sum, n_);
      }
    });
  }

  Tensor pack_weights(const Product& q, const memory::desc& layout) const {
    const Tensor& b = q.bound.inputs[q.b].constant;
    const int64_t depth = plan_.pitch;
    if (depth == k_ && b.type() == DType::i8 && (plan_.stored || q.quantization().is_symmetric())) {
      return onednn::packed(b, {{k_, n_}, memory::data_type::s8, memory::dims{q.b_row, q.b_column}}, layout, threads_);
    }
    Tensor w = Tensor::empty(DType::i8, {depth, n_});
    std::fill(w.data<int8_t>() + k_ * n_, w.data<int8_t>() + depth * n_, int8_t{0});
    for (int64_t k = 0; k < k_; ++k) {
      for (int64_t n = 0; n < n_; ++n) {
        const int32_t zero = plan_.stored ? zeros_[static_cast<size_t>(n)] : 0;
        w.data<int8_t>()[k * n_ + n] = static_cast<int8_t>(int8_weight(q, k, n) + zero);
      }
    }
    return onednn::packed(w, {{depth, n_}, memory::data_type::s8, memory::format_tag::ab}, layout, threads_);
  }

  Plan plan_;
  int threads_;
  int64_t m_, k_, n_;
  size_t a_input_;
  std::optional<size_t> zero_input_;
  bool a_signed_;
  IntegerSums sums_;
  std::vector<int32_t> bias_, columns_;  // columns_: the sums of b's columns
  std::vector<int32_t> start_;           // without the left operand's zero point where that is an input
  bool starts_ = false;
  std::vector<int32_t> zeros_;  // the right operand's, as its packed bytes have them; only where they are `stored`
  std::optional<CpuEpilogue> epilogue_;
  onednn::Primitive primitive_;
  Tensor packed_;
};

}  // namespace

void offer_int8_onednn(const Product& q, int threads, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  if (const auto why = rejects_int8(q)) return offer.refuse("onednn", *why);
  const Problem& p = q.problem;
  onednn::WeightRange range = onednn::weight_range(p.n, p.k, [&](int64_t n, int64_t k) { return int8_weight(q, k, n); });
  const bool stored = onednn::rejects_weights(range).has_value();
  if (stored) range = {-128, 127, 128 * p.k};
  onednn::offer_exact(offer, range, [&, stored, threads] {
    Plan r = plan(q, q.bound.inputs[q.a].type == DType::i8 && !onednn::multiplies_signed_bytes(), stored, threads);
    std::vector<onednn::Implementation> found = choices(p, r, threads, offer);
    if (r.type == memory::data_type::s8 && !onednn::keep_on_amx(found))
      r = plan(q, true, stored, threads), found = choices(p, r, threads, offer);
    constexpr double passed_per_us = 4e3, copied_per_us = 8e3, bytes_per_us = 12e3;  // sums, bytes of a, and of b, of one core
    const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
    // Lines of cache of rows that lie 128 KiB or more apart take each other's place: 12 to 27 ns for each was measured.
    constexpr double apart_bytes = 1 << 17, lines_per_us = 40;
    const double apart = m > 1 && n * 4 >= apart_bytes ? m * n / 16 / lines_per_us : 0;
    const double corrected = stored ? m * n / passed_per_us + m * k / copied_per_us : 0;
    const double moved = m * n / passed_per_us + (r.copies(p.k) ? m * k / copied_per_us : 0) + corrected + apart,
                 read = n * k / bytes_per_us;
    return onednn::ByteProducts{
        std::move(found), r.type == memory::data_type::s8,
        [=, flops = p.flops()](const onednn::Implementation& c) {
          const double compute = onednn::byte_product_us(c.name, flops, p.m, p.n);
          return 5 + (std::max(compute, read) + moved) / threads;
        },
        [q, r, threads](const onednn::Implementation& c) { return std::make_unique<Int8Onednn>(q, r, c, threads); }};
  });
}

}  // namespace smelt::ops::matmul
