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
  conv("Conv", DType::f16, {1, 3, 16, 112, 112}, {64, 3, 3, 7, 7}, {1, 64, 16, 56, 56}, Layout::nhwc,
       {{"pads", Ints{1, 3, 3, 1, 3, 3}}, {"strides", Ints{1, 2, 2}}}, relu);
  conv("Conv", DType::f16, {1, 64, 16, 56, 56}, {128, 64, 3, 3, 3}, {1, 128, 8, 28, 28}, Layout::nhwc,
       {{"pads", Ints{1, 1, 1, 1, 1, 1}}, {"strides", Ints{2, 2, 2}}}, relu);
  conv("Conv", DType::f16, {1, 72, 56, 56}, {72, 1, 5, 5}, {1, 72, 28, 28}, Layout::nhwc,
       {{"pads", Ints{2, 2, 2, 2}}, {"strides", Ints{2, 2}}, {"group", int64_t{72}}});
  // Depthwise in rows: a sequence's, and of a plain image.
  conv("Conv", DType::f16, {2, 256, 800}, {256, 1, 31}, {2, 256, 800}, Layout::plain,
       {{"pads", Ints{15, 15}}, {"group", int64_t{256}}},
       "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = silu(%3):f32; %5 = cast(%4):f16; return %5 }");
  conv("Conv", DType::f32, {1, 72, 56, 56}, {72, 1, 5, 5}, {1, 72, 28, 28}, Layout::plain,
       {{"pads", Ints{2, 2, 2, 2}}, {"strides", Ints{2, 2}}, {"group", int64_t{72}}});
  // Volumes: of f32, of which tensor cores take none; with channels of their own; windows side by side; upsampled beside another.
  conv("Conv", DType::f32, {1, 64, 8, 14, 14}, {64, 64, 3, 3, 3}, {1, 64, 8, 14, 14}, Layout::nhwc,
       {{"pads", Ints{1, 1, 1, 1, 1, 1}}});
  for (const Layout layout : {Layout::nhwc, Layout::plain})
    conv("Conv", DType::f16, {1, 72, 16, 28, 28}, {72, 1, 3, 3, 3}, {1, 72, 16, 14, 14}, layout,
         {{"pads", Ints{1, 1, 1, 1, 1, 1}}, {"strides", Ints{1, 2, 2}}, {"group", int64_t{72}}});
  conv("ConvTranspose", DType::f16, {1, 64, 8, 14, 14}, {64, 32, 2, 2, 2}, {1, 32, 16, 28, 28}, Layout::nhwc,
       {{"strides", Ints{2, 2, 2}}});
  list.push_back(
      Form("Conv", smelt_domain, {{"segments", int64_t{2}}, {"pads", Ints{1, 1, 1, 1, 1, 1}}, {"upsample", Ints{1, 2}}})
          .in(DType::f16, {1, 32, 16, 40, 40}, Layout::nhwc)
          .in(DType::f16, {1, 64, 8, 20, 20}, Layout::nhwc)
          .in(Tensor::zeros(DType::f16, {32, 96, 3, 3, 3}))
          .in(DType::f16, {32})
          .out(DType::f16, {1, 32, 16, 40, 40}, Layout::nhwc));
  // Groups of few channels, several of which are multiplied side by side; of a volume.
  conv("Conv", DType::f16, {1, 128, 28, 28}, {128, 4, 3, 3}, {1, 128, 28, 28}, Layout::nhwc,
       {{"pads", around}, {"group", int64_t{32}}});
  conv("Conv", DType::f32, {1, 24, 28, 28}, {48, 1, 3, 3}, {1, 48, 28, 28}, Layout::nhwc,
       {{"pads", around}, {"group", int64_t{24}}});
  conv("Conv", DType::bf16, {1, 40, 28, 28}, {24, 5, 3, 3}, {1, 24, 28, 28}, Layout::plain,
       {{"pads", around}, {"group", int64_t{8}}});
  conv("ConvTranspose", DType::f16, {1, 64, 14, 14}, {64, 1, 4, 4}, {1, 64, 28, 28}, Layout::nhwc,
       {{"strides", Ints{2, 2}}, {"pads", around}, {"group", int64_t{64}}});
  conv("ConvTranspose", DType::f16, {1, 64, 14, 14}, {64, 32, 4, 4}, {1, 32, 28, 28}, Layout::nhwc,
       {{"strides", Ints{2, 2}}, {"pads", around}}, relu);
  conv("Conv", DType::bf16, {1, 64, 4, 14, 14}, {64, 16, 3, 3, 3}, {1, 64, 4, 14, 14}, Layout::nhwc,
       {{"pads", Ints{1, 1, 1, 1, 1, 1}}, {"group", int64_t{4}}});
  conv("ConvTranspose", DType::bf16, {1, 64, 14, 14}, {64, 32, 4, 4}, {1, 32, 28, 28}, Layout::nhwc,
       {{"strides", Ints{2, 2}}, {"pads", around}});
  // Phase by phase; windows that are runs of memory.
  conv("ConvTranspose", DType::f16, {1, 64, 14, 14}, {64, 32, 4, 4}, {1, 32, 28, 28}, Layout::nhwc,
       {{"strides", Ints{2, 2}}, {"pads", around}});
  conv("Conv", DType::f32, {1, 1, 8000}, {258, 1, 400}, {1, 258, 48}, Layout::plain, {{"strides", Ints{160}}});
  list.push_back(Form("Col2Im", "", {{"strides", Ints{2, 2}}})
                     .in(DType::f16, {1, 2 * 16, 12})
                     .in(Tensor::of<int64_t>({2}, {8, 10}))
                     .in(Tensor::of<int64_t>({2}, {4, 4}))
                     .out(DType::f16, {1, 2, 8, 10}));
  // An image whose zero point the run computes.
  list.push_back(Form("ConvInteger", "", {{"pads", around}})
                     .in(DType::u8, {1, 64, 28, 28})
                     .in(Tensor::zeros(DType::i8, {64, 64, 3, 3}))
                     .in(DType::u8, {})
                     .in(Tensor::zeros(DType::i8, {1}))
                     .out(DType::i32, {1, 64, 28, 28}));
  // Weights that the run computes.
  list.push_back(Form("ConvInteger", "", {{"pads", around}})
                     .in(DType::u8, {1, 64, 28, 28})
                     .in(DType::i8, {64, 64, 3, 3})
                     .in(DType::u8, {})
                     .out(DType::i32, {1, 64, 28, 28}));
  // 8-bit integers: an image, what it is scaled by and its zero point, weights with theirs, the result's, the bias.
  const auto integers = [&](DType type, Shape x, Shape w, Shape y, Layout layout, int64_t group, int64_t zero_point = 3) {
    const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<int64_t>(zero_point).cast(type);
    list.push_back(Form("QLinearConv", "", {{"pads", Ints(2 * (w.size() - 2), 1)}, {"group", group}})
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
  integers(DType::u8, {1, 64, 8, 28, 28}, {64, 64, 3, 3, 3}, {1, 64, 8, 28, 28}, Layout::nhwc, 1);
  integers(DType::i8, {1, 24, 14, 14}, {36, 8, 3, 3}, {1, 36, 14, 14}, Layout::plain, 3);
  for (const Layout layout : {Layout::nhwc, Layout::plain})
    integers(DType::u8, {1, 128, 28, 28}, {128, 4, 3, 3}, {1, 128, 28, 28}, layout, 32);
  integers(DType::i8, {1, 96, 28, 28}, {96, 3, 3, 3}, {1, 96, 28, 28}, Layout::nhwc, 32);
  integers(DType::u8, {1, 72, 56, 56}, {72, 1, 3, 3}, {1, 72, 56, 56}, Layout::nhwc, 72);
  integers(DType::u8, {1, 72, 8, 28, 28}, {72, 1, 3, 3, 3}, {1, 72, 8, 28, 28}, Layout::nhwc, 72);
  integers(DType::u8, {1, 72, 30, 30}, {72, 1, 3, 3}, {1, 72, 30, 30}, Layout::plain, 72);
  // What ends a residual block of 8 bits, of so many pixels that tiles alternate: the sums quantised, another tensor added, and
  // both quantised again.
  {
    const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<uint8_t>(0);
    list.push_back(
        Form("QLinearConv", smelt_domain, {},
             "(in0:f32, in1:u8) { %2 = const(0.31):f32; %3 = div(in0, %2):f32; %4 = round(%3):f32; %5 = const(121):f32; "
             "%6 = add(%4, %5):f32; %7 = const(0):f32; %8 = const(255):f32; %9 = clip(%6, %7, %8):f32; %10 = cast(%9):u8; "
             "%11 = cast(%10):i32; %12 = const(121):i32; %13 = sub(%11, %12):i32; %14 = cast(%13):f32; "
             "%15 = mul(%14, %2):f32; %16 = cast(in1):f32; %17 = const(0.17):f32; %18 = mul(%16, %17):f32; "
             "%19 = add(%15, %18):f32; %20 = const(0.4):f32; %21 = div(%19, %20):f32; %22 = round(%21):f32; "
             "%23 = const(0):f32; %24 = add(%22, %23):f32; %25 = const(255):f32; %26 = clip(%24, %23, %25):f32; "
             "%27 = cast(%26):u8; return %27 }")
            .in(DType::u8, {32, 64, 56, 56}, Layout::nhwc)
            .in(Tensor::zeros(DType::i8, {256, 64, 1, 1}))
            .in(Tensor::zeros(DType::i32, {256}))
            .in(scale)
            .in(zero)
            .in(Tensor::zeros(DType::f32, {256}))
            .in(Tensor::zeros(DType::i8, {256}))
            .in(DType::u8, {32, 256, 56, 56}, Layout::nhwc)
            .out(DType::u8, {32, 256, 56, 56}, Layout::nhwc));
  }
  list.push_back(Form("Conv", smelt_domain, {{"segments", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}, {"upsample", Ints{1, 2}}})
                     .in(DType::f16, {1, 64, 80, 80}, Layout::nhwc)
                     .in(DType::f16, {1, 40, 40, 40}, Layout::nhwc)
                     .in(Tensor::zeros(DType::f16, {64, 104, 3, 3}))
                     .in(DType::f16, {64})
                     .out(DType::f16, {1, 64, 80, 80}, Layout::nhwc));
  // Two images of 8 bits, each of its own scale and zero point.
  list.push_back(Form("QLinearConv", smelt_domain, {{"segments", int64_t{2}}, {"pads", around}})
                     .in(DType::u8, {1, 64, 40, 40}, Layout::nhwc)
                     .in(DType::u8, {1, 40, 40, 40}, Layout::nhwc)
                     .in(Tensor::zeros(DType::i8, {64, 104, 3, 3}))
                     .in(DType::undefined, {})
                     .in(Tensor::of<float>({2}, {0.5f, 0.25f}))
                     .in(Tensor::of<uint8_t>({2}, {3, 0}))
                     .in(Tensor::zeros(DType::f32, {64}))
                     .out(DType::f32, {1, 64, 40, 40}, Layout::nhwc));
  // In blocks of 32 channels.
  list.push_back(Form("QLinearConv", smelt_domain, {{"blocked", int64_t{1}}, {"pads", around}},
                      "(in0:f32) { %1 = relu(in0):f32; %2 = round(%1):f32; %3 = const(255):f32; %4 = const(0):f32; "
                      "%5 = clip(%2, %4, %3):f32; %6 = cast(%5):u8; return %6 }")
                     .in(DType::u8, {1, 2, 56, 56, 32})
                     .in(Tensor::zeros(DType::i8, {64, 64, 3, 3}))
                     .in(Tensor::zeros(DType::i32, {64}))
                     .in(Tensor::scalar(0.5f))
                     .in(Tensor::scalar<uint8_t>(3))
                     .in(Tensor::zeros(DType::f32, {64}))
                     .out(DType::u8, {1, 2, 56, 56, 32}));
  // A first layer of an image of bytes, pooled.
  list.push_back(Form("StemConv", smelt_domain,
                      {{"pads", Ints{3, 3, 3, 3}},
                       {"strides", Ints{2, 2}},
                       {"pool_kernel", Ints{3, 3}},
                       {"pool_strides", Ints{2, 2}},
                       {"pool_pads", around},
                       {"image", std::string("(in0:u8) { %1 = cast(in0):f32; %2 = const(0.0078125):f32; %3 = mul(%1, %2):f32; "
                                             "%4 = cast(%3):f16; return %4 }")}},
                      "(in0:f32) { %1 = relu(in0):f32; %2 = cast(%1):f16; return %2 }")
                     .in(DType::u8, {1, 3, 112, 112})
                     .in(Tensor::zeros(DType::f16, {64, 3, 7, 7}))
                     .in(DType::f16, {64})
                     .out(DType::f16, {1, 64, 28, 28}, Layout::nhwc));
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
