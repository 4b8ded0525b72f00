// Which class of its labels a row of scores is of, and what scores are given out: TreeEnsembleClassifier, LinearClassifier.
#pragma once

#include <vector>

#include "ops/core/operator.h"
#include "ops/ml/ml.h"

namespace smelt::ops {

/// The labels of a classifier, strings or integers, and where they go.
class ClassLabels {
 public:
  /// `strings`, `integers`: the attributes that hold them, one of them not empty. Throws Error where both are.
  ClassLabels(const Node& node, const char* strings, const char* integers);
  explicit ClassLabels(const Node& node);  // by the operator's own names
  size_t size() const { return is_text() ? strings_.size() : integers_.size(); }
  bool is_text() const { return !strings_.empty(); }
  DType type() const { return is_text() ? DType::string : DType::i64; }
  /// Of integers; -1 and -2: the numbers 0 and 1, which stand for labels that are not there.
  int64_t integer(int64_t k) const { return k < 0 ? -1 - k : integers_[static_cast<size_t>(k)]; }
  void put(int64_t k, int64_t row, Tensor& labels) const;

 private:
  std::vector<std::string> strings_;
  std::vector<int64_t> integers_;
};

/// How a TreeEnsembleClassifier decides, by the attributes: of two classes whose leaves have weights for one class only, a score is that
/// of the second class, a probability where no weight is negative.
struct ClassRule {
  explicit ClassRule(const Node& node);
  bool single = false;    // two labels, weights of one class
  bool positive = false;  // no weight is negative
  PostTransform transform;

  /// The class of the scores; they become what is given out.
  int64_t decide(std::vector<double>& scores, const bool* seen) const;
};

}  // namespace smelt::ops
