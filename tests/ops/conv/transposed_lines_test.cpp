// Transposed convolutions to few channels, a line at a time, against their reference.
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

struct Case {
  Shape x, w;
  Attributes attributes;
};

TEST(TransposedLines, agree_over_strides_pads_and_dilations) {
  const Case cases[] = {
      {{2, 3, 5, 4}, {3, 4, 3, 3}, {}},
      {{1, 24, 9, 70}, {24, 1, 2, 2}, {{"strides", Ints{2, 2}}}},
      {{1, 4, 5, 4}, {4, 3, 3, 2}, {{"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 3}}}},
      {{1, 2, 6, 7}, {2, 1, 4, 4}, {{"strides", Ints{1, 3}}, {"output_padding", Ints{0, 2}}, {"dilations", Ints{2, 3}}}},
      {{1, 3, 5, 5}, {3, 2, 3, 3}, {{"output_shape", Ints{10, 11}}, {"strides", Ints{2, 2}}}},
      {{3, 1, 1, 129}, {1, 1, 1, 5}, {{"strides", Ints{1, 4}}}},
      {{1, 2, 3, 3}, {2, 2, 5, 5}, {{"pads", Ints{3, 2, 3, 3}}}},                           // most taps outside
      {{1, 2, 3, 3}, {2, 2, 2, 2}, {{"strides", Ints{4, 5}}}},                              // places that no tap writes
      {{1, 1, 2, 3}, {1, 1, 3, 3}, {{"strides", Ints{3, 2}}, {"pads", Ints{2, 3, 1, 1}}}},  // a line that begins with padding
      {{1, 1, 2, 1}, {1, 2, 1, 3}, {{"strides", Ints{1, int64_t{1} << 30}}}},               // of one place
      {{1, 1, 2, 1}, {1, 2, 1, 9}, {{"strides", Ints{1, 2}}, {"dilations", Ints{1, 2}}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.x) + to_string(c.w));
    for (const bool biased : {false, true})
      for (const int threads : {1, 3}) {
        Trial t;
        t.node = make_node("ConvTranspose", 0, c.attributes, 0);
        t.add(random_tensor(DType::f32, c.x, 1), false);
        t.add(random_tensor(DType::f32, c.w, 2), true);
        if (biased) t.add(random_tensor(DType::f32, {c.w[1]}, 3), true);
        const Tensor want = expected(t);
        t.result(want.type(), want.shape());
        EXPECT_THAT(agree(t, want, 1e-5, threads), testing::Contains("cpu"));
      }
  }
}

}  // namespace
}  // namespace smelt::ops::test
