// Reductions on the processor, over axes and types, against the reference (operators along an axis: line_tactics_test.cpp).
#include <random>

#include "ops/reduce/reduce_trial.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr DType integers[] = {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64};

TEST(ReduceTactics, fold_every_type_over_any_axes) {
  const std::vector<std::vector<int64_t>> axes = {{2}, {0}, {1}, {0, 2}, {0, 1, 2}, {-1, -2}};
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceProd"}) {
    for (const auto& list : axes) {
      for (DType type : {DType::f32, DType::f16, DType::f64, DType::i8, DType::i32, DType::i64, DType::u8, DType::u32}) {
        for (int64_t keepdims : {0, 1}) {
          Trial t = reduce_trial(op, type, {3, 5, 37}, {{"keepdims", keepdims}});
          if (t.node.op == "ReduceProd" && is_float(type)) t.inputs[0] = random_tensor(type, {3, 5, 37}, 5, 0.9, 1.1);
          t.add(ints(list), true);
          agrees(std::move(t), reduce_tolerance(type) * 4);
        }
      }
    }
  }
}

TEST(ReduceTactics, fold_few_elements_along_two_axes_apart) {
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum"})
    for (const Shape& shape : {Shape{201, 5, 7, 2}, Shape{33, 2, 9, 3}, Shape{7, 4, 16, 2}, Shape{3, 50, 5, 6}})
      for (DType type : {DType::f32, DType::f64, DType::f16, DType::i32}) {
        if (!is_float(type) && std::string(op) == "ReduceLogSum") continue;
        Trial t = reduce_trial(op, type, shape);
        if (std::string(op) == "ReduceLogSum") t.inputs[0] = random_tensor(type, shape, 5, 0.1, 2);
        if (type == DType::f32 && std::string(op) == "ReduceMax")
          t.inputs[0].data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
        t.add(ints({1, 3}), true);
        agrees(std::move(t), reduce_tolerance(type) * 4);
      }
}

TEST(ReduceTactics, fold_few_lines_of_few_elements) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL2", "ReduceProd"}) {
    for (const Shape& shape : {Shape{301, 2, 7}, Shape{77, 8, 16}, Shape{40, 9, 3}, Shape{5, 1, 2}}) {
      for (DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
        Trial t = reduce_trial(op, type, shape);
        if (t.node.op == "ReduceProd" && is_float(type)) t.inputs[0] = random_tensor(type, shape, 5, 0.9, 1.1);
        if (type == DType::f32 && std::string(op) == "ReduceMax")
          t.inputs[0].data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
        t.add(ints({1}), true);
        agrees(std::move(t), reduce_tolerance(type) * 4);
      }
    }
  }
}

TEST(ReduceTactics, gather_rows_that_are_short) {
  for (const char* op : {"ReduceSumSquare", "ReduceMax", "ReduceL2"}) {
    for (const std::vector<int64_t>& list : std::vector<std::vector<int64_t>>{{3}, {2, 3}, {0, 3}, {1, 3}, {0, 2, 3}}) {
      for (DType type : {DType::f32, DType::f16, DType::f64}) {
        for (const Shape& shape : {Shape{3, 600, 1, 2}, Shape{2, 40, 3, 4}, Shape{4, 2, 60, 3}}) {
          Trial t = reduce_trial(op, type, shape, {{"keepdims", int64_t{0}}});
          t.add(ints(list), true);
          agrees(std::move(t), reduce_tolerance(type) * 4);
        }
      }
    }
  }
}

TEST(ReduceTactics, fold_rows_and_columns_of_every_length_around_a_register) {
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceProd", "ReduceSumSquare"}) {
    for (DType type : {DType::f32, DType::f64, DType::i32, DType::i64, DType::i16}) {
      for (int64_t length = 1; length <= 35; ++length) {
        for (int64_t axis : {0, 1, 2}) {
          const Shape shape = axis == 0 ? Shape{5, 1, length} : Shape{3, 4, length};
          Trial t = reduce_trial(op, type, shape);
          if (is_float(type)) t.inputs[0] = random_tensor(type, shape, 5, 0.9, 1.1);
          t.add(ints({axis}), true);
          agrees(std::move(t), reduce_tolerance(type) * 4);
        }
      }
    }
  }
}

TEST(ReduceTactics, fold_few_results_of_many_elements_part_by_part) {
  for (DType type : {DType::f32, DType::f16, DType::f64, DType::i64}) {
    for (const auto& list : std::vector<std::vector<int64_t>>{{0}, {1}, {0, 1}, {0, 2}, {0, 1, 2}}) {
      for (const char* op : {"ReduceMean", "ReduceMin", "ReduceL2"}) {
        Trial t = reduce_trial(op, type, {600, 3, 101});
        if (is_float(type)) t.inputs[0] = random_tensor(type, {600, 3, 101}, 5, 0.5, 1.5);
        t.add(ints(list), true);
        agrees(std::move(t), type == DType::f32 ? 4e-5 : reduce_tolerance(type) * 40);
      }
    }
  }
}

/// Their programs run over blocks of gathered elements.
TEST(ReduceTactics, compute_few_elements_behind_the_axis) {
  for (const char* op : {"ReduceLogSumExp", "ReduceL1", "ReduceLogSum", "ReduceMax", "ReduceL2"}) {
    for (const Shape& shape : {Shape{301, 2, 7}, Shape{77, 8, 16}, Shape{3, 401, 3}, Shape{5, 99, 1}, Shape{2, 1000, 2, 5}}) {
      for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        for (const std::vector<int64_t>& list : std::vector<std::vector<int64_t>>{{1}, {0, 1}, {0, 2}}) {
          Trial t = reduce_trial(op, type, shape);
          t.inputs[0] = random_tensor(type, shape, 5, 0.5, 3);
          t.add(ints(list), true);
          agrees(std::move(t), reduce_tolerance(type) * 8);
        }
      }
    }
  }
}

TEST(ReduceTactics, fold_many_lines_that_are_shorter_than_a_register) {
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"}) {
    for (DType type : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8}) {
      if (type == DType::u8 && std::string(op) != "ReduceMax" && std::string(op) != "ReduceMin") continue;
      for (int64_t length = 1; length <= 9; ++length) {
        for (int64_t lines : {15, 16, 17, 64, 131}) {
          Trial t = reduce_trial(op, type, {2, lines, length});
          if (is_float(type)) t.inputs[0] = random_tensor(type, {2, lines, length}, 5, 0.9, 1.1);
          if (type == DType::f32 && std::string(op) == "ReduceMax")
            t.inputs[0].data<float>()[lines / 2 * length] = std::numeric_limits<float>::quiet_NaN();
          t.add(ints({1}), true);
          agrees(std::move(t), reduce_tolerance(type) * 8);
        }
      }
    }
  }
}

/// Rows and lines of any lengths, alone and together, along axes that a seed draws.
TEST(ReduceTactics, fold_rows_and_lines_together_over_random_axes) {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto one_of = [&](const auto& list) { return list[static_cast<size_t>(below(static_cast<int64_t>(std::size(list))))]; };
  constexpr int64_t extents[] = {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33, 70, 300};
  constexpr DType types[] = {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8, DType::i8, DType::boolean};
  constexpr const char* ops[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2"};
  for (int i = 0; i < 1500; ++i) {
    const DType type = one_of(types);
    const bool is_byte = bits(type) == 8;
    Shape shape;
    do {
      shape.assign(static_cast<size_t>(2 + below(3)), 0);
      for (int64_t& e : shape) e = one_of(extents);
    } while (elements(shape) > 40'000);
    std::vector<int64_t> axes;
    for (size_t a = 0; a < shape.size(); ++a)
      if (below(2)) axes.push_back(static_cast<int64_t>(a));
    if (axes.empty()) axes.push_back(below(static_cast<int64_t>(shape.size())));
    Trial t = reduce_trial(is_byte ? ops[2 + below(2)] : one_of(ops), type, shape, {{"keepdims", below(2)}});
    if (type == DType::boolean) t.inputs[0] = random_tensor(type, shape, static_cast<unsigned>(i), 0, 2);
    if (type == DType::f32 && t.node.op.starts_with("ReduceM") && t.node.op != "ReduceMean")
      t.inputs[0].data<float>()[below(elements(shape))] = std::numeric_limits<float>::quiet_NaN();
    t.add(ints(axes), true);
    SCOPED_TRACE(fmt::format("{} of {} along {} axes from {} on", t.node.op, to_string(shape), axes.size(), axes[0]));
    agrees(std::move(t), reduce_tolerance(type) * 20);
  }
}

TEST(ReduceTactics, find_extremes_of_bytes_of_every_length_around_a_register) {
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    for (DType type : {DType::u8, DType::i8, DType::boolean}) {
      for (int64_t length : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 600}) {
        for (const std::vector<int64_t>& list : std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
          Trial t = reduce_trial(op, type, {3, 5, length}, {{"keepdims", length % 2}});
          if (type == DType::boolean) {
            for (int64_t i = 0; i < 15 * length; ++i)
              t.inputs[0].data<bool>()[i] = (i * 7 % 11 < 5) == (op[6] == 'M' && op[7] == 'i');
          } else {
            t.inputs[0] = random_tensor(type, {3, 5, length}, 5, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255.9 : 127.9);
          }
          t.add(ints(list), true);
          agrees(std::move(t), 0);
        }
      }
    }
  }
}

TEST(ReduceTactics, wrap_integers) {
  for (const char* op : {"ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
    for (DType type : {DType::i32, DType::i64}) {
      for (int64_t axis : {0, 1}) {
        Trial t = reduce_trial(op, type, {40, 50});
        const double large = type == DType::i32 ? 2e9 : 4e18;
        t.inputs[0] = random_tensor(type, {40, 50}, 7, -large, large);
        t.add(ints({axis}), true);
        agrees(std::move(t), 0);
      }
    }
  }
}

TEST(ReduceTactics, a_number_that_is_none_wins) {
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    for (DType type : {DType::f32, DType::f64}) {
      for (int64_t axis : {0, 1}) {
        for (int64_t at : {0, 5, 12, 17, 36}) {
          Trial t = reduce_trial(op, type, {37, 37});
          Tensor x = random_tensor(DType::f64, {37, 37}, 5, -4, 9);
          x.data<double>()[at * 38] = std::numeric_limits<double>::quiet_NaN();
          x.data<double>()[3] = std::numeric_limits<double>::infinity();
          x.data<double>()[4] = -std::numeric_limits<double>::infinity();
          t.inputs[0] = x.cast(type);
          t.add(ints({axis}), true);
          const Tensor want = expected(t);
          t.result(want.type(), want.shape());
          t.bound.node = &t.node;
          const Tensor got = run(t, offer(t.bound, Machine{}).candidates.at(0)).cast(DType::f64), expects = want.cast(DType::f64);
          for (int64_t i = 0; i < 37; ++i) {
            EXPECT_EQ(std::isnan(got.data<double>()[i]), i == at) << op << " along " << axis;
            if (i != at) {
              EXPECT_EQ(got.data<double>()[i], expects.data<double>()[i]);
            }
          }
        }
      }
    }
  }
}

TEST(ReduceTactics, take_extremes_of_64_bits_without_a_sign_and_of_bool) {
  Trial t = reduce_trial("ReduceMax", DType::u64, {2, 3});
  t.inputs[0].data<uint64_t>()[1] = UINT64_MAX - 1;
  t.add(ints({1}), true);
  agrees(std::move(t), 0);
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    Trial truth = reduce_trial(op, DType::boolean, {4, 7});
    for (int i = 0; i < 28; ++i) truth.inputs[0].data<bool>()[i] = i % 7 == i / 7;
    truth.add(ints({1}), true);
    agrees(std::move(truth), 0);
  }
}

TEST(ReduceTactics, take_norms_and_logarithms) {
  for (const char* op : {"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    for (DType type : {DType::f32, DType::f64, DType::f16}) {
      for (int64_t axis : {0, 1, 2}) {
        Trial t = reduce_trial(op, type, {4, 6, 50}, {{"keepdims", axis % 2}});
        t.inputs[0] = random_tensor(type, {4, 6, 50}, 3, 0.5, 3);
        t.add(ints({axis}), true);
        agrees(std::move(t), reduce_tolerance(type) * 2);
      }
    }
  }
}

TEST(ReduceTactics, log_sum_exp_takes_values_that_exp_does_not) {
  Trial t = reduce_trial("ReduceLogSumExp", DType::f32, {4, 3});
  const float infinite = std::numeric_limits<float>::infinity();
  const float values[] = {1000, 1001, 999, -1000, -1001, -999, -infinite, -infinite, -infinite, infinite, 1, 2};
  std::copy(std::begin(values), std::end(values), t.inputs[0].data<float>());
  t.add(ints({1}), true);
  const Tensor want = expected(t);
  t.result(want.type(), want.shape());
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  ASSERT_EQ(o.candidates[0].tactic, "cpu");
  const Tensor got = run(t, o.candidates[0]);
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(got.data<float>()[i], want.data<float>()[i]);
}

TEST(ReduceTactics, without_axes_all_or_none_are_reduced) {
  for (int64_t none : {0, 1}) {
    Trial t = reduce_trial("ReduceSumSquare", DType::f32, {3, 70}, {{"noop_with_empty_axes", none}});
    t.add(ints({}), true);
    agrees(std::move(t), 1e-5);
  }
}

}  // namespace
}  // namespace smelt::ops
