#include "ops/ml/classes.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::ops {
namespace {

bool is_trees(const Node& node) { return node.op == "TreeEnsembleClassifier"; }

}  // namespace

ClassLabels::ClassLabels(const Node& node, const char* strings, const char* integers)
    : strings_(node.get_strings(strings)), integers_(node.get_ints(integers)) {
  if (strings_.empty() == integers_.empty()) fail("expected either {} or {}", strings, integers);
}

ClassLabels::ClassLabels(const Node& node)
    : ClassLabels(node, "classlabels_strings", is_trees(node) ? "classlabels_int64s" : "classlabels_ints") {}

void ClassLabels::put(int64_t k, int64_t row, Tensor& labels) const {
  if (!is_text())
    labels.data<int64_t>()[row] = integer(k);
  else
    labels.strings()[static_cast<size_t>(row)] = k < 0 ? std::to_string(-1 - k) : strings_[static_cast<size_t>(k)];
}

size_t class_count(const Node& node) { return ClassLabels(node).size(); }

ClassRule::ClassRule(const Node& node) : transform(post_transform_of(node)) {
  const std::vector<int64_t> ids = node.get_ints("class_ids");
  const bool one_id = !ids.empty() && std::ranges::all_of(ids, [&](int64_t id) { return id == ids[0]; });
  single = class_count(node) == 2 && one_id;
  const std::vector<float> floats = node.get_floats("class_weights");
  positive = std::ranges::all_of(floats, [](float w) { return w >= 0; });
  if (const Tensor t = node.get_tensor("class_weights_as_tensor"); t.valid()) {
    const std::vector<double> doubles = t.to_doubles();
    positive = std::ranges::all_of(doubles, [](double w) { return w >= 0; });
  }
}

int64_t ClassRule::decide(std::vector<double>& scores, const bool* seen) const {
  if (single) {
    const double score = seen[1] ? scores[1] : scores[0];
    const int64_t chosen = score > (positive ? 0.5 : 0.0) ? 1 : 0;
    if (seen[1]) {  // weights of the second class: the first one's score is 0
      post_transform(scores, transform);
    } else if (transform == PostTransform::logistic) {
      scores = {-score, score};
      post_transform(scores, transform);
    } else {
      scores = {positive ? 1 - score : -score, score};
      if (transform == PostTransform::probit) post_transform(scores, transform);
    }
    return chosen;
  }
  size_t best = 0;
  bool any = false;
  for (size_t k = 0; k < scores.size(); ++k) {
    if (!seen[k] || (any && !(scores[k] > scores[best]))) continue;
    best = k;
    any = true;
  }
  post_transform(scores, transform);
  return static_cast<int64_t>(best);
}

}  // namespace smelt::ops
