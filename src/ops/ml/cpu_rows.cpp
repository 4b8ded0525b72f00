// Linear models and support vectors on the processor: rows by threads.
#include <algorithm>
#include <memory>

#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/ml/linear.h"
#include "ops/ml/offer.h"
#include "ops/ml/simd/linear.h"
#include "ops/softmax/simd/softmax.h"

namespace smelt::ops {
namespace {

constexpr int64_t grain = 4;              // rows
constexpr int64_t scores_at_once = 4096;  // made before they are looked at

const LinearSimd& linear_table() {
  if (simd::widest() == simd::Isa::avx512) return avx512::linear_simd();
  return simd::best() == simd::Isa::avx2 ? avx2::linear_simd() : base::linear_simd();
}
const SoftmaxSimd& softmax_table() {
  if (simd::widest() == simd::Isa::avx512) return avx512::softmax_simd();
  return simd::best() == simd::Isa::avx2 ? avx2::softmax_simd() : base::softmax_simd();
}

/// What any of these operators makes of a row: a class, or 0, and scores.
class RowModel {
 public:
  RowModel(const Node& node, int64_t features) : transform_(post_transform_of(node)) {
    const bool classifies = node.op.ends_with("Classifier");
    if (classifies) labels_ = std::make_unique<ClassLabels>(node);
    if (node.op.starts_with("SVM")) {
      svm_ = std::make_unique<SvmModel>(svm_model(node, features));
      turn_vectors();
    } else {
      linear_ = linear_model(node, features);
      linear_.offsets.resize(static_cast<size_t>(linear_.targets));
      if (pays_across()) turn_weights();
      if (classifies) rule_ = std::make_unique<LinearRule>(node, linear_.targets);
    }
  }

  const ClassLabels* labels() const { return labels_.get(); }
  /// Multiplications of a row.
  int64_t work(int64_t features) const {
    return svm_ ? (svm_->supports + svm_->classes) * (features + 16) : linear_.targets * features;
  }

  /// Scores of a row before the rule or the transform; 0 for support vectors.
  int64_t targets() const { return linear_.targets; }
  /// Of a linear model: y [rows, targets].
  void score(const float* x, int64_t rows, float* y) const {
    const LinearSimd& simd = linear_table();
    if (turned_.empty())
      simd.scores(x, rows, linear_.features, linear_.weights.data(), linear_.offsets.data(), linear_.targets, y);
    else
      simd.scores_across(x, rows, linear_.features, turned_.data(), linear_.offsets.data(), linear_.targets, y);
  }
  /// Whether scores are given out as they are or transformed by themselves, many rows at a time.
  bool gives_scores() const {
    const bool alone =
        transform_ == PostTransform::none || transform_ == PostTransform::softmax || transform_ == PostTransform::logistic;
    return alone && linear_.targets > 0 && (!rule_ || linear_.targets > 1);
  }
  /// Floats of memory to transform with, aligned to 64 bytes.
  int64_t transform_floats() const { return transform_ == PostTransform::softmax ? row_floats(linear_.targets) : 0; }
  /// Of rows of gives_scores(), where they lie.
  void transform(float* scores, int64_t rows, float* memory) const {
    const int64_t n = linear_.targets;
    if (transform_ == PostTransform::softmax)
      softmax_table().rows(SoftmaxSimd::Kind::f32, scores, n, scores, n, rows, n, memory, false);
    if (transform_ == PostTransform::logistic) linear_table().logistic(scores, rows * n);
  }

  /// Floats that a row's values of the support vectors take; 0 without any.
  int64_t value_floats() const { return columns_; }
  /// y [rows, value_floats()]
  void values(const float* x, int64_t rows, float* y) const {
    linear_table().support_values(form_, x, rows, svm_->features, turned_.data(), columns_, y);
  }
  bool has_vectors() const { return svm_ != nullptr; }
  /// Of a row and its values; `sums` is memory to use again.
  int64_t decide_by_vectors(const float* x, const float* values, std::vector<double>& scores, std::vector<double>& sums) const {
    if (!labels_) {
      scores.assign(1, svm_->regress(x, values));
      return 0;
    }
    if (svm_->supports > 0) sums_by_classes(values, sums);
    return svm_->classify(x, sums, scores);
  }

  /// `scores`: what score() made of the row.
  int64_t decide(std::vector<double>& scores) const {
    if (rule_) return rule_->decide(scores);
    post_transform(scores, transform_);
    return 0;
  }

 private:
  /// Whether a register of targets, one feature after the other, takes less than registers of features, which are added up in the end.
  bool pays_across() const {
    constexpr int64_t registers = linear_columns, most = 160, adding_up = 2;  // sums of more features are kept in doubles
    const int64_t n = linear_.features, targets = linear_.targets;
    const int64_t across = n * ((targets + registers - 1) / registers),
                  along = targets * ((n + registers - 1) / registers + adding_up);
    return n <= most && across < 2 * along;  // of those two multiply-adds go at once, which load their weights for four rows
  }
  void turn_weights() {
    linear_.offsets.resize(static_cast<size_t>(padded(linear_.targets)));
    turned_ = turned(linear_.weights.data(), linear_.targets, linear_.features);
  }

  static int64_t padded(int64_t n) { return (n + linear_columns - 1) / linear_columns * linear_columns; }
  /// [lines, n] as [n, padded lines]
  static std::vector<float> turned(const float* from, int64_t lines, int64_t n) {
    std::vector<float> to(static_cast<size_t>(n * padded(lines)));
    for (int64_t t = 0; t < lines; ++t)
      for (int64_t k = 0; k < n; ++k) to[static_cast<size_t>(k * padded(lines) + t)] = from[t * n + k];
    return to;
  }
  void turn_vectors() {
    constexpr int64_t few = 4;  // lines of coefficients, of which each is added up by itself
    const SvmModel& m = *svm_;
    if (m.supports == 0) return;
    columns_ = padded(m.supports);
    turned_ = turned(m.vectors.data(), m.supports, m.features);
    const SvmKernel& k = m.kernel;
    constexpr SvmForm::Kind kinds[] = {SvmForm::product, SvmForm::power, SvmForm::exponential, SvmForm::tangent};
    form_ = {kinds[k.type], k.type == SvmKernel::rbf, k.type == SvmKernel::rbf ? -k.gamma : k.gamma, k.offset, k.degree};
    if (m.classes - 1 < few) return;
    turned_coefficients_ = turned(m.coefficients.data(), m.classes - 1, m.supports);
    zeros_.resize(static_cast<size_t>(padded(m.classes - 1)));
  }
  /// SvmModel::sums.
  void sums_by_classes(const float* values, std::vector<double>& sums) const {
    if (turned_coefficients_.empty()) return svm_->sums(values, sums);
    constexpr int64_t at_once = 128;  // vectors, whose sums are kept in floats
    const int64_t lines = svm_->classes - 1;
    sums.assign(static_cast<size_t>(svm_->classes * lines), 0);
    std::vector<float> part(static_cast<size_t>(lines));
    double* to = sums.data();
    for (int64_t first = 0; const int64_t vectors : svm_->per_class) {
      for (const int64_t end = first + vectors; first < end;) {
        const int64_t n = std::min(at_once, end - first);
        linear_table().scores_across(values + first, 1, n, turned_coefficients_.data() + first * padded(lines), zeros_.data(),
                                     lines, part.data());
        for (int64_t i = 0; i < lines; ++i) to[i] += static_cast<double>(part[static_cast<size_t>(i)]);
        first += n;
      }
      to += lines;
    }
  }

  PostTransform transform_;
  std::unique_ptr<ClassLabels> labels_;
  std::unique_ptr<SvmModel> svm_;
  SvmForm form_;
  int64_t columns_ = 0;                             // the support vectors, padded
  std::vector<float> turned_coefficients_, zeros_;  // of several classes
  LinearModel linear_;
  std::vector<float> turned_;  // its weights or vectors, a feature's side by side; empty where that does not pay
  std::unique_ptr<LinearRule> rule_;
};

class RowModelKernel final : public Kernel {
 public:
  RowModelKernel(const BoundNode& b, int threads)
      : features_(features_of(b.inputs[0].shape)),
        rows_(rows_of(b.inputs[0].shape)),
        model_(*b.node, features_),
        at_once_(
            std::clamp<int64_t>(scores_at_once / std::max<int64_t>({1, model_.targets(), model_.value_floats() / 16}), 8, 64)),
        threads_(useful_threads(threads,
                                std::min(rows_, int64_t{1} << 30) * std::min(model_.work(features_), int64_t{1} << 30) / 2)) {}

  int64_t workspace() const override { return threads_ * own_bytes(); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    const size_t at = model_.labels() ? 1 : 0;
    auto* y = at < b.outputs.size() ? static_cast<float*>(b.outputs[at]) : nullptr;
    auto* labels = model_.labels() ? static_cast<int64_t*>(b.outputs[0]) : nullptr;
    const int64_t targets = model_.targets();
    parallel(threads_, rows_, grain, [&](int64_t begin, int64_t end, int thread) {
      auto* own = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * own_bytes());
      std::vector<double> scores, sums;
      for (int64_t n = 0; begin < end; begin += n) {
        n = std::min(at_once_, end - begin);
        const bool plain = model_.gives_scores();
        float* made = plain && y ? y + begin * targets : own;
        if (targets > 0) model_.score(x + begin * features_, n, made);
        if (model_.value_floats() > 0) model_.values(x + begin * features_, n, own);
        for (int64_t i = 0; i < n && !plain; ++i) {
          scores.assign(made + i * targets, made + (i + 1) * targets);
          const int64_t r = begin + i;
          const int64_t chosen = model_.has_vectors()
                                     ? model_.decide_by_vectors(x + r * features_, own + i * model_.value_floats(), scores, sums)
                                     : model_.decide(scores);
          if (labels) labels[r] = model_.labels()->integer(chosen);
          if (y)
            std::transform(scores.begin(), scores.end(), y + r * static_cast<int64_t>(scores.size()),
                           [](double v) { return static_cast<float>(v); });
        }
        for (int64_t i = 0; i < n && plain && labels; ++i) {
          const float* row = made + i * targets;
          labels[begin + i] = model_.labels()->integer(std::max_element(row, row + targets) - row);
        }
        if (plain && y) model_.transform(made, n, own + scores_floats());
      }
    });
  }

 private:
  static constexpr int64_t float_bytes = sizeof(float);
  int64_t scores_floats() const {
    return aligned(at_once_ * std::max(model_.targets(), model_.value_floats()) * float_bytes) / float_bytes;
  }
  int64_t own_bytes() const { return aligned((scores_floats() + model_.transform_floats()) * float_bytes); }

  int64_t features_, rows_;
  RowModel model_;
  int64_t at_once_;  // rows
  int threads_;
};

}  // namespace

void offer_row_models_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.inputs[0].type != DType::f32) return offer.refuse("cpu", Reason::wrong_type, "features of {}", name(b.inputs[0].type));
  if (b.outputs[0].type == DType::string) return offer.refuse("cpu", Reason::wrong_type, "labels that are strings");
  if (b.outputs.back().type != DType::f32 && b.outputs.back().type != DType::i64)
    return offer.refuse("cpu", Reason::wrong_type, "results of {}", name(b.outputs.back().type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const double products =
      static_cast<double>(rows_of(b.inputs[0].shape)) *
      static_cast<double>(std::max(b.node->get_floats("coefficients").size(), b.node->get_floats("support_vectors").size()));
  offer.candidates.push_back({"cpu", "", 2 + products / 2000 / machine.threads, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<RowModelKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
