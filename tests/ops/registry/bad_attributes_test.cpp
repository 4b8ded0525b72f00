// Parameters that a damaged model may hold: each is an Error with the number in it, never overflow, a crash or a hang.
#include <fmt/format.h>

#include <cmath>

#include "base/memory.h"
#include "ops/conv/segments.h"
#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

using testing::HasSubstr;

constexpr int64_t huge = INT64_MAX, tiny = INT64_MIN;
const Tensor image = Tensor::zeros(DType::f32, {1, 4, 2, 2});

TEST(BadAttributes, block_sizes_whose_square_overflows) {
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) {
    EXPECT_THAT(error_of([&] { run(op, {image}, {{"blocksize", huge}}); }), HasSubstr("blocksize is 9223372036854775807")) << op;
    EXPECT_THAT(error_of([&] { run(op, {image}, {{"blocksize", int64_t{0}}}); }), HasSubstr("blocksize is 0")) << op;
  }
}

TEST(BadAttributes, pads_that_crop_more_than_there_is_or_cancel_out) {
  const Tensor x = iota(DType::f32, {3});
  EXPECT_THAT(error_of([&] { run("Pad", {x, i64({2}, {-4, 4})}); }), HasSubstr("crop more than axis 0 of extent 3 has"));
  EXPECT_THAT(error_of([&] { run("Pad", {x, i64({2}, {tiny, huge})}); }), HasSubstr("crop more than axis 0"));
  EXPECT_THAT(error_of([&] { run("Pad", {x, i64({3}, {1, 2, 3})}); }), HasSubstr("pads has 3 entries"));
}

TEST(BadAttributes, splits_that_overflow_or_count_to_the_limit) {
  const Tensor x = iota(DType::f32, {4});
  EXPECT_THAT(error_of([&] { run_all("Split", {x, i64({2}, {huge, huge})}, {}, 2); }), HasSubstr("overflows"));
  const auto out = run_all("Split", {x}, {{"num_outputs", huge}}, 2);
  EXPECT_EQ(out[0].shape(), (Shape{1}));
}

TEST(BadAttributes, element_types_that_are_none) {
  EXPECT_THAT(error_of([] { run("EyeLike", {iota(DType::f32, {2, 2})}, {{"dtype", int64_t{99}}}); }), HasSubstr("dtype is 99"));
  EXPECT_THAT(error_of([] { run("Cast", {iota(DType::f32, {2})}, {{"to", int64_t{-1}}}); }), HasSubstr("to is -1"));
}

TEST(BadAttributes, diagonals_and_axes_far_outside) {
  EXPECT_TENSOR(run("EyeLike", {iota(DType::f32, {2, 2})}, {{"k", huge}}), ({2, 2}), ({0, 0, 0, 0}));
  EXPECT_TENSOR(run("Trilu", {iota(DType::f32, {2, 2}), i64({}, {tiny})}), ({2, 2}), ({0, 1, 2, 3}));
  EXPECT_NE(error_of([] { run("Concat", {iota(DType::f32, {2})}, {{"axis", huge}}); }), "");
  EXPECT_THAT(error_of([] {
                run("ReverseSequence", {iota(DType::f32, {2, 2}), i64({2}, {1, 1})}, {{"batch_axis", huge}, {"time_axis", huge}});
              }),
              HasSubstr("expected 0 and 1"));
}

TEST(BadAttributes, depths_that_are_no_number) {
  const Tensor on_off = f32({2}, {0, 1});
  EXPECT_THAT(error_of([&] { run("OneHot", {i64({1}, {0}), f32({}, {NAN}), on_off}); }), HasSubstr("depth is nan"));
  EXPECT_THAT(error_of([&] { run("OneHot", {i64({1}, {0}), f32({}, {-1}), on_off}); }), HasSubstr("depth is -1"));
}

TEST(BadAttributes, ngram_pools_that_do_not_fit) {
  Attributes attrs = {{"mode", std::string("TF")},
                      {"ngram_counts", std::vector<int64_t>{0}},
                      {"ngram_indexes", std::vector<int64_t>{0}},
                      {"pool_int64s", std::vector<int64_t>{1, 2}}};
  EXPECT_THAT(error_of([&] {
                run("TfIdfVectorizer", {i64({2}, {1, 2})}, attrs);
              }),
              HasSubstr("more n-grams than ngram_indexes has entries (1)"));
  attrs["ngram_indexes"] = std::vector<int64_t>{huge, 0};
  EXPECT_THAT(error_of([&] { run("TfIdfVectorizer", {i64({2}, {1, 2})}, attrs); }), HasSubstr("ngram_indexes range from 0"));
}

TEST(BadAttributes, images_whose_places_overflow) {
  Node conv;
  conv.op = "ConvInteger";
  conv.inputs = {ValueId(0), ValueId(1)};
  conv.outputs = {ValueId(2)};
  conv.attrs["strides"] = std::vector<int64_t>{1 << 30};
  const TensorDesc in[] = {{DType::u8, {1, 1, huge}, true, nullptr}, {DType::u8, {1, 1, 1}, true, nullptr}};
  TensorDesc out;
  EXPECT_THAT(error_of([&] {
                infer(conv, in, {&out, 1});
              }),
              HasSubstr("(ConvInteger): a tensor u8[1, 1, 9223372036854775807] has more bytes than can be counted"));
}

TEST(BadAttributes, extents_beside_one_of_0_are_walked_over_and_count_as_those_of_a_tensor_that_is_there) {
  const MemoryScope scope(std::make_shared<MemoryAccount>(int64_t{1} << 30));
  Node norm;
  norm.op = "BatchNormalization";
  norm.opset = 15;
  norm.inputs = {ValueId(0), ValueId(1), ValueId(2), ValueId(3), ValueId(4)};
  norm.outputs = {ValueId(5)};
  const TensorDesc of_channel{DType::f32, {3}, true, nullptr};
  const auto infer_of = [&](Shape x) {
    const TensorDesc in[] = {{DType::f32, std::move(x), true, nullptr}, of_channel, of_channel, of_channel, of_channel};
    TensorDesc out;
    infer(norm, in, {&out, 1});
    return out.shape;
  };
  EXPECT_EQ(infer_of({int64_t{1} << 20, 3, 0, 5}), (Shape{int64_t{1} << 20, 3, 0, 5}));
  EXPECT_THAT(
      error_of([&] {
        infer_of({int64_t{1} << 28, 3, 0, 5});
      }),
      HasSubstr("a tensor f32[268435456, 3, 0, 5] has no elements, but its other extents are those of 16106127360 bytes"));
}

TEST(BadAttributes, fused_convolutions_of_impossible_segments) {
  for (const char* op : {"Conv", "QLinearConv"}) {
    Node conv;
    conv.domain = smelt_domain;
    conv.op = op;
    conv.inputs = {ValueId(0), ValueId(1), ValueId(2), ValueId(3), ValueId(4), ValueId(5)};
    conv.attrs["segments"] = int64_t{-1};
    EXPECT_THAT(error_of([&] { ConvSegments{conv}; }), HasSubstr("segments = -1"));
    conv.attrs["segments"] = int64_t{1};
    conv.attrs["upsample"] = std::vector<int64_t>{huge};
    EXPECT_THAT(error_of([&] { ConvSegments{conv}; }), HasSubstr("expected 1 to 1048576"));
  }
}

TEST(BadAttributes, updates_of_another_rank_or_past_the_cache) {
  const Tensor cache = iota(DType::f32, {1, 3, 2});
  EXPECT_THAT(error_of([&] { run("TensorScatter", {cache, f32({}, {1})}); }), HasSubstr("they may differ on axis 1 only"));
  EXPECT_THAT(error_of([&] {
                run("TensorScatter", {cache, iota(DType::f32, {1, 2, 2}), i64({1}, {huge})});
              }),
              HasSubstr("2 places from write index 9223372036854775807"));
  const Tensor update = f32({1, 2, 2}, {9, 8, 7, 6}), far = i64({1}, {huge - 1});  // a multiple of 3
  EXPECT_TENSOR(run("TensorScatter", {cache, update, far}, {{"mode", std::string("circular")}}), ({1, 3, 2}),
                ({9, 8, 7, 6, 4, 5}));
}

TEST(BadAttributes, padding_of_another_type) {
  EXPECT_THAT(error_of([] {
                run("Pad", {u8({2}, {1, 2}), i64({2}, {1, 1}), i64({}, {7})});
              }),
              HasSubstr("elements of i64 into u8"));
}

TEST(BadAttributes, grids_that_point_far_outside) {
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (float far : {1e30f, -1e30f, INFINITY, NAN}) {
      SCOPED_TRACE(fmt::format("{} {}", mode, far));
      const Tensor grid = f32({1, 1, 1, 2}, {far, 0});
      EXPECT_TENSOR(run("GridSample", {iota(DType::f32, {1, 1, 2, 2}), grid}, {{"mode", std::string(mode)}}), ({1, 1, 1, 1}),
                    ({0}));
    }
}

TEST(BadAttributes, features_that_do_not_fit) {
  const Tensor none = Tensor::zeros(DType::f32, {2, 0});
  const Attributes below{{"targets", int64_t{-1}}}, negative{{"inputdimensions", Ints{-1}}};
  EXPECT_THAT(error_of([&] {
                run("ai.onnx.ml:ArrayFeatureExtractor", {none, i64({1}, {0})});
              }),
              HasSubstr("index 0 is outside [0, 0)"));
  EXPECT_THAT(error_of([&] { run("ai.onnx.ml:FeatureVectorizer", {none}, negative); }), HasSubstr("entry -1"));
  EXPECT_THAT(error_of([&] { run("ai.onnx.ml:LinearRegressor", {none}, below); }), HasSubstr("targets is -1"));
  EXPECT_TENSOR(run("ai.onnx.ml:LinearRegressor", {none}, {{"intercepts", std::vector<float>{3}}}), ({2, 1}), ({3, 3}));
  const Attributes both{{"cats_int64s", Ints{7}}, {"cats_strings", std::vector<std::string>{"a", "b"}}};
  EXPECT_TENSOR(run("ai.onnx.ml:OneHotEncoder", {i64({1}, {7})}, both), ({1, 1}), ({1}));
}

}  // namespace
}  // namespace smelt::ops::test
