#include "ops/movement/moved.h"

#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void agrees(Trial t) {
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, 0), ElementsAre("cpu"));
}

TEST(Movement, transposes_every_element_size_and_order) {
  for (DType type : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    agrees(moved("Transpose", type, {3, 17, 33}, {{"perm", std::vector<int64_t>{2, 0, 1}}}));
    agrees(moved("Transpose", type, {2, 5, 7, 9}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
    agrees(moved("Transpose", type, {40, 41}));
    agrees(moved("Transpose", type, {1, 1, 6}, {{"perm", std::vector<int64_t>{2, 1, 0}}}));
    agrees(moved("Transpose", type, {0, 3}));
  }
}

TEST(Movement, slices_forwards_backwards_and_beyond_the_ends) {
  const auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> axes,
                        std::vector<int64_t> steps) {
    Trial t = moved("Slice", DType::f32, {6, 19, 5});
    for (auto* list : {&starts, &ends, &axes, &steps}) t.add(ints(*list), true);
    agrees(std::move(t));
  };
  slice({1}, {4}, {0}, {1});
  slice({-1, 100}, {-100, 0}, {2, 1}, {-1, -3});
  slice({2, 0}, {1LL << 60, 19}, {0, 1}, {1LL << 60, 4});
}

TEST(Movement, takes_parts_of_channels_last_images) {
  for (const Shape& shape : {Shape{2, 5, 7, 6}, Shape{1, 9, 13}}) {
    const auto rank = static_cast<int64_t>(shape.size());
    for (int64_t axis = 1; axis < rank; ++axis) {
      Trial t;
      t.node.op = "Slice";
      t.add(random_tensor(DType::f32, shape, 1, -1, 1), false, Layout::nhwc);
      for (const int64_t v : {int64_t{-2}, int64_t{-20}, axis, int64_t{-1}}) t.add(Tensor::of<int64_t>({1}, {v}), true);
      t.result(DType::f32, expected(t).shape(), Layout::nhwc);
      EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu"));
    }
  }
}

TEST(Movement, a_slice_that_is_not_known_before_the_run_is_left_to_the_reference) {
  Trial t = moved("Slice", DType::f32, {6});
  t.add(ints({1}), false);
  t.add(ints({3}), true);
  t.result(DType::f32, {2});
  EXPECT_THAT(check(t, 0), IsEmpty());
}

TEST(Movement, expands) {
  Trial t = moved("Expand", DType::f32, {3, 1, 5});
  t.add(ints({2, 3, 4, 5}), true);
  agrees(std::move(t));
}

TEST(Movement, splits_into_uneven_parts) {
  Trial t = moved("Split", DType::f32, {4, 10}, {{"axis", int64_t{1}}});
  t.add(ints({3, 7}), true);
  t.result(DType::f32, {4, 3});
  t.result(DType::f32, {4, 7});
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = 2;
  const Offer o = offer(t.bound, machine);
  ASSERT_EQ(o.candidates[0].tactic, "cpu");
  const std::vector<Tensor> want = evaluate(t.node, t.inputs);
  Tensor first = Tensor::empty(DType::f32, {4, 3}), second = Tensor::empty(DType::f32, {4, 7});
  const void* in[] = {t.inputs[0].raw(), t.inputs[1].raw()};
  void* out[] = {first.raw(), second.raw()};
  o.candidates[0].prepare()->run({in, out, nullptr});
  EXPECT_EQ(first.to_doubles(), want[0].to_doubles());
  EXPECT_EQ(second.to_doubles(), want[1].to_doubles());
}

TEST(Movement, gathers_rows_by_indices_of_either_width) {
  for (int64_t axis : {0, 1, -1}) {
    for (DType index : {DType::i64, DType::i32}) {
      Trial t = moved("Gather", DType::f16, {5, 6, 7}, {{"axis", axis}});
      t.add(Tensor::of<int64_t>({2, 3}, {0, -1, 4, 2, -5, 3}).cast(index), false);
      agrees(std::move(t));
    }
  }
}

TEST(Movement, an_index_outside_is_an_error_that_names_it) {
  for (int64_t wrong : {5, -6}) {
    Trial t = moved("Gather", DType::f32, {5, 6});
    t.add(ints({0, wrong, 1}), false);
    t.result(DType::f32, {3, 6});
    t.bound.node = &t.node;
    const Offer o = offer(t.bound, Machine());
    ASSERT_EQ(o.candidates[0].tactic, "cpu");
    try {
      run(t, o.candidates[0]);
      ADD_FAILURE() << "index " << wrong << " was taken";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("index " + std::to_string(wrong)));
    }
  }
}

TEST(Movement, packed_elements_and_strings_are_left_to_the_reference) {
  Trial t;
  t.node.op = "Transpose";
  t.add(Tensor::zeros(DType::i4, {4, 6}), false);
  t.result(DType::i4, {6, 4});
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine());
  EXPECT_EQ(o.candidates[0].tactic, "reference");
}

}  // namespace
}  // namespace smelt::ops
