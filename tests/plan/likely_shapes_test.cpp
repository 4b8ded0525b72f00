// Extents that are tried for a model which leaves them open.
#include "plan/likely_shapes.h"

#include <gmock/gmock.h>

#include "support/graphs.h"

namespace smelt::plan {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

Graph with_inputs(const std::vector<SymShape>& shapes) {
  Builder b;
  for (size_t i = 0; i < shapes.size(); ++i)
    b.output(b.node("n" + std::to_string(i), "Relu", {b.input("x" + std::to_string(i), shapes[i])}, shapes[i]));
  return std::move(b.g);
}

TEST(LikelyShapes, are_none_where_nothing_is_open) {
  EXPECT_THAT(likely_shapes(with_inputs({to_sym({1, 3, 8, 8}), {}})), IsEmpty());
}

TEST(LikelyShapes, are_none_where_a_rank_is_not_known) {
  Graph g = with_inputs({{Dim("n"), Dim("m")}});
  g.set_shape(g.inputs()[0], std::nullopt);
  EXPECT_THAT(likely_shapes(g), IsEmpty());
}

TEST(LikelyShapes, have_one_image_of_a_line_of_text) {
  const auto all = likely_shapes(with_inputs({{Dim("n"), Dim(3), Dim("h"), Dim("w")}}));
  EXPECT_EQ(all.front(), std::vector<Shape>({{1, 3, 128, 128}}));
  EXPECT_THAT(all, Contains(ElementsAre(Shape{1, 3, 48, 128})));
  EXPECT_THAT(all, Contains(ElementsAre(Shape{1, 3, 32, 128})));
}

TEST(LikelyShapes, are_none_of_those_that_are_large) {
  EXPECT_THAT(likely_shapes(with_inputs({SymShape(6, Dim())})), ElementsAre(ElementsAre(Shape{1, 1, 1, 1, 1, 1})));
}

TEST(LikelyShapes, keep_what_is_known_and_a_batch_wherever_it_stands) {
  const auto all = likely_shapes(
      with_inputs({{Dim("batch"), Dim("length")}, {Dim(2), Dim("batch"), Dim(64)}, {Dim("steps")}, {Dim(), Dim()}}));
  EXPECT_EQ(all.front(), std::vector<Shape>({{1, 128}, {2, 1, 64}, {128}, {1, 128}}));
  EXPECT_THAT(all, Contains(ElementsAre(Shape{1, 1}, Shape{2, 1, 64}, Shape{1}, Shape{1, 1})));
}

}  // namespace
}  // namespace smelt::plan
