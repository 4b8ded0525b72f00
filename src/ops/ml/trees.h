// The tree ensembles: rules and references.
#pragma once

#include "ops/core/operator.h"
#include "ops/ml/forest.h"

namespace smelt::ops {

/// Throws Error where a branch reads a feature beyond those of a row.
void check_features(const Forest& f, int64_t features);
/// The transform of a row of scores, by whichever attribute the operator has.
PostTransform ensemble_transform(const Node& node);

void infer_trees(InferContext& c);
void infer_tree_regressor(InferContext& c);
void infer_tree_classifier(InferContext& c);
void run_trees(ComputeContext& c);  // TreeEnsemble and TreeEnsembleRegressor
void run_tree_classifier(ComputeContext& c);

}  // namespace smelt::ops
