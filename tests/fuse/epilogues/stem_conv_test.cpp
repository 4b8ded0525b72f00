#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape photo{1, 3, 12, 10}, layer{1, 8, 6, 5}, pooled{1, 8, 3, 3};

/// An image of `given` as f16, its convolution "conv", relu, and MaxPool "pool".
struct FirstLayer : Builder {
  ValueId image, conv, relu, pool;
  explicit FirstLayer(DType given = DType::u8, std::map<std::string, Attribute> windows = {}, int64_t channels = 3) {
    const SymShape shape{1, channels, 12, 10};
    image = input("x", shape, given);
    ValueId x = image;
    if (given != DType::f16) {
      x = node("cast", "Cast", {x}, shape, DType::f16, {{"to", int64_t{10}}});
      x = node("scale", "Mul", {x, scalar(0.0078125, DType::f16)}, shape, DType::f16);
    }
    conv = node("conv", "Conv", {x, weights("w", {8, channels, 3, 3}, DType::f16), weights("b", {8}, DType::f16)}, layer,
                DType::f16, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
    relu = node("relu", "Relu", {conv}, layer, DType::f16);
    windows.insert({{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
    pool = node("pool", "MaxPool", {relu}, pooled, DType::f16, windows);
    output(pool);
  }
  using Ints = std::vector<int64_t>;
};

TEST(StemConv, takes_the_conversion_of_its_image_and_its_pooling_in) {
  for (const DType given : {DType::u8, DType::f32, DType::f16}) {
    FirstLayer b(given);
    const Graph before = clone(b.g);
    run(b.g);
    const Node& n = only(b.g, "StemConv");
    EXPECT_EQ(n.in(0), b.image);
    EXPECT_EQ(n.has("image"), given != DType::f16);
    EXPECT_EQ(n.get_ints("pool_kernel"), (std::vector<int64_t>{3, 3}));
    EXPECT_THAT(n.program->print(), testing::HasSubstr("relu"));
    EXPECT_EQ(b.g.topological().size(), 1u);
    expect_same_outputs(before, b.g);
  }
}

TEST(StemConv, stays_apart_where_the_kernel_would_not_do_the_same) {
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(verdict(FirstLayer(DType::f16), stem_conv, "conv"), "wrong_reader by relu");
  FirstLayer another;
  another.output(another.node("other", "Neg", {another.conv}, layer, DType::f16));
  EXPECT_EQ(verdict(another, stem_conv, "conv"), "matched") << "of its image";
  EXPECT_EQ(verdict(FirstLayer(DType::u8, {}, 5), stem_conv, "conv"), "not here");
  Builder wide;  // no kernel multiplies f32 so
  const ValueId full = wide.node("conv", "Conv", {wide.input("x", photo), wide.weights("w", {8, 3, 3, 3})}, {1, 8, 10, 8});
  wide.output(wide.node("pool", "MaxPool", {full}, {1, 8, 9, 7}, DType::f32, {{"kernel_shape", Ints{2, 2}}}));
  EXPECT_EQ(verdict(wide, stem_conv, "conv"), "not here");
  const auto fused = [](const FirstLayer& b) {
    Graph g = clone(b.g);
    run(g);
    return only(g, "StemConv").has("pool_kernel");
  };
  EXPECT_TRUE(fused(FirstLayer()));
  EXPECT_FALSE(fused(FirstLayer(DType::u8, {{"ceil_mode", int64_t{1}}, {"pads", Ints{0, 0, 1, 1}}})));
  EXPECT_FALSE(fused(FirstLayer(DType::u8, {{"dilations", Ints{2, 2}}, {"pads", Ints{2, 2, 2, 2}}})));
}

}  // namespace
}  // namespace smelt::fuse
