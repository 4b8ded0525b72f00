#include "ops/cuda/forms.h"

namespace smelt::ops {

std::vector<Form> image_forms() {
  std::vector<Form> list;
  using Ints = std::vector<int64_t>;
  const std::string relu =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; "
      "return %5 }";
  const auto conv = [&](const char* op, DType type, Shape x, Shape w, Shape y, Layout layout,
                        std::map<std::string, Attribute> attributes, const std::string& program = {}) {
    Form f(op, program.empty() ? "" : smelt_domain, std::move(attributes), program);
    f.in(type, std::move(x), layout);
    f.in(Tensor::zeros(type, w)).in(type, {y[1]});
    if (!program.empty()) f.in(type, y, layout);
    f.out(type, y, layout);
    list.push_back(std::move(f));
  };
  const Ints around{1, 1, 1, 1};
  conv("Conv", DType::f16, {1, 64, 56, 56}, {64, 64, 3, 3}, {1, 64, 56, 56}, Layout::nhwc, {{"pads", around}}, relu);
  conv("Conv", DType::f16, {1, 64, 56, 56}, {64, 64, 3, 3}, {1, 64, 56, 56}, Layout::plain, {{"pads", around}}, relu);
  conv("Conv", DType::f32, {1, 64, 14, 14}, {64, 64, 3, 3}, {1, 64, 14, 14}, Layout::nhwc, {{"pads", around}});
  conv("Conv", DType::f16, {1, 3, 112, 112}, {64, 3, 7, 7}, {1, 64, 56, 56}, Layout::nhwc,
       {{"pads", Ints{3, 3, 3, 3}}, {"strides", Ints{2, 2}}}, relu);
  conv("Conv", DType::f16, {1, 72, 56, 56}, {72, 1, 5, 5}, {1, 72, 28, 28}, Layout::nhwc,
       {{"pads", Ints{2, 2, 2, 2}}, {"strides", Ints{2, 2}}, {"group", int64_t{72}}});
  // Depthwise in rows: a sequence's, and of a plain image.
  conv("Conv", DType::f16, {2, 256, 800}, {256, 1, 31}, {2, 256, 800}, Layout::plain,
       {{"pads", Ints{15, 15}}, {"group", int64_t{256}}},
       "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = silu(%3):f32; %5 = cast(%4):f16; return %5 }");
  conv("Conv", DType::f32, {1, 72, 56, 56}, {72, 1, 5, 5}, {1, 72, 28, 28}, Layout::plain,
       {{"pads", Ints{2, 2, 2, 2}}, {"strides", Ints{2, 2}}, {"group", int64_t{72}}});
  conv("ConvTranspose", DType::bf16, {1, 64, 14, 14}, {64, 32, 2, 2}, {1, 32, 28, 28}, Layout::nhwc, {{"strides", Ints{2, 2}}});
  // 8-bit integers: an image, what it is scaled by and its zero point, weights with theirs, the result's, the bias.
  const auto integers = [&](DType type, Shape x, Shape w, Shape y, Layout layout, int64_t group, int64_t zero_point = 3) {
    const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<int64_t>(zero_point).cast(type);
    list.push_back(Form("QLinearConv", "", {{"pads", around}, {"group", group}})
                       .in(type, std::move(x), layout)
                       .in(scale)
                       .in(zero)
                       .in(Tensor::zeros(DType::i8, w))
                       .in(Tensor::zeros(DType::f32, {w[0]}))
                       .in(Tensor::zeros(DType::i8, {w[0]}))
                       .in(scale)
                       .in(zero)
                       .in(Tensor::zeros(DType::i32, {w[0]}))
                       .out(type, std::move(y), layout));
  };
  integers(DType::u8, {1, 64, 56, 56}, {64, 64, 3, 3}, {1, 64, 56, 56}, Layout::nhwc, 1);
  integers(DType::u8, {1, 64, 56, 56}, {64, 64, 3, 3}, {1, 64, 56, 56}, Layout::nhwc, 1, 0);  // as tensor maps fill it
  integers(DType::i8, {1, 24, 14, 14}, {36, 8, 3, 3}, {1, 36, 14, 14}, Layout::plain, 3);
  integers(DType::u8, {1, 72, 56, 56}, {72, 1, 3, 3}, {1, 72, 56, 56}, Layout::nhwc, 72);
  integers(DType::u8, {1, 72, 30, 30}, {72, 1, 3, 3}, {1, 72, 30, 30}, Layout::plain, 72);
  list.push_back(Form("Conv", smelt_domain, {{"segments", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}, {"upsample", Ints{1, 2}}})
                     .in(DType::f16, {1, 64, 80, 80}, Layout::nhwc)
                     .in(DType::f16, {1, 40, 40, 40}, Layout::nhwc)
                     .in(Tensor::zeros(DType::f16, {64, 104, 3, 3}))
                     .in(DType::f16, {64})
                     .out(DType::f16, {1, 64, 80, 80}, Layout::nhwc));
  list.push_back(Form("DeformConv", "", {{"pads", around}, {"offset_group", int64_t{2}}})
                     .in(DType::f32, {1, 64, 28, 28})
                     .in(DType::f32, {96, 64, 3, 3})
                     .in(DType::f32, {1, 36, 28, 28})
                     .in(DType::f32, {96})
                     .in(DType::f32, {1, 18, 28, 28})
                     .out(DType::f32, {1, 96, 28, 28}));
  for (const Layout layout : {Layout::nhwc, Layout::plain}) {
    for (const char* op : {"MaxPool", "AveragePool"})
      list.push_back(Form(op, "", {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}})
                         .in(DType::f16, {1, 64, 112, 112}, layout)
                         .out(DType::f16, {1, 64, 56, 56}, layout));
    list.push_back(
        Form("GlobalAveragePool", "").in(DType::f16, {1, 2048, 7, 7}, layout).out(DType::f16, {1, 2048, 1, 1}, layout));
  }
  for (const Layout layout : {Layout::nhwc, Layout::plain})
    for (const Shape& shape : {Shape{2, 320, 64, 64}, Shape{1, 64, 512, 512}})
      list.push_back(Form("GroupNormalization", "", {{"num_groups", int64_t{32}}})
                         .in(DType::f16, shape, layout)
                         .in(DType::f16, {shape[1]})
                         .in(DType::f16, {shape[1]})
                         .out(DType::f16, shape, layout));
  list.push_back(Form("InstanceNormalization", "")
                     .in(DType::f32, {1, 48, 56, 56}, Layout::nhwc)
                     .in(DType::f32, {48})
                     .in(DType::f32, {48})
                     .out(DType::f32, {1, 48, 56, 56}, Layout::nhwc));
  list.push_back(Form("InstanceNormalization", "")  // rows of a length that no vector divides
                     .in(DType::f16, {1, 512, 3199})
                     .in(DType::f16, {512})
                     .in(DType::f16, {512})
                     .out(DType::f16, {1, 512, 3199}));
  list.push_back(Form("Norm", smelt_domain, {{"kind", std::string("layer")}, {"axis", int64_t{-2}}},
                      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = mul(in0, %2):f32; %4 = silu(%3):f32; %5 = cast(%4):f16; "
                      "return %5 }")
                     .in(DType::f16, {2, 32, 40, 256})
                     .in(DType::undefined, {})
                     .in(DType::undefined, {})
                     .in(DType::undefined, {})
                     .in(DType::f16, {32, 40, 1})
                     .out(DType::f16, {2, 32, 40, 256}));
  return list;
}

}  // namespace smelt::ops
