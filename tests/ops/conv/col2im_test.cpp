// Col2Im on the processor against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

struct Geometry {
  Shape image, block;
  std::map<std::string, Attribute> attrs;
  int64_t places;
};

TEST(Col2ImTactics, agree_over_types_strides_and_axes) {
  const Geometry all[] = {{{6, 7}, {3, 2}, {{"pads", Shape{1, 0, 1, 1}}}, 6 * 7},
                          {{9, 9}, {3, 3}, {{"strides", Shape{2, 3}}}, 4 * 3},
                          {{8, 8}, {2, 2}, {{"dilations", Shape{2, 3}}}, 6 * 5},
                          {{11}, {4}, {}, 8},
                          {{4, 5, 6}, {2, 2, 3}, {}, 3 * 4 * 4}};
  for (const Geometry& g : all)
    for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const int threads : {1, 3}) {
        Trial t;
        t.node.op = "Col2Im";
        t.node.attrs = g.attrs;
        t.add(random_tensor(type, {2, 3 * elements(g.block), g.places}, 4), false);
        t.add(Tensor::of<int64_t>({static_cast<int64_t>(g.image.size())}, g.image), true);
        t.add(Tensor::of<int64_t>({static_cast<int64_t>(g.block.size())}, g.block), true);
        Shape y{2, 3};
        y.insert(y.end(), g.image.begin(), g.image.end());
        t.result(type, y);
        const double tolerance = type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : 8e-3;
        EXPECT_THAT(check(t, tolerance, threads), ElementsAre("cpu")) << name(type) << to_string(y);
      }
}

}  // namespace
}  // namespace smelt::ops
