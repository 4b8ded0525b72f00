// Pooling of plain images along one to three axes, of every type and with indices, against the reference.
#include "ops/cpu/rows/rows.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

struct Case {
  std::string op;
  DType type;
  Shape x;
  std::map<std::string, Attribute> attrs;
};

Trial trial(const Case& c) {
  Trial t;
  t.node.op = c.op;
  t.node.attrs = c.attrs;
  t.node.opset = 22;
  t.add(random_tensor(c.type, c.x, 11, -50, 50), false);
  return t;
}

void agrees(const Case& c, double tolerance) {
  SCOPED_TRACE(c.op + " " + std::string(name(c.type)));
  Trial t = trial(c);
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, tolerance), Contains("cpu"));
}

std::map<std::string, Attribute> window(Shape kernel, Shape stride, Shape pads, Shape dilation = {},
                                        std::map<std::string, Attribute> more = {}) {
  more["kernel_shape"] = std::vector<int64_t>(kernel);
  more["strides"] = std::vector<int64_t>(stride);
  more["pads"] = std::vector<int64_t>(pads);
  if (!dilation.empty()) more["dilations"] = std::vector<int64_t>(dilation);
  return more;
}

TEST(DirectPool, takes_one_to_three_axes_of_every_type) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const double tolerance = type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : type == DType::f16 ? 2e-3 : 1e-2;
    for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
      agrees({op, type, {2, 3, 37}, window({3}, {2}, {1, 1})}, tolerance);
      agrees({op, type, {1, 2, 19}, window({4}, {1}, {2, 0}, {3})}, tolerance);
      agrees({op, type, {2, 3, 13, 17}, window({3, 2}, {2, 1}, {1, 0, 1, 1})}, tolerance);
      agrees({op, type, {1, 2, 7, 9, 11}, window({2, 3, 3}, {1, 2, 2}, {0, 1, 1, 1, 1, 0})}, tolerance);
      agrees({op, type, {2, 3, 5, 9, 17}, window({1, 2, 3}, {1, 1, 2}, {0, 1, 0, 0, 0, 1})}, tolerance);  // planes apart
    }
  }
  for (DType type : {DType::i8, DType::u8}) agrees({"MaxPool", type, {2, 3, 8, 37}, window({3, 3}, {2, 2}, {1, 1, 1, 1})}, 0);
}

TEST(DirectPool, takes_many_small_planes_side_by_side) {
  const auto is_offered = [](const Case& c, double tolerance) {
    SCOPED_TRACE(c.op + " " + std::string(name(c.type)) + " " + to_string(c.x));
    Trial t = trial(c);
    if (c.op == "MaxPool" && c.type == DType::f32) t.inputs[0].data<float>()[elements(c.x) / 2] = NAN;
    const Tensor y = expected(t);
    t.result(y.type(), y.shape());
    check(t, tolerance);
    bool found = false;
    for (const Candidate& candidate : offer(t.bound, {.threads = 1}).candidates) found |= candidate.config == "side by side";
    EXPECT_TRUE(found);
  };
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const char* op : {"MaxPool", "AveragePool"})
      for (const int64_t channels : {1, 7, 16, 65}) {
        const double tolerance = type == DType::f32 ? 1e-6 : type == DType::f16 ? 2e-3 : 1e-2;
        is_offered({op, type, {9, channels, 3}, window({3}, {3}, {1, 1})}, tolerance);
        is_offered({op, type, {8, channels, 37}, window({3}, {2}, {2, 1}, {2}, {{"ceil_mode", int64_t{1}}})}, tolerance);
        is_offered({op, type, {10, channels, 7, 7}, window({7, 7}, {1, 1}, {0, 0, 0, 0})}, tolerance);
        is_offered({op, type, {9, channels, 5, 13}, window({3, 2}, {2, 3}, {1, 0, 1, 1})}, tolerance);
        is_offered({op, type, {8, channels, 4, 5, 3}, window({2, 3, 3}, {1, 2, 2}, {0, 1, 1, 1, 1, 0})}, tolerance);
      }
  is_offered({"AveragePool", DType::f32, {33, 3, 20}, window({3}, {3}, {1, 1}, {}, {{"count_include_pad", int64_t{1}}})}, 1e-6);
  is_offered({"MaxPool", DType::f32, {1000, 3, 2, 2}, window({2, 2}, {2, 2}, {0, 0, 0, 0})}, 0);
}

TEST(DirectPool, takes_images_of_one_channel_whatever_their_layout_is_called) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::u8})
    for (const Shape& x : {Shape{3, 1, 37}, Shape{3, 1, 9, 62}, Shape{9, 1, 70, 64}, Shape{2, 1, 5, 6, 7}}) {
      if (type == DType::u8 && x.size() != 4) continue;
      const Shape each(x.size() - 2, 1), three(x.size() - 2, 3), pads(2 * each.size(), 1);
      Trial t = trial({"MaxPool", type, x, window(three, each, pads)});
      t.result(type, expected(t).shape());
      if (x.size() == 4) t.bound.inputs[0].layout = t.bound.outputs[0].layout = Layout::nhwc;
      check(t, 0);
      bool found = false;
      for (const Candidate& c : offer(t.bound, {.threads = 1}).candidates) found |= c.config == "direct";
      EXPECT_TRUE(found) << name(type) << to_string(x);
    }
}

TEST(DirectPool, counts_padding_and_partial_windows) {
  for (int64_t counts : {0, 1})
    for (int64_t ceil : {0, 1})
      agrees({"AveragePool",
              DType::f32,
              {2, 3, 20},
              window({3}, {3}, {1, 1}, {}, {{"count_include_pad", counts}, {"ceil_mode", ceil}})},
             1e-6);
}

TEST(DirectPool, takes_norms_of_any_power_and_whole_planes) {
  for (int64_t p : {1, 2, 3, 5}) {
    agrees({"LpPool", DType::f32, {2, 3, 9, 9}, window({3, 3}, {1, 1}, {0, 0, 0, 0}, {}, {{"p", p}})}, 1e-5);
    agrees({"GlobalLpPool", DType::f32, {2, 3, 9, 9, 4}, {{"p", p}}}, 1e-5);
  }
  agrees({"GlobalMaxPool", DType::f32, {2, 3, 100}, {}}, 0);
  agrees({"GlobalAveragePool", DType::f32, {2, 3, 4, 5, 6}, {}}, 1e-6);
}

TEST(DirectPool, folds_windows_of_every_length_stride_and_dilation) {
  for (int64_t kernel = 1; kernel <= 19; ++kernel)
    for (int64_t stride : {1, 2, 3, 5})
      for (int64_t dilation : {1, 2, 3}) {
        SCOPED_TRACE(kernel * 100 + stride * 10 + dilation);
        const int64_t pad = kernel / 2;
        const auto w = window({kernel, kernel}, {stride, stride}, {pad, pad, pad, pad}, {dilation, dilation});
        agrees({"MaxPool", DType::f32, {1, 2, 41, 59}, w}, 0);
        if (kernel % 4 != 1) continue;
        for (DType type : {DType::f16, DType::f64, DType::i8, DType::u8}) agrees({"MaxPool", type, {1, 2, 57, 63}, w}, 0);
        agrees({"AveragePool", DType::f32, {1, 2, 57, 63}, w}, 1e-6);
      }
}

TEST(DirectPool, windows_far_larger_than_the_image_are_the_reference_s_and_one_place_has_no_stride) {
  constexpr int64_t huge = int64_t{1} << 30;
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    Trial t = trial({op, DType::f32, {1, 2, 5, 7}, window({huge, huge}, {huge, huge}, {huge - 1, huge - 1, huge - 1, huge - 1})});
    const Tensor y = expected(t);  // soon: it walks over the image
    t.result(y.type(), y.shape());
    EXPECT_THAT(check(t, 0), testing::IsEmpty()) << op;
    agrees({op, DType::f32, {1, 2, 5, 7}, window({3, 3}, {huge, huge}, {1, 1, 1, 1})}, 1e-6);
    Trial wide = trial({op, DType::f32, {1, 2, 5, 7}, window({3, 3}, {huge, huge}, {1, 1, 1, 1})});
    wide.result(DType::f32, {1, 2, 1, 1});
    wide.bound.node = &wide.node;
    for (const Candidate& c : offer(wide.bound, {.threads = 1}).candidates)
      if (c.tactic == "cpu") {
        EXPECT_LT(c.prepare()->workspace(), 1 << 20) << op;
      }
  }
}

TEST(DirectPool, splits_few_large_planes_between_the_threads) {
  for (int64_t kernel : {3, 13})
    for (int64_t stride : {1, 2})
      for (int64_t ceil : {0, 1}) {
        auto w = window({kernel, kernel}, {stride, stride}, {1, 0, kernel / 2, 1}, {}, {{"ceil_mode", ceil}});
        agrees({"MaxPool", DType::f32, {1, 1, 300, 200}, w}, 0);
        agrees({"MaxPool", DType::f16, {1, 1, 301, 200}, w}, 0);
        agrees({"AveragePool", DType::f32, {1, 1, 300, 201}, w}, 1e-6);
      }
  agrees({"MaxPool", DType::f16, {1, 2, 9, 120, 130}, window({3, 5, 5}, {2, 1, 1}, {1, 2, 2, 1, 2, 2})}, 0);
}

TEST(DirectPool, says_where_the_largest_lie) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::u8})
    for (const int64_t column_major : {0, 1})
      for (const Shape& x : {Shape{2, 3, 37}, Shape{2, 3, 13, 17}, Shape{1, 2, 7, 9, 11}}) {
        SCOPED_TRACE(std::string(name(type)) + to_string(x));
        const Shape each(x.size() - 2, 1), three(x.size() - 2, 3), two(x.size() - 2, 2);
        Shape pads(2 * each.size(), 1);
        Trial t = trial({"MaxPool", type, x, window(three, two, pads, two, {{"storage_order", column_major}})});
        if (float_kind(type)) t.inputs[0] = t.inputs[0].cast(DType::i8).cast(type);  // equals among them: the first one counts
        Node two_results = t.node;
        two_results.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
        const std::vector<Tensor> want = evaluate(two_results, t.inputs);
        t.result(type, want[0].shape());
        t.result(DType::i64, want[1].shape());
        t.bound.node = &t.node;
        int ran = 0;
        for (const Candidate& c : offer(t.bound, {.threads = 2}).candidates) {
          if (c.tactic == "reference") continue;
          Tensor values = Tensor::empty(type, want[0].shape()), at = Tensor::empty(DType::i64, want[1].shape());
          const void* in[] = {t.inputs[0].raw()};
          void* out[] = {values.raw(), at.raw()};
          const std::unique_ptr<Kernel> kernel = c.prepare();
          std::vector<uint8_t> workspace(static_cast<size_t>(kernel->workspace()) + 64, 0xff);
          kernel->run({in, out, aligned(workspace)});
          EXPECT_EQ(error(values, want[0]), 0);
          EXPECT_EQ(at.to_ints(), want[1].to_ints());
          ++ran;
        }
        EXPECT_EQ(ran, 1);
      }
}

TEST(DirectPool, keeps_a_nan) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (int64_t kernel : {3, 11})
      for (int64_t stride : {1, 2}) {
        Trial t = trial({"MaxPool", type, {1, 2, 40, 41}, window({kernel, kernel}, {stride, stride}, {1, 1, 1, 1})});
        const float none = std::numeric_limits<float>::quiet_NaN();
        for (int64_t at : {0, 700, 1639}) {
          const Tensor nan = Tensor::of<float>({1}, {at == 0 ? -none : none}).cast(type);
          std::memcpy(static_cast<char*>(t.inputs[0].raw()) + at * nan.nbytes(), nan.raw(), static_cast<size_t>(nan.nbytes()));
        }
        const Tensor y = expected(t);
        t.result(y.type(), y.shape());
        EXPECT_THAT(check(t, 0), Contains("cpu")) << name(type) << kernel << stride;
      }
}

TEST(DirectPool, keeps_infinities_and_zeros_of_either_sign) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    Trial t = trial({"MaxPool", type, {1, 1, 9, 12}, window({2, 2}, {2, 2}, {1, 0, 1, 0}, {2, 1})});
    std::vector<float> x(108, -infinity);
    for (size_t i = 30; i < x.size(); i += 7) x[i] = i % 2 == 0 ? -0.0f : i % 3 == 0 ? infinity : -65000.0f;
    t.inputs[0] = Tensor::of<float>({1, 1, 9, 12}, x).cast(type);
    const Tensor y = expected(t);
    t.result(y.type(), y.shape());
    for (const Candidate& c : (t.bound.node = &t.node, offer(t.bound, {.threads = 2}).candidates))
      EXPECT_EQ(run(t, c).to_doubles(), y.to_doubles()) << name(type) << c.tactic;
  }
}

}  // namespace
}  // namespace smelt::ops
