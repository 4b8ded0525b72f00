// ai.smelt.Norm, and ONNX's LayerNormalization and RMSNormalization of f32, f16 and bf16, a row at a time.
#include <fmt/core.h>

#include <algorithm>

#include "base/value_of.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/row_program.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cuda/gpu.h"
#include "ops/norm/offer.h"
#include "ops/norm/problem.h"

namespace smelt::ops {
namespace {

constexpr size_t none = NormParts::none;

class NormKernel final : public Kernel {
 public:
  NormKernel(const BoundNode& b, int threads)
      : p_(b), type_(required_float_kind(b.inputs[0].type)), out_type_(float_kind(b.outputs[0].type)) {
    const Shape& shape = b.inputs[0].shape;
    std::vector<Shape> strides = {memory_strides(b.inputs[0]), memory_strides(b.outputs[0])};
    auto add_view = [&](const BoundTensor& t) {
      strides.push_back(broadcast_strides(t, shape.size()));
      return strides.size() - 1;
    };
    if (p_.residual != none) residual_view_ = add_view(b.inputs[p_.residual]);
    if (p_.sum != none) sum_view_ = add_view(b.outputs[p_.sum]);
    size_t gamma_view = none, beta_view = none;
    if (p_.gamma != none) gamma_view = add_view(b.inputs[p_.gamma]);
    if (p_.beta != none) beta_view = add_view(b.inputs[p_.beta]);

    // The same contiguous gamma and beta for every row are widened once a run; anything else goes through a program.
    bool shared = true;
    for (size_t v : {gamma_view, beta_view}) {
      if (v == none) continue;
      for (size_t a = 0; a < p_.axis; ++a) shared &= strides[v][a] == 0;
      int64_t step = 1;
      for (size_t a = shape.size(); a-- > p_.axis; step *= shape[a]) shared &= shape[a] == 1 || strides[v][a] == step;
    }
    const auto program = norm_program(b, p_, !shared, operands_);
    for (size_t i : operands_) {
      operand_views_.push_back(add_view(b.inputs[i]));
      operand_bytes_.push_back(bits(b.inputs[i].type) / 8);
    }
    views_.emplace(shape, p_.axis, strides);
    shares_parameters_ = shared;
    for (size_t i : {p_.gamma, p_.beta})
      if (shared && i != none) parameters_.push_back(required_float_kind(b.inputs[i].type));
    for (size_t v : operand_views_) operand_strides_.push_back(views().stride(v));
    // A row whose operands do not merge into one stride is evaluated run by run along its last axis.
    run_ = views().width();
    for (const auto& s : operand_strides_)
      if (!s) run_ = shape.back();
    for (size_t k = 0; k < operands_.size(); ++k) {
      Shape inner(strides[operand_views_[k]].begin() + static_cast<std::ptrdiff_t>(p_.axis), strides[operand_views_[k]].end());
      inner_strides_.push_back(std::move(inner));
    }
    inner_.assign(shape.begin() + static_cast<std::ptrdiff_t>(p_.axis), shape.end());
    if (program && operands_.empty()) to_bytes_ = integer::RowProgram::match(*program);
    if (program) evaluator_.emplace(*program, simd::best(), run_);
    out_bytes_ = bits(b.outputs[0].type) / 8;
    bytes_ = type_ == FloatKind::f32 ? 4 : 2;
    threads_ = useful_threads(threads, views().rows() * views().width() * 4);
    row_bytes_ = (views().width() * 4 + 63) / 64 * 64;
    tables_ = (static_cast<int64_t>(sizeof(expr::Operand) * (operands_.size() + 1)) + 63) / 64 * 64;
    thread_bytes_ = row_bytes_ + tables_ + (evaluator_ ? (evaluator_->scratch() + 63) / 64 * 64 : 0);
  }

  int64_t workspace() const override { return 2 * row_bytes_ + threads_ * thread_bytes_; }

  void run(const Buffers& b) override {
    char* scratch = static_cast<char*>(b.workspace);
    const RowSimd& simd = row_simd();
    const float *gamma = nullptr, *beta = nullptr;
    if (shares_parameters_) {
      size_t k = 0;
      auto widen = [&](size_t input) -> const float* {
        if (input == none) return nullptr;
        const FloatKind t = parameters_[k];
        if (t == FloatKind::f32) return ++k, static_cast<const float*>(b.inputs[input]);
        float* to = reinterpret_cast<float*>(scratch + static_cast<int64_t>(k++) * row_bytes_);
        simd.load(t, b.inputs[input], nullptr, nullptr, to, views().width());
        return to;
      };
      gamma = widen(p_.gamma);
      beta = widen(p_.beta);
    }
    scratch += 2 * row_bytes_;
    parallel(threads_, views().rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = scratch + thread * thread_bytes_;
      float* row = reinterpret_cast<float*>(own);
      for (int64_t r = begin; r < end; ++r) {
        const void* x = static_cast<const char*>(b.inputs[0]) + views().offset(r, 0) * bytes_;
        const void* residual = p_.residual == none
                                   ? nullptr
                                   : static_cast<const char*>(b.inputs[p_.residual]) + views().offset(r, residual_view_) * bytes_;
        void* sum = p_.sum == none ? nullptr : static_cast<char*>(b.outputs[p_.sum]) + views().offset(r, sum_view_) * bytes_;
        void* y = static_cast<char*>(b.outputs[0]) + views().offset(r, 1) * out_bytes_;
        simd.load(type_, x, residual, sum, row, views().width());
        simd.normalize(row, views().width(), p_.centre, p_.epsilon);
        if (!evaluator_) {
          simd.scale(value_of(out_type_, "the type of a norm without a program"), row, gamma, beta, y, views().width());
          continue;
        }
        if (gamma || beta) simd.scale(FloatKind::f32, row, gamma, beta, row, views().width());
        if (const expr::Operand normalised{row, 1}; to_bytes_)
          to_bytes_->run(views().width(), {&normalised, 1}, y);
        else
          apply(b, r, row, static_cast<char*>(y), own + row_bytes_);
      }
    });
  }

 private:
  void apply(const Buffers& b, int64_t row, const float* values, char* y, char* scratch) const {
    const expr::Evaluator& evaluator = value_of(evaluator_, "the evaluator of a norm");
    auto* operands = reinterpret_cast<expr::Operand*>(scratch);
    for (int64_t at = 0; at < views().width(); at += run_) {
      operands[0] = {values + at, 1};
      for (size_t k = 0; k < operands_.size(); ++k) {
        int64_t offset = views().offset(row, operand_views_[k]), rest = at;
        for (size_t a = inner_.size(); a-- > 0 && rest > 0; rest /= inner_[a]) offset += rest % inner_[a] * inner_strides_[k][a];
        operands[k + 1] = {
            static_cast<const char*>(b.inputs[operands_[k]]) + offset * operand_bytes_[k],
            run_ == views().width() ? operand_strides_[k].value_or(inner_strides_[k].back()) : inner_strides_[k].back()};
      }
      void* out = y + at * out_bytes_;
      evaluator.run(run_, {operands, operands_.size() + 1}, {&out, 1}, scratch + tables_);
    }
  }

  const RowViews& views() const { return value_of(views_, "the rows of a norm"); }

  NormParts p_;
  FloatKind type_;
  std::optional<FloatKind> out_type_;
  std::optional<RowViews> views_;
  size_t residual_view_ = none, sum_view_ = none;
  bool shares_parameters_ = true;
  std::vector<FloatKind> parameters_;
  std::optional<integer::RowProgram> to_bytes_;  // the program where it only quantises
  std::optional<expr::Evaluator> evaluator_;
  std::vector<size_t> operands_, operand_views_;
  std::vector<int64_t> operand_bytes_;
  std::vector<std::optional<int64_t>> operand_strides_;
  std::vector<Shape> inner_strides_;
  Shape inner_;
  int64_t run_ = 0, row_bytes_ = 0, tables_ = 0, thread_bytes_ = 0, bytes_ = 4, out_bytes_ = 4;
  int threads_ = 1;
};

}  // namespace

void offer_norm_rows(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto count = static_cast<double>(elements(b.inputs[0].shape));
  offer.candidates.push_back({"cpu", "", 2 + count / 1500 / machine.threads, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<NormKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
