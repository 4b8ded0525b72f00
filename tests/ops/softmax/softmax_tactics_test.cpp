// Softmax along every axis on the processor against the reference.
#include <random>

#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

void agrees(const std::string& op, DType type, const Shape& shape, int64_t axis, int opset) {
  Trial t;
  t.node.op = op;
  t.node.opset = opset;
  t.node.attrs["axis"] = axis;
  t.add(random_tensor(type, shape, 9, -8, 8), false);
  t.result(type, shape);
  const double tolerance = type == DType::f64 ? 1e-13 : type == DType::f32 ? 2e-6 : type == DType::f16 ? 2e-3 : 1e-2;
  EXPECT_THAT(check(t, tolerance), Contains("cpu")) << op << " of " << name(type) << " along axis " << axis;
}

TEST(SoftmaxTactics, take_every_axis_and_type) {
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
      for (int64_t axis : {0, 1, 2, 3, -2}) agrees(op, type, {3, 21, 5, 37}, axis, 13);
}

TEST(SoftmaxTactics, normalise_the_axes_behind_one_together_before_opset_13) {
  for (int64_t axis : {0, 1, 2}) agrees("Softmax", DType::f32, {3, 4, 35}, axis, 11);
}

TEST(SoftmaxTactics, take_many_columns_and_a_few) {
  agrees("Softmax", DType::f32, {2, 16, 4, 2100}, 1, 13);
  agrees("Softmax", DType::f32, {1, 300, 1}, 1, 13);
  agrees("Softmax", DType::f32, {5000, 2}, 0, 13);
}

TEST(SoftmaxTactics, take_rows_of_every_length_around_a_register) {
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (DType type : {DType::f32, DType::f16})
      for (int64_t width = 1; width <= 35; ++width) agrees(op, type, {3, 5, width}, -1, 13);
}

TEST(SoftmaxTactics, take_many_short_rows) {
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (DType type : {DType::f32, DType::f16, DType::bf16})
      for (int64_t width = 1; width <= 17; ++width) agrees(op, type, {77, width}, -1, 13);
}

TEST(SoftmaxTactics, take_columns_of_every_number_around_a_register) {
  for (int64_t columns = 2; columns <= 70; columns += 3) agrees("LogSoftmax", DType::f32, {2, 6, columns}, 1, 13);
}

TEST(SoftmaxTactics, take_random_axes_among_those_of_one_element) {
  std::mt19937 random(5);
  constexpr int64_t extents[] = {1, 1, 1, 2, 3, 16, 17, 33, 70, 300};
  constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::f64};
  for (int i = 0; i < 400; ++i) {
    Shape shape;
    do {
      shape.assign(1 + random() % 5, 1);
      for (int64_t& e : shape) e = extents[random() % std::size(extents)];
    } while (elements(shape) > 30'000);
    SCOPED_TRACE(to_string(shape));
    agrees(i % 2 ? "LogSoftmax" : "Softmax", types[random() % 4], shape, static_cast<int64_t>(random() % shape.size()),
           random() % 4 ? 13 : 11);
  }
}

TEST(SoftmaxTactics, lose_on_labels_of_rows_and_of_columns) {
  for (const Shape& shape : {Shape{7, 21}, Shape{3, 5, 70}, Shape{2, 40, 3, 11}}) {
    Shape labels = shape;
    labels.erase(labels.begin() + 1);
    for (const char* reduction : {"mean", "sum", "none"}) {
      for (DType type : {DType::i32, DType::i64}) {
        for (bool weighted : {false, true}) {
          Trial t;
          t.node.op = "SoftmaxCrossEntropyLoss";
          t.node.opset = 13;
          t.node.attrs["reduction"] = std::string(reduction);
          if (weighted) t.node.attrs["ignore_index"] = int64_t{-1};
          t.add(random_tensor(DType::f32, shape, 9, -8, 8), false);
          t.add(random_tensor(type, labels, 4, weighted ? -1 : 0, static_cast<double>(shape[1] - 1)), false);
          if (weighted) t.add(random_tensor(DType::f32, {shape[1]}, 5, 0.5, 2), false);
          const Tensor y = expected(t);
          t.result(y.type(), y.shape());
          EXPECT_THAT(check(t, 5e-6), Contains("cpu")) << reduction;
        }
      }
    }
  }
}

TEST(SoftmaxTactics, show_what_is_no_number_in_the_whole_row) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const float odd : {nan, inf}) {
      for (const int64_t width : {3, 40, 1000}) {
        Trial t;
        t.node.op = op;
        t.node.opset = 13;
        t.node.attrs["axis"] = int64_t{-1};
        Tensor x = random_tensor(DType::f32, {4, width}, 9, -8, 8);
        x.data<float>()[width + 1] = odd;
        t.add(std::move(x), false);
        t.result(DType::f32, {4, width});
        EXPECT_THAT(check(t, 2e-6), testing::ElementsAre("cpu")) << op << " of " << width;
      }
    }
  }
}

TEST(NllLossTactics, agree_over_types_reductions_and_weights) {
  for (const DType type : {DType::f32, DType::f64})
    for (const char* reduction : {"mean", "sum", "none"})
      for (const bool weighted : {false, true})
        for (const bool ignores : {false, true})
          for (const Shape& x : {Shape{1500, 7}, Shape{3, 7, 400, 2}})
            for (const int threads : {1, 3}) {
              Trial t;
              t.node.op = "NegativeLogLikelihoodLoss";
              t.node.attrs = {{"reduction", std::string(reduction)}};
              if (ignores) t.node.attrs["ignore_index"] = int64_t{5};
              t.add(random_tensor(type, x, 1), false);
              Shape labels = x;
              labels.erase(labels.begin() + 1);
              Tensor l = Tensor::empty(DType::i64, labels);
              for (int64_t i = 0; i < l.size(); ++i) l.data<int64_t>()[i] = i * 13 % 7;
              t.add(threads == 1 ? l : l.cast(DType::i32), false);
              if (weighted) t.add(random_tensor(type, {7}, 2, 0.1, 1), false);
              t.result(type, std::string(reduction) == "none" ? labels : Shape{});
              EXPECT_THAT(check(t, 1e-6, threads), testing::ElementsAre("cpu"));
            }
}

}  // namespace
}  // namespace smelt::ops
