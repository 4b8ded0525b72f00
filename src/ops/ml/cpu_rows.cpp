// Linear models and support vectors on the processor: rows by threads.
#include <algorithm>
#include <memory>

#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/ml/linear.h"
#include "ops/ml/offer.h"

namespace smelt::ops {
namespace {

constexpr int64_t grain = 4;  // rows

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
      if (classifies) rule_ = std::make_unique<LinearRule>(node, linear_.targets);
    }
  }

  const ClassLabels* labels() const { return labels_.get(); }
  /// Multiplications of a row.
  int64_t work(int64_t features) const {
    return svm_ ? (svm_->supports + svm_->classes) * (features + 16) : linear_.targets * features;
  }

  int64_t decide(const float* x, std::vector<double>& scores, std::vector<float>& scratch) const {
    if (svm_ && labels_) return svm_->classify(x, scratch, scores);
    if (svm_) {
      scores.assign(1, svm_->regress(x, scratch));
      return 0;
    }
    linear_.scores(x, scores);
    if (rule_) return rule_->decide(scores);
    post_transform(scores, transform_);
    return 0;
  }

 private:
  PostTransform transform_;
  std::unique_ptr<ClassLabels> labels_;
  std::unique_ptr<SvmModel> svm_;
  LinearModel linear_;
  std::unique_ptr<LinearRule> rule_;
};

class RowModelKernel final : public Kernel {
 public:
  RowModelKernel(const BoundNode& b, int threads)
      : features_(features_of(b.inputs[0].shape)),
        rows_(rows_of(b.inputs[0].shape)),
        model_(*b.node, features_),
        threads_(useful_threads(threads,
                                std::min(rows_, int64_t{1} << 30) * std::min(model_.work(features_), int64_t{1} << 30) / 2)) {}

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    const size_t at = model_.labels() ? 1 : 0;
    auto* y = at < b.outputs.size() ? static_cast<float*>(b.outputs[at]) : nullptr;
    auto* labels = model_.labels() ? static_cast<int64_t*>(b.outputs[0]) : nullptr;
    parallel(threads_, rows_, grain, [&](int64_t begin, int64_t end, int) {
      std::vector<double> scores;
      std::vector<float> scratch;
      for (int64_t r = begin; r < end; ++r) {
        const int64_t chosen = model_.decide(x + r * features_, scores, scratch);
        if (labels) labels[r] = model_.labels()->integer(chosen);
        if (y)
          std::transform(scores.begin(), scores.end(), y + r * static_cast<int64_t>(scores.size()),
                         [](double v) { return static_cast<float>(v); });
      }
    });
  }

 private:
  int64_t features_, rows_;
  RowModel model_;
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
