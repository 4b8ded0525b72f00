// A product of floats of little depth (outer products, coordinates by a small matrix): packing rows, tiles and pointers to rows would cost
// more than the products. Some columns of b at a time stay in the L1 cache, where all rows of a go by; results go from registers to where
// they belong.
#include <algorithm>
#include <limits>

#include "base/number.h"
#include "base/value_of.h"
#include "expr/simd/widest.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/matmul/cpu_sums.h"
#include "ops/matmul/offer.h"
#include "ops/matmul/packed_in_run.h"
#include "ops/matmul/simd/float_shallow.h"

namespace smelt::ops::matmul {
namespace {

const FloatShallowTable& table() { return simd::widest_of(base::float_shallow, avx2::float_shallow, avx512::float_shallow); }

/// Whether the program does no more than give sums the result's type.
bool is_conversion(const std::optional<expr::Program>& p) {
  if (!p) return true;
  if (p->outputs().size() != 1 || p->input_count() != 1) return false;
  const expr::Ref out = p->outputs()[0];
  const expr::Instruction& last = p->code()[static_cast<size_t>(out)];
  return out == 0 || (last.fn == expr::Fn::cast && last.args[0] == 0);
}

/// Input 2, where the program adds one of its elements to each column's sums and does no more; what is constant is the epilogue's bias.
bool adds_columns(const Request& r) {
  const auto& program = r.product.node->program;
  const BoundNode& b = r.product.bound;
  if (!program || program->outputs().size() != 1 || program->input_count() != 2 || b.inputs.size() != 3) return false;
  const auto at = [&](expr::Ref v) -> const expr::Instruction& { return program->code()[static_cast<size_t>(v)]; };
  const auto without_cast = [&](expr::Ref v) { return at(v).fn == expr::Fn::cast ? at(v).args[0] : v; };
  const expr::Instruction& sum = at(without_cast(program->outputs()[0]));
  if (sum.fn != expr::Fn::add || sum.type != DType::f32) return false;
  const expr::Ref x = without_cast(sum.args[0]), y = without_cast(sum.args[1]);
  if (x + y != 1 || x * y != 0) return false;
  const Shape& shape = b.outputs[0].shape;
  return float_kind(b.inputs[2].type) && varies_along_only(b.inputs[2], shape, shape.size() - 1);
}

/// What registers do with sums before they store them; nothing where the epilogue needs sums in memory.
std::optional<igemm::Ending> ending_of(const Request& r) {
  if (r.epilogue.simple()) {
    const CpuEpilogue::Simple& simple = value_of(r.epilogue.simple(), "a simple epilogue");
    if (simple.residual >= 0 || simple.end.is_scaled || simple.end.activation == igemm::Activation::hard_swish)
      return std::nullopt;
    return simple.end;
  }
  return is_conversion(r.product.node->program) || adds_columns(r) ? std::optional(igemm::Ending{}) : std::nullopt;
}

class FloatShallowProduct final : public Kernel {
 public:
  explicit FloatShallowProduct(const Request& r)
      : epilogue_(r.epilogue),
        end_(ending_of(r)),
        adds_columns_(!r.epilogue.simple() && adds_columns(r)),
        columns_type_(adds_columns_ ? r.product.bound.inputs[2].type : DType::f32),
        columns_step_(adds_columns_ && elements(r.product.bound.inputs[2].shape) > 1 ? 1 : 0),
        converted_a_(r.product.bound.inputs[0], r.threads),
        b_type_(required_float_kind(r.product.bound.inputs[1].type)),
        y_type_(required_float_kind(r.product.problem.output)),
        alpha_(static_cast<float>(r.product.alpha)),
        m_(r.product.problem.m),
        n_(r.product.problem.n),
        k_(r.product.problem.k),
        a_row_(r.product.a_row),
        a_column_(r.product.a_column),
        b_row_(r.product.b_row),
        b_column_(r.product.b_column) {
    const Product& p = r.product;
    if (!p.problem.b_batch.empty()) {  // else the batch, if any, is part of M
      batches_ = elements(p.batch);
      a_batch_ = igemm::RowMap(p.batch, p.a_steps), b_batch_ = igemm::RowMap(p.batch, p.b_steps);
    }
    threads_ = useful_threads(r.threads, batches_ * m_ * n_ * (k_ + 4) / 8);
    const int64_t most = end_ ? std::max<int64_t>(l1_floats / k_, 256) : 512;
    columns_ = round_up(divide_up(n_, divide_up(n_, most)), 64);
    parts_ = divide_up(n_, columns_);
    // Of few columns rows in parts too.
    const int64_t wanted = divide_up(int64_t{4} * threads_, batches_ * parts_);
    rows_ = threads_ == 1 ? m_ : round_up(divide_up(m_, wanted), block_rows);
    row_parts_ = divide_up(m_, rows_);
  }

  int64_t workspace() const override {
    return converted_a_.workspace() + left_bytes() + bias_bytes() +
           threads_ * (thread_bytes() + (end_ ? 0 : epilogue_.scratch()));
  }
  bool in_place(size_t i) const override { return !end_ && epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const float* a = converted_a_.into_f32(b.inputs[0], memory);
    auto* left = reinterpret_cast<float*>(memory);
    for (int64_t i = 0; turns_a() && i < batches_; ++i)
      pack_left(left + i * m_ * k_, a + a_batch_.offset(i), m_, k_, a_row_, a_column_, threads_);
    memory += left_bytes();
    const float* bias = epilogue_.bias().empty() ? nullptr : epilogue_.bias().data();
    if (adds_columns_) {
      auto* own = reinterpret_cast<float*>(memory);
      copy_as_f32(own, 1, b.inputs[2], columns_step_, n_, columns_type_);
      std::fill_n(own + n_, float_shallow_lanes, 0.0f);
      bias = own;
    }
    memory += bias_bytes();
    const CpuEpilogue::Runner runner(epilogue_, b, memory + threads_ * thread_bytes());
    parallel_dynamic(threads_, batches_ * parts_ * row_parts_, [&](int64_t task, int thread) {
      const int64_t batch = task / (parts_ * row_parts_), column = task / row_parts_ % parts_ * columns_;
      const int64_t row = task % row_parts_ * rows_;
      const igemm::Sums part{row, std::min(rows_, m_ - row), column, std::min(columns_, n_ - column), nullptr, 0, thread};
      some(b, runner, batch, turns_a() ? left + batch * m_ * k_ : a + a_batch_.offset(batch), bias, part,
           memory + thread * thread_bytes());
    });
  }

 private:
  static constexpr int64_t l1_floats = 4096, block_rows = 8;  // whose sums an epilogue takes at a time

  bool turns_a() const { return a_column_ != 1; }
  int64_t left_bytes() const { return turns_a() ? aligned(batches_ * m_ * k_ * 4) : 0; }
  int64_t bias_bytes() const { return adds_columns_ ? aligned((n_ + float_shallow_lanes) * 4) : 0; }
  int64_t panel_bytes() const { return aligned(k_ * columns_ * 4); }
  int64_t thread_bytes() const { return panel_bytes() + (end_ ? 0 : aligned(block_rows * columns_ * 4)); }

  void some(const Buffers& b, const CpuEpilogue::Runner& runner, int64_t batch, const float* rows, const float* bias,
            igemm::Sums s, char* own) const {
    const int64_t element = b_type_ == FloatKind::f32 ? 4 : 2;
    const char* from = static_cast<const char*>(b.inputs[1]) + (b_batch_.offset(batch) + s.column * b_column_) * element;
    FloatShallow p{rows + s.row * k_, s.rows, k_, reinterpret_cast<const float*>(from), b_row_, s.columns};
    if (b_type_ != FloatKind::f32 || b_column_ != 1 || alpha_ != 1 || s.columns < float_shallow_lanes) {
      table().pack(b_type_, reinterpret_cast<float*>(own), columns_, from, k_, s.columns, b_row_, b_column_, alpha_);
      p.b = reinterpret_cast<const float*>(own);
      p.b_step = columns_;
    }
    p.low = -std::numeric_limits<float>::infinity(), p.high = -p.low;
    if (end_) {
      if (bias) p.bias = bias + s.column;
      if (end_->activation == igemm::Activation::clamp) p.low = end_->low, p.high = end_->high;
      const int64_t at = (batch * m_ + s.row) * n_ + s.column;
      p.y = static_cast<char*>(b.outputs[0]) + at * (y_type_ == FloatKind::f32 ? 4 : 2);
      p.y_step = n_;
      return table().multiply(y_type_, p);
    }
    auto* sums = reinterpret_cast<float*>(own + panel_bytes());
    p.y = sums, p.y_step = s.columns;
    for (const int64_t last = s.row + s.rows; s.row < last; s.row += block_rows, p.a += block_rows * k_) {
      p.rows = std::min(block_rows, last - s.row);
      table().multiply(FloatKind::f32, p);
      finish_sums(epilogue_, runner, b, {batch * m_ + s.row, p.rows, s.column, s.columns, sums, s.columns, s.thread}, n_);
    }
  }

  CpuEpilogue epilogue_;
  std::optional<igemm::Ending> end_;  // nothing: sums go through memory
  bool adds_columns_;
  DType columns_type_;
  int64_t columns_step_;
  ConvertToF32 converted_a_;
  FloatKind b_type_, y_type_;
  float alpha_;
  int64_t m_, n_, k_, a_row_, a_column_, b_row_, b_column_;
  int64_t batches_ = 1;
  igemm::RowMap a_batch_, b_batch_;
  int64_t columns_ = 0, parts_ = 1, rows_ = 0, row_parts_ = 1;  // of a task, and how many there are
  int threads_ = 1;
};

std::optional<Refusal> rejects(const Request& r) {
  const Product& p = r.product;
  if (p.problem.k > float_shallow_k || p.problem.k == 0)
    return refuse(Reason::not_profitable, "shallow: K = {}; it pays from 1 to {}", p.problem.k, float_shallow_k);
  if (!float_kind(p.problem.input) || !float_kind(p.problem.output) || !float_kind(p.bound.inputs[1].type))
    return refuse(Reason::wrong_type, "shallow: types {} and {} > {}", smelt::name(p.problem.input),
                  smelt::name(p.bound.inputs[1].type), smelt::name(p.problem.output));
  if (auto why = rejects_operands(p.bound.inputs.size())) return why;
  return std::nullopt;
}

}  // namespace

void offer_float_shallow(const Request& r, Offer& offer) {
  if (const auto why = rejects(r)) return offer.refuse("cpu", *why);
  const Problem& p = r.product.problem;
  // One Zen 4 core at 3.7 GHz with AVX2, measured: a register of results takes a store and half a cycle for each of K.
  const double results = static_cast<double>(p.batch() * p.m) * static_cast<double>(std::max(p.n, float_shallow_lanes));
  const double compute = results * (0.034 + 0.017 * static_cast<double>(p.k)) * 1e-3;
  const double memory = static_cast<double>(bytes(p.output, 1)) * results / 25e3;
  offer.candidates.push_back({"cpu", "shallow", 1 + (std::max(compute, memory) + (ending_of(r) ? 0 : results / 1e3)) / r.threads,
                              [r] { return std::make_unique<FloatShallowProduct>(r); }});
}

}  // namespace smelt::ops::matmul
