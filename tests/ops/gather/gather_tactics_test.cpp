// Indexed gathers and scatters on the processor against the reference.
#include <random>

#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

Trial trial(const std::string& op, const Tensor& data, const Tensor& indices, std::map<std::string, Attribute> attrs = {}) {
  Trial t;
  t.node.op = op;
  t.node.attrs = std::move(attrs);
  t.node.opset = 18;
  t.add(data, false);
  t.add(indices, false);
  return t;
}

void agrees(Trial t, double tolerance = 0) {
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, tolerance), ElementsAre("cpu")) << t.node.op;
}

Tensor indices(DType type, const Shape& shape, double low, double high) { return random_tensor(type, shape, 3, low, high); }

constexpr DType types[] = {DType::u8, DType::f16, DType::f32, DType::i64};

TEST(GatherTactics, take_elements_along_any_axis) {
  for (DType type : types)
    for (DType index : {DType::i32, DType::i64})
      for (int64_t axis : {0, 1, 2, -1})
        agrees(trial("GatherElements", random_tensor(type, {6, 5, 7}, 1, 0, 99), indices(index, {4, 3, 7}, -4.9, 4.9),
                     {{"axis", axis}}));
}

TEST(GatherTactics, take_rows_of_every_length) {
  for (DType type : types)
    for (DType index : {DType::i32, DType::i64})
      for (const Shape& at : {Shape{}, Shape{1}, Shape{5}, Shape{2, 3}})
        for (int64_t axis : {0, 1, 2, -1})
          agrees(trial("Gather", random_tensor(type, {40, 5, 7}, 1, 0, 99), indices(index, at, -4.9, 4.9), {{"axis", axis}}));
  for (const Shape& at : {Shape{}, Shape{3}}) {
    Trial t = trial("Gather", random_tensor(DType::f32, {4, 6}, 1), indices(DType::i64, at, 6, 6), {{"axis", int64_t{1}}});
    t.result(DType::f32, at.empty() ? Shape{4} : Shape{4, 3});
    t.bound.node = &t.node;
    const Offer o = offer(t.bound, Machine{});
    EXPECT_THAT([&] { run(t, o.candidates[0]); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("index 6 is outside [-6, 6)")));
  }
}

TEST(GatherTactics, take_slices_by_lists_of_indices) {
  for (DType type : types) {
    agrees(trial("GatherND", random_tensor(type, {6, 5, 7}, 1, 0, 99), indices(DType::i64, {11, 2}, -4.9, 4.9)));
    agrees(trial("GatherND", random_tensor(type, {6, 5, 7}, 1, 0, 99), indices(DType::i64, {6, 3, 1}, -4.9, 4.9),
                 {{"batch_dims", int64_t{1}}}));
    agrees(trial("GatherND", random_tensor(type, {5, 5, 7}, 1, 0, 99), indices(DType::i64, {3, 3}, -4.9, 4.9)));
  }
}

TEST(GatherTactics, take_elements_of_long_lines_and_single_ones) {
  for (DType type : types)
    for (DType index : {DType::i32, DType::i64})
      for (const Shape& s : {Shape{700}, Shape{300, 70}, Shape{2, 90, 33}, Shape{400, 1}})
        for (int64_t axis = 0; axis < std::ssize(s); ++axis) {
          const auto least = static_cast<double>(s[static_cast<size_t>(axis)]) - 0.1;
          agrees(trial("GatherElements", random_tensor(type, s, 1, 0, 99), indices(index, s, -least, least), {{"axis", axis}}));
        }
}

TEST(GatherTactics, take_elements_of_axes_of_few_places) {
  for (DType type : types)
    for (DType index : {DType::i32, DType::i64})
      for (int64_t few = 1; few <= 10; ++few)
        for (const auto& [data, at] :
             {std::pair(Shape{301, few}, Shape{301, few}), std::pair(Shape{33, few, 9}, Shape{33, few, 9}),
              std::pair(Shape{21, 4, few}, Shape{19, 3, few}), std::pair(Shape{9, few, 1, 8}, Shape{9, few, 1, 3}),
              std::pair(Shape{few, 70}, Shape{few, 69}), std::pair(Shape{5, few, 6, 7}, Shape{5, 1, 6, 7})})
          for (int64_t axis = 0; axis < std::ssize(data); ++axis) {
            const double least = static_cast<double>(data[static_cast<size_t>(axis)]) - 0.1;
            agrees(trial("GatherElements", random_tensor(type, data, 1, 0, 99), indices(index, at, -least, least),
                         {{"axis", axis}}));
          }
}

TEST(ScatterTactics, axes_that_lie_as_the_indices_do_are_one) {
  for (const auto& [data, at] : {std::pair(Shape{5, 4, 6, 7}, Shape{5, 4, 6, 7}), std::pair(Shape{5, 4, 6, 7}, Shape{5, 1, 6, 7}),
                                 std::pair(Shape{5, 4, 1, 9}, Shape{3, 4, 1, 9}), std::pair(Shape{30, 3}, Shape{30, 1})})
    for (const int threads : {1, 3})
      for (int64_t axis = 0; axis < std::ssize(data); ++axis) {
        const double least = static_cast<double>(data[static_cast<size_t>(axis)]) - 0.1;
        Trial t = trial("ScatterElements", random_tensor(DType::f32, data, 1, 0, 2), indices(DType::i64, at, -least, least),
                        {{"axis", axis}, {"reduction", std::string("add")}});
        t.add(random_tensor(DType::f32, at, 4, 0, 2), false);
        t.result(DType::f32, data);
        EXPECT_THAT(check(t, 1e-6, threads), ElementsAre("cpu")) << to_string(at) << axis;
      }
}

TEST(ScatterTactics, many_updates_meet_in_their_order_whatever_the_threads) {
  for (const char* how : {"none", "add", "mul", "max", "min"})
    for (DType type : {DType::f32, DType::f16, DType::f64, DType::i64, DType::i8, DType::u16}) {
      const double tolerance = type == DType::f16 ? 1e-3 : 1e-6;
      const Tensor data = random_tensor(type, {6, 40, 70}, 1, 0, 2);
      for (int64_t axis : {0, 1, 2}) {
        Trial t = trial("ScatterElements", data, indices(DType::i64, {6, 40, 70}, -4.9, 4.9), {{"axis", axis}});
        t.node.attrs["reduction"] = std::string(how);
        t.add(random_tensor(type, {6, 40, 70}, 2, 0, 2), false);
        agrees(std::move(t), tolerance);
      }
      for (const Shape& rows : {Shape{3, 5, 1}, Shape{12, 2}}) {
        Trial t = trial("ScatterND", data, indices(DType::i32, rows, -5.9, 5.9));
        t.node.attrs["reduction"] = std::string(how);
        t.add(random_tensor(type, rows.size() == 3 ? Shape{3, 5, 40, 70} : Shape{12, 70}, 2, 0, 2), false);
        agrees(std::move(t), tolerance);
      }
    }
}

TEST(GatherTactics, take_and_update_single_elements_by_lists_of_indices) {
  for (DType type : types)
    for (DType index : {DType::i32, DType::i64}) {
      agrees(trial("GatherND", random_tensor(type, {300}, 1, 0, 99), indices(index, {70, 1}, -99.9, 299.9)));
      agrees(trial("GatherND", random_tensor(type, {6, 5, 7}, 1, 0, 99), indices(index, {6, 3, 5, 2}, -4.9, 4.9),
                   {{"batch_dims", int64_t{1}}}));
      agrees(trial("GatherND", random_tensor(type, {6, 5, 7}, 1, 0, 99), indices(index, {300, 3}, -4.9, 4.9)));
    }
  for (const char* how : {"none", "add", "mul", "max", "min"})
    for (DType type : {DType::f32, DType::f16, DType::i64, DType::u8}) {
      Trial t = trial("ScatterND", random_tensor(type, {40, 50}, 1, 1, 3), indices(DType::i32, {700, 2}, -39.9, 39.9));
      t.node.attrs["reduction"] = std::string(how);
      t.add(random_tensor(type, {700}, 2, 1, 2), false);
      agrees(std::move(t), is_float(type) ? 2e-3 : 0);
    }
  Trial t = trial("ScatterND", random_tensor(DType::f32, {6}, 1), Tensor::of<int64_t>({2, 1}, {1, -7}));
  t.add(random_tensor(DType::f32, {2}, 2), false);
  t.result(DType::f32, {6});
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  EXPECT_THAT([&] { run(t, o.candidates[0]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("index -7 is outside [-6, 6)")));
}

TEST(ScatterTactics, not_a_number_stays_and_comes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* how : {"max", "min"}) {
    Trial t = trial("ScatterElements", Tensor::of<float>({4}, {nan, 1, 2, 3}), Tensor::of<int64_t>({4}, {0, 1, 1, -1}));
    t.node.attrs["reduction"] = std::string(how);
    t.add(Tensor::of<float>({4}, {5, nan, 7, 8}), false);
    agrees(std::move(t));
  }
}

TEST(GatherTactics, name_an_index_that_is_outside) {
  Trial t = trial("GatherElements", random_tensor(DType::f32, {6}, 1), Tensor::of<int64_t>({2}, {1, 6}));
  t.result(DType::f32, {2});
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  ASSERT_EQ(o.candidates[0].tactic, "cpu");
  EXPECT_THAT([&] { run(t, o.candidates[0]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("index 6 is outside [-6, 6)")));
}

/// The one wrong index is named wherever it stands, among indices from the start, from the end and of both kinds.
TEST(GatherTactics, name_the_one_index_that_is_outside_of_long_lines) {
  std::mt19937_64 random(7);
  const auto wrongs = [](auto some) {
    using I = decltype(some);
    return std::vector<I>{70, -71, 1000, std::numeric_limits<I>::max(), std::numeric_limits<I>::min()};
  };
  const auto tries = [&](auto some, DType type) {
    using I = decltype(some);
    for (int64_t i = 0; i < 200; ++i) {
      const int64_t axis = i % 2, kind = i / 2 % 3;
      const Shape data = axis ? Shape{3, 70} : Shape{70, 37};
      const I wrong = wrongs(some)[static_cast<size_t>(i) % 5];
      Tensor at = Tensor::empty(type, axis ? Shape{3, 70} : Shape{9, 37});
      for (int64_t k = 0; k < at.size(); ++k)
        at.data<I>()[k] = static_cast<I>(random() % (kind == 2 ? 140 : 70)) - static_cast<I>(kind == 0 ? 0 : 70);
      Trial right = trial("GatherElements", random_tensor(DType::f32, data, 1), at, {{"axis", axis}});
      agrees(right);
      at.data<I>()[static_cast<int64_t>(random() % static_cast<uint64_t>(at.size()))] = wrong;
      Trial t = trial("GatherElements", right.inputs[0], at, {{"axis", axis}});
      t.result(DType::f32, at.shape());
      t.bound.node = &t.node;
      const Offer o = offer(t.bound, Machine{});
      EXPECT_THAT([&] { run(t, o.candidates[0]); },
                  testing::ThrowsMessage<Error>(testing::HasSubstr(fmt::format("index {} is outside [-70, 70)", wrong))));
    }
  };
  tries(int32_t{}, DType::i32);
  tries(int64_t{}, DType::i64);
}

TEST(ScatterTactics, put_and_combine_elements) {
  for (const char* how : {"none", "add", "mul", "max", "min"}) {
    for (DType type : {DType::f32, DType::f16, DType::f64, DType::i32, DType::u8}) {
      for (int64_t axis : {0, 1}) {
        // Every target once where the order would count.
        Tensor at = Tensor::empty(DType::i64, {5, 5});
        for (int64_t i = 0; i < 25; ++i) at.data<int64_t>()[i] = (i / 5 + i % 5 * 2) % 5;
        Trial t =
            trial("ScatterElements", random_tensor(type, {5, 5}, 1, 1, 9), at, {{"axis", axis}, {"reduction", std::string(how)}});
        t.add(random_tensor(type, {5, 5}, 2, 1, 9), false);
        agrees(std::move(t), is_float(type) ? 1e-3 : 0);
      }
    }
  }
}

TEST(ScatterTactics, put_and_combine_slices) {
  for (const char* how : {"none", "add", "mul", "max", "min"}) {
    for (DType type : {DType::f32, DType::f16, DType::i64}) {
      Trial t = trial("ScatterND", random_tensor(type, {6, 4, 9}, 1, 1, 9), Tensor::of<int64_t>({3, 2}, {0, 1, 5, -1, 2, 3}),
                      {{"reduction", std::string(how)}});
      t.add(random_tensor(type, {3, 9}, 2, 1, 9), false);
      agrees(std::move(t), is_float(type) ? 1e-3 : 0);
    }
  }
}

TEST(ScatterTactics, add_to_one_element_again_and_again) {
  Trial t = trial("ScatterElements", random_tensor(DType::f32, {4}, 1), Tensor::of<int64_t>({6}, {1, 1, 3, 1, 3, 1}),
                  {{"reduction", std::string("add")}});
  t.add(random_tensor(DType::f32, {6}, 2), false);
  agrees(std::move(t), 1e-6);
}

TEST(ScatterTactics, update_a_cache_in_lines_and_in_circles) {
  for (const char* mode : {"linear", "circular"}) {
    Trial t = trial("TensorScatter", random_tensor(DType::f16, {2, 3, 8, 5}, 1), random_tensor(DType::f16, {2, 3, 3, 5}, 2),
                    {{"mode", std::string(mode)}});
    t.add(Tensor::of<int64_t>({2}, {5, mode[0] == 'c' ? 6 : 0}), false);
    agrees(std::move(t));
  }
}

}  // namespace
}  // namespace smelt::ops
