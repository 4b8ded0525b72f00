// A residual added to a product behind a Reshape.
#include "fuse/match/match.h"
#include "fuse/recognise/written_attention.h"

namespace smelt::fuse {
namespace {

struct Form {
  SymShape sum = {1, 6, 8};
  SymShape residual = {1, 6, 8};
  bool read_twice = true, reshape_read = false, product = true;
};

/// relu(r + reshape(x · w)), and the sum.
Graph residual(const Form& f) {
  Builder b;
  const ValueId x = b.input("x", {6, 4});
  const ValueId y = f.product ? b.node("product", "MatMul", {x, b.weights("w", {4, 8})}, {6, 8}) : b.input("y", {6, 8});
  std::vector<int64_t> to;
  for (const Dim& d : f.sum) to.push_back(d.value);
  const ValueId reshaped = b.node("reshape", "Reshape", {y, b.ints(to)}, f.sum);
  const ValueId sum = b.node("sum", "Add", {b.input("r", f.residual), reshaped}, f.sum);
  b.output(b.node("relu", "Relu", {sum}, f.sum));
  if (f.read_twice) b.output(b.node("neg", "Neg", {sum}, f.sum));
  if (f.reshape_read) b.output(b.node("abs", "Abs", {reshaped}, f.sum));
  return std::move(b.g);
}

TEST(SumOfReshaped, is_added_before_the_reshape) {
  Graph g = residual({});
  EXPECT_EQ(matches(rewrite_and_compare(g, {"sum_of_reshaped"}), "sum_of_reshaped"), 1u);
  const Node& add = only(g, "Add", onnx_domain);
  EXPECT_TRUE(made_by(g, add.in(0), "MatMul"));
  Graph fused = residual({});
  rewrite_and_compare(fused, {"sum_of_reshaped", "matmul_epilogue"});
  EXPECT_EQ(count(fused, "Add"), 0u) << "the product adds it";
}

TEST(SumOfReshaped, stays_behind_the_reshape) {
  const auto reason = [](const Form& f) {
    Graph g = residual(f);
    return rejection(rewrite_and_compare(g, {"sum_of_reshaped"}), "sum_of_reshaped");
  };
  EXPECT_EQ(reason({.read_twice = false}), "not_profitable") << "one node reads the sum";
  EXPECT_EQ(reason({.reshape_read = true}), "extra_reader") << "the Reshape has another reader";
  EXPECT_EQ(reason({.residual = {8}}), "wrong_shape") << "what is added broadcasts";
  EXPECT_EQ(reason({.sum = {6, 2, 4}, .residual = {6, 2, 4}}), "wrong_shape") << "other columns";
  EXPECT_EQ(reason({.product = false}), "not looked at") << "no product";
}

}  // namespace
}  // namespace smelt::fuse
