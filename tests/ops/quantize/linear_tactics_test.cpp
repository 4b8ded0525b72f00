#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

struct Form {
  Shape x, scale;
  int64_t axis = 1, block = 0;
};
const std::vector<Form> forms = {{{5, 7, 3}, {}},
                                 {{5, 7, 3}, {1}},
                                 {{5, 7, 3}, {7}},
                                 {{5, 7, 3}, {3}, -1},
                                 {{19}, {19}, 0},
                                 {{8, 6}, {2, 6}, 0, 4},
                                 {{3, 8, 5}, {3, 4, 5}, 1, 2},
                                 {{2000, 33}, {33}},
                                 {{1, 6, 40, 40}, {}}};

Node node_of(const char* op, std::string_view domain, const Form& f) {
  Node n;
  n.op = op;
  n.domain = domain;
  n.attrs["axis"] = f.axis;
  if (f.block) n.attrs["block_size"] = f.block;
  return n;
}

TEST(QuantizeLinearTactics, equal_the_reference_bit_for_bit) {
  for (const Form& f : forms) {
    for (const DType type : {DType::u8, DType::i8, DType::u16, DType::i16}) {
      for (const bool zero : {false, true}) {
        for (const bool constant : {false, true}) {
          if (!zero && type != DType::u8) continue;
          Trial t;
          t.node = node_of("QuantizeLinear", onnx_domain, f);
          t.add(random_tensor(DType::f32, f.x, 1, -40, 60), false);
          t.add(random_tensor(DType::f32, f.scale, 2, 0.1, 0.4), constant);
          if (zero) t.add(random_tensor(type, f.scale, 3, 3, 90), constant);
          t.result(type, f.x);
          EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << to_string(f.x) << to_string(f.scale);
        }
      }
    }
  }
}

TEST(DequantizeLinearTactics, equal_the_reference) {
  for (const std::string_view domain : {onnx_domain, microsoft_domain}) {
    for (const Form& f : forms) {
      for (const DType type : {DType::u8, DType::i8, DType::u16, DType::i16, DType::i32}) {
        for (const DType to : {DType::f32, DType::f16}) {
          for (const bool zero : {false, true}) {
            Trial t;
            t.node = node_of("DequantizeLinear", domain, f);
            t.add(random_tensor(type, f.x, 1, 0, 127.99), false);
            t.add(random_tensor(to, f.scale, 2, 0.1, 0.4), true);
            if (zero) t.add(random_tensor(type, f.scale, 3, 3, 90), true);
            t.result(to, f.x);
            EXPECT_THAT(check(t, to == DType::f32 ? 1e-7 : 1e-3), testing::ElementsAre("cpu"))
                << to_string(f.x) << to_string(f.scale);
          }
        }
      }
    }
  }
}

TEST(DynamicQuantizeLinearTactics, find_the_range_wherever_its_ends_lie) {
  for (const int64_t count : {1, 7, 1000, 300'000}) {
    for (const int64_t low : {int64_t{0}, count / 3, count - 1}) {
      for (const int64_t high : {int64_t{0}, count / 2, count - 1}) {
        for (const int threads : {1, 2, 5}) {
          Trial t;
          t.node.op = "DynamicQuantizeLinear";
          Tensor x = random_tensor(DType::f32, {count}, 1, -1, 1);
          x.data<float>()[low] = -9;
          x.data<float>()[high] = 11;
          t.add(std::move(x), false);
          t.result(DType::u8, {count});
          EXPECT_THAT(check(t, 0, threads), testing::ElementsAre("cpu")) << count << " " << low << " " << high << " " << threads;
        }
      }
    }
  }
}

TEST(DynamicQuantizeLinearTactics, take_ranges_next_to_nothing_and_infinity) {
  for (const float scale : {1e-38f, 1e-31f, 1e31f, 1e38f}) {
    Trial t;
    t.node.op = "DynamicQuantizeLinear";
    Tensor x = random_tensor(DType::f32, {999}, 1, -1, 1);
    for (int64_t i = 0; i < 999; ++i) x.data<float>()[i] *= scale;
    t.add(std::move(x), false);
    t.result(DType::u8, {999});
    EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << scale;
  }
}

TEST(QuantizeLinearTactics, leave_what_they_do_not_compute_alike_to_the_reference) {
  Trial t;
  t.node = node_of("QuantizeLinear", onnx_domain, {});
  t.add(random_tensor(DType::f32, {4, 6}, 1, -40, 60), false);
  t.add(random_tensor(DType::f16, {}, 2, 0.1, 0.4), true);  // quotients are rounded to f16
  t.result(DType::u8, {4, 6});
  EXPECT_TRUE(check(t, 0).empty());
}

}  // namespace
}  // namespace smelt::ops
