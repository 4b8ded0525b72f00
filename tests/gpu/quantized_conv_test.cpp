// Convolutions of 8-bit integers against the processor's reference, to the bit.
#include "gpu_trial.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops {
namespace {

using Case = QuantizedCase;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// The case with weights that fit 8 bits once their zero point is subtracted.
Trial narrow(const Case& c, Layout from = Layout::nhwc) {
  Trial t = quantized_trial(c, from);
  set_weights(t, random_bytes(c.w_type, c.w, 2), c.w_type == DType::u8 ? 128 : 0);
  return t;
}

/// With all types of image, weight and result.
void expect_exact(Case c, Layout from = Layout::nhwc) {
  for (const DType x : {DType::u8, DType::i8})
    for (const DType w : {DType::u8, DType::i8}) {
      c.x_type = x;
      c.w_type = w;
      c.y_type = x == w ? DType::i8 : DType::u8;
      c.per_channel = x == w;
      SCOPED_TRACE(::testing::Message() << name(x) << " by " << name(w));
      Trial t = narrow(c, from);
      EXPECT_FALSE(check_on_gpu(t, 0).empty());
    }
}

TEST(GpuQuantizedConv, equals_the_reference_bit_for_bit) {
  const Case cases[] = {
      {{1, 64, 14, 14}, {64, 64, 3, 3}, {1, 1, 1, 1}},
      {{2, 16, 9, 7}, {24, 16, 1, 1}},
      {{1, 128, 15, 13}, {32, 128, 3, 3}, {1, 1, 1, 1}, {2, 2}},
      {{1, 32, 12, 12}, {48, 32, 3, 3}, {2, 2, 2, 2}, {1, 1}, {2, 2}},
  };
  for (const Case& c : cases) expect_exact(c);
}

TEST(GpuQuantizedConv, takes_odd_numbers_of_channels_and_uneven_padding) {
  expect_exact({{1, 3, 21, 20}, {16, 3, 7, 7}, {3, 3, 3, 3}, {2, 2}});
  expect_exact({{2, 7, 6, 5}, {9, 7, 1, 1}});
  expect_exact({{1, 64, 4, 4}, {33, 64, 2, 3}, {1, 0, 0, 2}, {1, 2}});
}

TEST(GpuQuantizedConv, copies_an_image_only_where_it_must) {
  for (const int64_t zero : {0, -9})
    for (const int64_t pad : {0, 1}) {
      Case c{{1, 32, 9, 9}, {32, 32, 3, 3}, {pad, pad, pad, pad}};
      c.x_type = c.y_type = DType::i8;
      Trial t = narrow(c);
      t.inputs[2] = t.bound.inputs[2].constant = Tensor::scalar<int64_t>(zero).cast(DType::i8);
      const bool copied = zero != 0 && pad != 0;
      std::vector<std::string> names = check_on_gpu(t, 0);
      std::erase_if(names, [](const std::string& n) { return !n.starts_with("cudnn"); });
      EXPECT_FALSE(names.empty());
      for (const std::string& n : names) EXPECT_EQ(n.find("copied") != n.npos, copied) << n;
    }
}

TEST(GpuQuantizedConv, rounds_and_saturates_in_cudnn_where_that_is_all) {
  for (const bool biased : {true, false}) {
    Case c{{1, 64, 14, 14}, {64, 64, 3, 3}, {1, 1, 1, 1}};
    c.x_type = c.y_type = DType::i8;
    c.bias = c.per_channel = biased;
    Trial t = narrow(c);
    for (const size_t zero : {2, 7}) t.inputs[zero] = t.bound.inputs[zero].constant = Tensor::scalar<int8_t>(0);
    EXPECT_THAT(check_on_gpu(t, 0), Contains(HasSubstr("fused")));
  }
  for (const char* relu : {"", "%1 = relu(in0):f32; "}) {
    const std::string from = *relu ? "%1" : "in0";
    const int n = *relu ? 2 : 1;
    Trial t = fused_trial(fmt::format(
        "(in0:f32) {{ {0}%{2} = round({1}):f32; %{3} = const(0):f32; %{4} = add(%{2}, %{3}):f32; %{5} = const(-128):f32; "
        "%{6} = const(127):f32; %{7} = clip(%{4}, %{5}, %{6}):f32; %{8} = cast(%{7}):i8; return %{8} }}",
        relu, from, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6));
    t.result(DType::i8, {2, 21, 9, 7}, Layout::nhwc);
    EXPECT_THAT(check_on_gpu(t, 0), Contains(HasSubstr("fused")));
  }
}

TEST(GpuQuantizedConv, reads_plain_images_and_slices_and_writes_them) {
  expect_exact({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}}, Layout::plain);
  Trial t = narrow({{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}});
  t.bound.inputs[0].strides = {9 * 8 * 43, 1, 8 * 43, 43};
  t.bound.inputs[0].alignment = 1;
  t.bound.outputs[0].strides = {9 * 8 * 40, 1, 8 * 40, 40};
  EXPECT_FALSE(check_on_gpu(t, 0).empty());
}

TEST(GpuQuantizedConv, does_not_overflow_on_the_largest_products) {
  Case c{{1, 64, 5, 5}, {64, 64, 3, 3}, {1, 1, 1, 1}};
  Trial t = narrow(c);
  for (uint8_t& v : t.inputs[0].span<uint8_t>()) v = 255;
  for (int8_t& v : t.inputs[3].span<int8_t>()) v = -128;
  EXPECT_FALSE(check_on_gpu(t, 0).empty());
}

TEST(GpuQuantizedConv, ends_in_any_program) {
  Trial t = fused_trial("(in0:f32, in1:u8) { " + quantized("in0", "0.31", 88, 2, "u8") + dequantized("%10", "0.31", 88, 11) +
                        dequantized("in1", "0.17", 5, 17) + "%23 = add(%16, %22):f32; " + quantized("%23", "0.4", 12, 24, "u8") +
                        "return %32 }");
  t.add(random_bytes(DType::u8, {2, 21, 9, 7}, 6), false, Layout::nhwc);
  t.result(DType::u8, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_FALSE(check_on_gpu(t, 0).empty());
  t = fused_trial("(in0:f32, in1:f32) { %2 = relu(in0):f32; %3 = add(%2, in1):f32; return %3 }");
  t.add(random_tensor(DType::f32, {21, 1, 1}, 9, -5, 5), true);
  t.result(DType::f32, {2, 21, 9, 7}, Layout::nhwc);
  EXPECT_FALSE(check_on_gpu(t, 0).empty());
}

TEST(GpuQuantizedConv, takes_weights_of_more_than_8_bits) {
  const auto only_direct = AllOf(Not(IsEmpty()), Each(HasSubstr("direct")));
  const auto trial = [](std::vector<int64_t> zeros) {
    Case c{{1, 16, 9, 8}, {24, 16, 3, 3}, {1, 1, 1, 1}};
    c.w_type = DType::u8;
    Trial t = quantized_trial(c);
    const auto count = static_cast<int64_t>(zeros.size());
    t.inputs[5] = t.bound.inputs[5].constant = Tensor::of<int64_t>(count == 1 ? Shape{} : Shape{count}, zeros).cast(DType::u8);
    t.bound.inputs[5].shape = t.inputs[5].shape();
    return t;
  };
  Trial t = quantized_trial({{1, 16, 9, 8}, {24, 16, 1, 1}});  // i8 less 3
  EXPECT_THAT(check_on_gpu(t, 0), only_direct);
  t = trial({3});
  EXPECT_THAT(check_on_gpu(t, 0), only_direct);
  std::vector<int64_t> by_channel(24);
  for (size_t i = 0; i < by_channel.size(); ++i) by_channel[i] = static_cast<int64_t>(i * 11);
  t = trial(by_channel);
  EXPECT_THAT(check_on_gpu(t, 0), only_direct);
}

TEST(GpuQuantizedConv, takes_groups_and_any_number_of_axes) {
  Case c{{2, 24, 9, 8}, {36, 8, 3, 3}, {1, 0, 1, 2}};
  c.group = 3;
  for (const Layout from : {Layout::nhwc, Layout::plain}) expect_exact(c, from);
  expect_exact({{2, 10, 33}, {12, 10, 5}, {2, 2}, {2}, {2}}, Layout::plain);
  expect_exact({{1, 6, 5, 7, 6}, {8, 6, 3, 1, 2}, {1, 0, 1, 1, 0, 0}, {1, 2, 1}, {1, 1, 2}}, Layout::plain);
}

/// dp4a where four channels make a word, and as one group whose weights are zeros between groups.
TEST(GpuQuantizedConv, takes_groups_of_few_channels) {
  struct Count {
    int64_t groups, channels, outputs;
  };
  for (const Count& n : {Count{32, 4, 4}, Count{3, 8, 20}, Count{7, 3, 5}, Count{6, 16, 16}, Count{4, 24, 24}, Count{17, 2, 1},
                         Count{12, 2, 3}, Count{2, 40, 1}, Count{16, 1, 4}, Count{24, 1, 1}}) {
    SCOPED_TRACE(::testing::Message() << n.groups << " of " << n.channels << " to " << n.outputs);
    const int64_t c = n.groups * n.channels, m = n.groups * n.outputs;
    for (const Layout from : {Layout::nhwc, Layout::plain}) {
      Case image{{2, c, 9, 11}, {m, n.channels, 3, 3}, {1, 0, 1, 2}, {1, 2}, {2, 1}};
      image.group = n.groups;
      expect_exact(image, from);
      Case line{{2, c, 37}, {m, n.channels, 5}, {4, 3}, {2}, {2}};
      line.group = n.groups;
      expect_exact(line, from);
    }
    Case image{{2, c, 9, 11}, {m, n.channels, 3, 3}, {1, 1, 1, 1}};
    image.group = n.groups;
    const auto names = [&] {
      Trial t = narrow(image);
      return check_on_gpu(t, 0);
    }();
    if (n.groups != 24) {
      EXPECT_THAT(names, Contains(HasSubstr("grouped")));
    }
    if (c % 4 == 0 && n.groups != 24) {
      EXPECT_THAT(names, Contains(HasSubstr("groups joined")));
    }
  }
  Case window{{2, 24, 19, 21}, {24, 1, 13, 11}, {6, 5, 6, 5}};  // more taps than floats hold the sums of
  window.group = 24;
  expect_exact(window);
  window.w = {72, 1, 3, 3};  // three filters a channel
  window.pads = {1, 1, 1, 1};
  window.strides = {5, 6};
  expect_exact(window);
}

TEST(GpuQuantizedConv, along_three_axes) {
  const std::vector<int64_t> one(3, 1);
  const Case cases[] = {
      {{1, 32, 5, 7, 6}, {48, 32, 3, 3, 3}, {1, 1, 1, 1, 1, 1}, one, one},
      {{2, 16, 4, 6, 7}, {24, 16, 3, 1, 2}, {1, 0, 1, 0, 2, 0}, {2, 1, 1}, one},
      {{1, 64, 6, 9, 8}, {32, 64, 1, 3, 3}, {0, 2, 1, 0, 1, 3}, {1, 2, 2}, {1, 2, 1}},
      {{2, 20, 3, 5, 5}, {9, 20, 1, 1, 1}, {0, 0, 0, 0, 0, 0}, one, one},
      {{1, 3, 5, 13, 12}, {16, 3, 3, 7, 7}, {1, 3, 3, 1, 3, 3}, {1, 2, 2}, one},
  };
  for (const Case& c : cases)
    for (const Layout from : {Layout::nhwc, Layout::plain}) expect_exact(c, from);
}

TEST(GpuQuantizedConv, takes_a_group_for_each_channel) {
  for (const int64_t channels : {72, 7}) {
    Case c{{2, channels, 15, 13}, {channels, 1, 3, 3}, {1, 1, 1, 1}};
    c.group = channels;
    expect_exact(c);
    c.strides = {2, 2};
    expect_exact(c);
    c.w = {channels, 1, 5, 5};
    c.pads = {4, 3, 2, 4};
    c.strides = {1, 1};
    c.dilations = {2, 2};
    expect_exact(c);
    Trial t = quantized_trial(c);
    EXPECT_THAT(check_on_gpu(t, 0), Contains(HasSubstr("depthwise")));
  }
}

TEST(GpuQuantizedConv, takes_a_group_for_each_channel_of_volumes) {
  for (const int64_t channels : {72, 7})
    for (const Shape& taps : {Shape{3, 3, 3}, Shape{2, 5, 3}, Shape{5, 1, 3}, Shape{1, 4, 3}}) {
      Case c{{2, channels, 5, 9, 13}, {channels, 1, taps[0], taps[1], taps[2]}, {1, 0, 1, 2, 2, 1}, {1, 2, 1}, {1, 1, 1}};
      c.group = channels;
      SCOPED_TRACE(::testing::Message() << channels << " channels, " << to_string(taps));
      for (const Layout from : {Layout::nhwc, Layout::plain}) expect_exact(c, from);
      c.dilations = {2, 1, 2};
      c.strides = {2, 1, 3};
      c.pads = {taps[0], 2, 3, 2, 2, 2};
      Trial t = narrow(c);
      EXPECT_THAT(check_on_gpu(t, 0), Contains(HasSubstr("depthwise")));
    }
}

/// Taps are multiplied in words of four rows, three, two and one; windows reach beyond 32 pixels.
TEST(GpuQuantizedConv, takes_filters_of_any_height_for_each_channel) {
  for (const int64_t taps_h : {1, 2, 3, 4, 5, 6, 7, 9}) {
    const int64_t taps_w = taps_h == 9 ? 9 : 3, dilation = taps_h == 9 ? 4 : 1;
    Case c{{2, 24, 19, 45}, {24, 1, taps_h, taps_w}, {taps_h / 2, taps_w / 2 * dilation, taps_h / 2, 1}, {1, 1 + taps_h % 3}};
    c.group = 24;
    c.dilations = {1, dilation};
    c.x_type = c.y_type = taps_h % 2 ? DType::u8 : DType::i8;
    SCOPED_TRACE(::testing::Message() << taps_h << " x " << taps_w);
    Trial t = narrow(c);
    EXPECT_THAT(check_on_gpu(t, 0), Contains(HasSubstr("depthwise")));
  }
  Case c{{1, 16, 12, 12}, {16, 1, 3, 3}, {1, 1, 1, 1}};
  c.group = 16;
  Trial t = narrow(c);
  for (uint8_t& v : t.inputs[0].span<uint8_t>()) v = 255;
  for (int8_t& v : t.inputs[3].span<int8_t>()) v = -128;
  EXPECT_THAT(check_on_gpu(t, 0), Contains(HasSubstr("depthwise")));
}

}  // namespace
}  // namespace smelt::ops
