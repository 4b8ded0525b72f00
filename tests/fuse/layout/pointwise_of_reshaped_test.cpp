// What follows a product behind a Reshape, as ONNX Runtime's own fusion of MatMul and Add leaves it.
#include "fuse/match/match.h"
#include "fuse/recognise/written_attention.h"

namespace smelt::fuse {
namespace {

struct Form {
  SymShape to = {2, 3, 8};
  SymShape row = {8};
  bool reshape_read = false, product = true, computed = false;
};

/// gelu(reshape(x · w) + row), and where the row is computed another input.
Graph reshaped(const Form& f) {
  Builder b;
  const ValueId x = b.input("x", {6, 4});
  const ValueId y = f.product ? b.node("product", "MatMul", {x, b.weights("w", {4, 8})}, {6, 8}) : b.input("y", {6, 8});
  std::vector<int64_t> to;
  for (const Dim& d : f.to) to.push_back(d.value);
  const ValueId reshape = b.node("reshape", "Reshape", {y, b.ints(to)}, f.to);
  Shape row;
  for (const Dim& d : f.row) row.push_back(d.value);
  const ValueId added = f.computed ? b.input("row", f.row) : b.weights("row", row);
  const ValueId sum = b.node("sum", "Add", {reshape, added}, f.to);
  b.output(b.node("gelu", "Gelu", {sum}, f.to));
  if (f.reshape_read) b.output(b.node("abs", "Abs", {reshape}, f.to));
  return std::move(b.g);
}

TEST(PointwiseOfReshaped, is_computed_before_the_reshape) {
  for (const SymShape& row : {SymShape{8}, SymShape{1, 8}, SymShape{1}}) {
    Graph g = reshaped({.row = row});
    EXPECT_EQ(matches(rewrite_and_compare(g, {"pointwise_of_reshaped"}), "pointwise_of_reshaped"), 2u);
    EXPECT_TRUE(made_by(g, only(g, "Reshape", onnx_domain).in(0), "Gelu"));
    Graph fused = reshaped({.row = row});
    rewrite_and_compare(fused, {"pointwise_of_reshaped", "matmul_epilogue"});
    EXPECT_EQ(fused.live_nodes(), 2u) << "the product computes it";
  }
}

TEST(PointwiseOfReshaped, takes_numbers_where_columns_change) {
  Graph g = reshaped({.to = {6, 2, 4}, .row = {1}});
  EXPECT_EQ(matches(rewrite_and_compare(g, {"pointwise_of_reshaped"}), "pointwise_of_reshaped"), 2u);
}

TEST(PointwiseOfReshaped, stays_behind_the_reshape) {
  const auto reason = [](const Form& f) {
    Graph g = reshaped(f);
    return rejection(rewrite_and_compare(g, {"pointwise_of_reshaped"}), "pointwise_of_reshaped");
  };
  EXPECT_EQ(reason({.reshape_read = true}), "extra_reader") << "the Reshape has another reader";
  EXPECT_EQ(reason({.row = {3, 8}}), "wrong_shape") << "rows that the product has in another order of axes";
  EXPECT_EQ(reason({.to = {6, 2, 4}, .row = {4}}), "wrong_shape") << "other columns";
  EXPECT_EQ(reason({.row = {1, 1, 8}}), "wrong_rank") << "more axes than the product has";
  EXPECT_EQ(reason({.computed = true}), "not_constant");
  EXPECT_EQ(reason({.product = false}), "not looked at") << "no product";
}

}  // namespace
}  // namespace smelt::fuse
