// Layer and root-mean-square normalisation of rows as they lie, of every floating-point type: nothing is added before or computed
// after, and gamma and beta are the same row for all rows or one number for each. The mean and the deviation may be outputs.
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/rows/rows.h"
#include "ops/norm/offer.h"
#include "ops/norm/rows.h"

namespace smelt::ops {
namespace {

constexpr size_t none = NormParts::none;

/// How gamma and beta lie against x.
enum class Parameters : uint8_t { absent, a_row, a_number, others };

/// Views of x's shape: x, y, then gamma and beta where they are there.
struct Views {
  std::vector<Shape> strides;
  size_t gamma = none, beta = none;
};

Views views_of(const BoundNode& b, const NormParts& p) {
  Views v{{memory_strides(b.inputs[0]), memory_strides(b.outputs[0])}};
  for (const auto& [from, to] : {std::pair(p.gamma, &v.gamma), std::pair(p.beta, &v.beta)}) {
    if (from == none) continue;
    *to = v.strides.size();
    v.strides.push_back(broadcast_strides(b.inputs[from], b.inputs[0].shape.size()));
  }
  return v;
}

Parameters parameters_of(const BoundNode& b, const NormParts& p, const Views& v) {
  const Shape& shape = b.inputs[0].shape;
  const RowViews rows(shape, p.axis, v.strides);
  Parameters all = Parameters::absent;
  for (size_t k : {v.gamma, v.beta}) {
    if (k == none) continue;
    bool shared = true;  // by all rows
    for (size_t a = 0; a < p.axis; ++a) shared &= shape[a] == 1 || v.strides[k][a] == 0;
    const auto step = rows.stride(k);
    const Parameters mine = shared && step == 1 ? Parameters::a_row : step == 0 ? Parameters::a_number : Parameters::others;
    if (mine == Parameters::others || (all != Parameters::absent && all != mine)) return Parameters::others;
    all = mine;
  }
  return all;
}

/// Short rows of which some go together, with statistics of f32.
bool goes_beside(const BoundNode& b, const NormParts& p, Parameters kind) {
  const Shape& x = b.inputs[0].shape;
  const int64_t rows = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(p.axis)));
  for (size_t o : {p.mean, p.inverse})
    if (o != none && b.outputs[o].type != DType::f32) return false;
  return (kind == Parameters::absent || kind == Parameters::a_row) && norm_row(b.inputs[0].type)->beside && rows > 1 &&
         elements(x) <= rows * NormRow::most_beside;
}

class RowNormKernel final : public Kernel {
 public:
  RowNormKernel(const BoundNode& b, int threads)
      : p_(b),
        row_(norm_row(b.inputs[0].type)),
        type_(b.inputs[0].type),
        bytes_(bits(type_) / 8),
        v_(views_of(b, p_)),
        views_(b.inputs[0].shape, p_.axis, v_.strides),
        kind_(parameters_of(b, p_, v_)),
        dense_(is_dense(b.inputs[0]) && is_dense(b.outputs[0])),
        beside_(dense_ && goes_beside(b, p_, kind_)),
        threads_(useful_threads(threads, views_.rows() * views_.width() * 4)),
        rows_(views_.rows(), views_.width(), threads) {
    for (size_t i : {p_.gamma, p_.beta}) parameter_types_.push_back(i == none ? DType::undefined : b.inputs[i].type);
    for (size_t o : {p_.mean, p_.inverse}) statistic_types_.push_back(o == none ? DType::undefined : b.outputs[o].type);
  }

  int64_t workspace() const override { return 2 * row_bytes() + rows_.workspace(); }
  bool in_place(size_t i) const override {
    return i == 0 && p_.mean == none && p_.inverse == none && v_.strides[0] == v_.strides[1];
  }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const void* parameters[2] = {p_.gamma == none ? nullptr : b.inputs[p_.gamma], p_.beta == none ? nullptr : b.inputs[p_.beta]};
    if (kind_ == Parameters::a_row)
      for (size_t k = 0; k < 2; ++k) parameters[k] = as_numbers(parameters[k], k, memory + static_cast<int64_t>(k) * row_bytes());
    const char* x = static_cast<const char*>(b.inputs[0]);
    char* y = static_cast<char*>(b.outputs[0]);
    const auto moments = [&](int64_t r, int64_t from, int64_t n) {
      return moments_of(*row_, x + (begin_of(r, 0) + from) * bytes_, n, p_.centre);
    };
    if (beside_) {
      const auto row_of = [&](size_t k) { return static_cast<const float*>(parameters[k]); };
      const auto statistic = [&](size_t o) { return o == none ? nullptr : static_cast<float*>(b.outputs[o]); };
      return parallel(threads_, views_.rows(), 16, [&](int64_t begin, int64_t end, int) {
        const int64_t at = begin * views_.width() * bytes_;
        NormRow::Beside all{p_.centre, static_cast<float>(p_.epsilon), 0, row_of(0), row_of(1), nullptr, nullptr};
        if (float* m = statistic(p_.mean)) all.means = m + begin;
        if (float* v = statistic(p_.inverse)) all.inverses = v + begin;
        row_->beside(x + at, end - begin, views_.width(), all, y + at);
      });
    }
    rows_.run(memory + 2 * row_bytes(), moments, [&](int64_t r, int64_t from, int64_t n, const Moments& m) {
      const double inverse = 1 / std::sqrt(m.variance + p_.epsilon);
      if (from == 0) keep(b, r, m.mean, inverse);
      const void* in = x + (begin_of(r, 0) + from) * bytes_;
      void* out = y + (begin_of(r, 1) + from) * bytes_;
      if (kind_ == Parameters::a_row) {
        const int64_t skipped = from * (type_ == DType::f64 ? 8 : 4);
        const auto at = [&](const void* values) { return values ? static_cast<const char*>(values) + skipped : nullptr; };
        return row_->scale(in, n, m.mean, inverse, at(parameters[0]), at(parameters[1]), out);
      }
      const double gamma = v_.gamma == none ? 1 : number(parameters[0], 0, views_.offset(r, v_.gamma));
      const double beta = v_.beta == none ? 0 : number(parameters[1], 1, views_.offset(r, v_.beta));
      row_->shift(in, n, m.mean, inverse * gamma, beta, out);
    });
  }

 private:
  /// Where a row of x (0) or y (1) begins: without divisions where rows lie one behind the other.
  int64_t begin_of(int64_t row, size_t view) const { return dense_ ? row * views_.width() : views_.offset(row, view); }
  int64_t row_bytes() const { return kind_ == Parameters::a_row && type_ != DType::f64 ? aligned(views_.width() * 4) : 0; }

  /// A parameter's row as the functions read it.
  const void* as_numbers(const void* values, size_t k, char* memory) const {
    const DType t = parameter_types_[k];
    if (!values || t == DType::f32 || t == DType::f64) return values;
    copy_as_f32(reinterpret_cast<float*>(memory), 1, values, 1, views_.width(), t);
    return memory;
  }
  double number(const void* values, size_t k, int64_t at) const {
    const DType t = parameter_types_[k];
    if (t == DType::f64) return static_cast<const double*>(values)[at];
    float f = 0;
    copy_as_f32(&f, 1, static_cast<const char*>(values) + at * (bits(t) / 8), 1, 1, t);
    return static_cast<double>(f);
  }
  void keep(const Buffers& b, int64_t row, double mean, double inverse) const {
    const auto put = [&](size_t output, DType t, double v) {
      if (output == none) return;
      if (t == DType::f64)
        static_cast<double*>(b.outputs[output])[row] = v;
      else
        static_cast<float*>(b.outputs[output])[row] = static_cast<float>(v);
    };
    put(p_.mean, statistic_types_[0], mean);
    put(p_.inverse, statistic_types_[1], inverse);
  }

  NormParts p_;
  const NormRow* row_;
  DType type_;
  int64_t bytes_;
  Views v_;
  RowViews views_;
  Parameters kind_;
  bool dense_, beside_;  // short rows behind each other: some of them together
  int threads_;
  RowPasses rows_;
  std::vector<DType> parameter_types_, statistic_types_;
};

std::optional<Refusal> rejects(const BoundNode& b, const NormParts& p) {
  const DType type = b.inputs[0].type;
  if (!norm_row(type)) return refuse(Reason::wrong_type, "its type is {}; expected f32, f16, bf16 or f64", name(type));
  if (b.node->domain.empty() && b.node->get_int("stash_type", 1) != 1 && type != DType::f64)
    return refuse(Reason::wrong_attribute, "it computes in another type than f32");
  if (b.outputs[0].type != type) return refuse(Reason::wrong_type, "its result is {}", name(b.outputs[0].type));
  if (b.node->program || p.residual != none || p.sum != none)
    return refuse(Reason::unsupported, "it adds a residual, or computes more of its result");
  for (size_t i : {p.gamma, p.beta}) {
    const DType t = i == none ? type : b.inputs[i].type;
    if (!norm_row(t) || (t == DType::f64) != (type == DType::f64))
      return refuse(Reason::wrong_type, "input {} is {}", i, name(t));
  }
  for (size_t o : {p.mean, p.inverse})
    if (o != none && (!is_dense(b.outputs[o]) || (b.outputs[o].type != DType::f32 && b.outputs[o].type != DType::f64)))
      return refuse(Reason::wrong_type, "output {} is {}", o, name(b.outputs[o].type));
  if (elements(b.inputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (auto why = norm_rows_apart(b)) return why;
  if (parameters_of(b, p, views_of(b, p)) == Parameters::others)
    return refuse(Reason::wrong_shape, "gamma or beta is neither a row for all rows nor a number for each");
  return std::nullopt;
}

}  // namespace

bool offer_plain_norm_rows(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (rejects(b, NormParts(b))) return false;
  const auto count = static_cast<double>(elements(b.inputs[0].shape));
  // A row costs as much as 90 elements before it has any, where short ones do not go together: of 3, 46 ns were measured.
  const Shape& x = b.inputs[0].shape;
  const NormParts parts(b);
  const auto rows = static_cast<double>(elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(parts.axis))));
  const double row_us = goes_beside(b, parts, parameters_of(b, parts, views_of(b, parts))) ? 2e-3 : 45e-3;
  offer.candidates.push_back(
      {"cpu", "", 2 + (count / 2000 + rows * row_us) / machine.threads, [b, node = *b.node, threads = machine.threads] {
         BoundNode bound = b;
         bound.node = &node;
         return std::make_unique<RowNormKernel>(bound, threads);
       }});
  return true;
}

}  // namespace smelt::ops
