// Indices that were broadcast over whole rows, for GatherElements and ScatterElements.
#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// GatherElements or ScatterElements of x by indices of `source` that are broadcast to `wide`; the indices are below `rows`.
struct Indexed : Builder {
  Indexed(const std::string& op, const SymShape& x, const Shape& source, const SymShape& wide, int64_t axis, int64_t rows = 3,
          const std::string& how = "Expand", const std::string& reduction = "add", DType type = DType::i64) {
    Tensor numbers = Tensor::empty(DType::i64, source);
    int64_t* to = numbers.data<int64_t>();
    for (int64_t i = 0; i < elements(source); ++i) to[i] = (7 * i + i / 3) % (2 * rows) - rows;  // negative ones too
    const ValueId data = input("x", x);
    std::vector<ValueId> target;  // an extent that has no number is x's
    for (size_t i = 0; i < wide.size(); ++i) {
      const size_t missing = wide.size() - source.size();
      const auto at = static_cast<int64_t>(i);
      if (!wide[i].known())
        target.push_back(node("extent", "Shape", {data}, {1}, DType::i64, {{"start", at}, {"end", at + 1}}));
      else
        target.push_back(ints({how == "Expand" || i < missing || source[i - missing] == 1 ? wide[i].value : 1}));
    }
    const ValueId to_shape =
        node("shape", "Concat", target, {static_cast<int64_t>(wide.size())}, DType::i64, {{"axis", int64_t{0}}});
    const ValueId indices = node("wide", how, {constant("indices", numbers.cast(type)), to_shape}, wide, type);
    std::vector<ValueId> inputs = {data, indices};
    std::map<std::string, Attribute> attrs = {{"axis", axis}};
    if (op == "ScatterElements") {
      inputs.push_back(input("updates", wide));
      attrs["reduction"] = reduction;
    }
    output(node("y", op, inputs, op == "ScatterElements" ? x : wide, DType::f32, attrs));
  }
  size_t rewritten(const Bindings& symbols = {}) {
    const size_t n = matches(rewrite_and_compare(g, {"broadcast_indices", "dead_code"}, symbols), "broadcast_indices");
    EXPECT_EQ(count(g, "Expand") + count(g, "Tile") + count(g, "GatherElements") + count(g, "ScatterElements"), n ? 0u : 2u);
    return n;
  }
  std::string why() { return verdict(*this, broadcast_indices, "y"); }
};

TEST(BroadcastIndices, gather_whole_rows) {
  for (const std::string how : {"Expand", "Tile"}) {
    Indexed rows("GatherElements", {3, 5, 2}, {7, 1, 1}, {7, 5, 2}, 0, 3, how);
    EXPECT_EQ(rows.rewritten(), 1u);
    EXPECT_EQ(count(rows.g, "Gather"), 1u);
    Indexed middle("GatherElements", {2, 3, 5}, how == "Tile" ? Shape{1, 7, 1} : Shape{7, 1}, {2, 7, 5}, -2, 3, how);
    EXPECT_EQ(middle.rewritten(), 1u);
    EXPECT_EQ(count(middle.g, "Gather"), 1u) << "the indices of every batch";
    Indexed batches("GatherElements", {2, 3, 5}, {2, 7, 1}, {2, 7, 5}, 1, 3, how);
    EXPECT_EQ(batches.rewritten(), 1u);
    EXPECT_EQ(count(batches.g, "GatherND"), 1u) << "each batch's own";
    Indexed columns("GatherElements", {2, 4, 3}, {1, 1, 7}, {2, 4, 7}, 2, 3, how);
    EXPECT_EQ(columns.rewritten(), 1u);
  }
}

TEST(BroadcastIndices, scatter_whole_rows) {
  for (const std::string reduction : {"none", "add", "max", "mul"}) {
    SCOPED_TRACE(reduction);
    Indexed rows("ScatterElements", {3, 5, 2}, {7, 1, 1}, {7, 5, 2}, 0, 3, "Expand", reduction);
    EXPECT_EQ(rows.rewritten(), 1u);
    Indexed behind_ones("ScatterElements", {1, 1, 3, 5}, {7, 1}, {1, 1, 7, 5}, 2, 3, "Expand", reduction);
    EXPECT_EQ(behind_ones.rewritten(), 1u);
    EXPECT_EQ(count(behind_ones.g, "ScatterND"), 1u);
    EXPECT_EQ(count(behind_ones.g, "Unsqueeze"), 1u);
    Indexed line("ScatterElements", {1, 3}, {7}, {1, 7}, 1, 3, "Expand", reduction);
    EXPECT_EQ(line.rewritten(), 1u);
  }
}

TEST(BroadcastIndices, of_32_bits) {
  Indexed rows("GatherElements", {3, 5, 2}, {7, 1, 1}, {7, 5, 2}, 0, 3, "Expand", "", DType::i32);
  EXPECT_EQ(rows.rewritten(), 1u);
  EXPECT_EQ(count(rows.g, "Cast"), 0u);
  Indexed batches("GatherElements", {2, 3, 5}, {2, 7, 1}, {2, 7, 5}, 1, 3, "Expand", "", DType::i32);
  EXPECT_EQ(batches.rewritten(), 1u);
  Indexed sums("ScatterElements", {3, 5, 2}, {7, 1, 1}, {7, 5, 2}, 0, 3, "Expand", "add", DType::i32);
  EXPECT_EQ(sums.rewritten(), 1u);
}

TEST(BroadcastIndices, of_a_single_row) {
  Indexed row("GatherElements", {3, 5}, {1, 1}, {1, 5}, 0);
  EXPECT_EQ(row.rewritten(), 1u);
  Indexed batches("GatherElements", {2, 3, 5}, {2, 1, 1}, {2, 1, 5}, 1);
  EXPECT_EQ(batches.rewritten(), 1u);
  Indexed sums("ScatterElements", {3, 5}, {1, 1}, {1, 5}, 0);
  EXPECT_EQ(sums.rewritten(), 1u);
}

TEST(BroadcastIndices, keep_extents_that_only_a_run_knows) {
  const Dim n("n");
  Indexed rows("GatherElements", {3, n}, {7, 1}, {7, n}, 0);
  EXPECT_EQ(rows.rewritten({{"n", 4}}), 1u);
  Indexed sums("ScatterElements", {3, n}, {7, 1}, {7, n}, 0);
  EXPECT_EQ(sums.rewritten({{"n", 4}}), 1u);
}

TEST(BroadcastIndices, leave_what_is_no_whole_row) {
  EXPECT_EQ(Indexed("GatherElements", {3, 6}, {7, 1}, {7, 5}, 0).why(), "not here") << "a part of each row";
  EXPECT_EQ(Indexed("GatherElements", {3, Dim("n")}, {7, 1}, {7, 5}, 0).why(), "unknown_shape by y");
  EXPECT_EQ(Indexed("GatherElements", {3, 5}, {7, 5}, {7, 5}, 0).why(), "not here") << "an index for each element";
  EXPECT_EQ(Indexed("GatherElements", {3, 5}, {1, 1}, {7, 5}, 0).why(), "not here") << "one row many times";
  EXPECT_EQ(Indexed("GatherElements", {2, 4, 3}, {2, 1, 7}, {2, 4, 7}, 2).why(), "not here") << "some of the batch's axes";
  EXPECT_EQ(Indexed("ScatterElements", {2, 3, 5}, {7, 1}, {2, 7, 5}, 1).why(), "not here") << "several batches";
}

}  // namespace
}  // namespace smelt::fuse
