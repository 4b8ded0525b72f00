#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

Tensor random_bytes(DType type, const Shape& shape) {
  return type == DType::u8 ? random_tensor(type, shape, 1, 0, 255.99) : random_tensor(type, shape, 1, -128, 127.99);
}

TEST(QuantizedPool, takes_the_largest_byte) {
  for (DType type : {DType::u8, DType::i8}) {
    for (const Shape& x : {Shape{1, 70, 12, 13}, Shape{2, 7, 8, 9}, Shape{1, 1, 9, 9}}) {
      for (int64_t stride : {1, 2}) {
        Trial t;
        t.node.op = "MaxPool";
        t.node.attrs["kernel_shape"] = std::vector<int64_t>{3, 2};
        t.node.attrs["strides"] = std::vector<int64_t>{stride, stride};
        t.node.attrs["pads"] = std::vector<int64_t>{1, 0, 1, 1};
        t.add(random_bytes(type, x), false, Layout::nhwc);
        t.result(type, expected(t).shape(), Layout::nhwc);
        EXPECT_EQ(check(t, 0).size(), x[1] == 1 ? 2U : 1U);  // one channel is a plain image, too
      }
    }
  }
}

TEST(QuantizedPool, takes_the_largest_byte_of_lines_of_any_windows) {
  for (DType type : {DType::u8, DType::i8})
    for (const Shape& x : {Shape{2, 16, 20, 33}, Shape{1, 8, 5, 7}, Shape{1, 3, 31, 4}})
      for (const auto& kernel : {std::vector<int64_t>{1, 5}, {5, 1}, {3, 3}, {4, 2}})
        for (int64_t stride : {1, 2, 3})
          for (int64_t dilation : {1, 2}) {
            if (dilation * (kernel[1] - 1) >= x[3] || dilation * (kernel[0] - 1) >= x[2]) continue;
            Trial t;
            t.node.op = "MaxPool";
            t.node.attrs["kernel_shape"] = kernel;
            t.node.attrs["strides"] = std::vector<int64_t>{stride, stride};
            t.node.attrs["dilations"] = std::vector<int64_t>{dilation, dilation};
            t.node.attrs["pads"] = std::vector<int64_t>{kernel[0] > 1 && dilation == 1, 0, 0, kernel[1] > 1};
            t.add(random_bytes(type, x), false, Layout::nhwc);
            t.result(type, expected(t).shape(), Layout::nhwc);
            EXPECT_THAT(check(t, 0, 3), testing::Contains("cpu")) << to_string(x) << stride << dilation;
          }
}

TEST(QuantizedPool, means_what_its_program_dequantizes) {
  for (DType type : {DType::u8, DType::i8}) {
    for (const Shape& x : {Shape{1, 70, 7, 7}, Shape{3, 5, 4, 9}, Shape{1, 200, 1, 3}}) {
      Trial t;
      t.node.op = "Reduce";
      t.node.domain = smelt_domain;
      t.node.attrs["kind"] = std::string("mean");
      t.node.attrs["axes"] = std::vector<int64_t>{2, 3};
      t.node.attrs["keepdims"] = int64_t{1};
      t.node.attrs["inputs_before"] = int64_t{1};
      t.node.program = expr::Program::parse(
          std::string("(in0:") + std::string(name(type)) +
          ") { %1 = cast(in0):i32; %2 = const(9):i32; %3 = sub(%1, %2):i32; %4 = cast(%3):f32; %5 = const(0.037):f32; "
          "%6 = mul(%4, %5):f32; return %6 }");
      t.add(random_bytes(type, x), false, Layout::nhwc);
      t.result(DType::f32, {x[0], x[1], 1, 1});
      EXPECT_EQ(check(t, 1e-6), std::vector<std::string>{"cpu"}) << to_string(x);
    }
  }
}

}  // namespace
}  // namespace smelt::ops
