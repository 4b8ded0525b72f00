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

  /// `scores`: of a linear model's row what score() made of it.
  int64_t decide(const float* x, std::vector<double>& scores, std::vector<float>& scratch) const {
    if (svm_ && labels_) return svm_->classify(x, scratch, scores);
    if (svm_) {
      scores.assign(1, svm_->regress(x, scratch));
      return 0;
    }
    if (rule_) return rule_->decide(scores);
    post_transform(scores, transform_);
    return 0;
  }

 private:
  /// Whether a register of targets, one feature after the other, takes less than registers of features, which are added up in the end.
  bool pays_across() const {
    constexpr int64_t registers = linear_columns, most = 64, adding_up = 2;
    const int64_t n = linear_.features, targets = linear_.targets;
    return n <= most && n * ((targets + registers - 1) / registers) < targets * ((n + registers - 1) / registers + adding_up);
  }
  void turn_weights() {
    const int64_t columns = (linear_.targets + linear_columns - 1) / linear_columns * linear_columns;
    linear_.offsets.resize(static_cast<size_t>(columns));
    turned_.resize(static_cast<size_t>(linear_.features * columns));
    for (int64_t t = 0; t < linear_.targets; ++t)
      for (int64_t k = 0; k < linear_.features; ++k)
        turned_[static_cast<size_t>(k * columns + t)] = linear_.weights[static_cast<size_t>(t * linear_.features + k)];
  }

  PostTransform transform_;
  std::unique_ptr<ClassLabels> labels_;
  std::unique_ptr<SvmModel> svm_;
  LinearModel linear_;
  std::vector<float> turned_;  // its weights, a feature's side by side; empty where that does not pay
  std::unique_ptr<LinearRule> rule_;
};

class RowModelKernel final : public Kernel {
 public:
  RowModelKernel(const BoundNode& b, int threads)
      : features_(features_of(b.inputs[0].shape)),
        rows_(rows_of(b.inputs[0].shape)),
        model_(*b.node, features_),
        at_once_(std::clamp<int64_t>(scores_at_once / std::max<int64_t>(1, model_.targets()), 8, 64)),
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
      std::vector<double> scores;
      std::vector<float> scratch;
      for (int64_t n = 0; begin < end; begin += n) {
        n = std::min(at_once_, end - begin);
        const bool plain = model_.gives_scores();
        float* made = plain && y ? y + begin * targets : own;
        if (targets > 0) model_.score(x + begin * features_, n, made);
        for (int64_t i = 0; i < n && !plain; ++i) {
          scores.assign(made + i * targets, made + (i + 1) * targets);
          const int64_t r = begin + i, chosen = model_.decide(x + r * features_, scores, scratch);
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
  int64_t scores_floats() const { return aligned(at_once_ * model_.targets() * float_bytes) / float_bytes; }
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
