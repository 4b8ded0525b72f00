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

void infer_trees(InferContext& c);
void run_trees(ComputeContext& c);
void infer_label_encoder(InferContext& c);
void run_label_encoder(ComputeContext& c);

}  // namespace smelt::ops
