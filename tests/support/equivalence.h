// Numeric equivalence: a graph gives the same answers before and after rewrites, by the reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "fuse/match/extents.h"
#include "support/builder.h"

namespace smelt::fuse {

/// Numbers for the symbols of a test's inputs.
using Bindings = std::map<std::string, int64_t>;

/// Fused operators round once where the nodes they stand for rounded at each step: a few units in the last place of the output's
/// type, at the size of its largest value. Fails when the expected values prove nothing.
void expect_close(const Tensor& after, const Tensor& before, const std::string& what);

/// Evaluates both on the same random inputs and compares every output.
void expect_same_outputs(const Graph& before, const Graph& after, const Bindings& symbols = {});

/// Runs these rewrites of the pipeline, in its order, and compares the outputs before and after. Returns the ledger.
Ledger rewrite_and_compare(Graph& g, const std::vector<std::string>& names, const Bindings& symbols = {});

size_t matches(const Ledger& ledger, std::string_view rewrite);

/// The reason of the last rejection by the rewrite; "matched" or "not looked at" otherwise.
std::string rejection(const Ledger& ledger, std::string_view rewrite);

/// The one live node of an operator; fails when there is not exactly one.
const Node& only(const Graph& g, std::string_view op, std::string_view domain = smelt_domain);

}  // namespace smelt::fuse
