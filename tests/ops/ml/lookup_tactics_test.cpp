// LabelEncoder and OneHotEncoder on the processor against the references.
#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

Tensor keys_of(DType type, int64_t count) {
  Tensor t = Tensor::empty(DType::f64, {count});
  for (int64_t i = 0; i < count; ++i) t.data<double>()[i] = static_cast<double>(i * i % 97 - 9) * (is_float(type) ? 0.5 : 1);
  if (is_float(type)) t.data<double>()[count / 2] = std::numeric_limits<double>::quiet_NaN();
  return t.cast(type);
}

TEST(LabelEncoderTactics, agree_over_types) {
  for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const DType result : {DType::f32, DType::f64, DType::i64, DType::i16})
      for (const int threads : {1, 3}) {
        Trial t;
        t.node.op = "LabelEncoder";
        t.node.domain = "ai.onnx.ml";
        t.node.attrs = {{"keys_tensor", keys_of(type, 40)},
                        {"values_tensor", random_tensor(DType::f32, {40}, 3, -50, 50).cast(result)},
                        {"default_tensor", Tensor::of<float>({1}, {-7}).cast(result)}};
        Tensor x = random_tensor(DType::f32, {300, 100}, 2, -12, 90);
        for (float& v : x.span<float>()) v = std::round(v);
        if (is_float(type))
          for (int64_t i = 0; i < x.size(); i += 17) x.data<float>()[i] *= i % 2 ? 0.5f : std::numeric_limits<float>::quiet_NaN();
        t.add(x.cast(type), false);
        t.result(result, {300, 100});
        EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu")) << name(type) << name(result);
      }
}

TEST(LabelEncoderTactics, agree_over_integers_of_more_bits_than_doubles_have) {
  constexpr int64_t large = int64_t{1} << 53;
  Trial t;
  t.node.op = "LabelEncoder";
  t.node.domain = "ai.onnx.ml";
  t.node.attrs = {{"keys_int64s", std::vector<int64_t>{large, large + 1, INT64_MIN}},
                  {"values_int64s", std::vector<int64_t>{1, large + 1, 3}}};
  t.add(Tensor::of<int64_t>({6}, {large, large + 1, large + 2, 0, INT64_MIN, INT64_MIN + 1}), false);
  t.result(DType::i64, {6});
  EXPECT_THAT(check(t, 0), ElementsAre("cpu"));
}

Trial one_hot(DType type, const Tensor& x, const std::vector<int64_t>& categories, int64_t zeros) {
  Trial t;
  t.node.op = "OneHotEncoder";
  t.node.domain = "ai.onnx.ml";
  t.node.attrs = {{"cats_int64s", categories}, {"zeros", zeros}};
  t.add(x.cast(type), false);
  Shape y = x.shape();
  y.push_back(static_cast<int64_t>(categories.size()));
  t.result(DType::f32, y);
  return t;
}

TEST(OneHotEncoderTactics, agree_over_types_and_refuse_what_is_in_no_category) {
  const Tensor x = Tensor::of<float>({2, 3}, {4, -7, 70000, 0, 9, 4});
  for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    Trial t = one_hot(type, x, {-7, 4, 70000, 1}, 1);
    EXPECT_THAT(check(t, 0), ElementsAre("cpu")) << name(type);
  }
  Trial none = one_hot(DType::i64, x, {-7, 4}, 0);
  none.bound.node = &none.node;
  const Offer o = offer(none.bound, {.threads = 2});
  ASSERT_EQ(o.candidates[0].tactic, "cpu");
  EXPECT_THAT([&] { run(none, o.candidates[0]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("in no category")));
}

}  // namespace
}  // namespace smelt::ops
