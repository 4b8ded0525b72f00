// What the classical machine-learning operators (domain ai.onnx.ml) share.
#pragma once

#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// TreeEnsemble's numbering of the transforms of a row of scores.
enum class PostTransform : int64_t { none, softmax, logistic, softmax_zero, probit };
PostTransform post_transform_of(const Node& node);  // the string attribute; throws for an unknown one
void post_transform(std::vector<double>& scores, PostTransform how);

/// Rounds values into an allocated output of any numeric type.
void store_doubles(const std::vector<double>& values, Tensor& out);

/// How many labels a classifier has.
size_t class_count(const Node& node);

/// Features in a row: the last axis.
inline int64_t features_of(const Shape& x) { return x.empty() ? 1 : x.back(); }
/// Rows of [N, C]; [C] is one.
inline int64_t rows_of(const Shape& x) { return x.size() > 1 ? x[0] : 1; }

void infer_label_encoder(InferContext& c);
void run_label_encoder(ComputeContext& c);

}  // namespace smelt::ops
