#include <cmath>

#include "ops/core/copy.h"
#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

using testing::HasSubstr;

TEST(Reshape, keeps_zero_extents_and_finds_the_open_one) {
  const Tensor x = iota(DType::f32, {2, 3, 4});
  EXPECT_EQ(run("Reshape", {x, i64({3}, {0, -1, 2})}).shape(), (Shape{2, 6, 2}));
  EXPECT_EQ(run("Reshape", {x}, {{"shape", std::vector<int64_t>{4, 6}}}).shape(), (Shape{4, 6}));
  EXPECT_THAT(error_of([&] { run("Reshape", {x, i64({2}, {5, -1})}); }), HasSubstr("24 elements do not reshape to [5, -1]"));
  EXPECT_THAT(error_of([&] { run("Reshape", {x, i64({2}, {INT64_MAX, 4})}); }), HasSubstr("overflows"));
}

TEST(Reshape, keeps_what_is_known_of_a_tensor_without_elements) {
  EXPECT_EQ(run("Reshape", {f32({0, 3}, {}), i64({2}, {0, -1})}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run("Reshape", {f32({0, 4, 6}, {}), i64({3}, {0, -1, 8})}).shape(), (Shape{0, 3, 8}));
  EXPECT_EQ(run("Reshape", {f32({2, 0, 3}, {}), i64({3}, {0, 0, -1})}).shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(run("Reshape", {f32({0, 3}, {}), i64({2}, {-1, 3})}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run("Reshape",
                {
                    f32({0, 3}, {}),
                    i64({2}, {0, -1}),
                },
                {{"allowzero", int64_t{1}}})
                .shape(),
            (Shape{0, 0}));
}

TEST(Transpose, permutes_packed_bytes_and_strings) {
  EXPECT_TENSOR(run("Transpose", {iota(DType::i4, {2, 3})}), ({3, 2}), ({0, 3, 1, 4, 2, 5}));
  const Tensor words = Tensor::of_strings({1, 2}, {"a", "b"});
  EXPECT_EQ(run("Transpose", {words}).shape(), (Shape{2, 1}));
  EXPECT_THAT(error_of([] {
                run("Transpose", {iota(DType::f32, {2, 3})}, {{"perm", std::vector<int64_t>{1, 1}}});
              }),
              HasSubstr("listed twice"));
}

TEST(Slice, clamps_and_walks_backwards) {
  const Tensor x = iota(DType::i32, {5});
  EXPECT_TENSOR(run("Slice", {x, i64({1}, {-1}), i64({1}, {INT64_MIN}), i64({1}, {0}), i64({1}, {-2})}), ({3}), ({4, 2, 0}));
  EXPECT_TENSOR(run("Slice", {x, i64({1}, {1}), i64({1}, {100})}), ({4}), ({1, 2, 3, 4}));
  EXPECT_TENSOR(run("Slice", {x, i64({1}, {0}), i64({1}, {INT64_MAX}), i64({1}, {0}), i64({1}, {INT64_MAX})}), ({1}), ({0}));
  EXPECT_EQ(run("Slice", {x, i64({1}, {3}), i64({1}, {2})}).shape(), (Shape{0}));
}

TEST(Slice, of_an_empty_axis_is_empty_in_either_direction) {
  const Tensor none = f32({0, 4}, {}), none_behind = f32({3, 0}, {});
  for (const int64_t step : {1, -1, -3}) {
    const Tensor from = i64({1}, {step > 0 ? 0 : -1}), to = i64({1}, {step > 0 ? INT64_MAX : INT64_MIN});
    EXPECT_EQ(run("Slice", {none, from, to, i64({1}, {0}), i64({1}, {step})}).shape(), (Shape{0, 4})) << step;
    EXPECT_EQ(run("Slice", {none_behind, from, to, i64({1}, {1}), i64({1}, {step})}).shape(), (Shape{3, 0})) << step;
    EXPECT_EQ(run("Slice", {none_behind, from, to, i64({1}, {0}), i64({1}, {step})}).shape(), (Shape{step == -3 ? 1 : 3, 0}));
  }
}

TEST(CopyWindow, refuses_places_outside_of_its_tensors) {
  const Tensor x = f32({4}, {0, 1, 2, 3});
  Tensor y = Tensor::zeros(DType::f32, {4});
  const Shape extents{4}, forward{1}, back{-1}, apart{INT64_MAX};
  copy_window(extents, x, {3, back}, y, {0, forward});
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{3, 2, 1, 0}));
  expect_error("elements 1 to 4 are moved of a tensor that has 4", [&] {
    copy_window(extents, x, {1, forward}, y, {0, forward});
  });
  expect_error("elements -1 to 2 are moved", [&] { copy_window(extents, x, {0, forward}, y, {2, back}); });
  expect_error("more than can be counted", [&] { copy_window(extents, x, {0, apart}, y, {0, forward}); });
}

TEST(Concat, refuses_another_extent_off_the_axis) {
  EXPECT_THAT(error_of([] {
                run("Concat", {iota(DType::f32, {2, 2}), iota(DType::f32, {3, 3})}, {{"axis", int64_t{0}}});
              }),
              HasSubstr("they may differ on axis 0 only"));
}

TEST(Split, makes_the_last_piece_smaller) {
  const auto out = run_all("Split", {iota(DType::f32, {7})}, {{"num_outputs", int64_t{3}}}, 3);
  EXPECT_TENSOR(out[1], ({3}), ({3, 4, 5}));
  EXPECT_TENSOR(out[2], ({1}), ({6}));
}

TEST(Pad, wants_one_element_to_fill_with) {
  expect_error("the value to fill with has shape [2], expected one element", [] {
    run("Pad", {iota(DType::f32, {3}), i64({2}, {0, 0}), f32({2}, {1, 2})});
  });
}

TEST(Pad, folds_a_reflection_more_than_once) {
  const Tensor x = iota(DType::f32, {3});
  const Tensor pads = i64({2}, {5, 3});
  EXPECT_TENSOR(run("Pad", {x, pads}, {{"mode", std::string("reflect")}}), ({11}), ({1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1}));
  EXPECT_TENSOR(run("Pad", {x, pads}, {{"mode", std::string("wrap")}}), ({11}), ({1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_TENSOR(run("Pad", {x, i64({2}, {-1, 2}), f32({}, {9})}), ({4}), ({1, 2, 9, 9}));
}

TEST(Gather, counts_negative_indices_from_the_end_and_refuses_others) {
  const Tensor x = iota(DType::f16, {3, 2});
  EXPECT_TENSOR(run("Gather", {x, i64({2}, {-1, 0})}), ({2, 2}), ({4, 5, 0, 1}));
  EXPECT_THAT(error_of([&] { run("Gather", {x, i64({1}, {3})}); }), HasSubstr("index 3 is outside [-3, 3)"));
}

TEST(ScatterND, combines_updates_of_one_place) {
  const Tensor x = f32({3}, {1, 2, 3}), indices = i64({2, 1}, {1, 1}), updates = f32({2}, {10, 20});
  EXPECT_TENSOR(run("ScatterND", {x, indices, updates}, {{"reduction", std::string("add")}}), ({3}), ({1, 32, 3}));
  EXPECT_TENSOR(run("ScatterND", {x, indices, updates}), ({3}), ({1, 20, 3}));
}

TEST(DepthToSpace, is_undone_by_space_to_depth) {
  const Tensor x = iota(DType::f32, {2, 8, 3, 2});
  const Attributes by_two = {{"blocksize", int64_t{2}}};
  EXPECT_EQ(run("SpaceToDepth", {run("DepthToSpace", {x}, by_two)}, by_two).to_doubles(), x.to_doubles());
}

TEST(Unique, orders_nan_last_and_reports_first_occurrences) {
  const auto out = run_all("Unique", {f32({5}, {2, NAN, 1, 2, NAN})}, {}, 4);
  EXPECT_EQ(out[0].shape(), (Shape{3}));
  EXPECT_EQ(out[1].to_ints(), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(out[2].to_ints(), (std::vector<int64_t>{1, 2, 0, 1, 2}));
  EXPECT_EQ(out[3].to_ints(), (std::vector<int64_t>{1, 2, 2}));
}

TEST(Range, refuses_a_step_of_zero) {
  EXPECT_TENSOR(run("Range", {i64({}, {10}), i64({}, {4}), i64({}, {-2})}), ({3}), ({10, 8, 6}));
  EXPECT_THAT(error_of([] { run("Range", {i64({}, {1}), i64({}, {4}), i64({}, {0})}); }), HasSubstr("delta is 0"));
}

TEST(Trilu, keeps_rows_beyond_the_matrix_empty_or_whole) {
  const Tensor x = iota(DType::i64, {2, 3});
  EXPECT_TENSOR(run("Trilu", {x, i64({}, {1})}), ({2, 3}), ({0, 1, 2, 0, 0, 5}));
  EXPECT_TENSOR(run("Trilu", {x, i64({}, {-1})}, {{"upper", int64_t{0}}}), ({2, 3}), ({0, 0, 0, 3, 0, 0}));
  EXPECT_TENSOR(run("Trilu", {x, i64({}, {100})}), ({2, 3}), ({0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace smelt::ops::test
