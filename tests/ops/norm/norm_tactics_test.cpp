// Normalisation by channels on the processor against the reference: batch, instance, group and local response.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

Trial trial(const std::string& op, DType type, const Shape& x, int64_t parameters, std::map<std::string, Attribute> attrs = {}) {
  Trial t;
  t.node.op = op;
  t.node.opset = 21;
  t.node.attrs = std::move(attrs);
  t.add(random_tensor(type, x, 1, -2, 3), false);
  for (int64_t i = 0; i < parameters; ++i) t.add(random_tensor(type, {x[1]}, static_cast<uint32_t>(2 + i), 0.5, 1.5), i % 2 == 0);
  t.result(type, x);
  return t;
}

double tolerance(DType type) { return type == DType::f64 ? 1e-13 : type == DType::f32 ? 5e-6 : type == DType::f16 ? 3e-3 : 2e-2; }

TEST(NormTactics, by_given_statistics_in_either_layout) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const Shape& x : {Shape{2, 5, 7, 9}, Shape{3, 40}, Shape{2, 3, 4, 5, 6}, Shape{1, 8, 33}}) {
      Trial t = trial("BatchNormalization", type, x, 4);
      EXPECT_THAT(check(t, tolerance(type)), Contains("cpu"));
      if (x.size() != 4) continue;
      t.bound.inputs[0].layout = t.bound.outputs[0].layout = Layout::nhwc;
      EXPECT_THAT(check(t, tolerance(type)), Contains("cpu"));
    }
  }
}

TEST(NormTactics, by_statistics_of_channels_and_groups) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const Shape& x : {Shape{2, 6, 7, 9}, Shape{1, 8, 333}, Shape{2, 6, 3, 4, 5}, Shape{3, 2}}) {
      Trial instance = trial("InstanceNormalization", type, x, 2);
      EXPECT_THAT(check(instance, tolerance(type)), Contains("cpu"));
      Trial group = trial("GroupNormalization", type, x, 2, {{"num_groups", int64_t{2}}});
      EXPECT_THAT(check(group, tolerance(type)), Contains("cpu"));
    }
  }
}

TEST(NormTactics, cut_a_row_where_there_are_fewer_than_threads) {
  for (DType type : {DType::f32, DType::f16, DType::f64}) {
    Trial t =
        trial("GroupNormalization", type, {1, 5, 61, 307}, 2, {{"num_groups", int64_t{1}}});  // a channel to a piece and a bit
    EXPECT_THAT(check(t, tolerance(type)), Contains("cpu"));
    Trial rows = trial("LayerNormalization", type, {1, 5, 61, 307}, 0, {{"axis", int64_t{1}}});
    rows.add(random_tensor(type, {5, 61, 307}, 4, 0.5, 1.5), true);
    EXPECT_THAT(check(rows, tolerance(type)), Contains("cpu"));
  }
}

TEST(NormTactics, short_rows_go_together) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t width : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 93, 255, 511, 512, 513})
      for (const int64_t rows : {1, 2, 3, 15, 16, 17, 40}) {
        if ((width + rows) % 2 == 0 && width > 100) continue;
        const int threads = 1 + static_cast<int>(rows % 3);
        for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
          Trial t = trial(op, type, {rows, width}, 0, {{"axis", int64_t{1}}});
          t.add(random_tensor(type, {width}, 3, 0.5, 1.5), false);
          if (width % 2 == 0 && *op == 'L') t.add(random_tensor(type, {width}, 4, -1, 1), false);
          EXPECT_THAT(check(t, tolerance(type), threads), Contains("cpu")) << op << ' ' << rows << 'x' << width;
        }
        Trial t = trial("MeanVarianceNormalization", type, {rows, width}, 0, {{"axes", std::vector<int64_t>{1}}});
        if (width > 1) {  // of one element the numerator is 0, and what rounds it is divided by 1e-9
          EXPECT_THAT(check(t, 2 * tolerance(type), threads), Contains("cpu")) << rows << 'x' << width;
        }
      }
  for (const auto& [shape, axes] :
       {std::pair(Shape{4, 3, 1, 7}, std::vector<int64_t>{2, 3}), std::pair(Shape{4, 3, 5, 7}, std::vector<int64_t>{2, 3}),
        std::pair(Shape{9, 6, 1, 1}, std::vector<int64_t>{1}), std::pair(Shape{4, 3, 5, 7}, std::vector<int64_t>{0, 2, 3}),
        std::pair(Shape{2, 3, 5, 7}, std::vector<int64_t>{-1})}) {
    Trial t = trial("MeanVarianceNormalization", DType::f32, shape, 0, {{"axes", axes}});
    EXPECT_THAT(check(t, 1e-5), Contains("cpu")) << to_string(shape);
  }
}

TEST(NormTactics, short_rows_keep_their_statistics) {
  for (const int64_t width : {3, 17, 100})
    for (const bool deviation : {false, true}) {
      Trial t = trial("LayerNormalization", DType::f32, {37, width}, 0, {{"axis", int64_t{1}}});
      t.add(random_tensor(DType::f32, {width}, 3, 0.5, 1.5), false);
      t.result(DType::f32, {37, 1});
      if (deviation) t.result(DType::f32, {37, 1});
      t.bound.node = &t.node;
      const std::vector<Tensor> want = evaluate(t.node, t.inputs);
      for (const Candidate& c : offer(t.bound, Machine{}).candidates) {
        const std::vector<Tensor> got = Prepared(t, c).run(t.inputs);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(error(got[i], want[i]), 5e-6) << c.tactic << ' ' << width << ' ' << i;
      }
    }
}

TEST(NormTactics, of_rows_with_or_without_parameters) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const char* op : {"LayerNormalization", "RMSNormalization"})
      for (int parameters : {0, 1, 2, 3, 4}) {  // none, gamma, both; both as a number for each row; gamma of a part of the row
        if (std::string(op) == "RMSNormalization" && parameters == 0) continue;  // it needs gamma
        Trial t = trial(op, type, {3, 4, 5, 29}, 0, {{"axis", int64_t{2}}});
        const Shape shape = parameters < 3 ? Shape{5, 29} : parameters == 3 ? Shape{4, 1, 1} : Shape{29};
        for (int i = 0; i < std::min(parameters, 2); ++i)
          t.add(random_tensor(type, shape, static_cast<uint32_t>(3 + i), 0.5, 1.5), false);
        const std::vector<std::string> tactics = check(t, tolerance(type));
        if (parameters < 4 || type != DType::f64) {
          EXPECT_THAT(tactics, Contains("cpu")) << op << ' ' << name(type) << ' ' << parameters;
        }
      }
}

/// A sum in another order may be on the other side of a half: results are off by at most one.
TEST(NormTactics, end_in_bytes) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (const bool clipped : {false, true})
      for (const int64_t width : {1, 29, 256}) {
        Trial t;
        t.node.op = "Norm";
        t.node.domain = smelt_domain;
        t.node.attrs = {{"axis", int64_t{-1}}, {"kind", std::string("layer")}};
        t.add(random_tensor(type, {3, 5, width}, 1, -2, 2), false);
        t.add(Tensor(), false);
        t.add(random_tensor(type, {width}, 2, 0.5, 1.5), true);
        t.add(random_tensor(type, {width}, 3, -0.5, 0.5), true);
        const std::string quantized =
            "%3 = round(%2):f32; %4 = const(117):f32; %5 = add(%3, %4):f32; %6 = const(0):f32; "
            "%7 = const(255):f32; %8 = clip(%5, %6, %7):f32; %9 = cast(%8):u8; return %9 }";
        const std::string rectified =
            "%3 = relu(%2):f32; %4 = round(%3):f32; %5 = const(117):f32; %6 = add(%4, %5):f32; "
            "%7 = const(255):f32; %8 = min(%6, %7):f32; %9 = cast(%8):u8; return %9 }";
        const DType y =
            t.compute("(in0:f32) { %1 = const(0.021):f32; %2 = div(in0, %1):f32; " + (clipped ? rectified : quantized), type);
        t.result(y, {3, 5, width});
        EXPECT_THAT(check(t, 1.0 / 117), Contains("cpu")) << name(type) << ' ' << width;
      }
}

TEST(NormTactics, of_rows_and_planes_of_every_length_around_a_register) {
  for (DType type : {DType::f32, DType::f16, DType::f64}) {
    for (int64_t width = 1; width <= 84; ++width) {
      for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
        if (width == 1 && std::string(op) == "LayerNormalization") continue;  // what is left of one number is its rounding
        Trial t = trial(op, type, {3, 7, width}, 0, {{"axis", int64_t{-1}}});
        t.add(random_tensor(type, {width}, 3, 0.5, 1.5), false);
        EXPECT_THAT(check(t, tolerance(type)), Contains("cpu")) << op << ' ' << name(type) << ' ' << width;
      }
      Trial planes = trial("BatchNormalization", type, {2, 3, width}, 4);
      EXPECT_THAT(check(planes, tolerance(type)), Contains("cpu")) << name(type) << ' ' << width;
      for (const int64_t channels : {1, 19}) {
        Trial instance = trial("InstanceNormalization", type, {3, channels, width}, 2);
        EXPECT_THAT(check(instance, tolerance(type)), Contains("cpu")) << name(type) << ' ' << channels << " x " << width;
      }
    }
  }
}

TEST(NormTactics, give_the_mean_and_the_deviation_too) {
  for (DType type : {DType::f32, DType::f16, DType::f64}) {
    Trial t = trial("LayerNormalization", type, {7, 300}, 1, {{"axis", int64_t{-1}}});
    t.inputs[1] = random_tensor(type, {300}, 2, 0.5, 1.5);
    t.bound.inputs[1].shape = {300};
    t.bound.inputs[1].constant = {};
    for (int i = 0; i < 2; ++i) t.result(type == DType::f64 ? type : DType::f32, {7, 1});
    const std::vector<Tensor> want = evaluate(t.node, t.inputs);
    t.bound.node = &t.node;
    Machine machine;
    machine.threads = 2;
    const Offer o = offer(t.bound, machine);
    ASSERT_EQ(o.candidates[0].tactic, "cpu");
    std::vector<Tensor> got;
    std::vector<void*> out;
    for (const BoundTensor& b : t.bound.outputs) out.push_back(got.emplace_back(Tensor::zeros(b.type, b.shape)).raw());
    const auto kernel = o.candidates[0].prepare();
    std::vector<uint8_t> workspace(static_cast<size_t>(kernel->workspace()) + 64);
    const std::vector<const void*> in = {t.inputs[0].raw(), t.inputs[1].raw()};
    kernel->run({in, out, aligned(workspace)});
    for (size_t i = 0; i < 3; ++i) EXPECT_LE(error(got[i], want[i]), tolerance(type)) << i;
  }
}

TEST(NormTactics, by_neighbouring_channels) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int64_t size : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{18}, int64_t{40}, INT64_MAX}) {
      Trial t = trial("LRN", type, {2, 9, 5, 7}, 0, {{"size", size}, {"alpha", 0.5f}, {"beta", 0.6f}, {"bias", 1.5f}});
      EXPECT_THAT(check(t, tolerance(type)), Contains("cpu"));
    }
}

TEST(NormTactics, by_the_length_of_lines_along_any_axis) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (int64_t axis : {0, 1, 2, -1})
      for (int64_t p : {1, 2}) {
        Trial t = trial("LpNormalization", type, {3, 9, 37}, 0, {{"axis", axis}, {"p", p}});
        EXPECT_THAT(check(t, tolerance(type)), Contains("cpu")) << name(type) << " along axis " << axis;
      }
}

TEST(NormTactics, leave_lines_of_zeros_zero) {
  Trial t = trial("LpNormalization", DType::f32, {2, 40}, 0);
  std::fill_n(t.inputs[0].data<float>() + 40, 40, 0.0f);
  EXPECT_THAT(check(t, tolerance(DType::f32)), Contains("cpu"));
}

TEST(NormTactics, by_mean_and_variance_over_any_axes) {
  for (DType type : {DType::f32, DType::f16, DType::f64})
    for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{0, 2, 3}, {2, 3}, {-1}, {1}, {0, 1, 2, 3}}) {
      Trial t = trial("MeanVarianceNormalization", type, {3, 5, 6, 11}, 0, {{"axes", axes}});
      EXPECT_THAT(check(t, tolerance(type)), Contains("cpu")) << name(type) << " over " << axes.size();
    }
}

}  // namespace
}  // namespace smelt::ops
