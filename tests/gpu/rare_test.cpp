// Operators that models seldom have, each by a plain kernel, against the processor's references: sizes and forms that ONNX's own
// cases (node_cases_test.cpp) do not have.
#include <cmath>

#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

class GpuRare : public GpuBatch {};

using Ints = std::vector<int64_t>;

TEST_F(GpuRare, attention_of_every_form) {
  for (const DType type : {DType::f32, DType::f16}) {
    const double tolerance = type == DType::f32 ? 2e-6 : 1.0 / 512;
    const auto x = [&](const Shape& s, uint32_t seed) { return random_tensor(type, s, seed); };
    expect(node_trial("Attention",
                      {x({2, 6, 5, 40}, 1), x({2, 3, 300, 40}, 2), x({2, 3, 300, 24}, 3), random_tensor(type, {5, 300}, 4)},
                      {{"softcap", 2.f}}),
           tolerance);
    expect(node_trial("Attention", {x({2, 7, 32}, 1), x({2, 9, 16}, 2), x({2, 9, 16}, 3)},
                      {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"is_causal", int64_t{1}}, {"scale", 0.3f}}),
           tolerance);
    expect(
        node_trial("Attention",
                   {x({1, 2, 3, 8}, 1), x({1, 2, 4, 8}, 2), x({1, 2, 4, 8}, 3), Tensor(), x({1, 2, 6, 8}, 5), x({1, 2, 6, 8}, 6)},
                   {{"qk_matmul_output_mode", int64_t{3}}}, 4),
        tolerance);
    expect(node_trial("Attention",
                      {x({2, 2, 3, 8}, 1), x({2, 2, 8, 8}, 2), x({2, 2, 8, 8}, 3), Tensor(), Tensor(), Tensor(),
                       Tensor::of<int64_t>({2}, {5, 8})},
                      {{"left_window_size", int64_t{2}}, {"is_causal", int64_t{1}}}),
           tolerance);
  }
}

TEST_F(GpuRare, losses_of_many_samples) {
  const Tensor scores = random_tensor(DType::f32, {13, 91, 7, 9}, 1, -4, 4),
               labels = random_tensor(DType::i64, {13, 7, 9}, 2, 0, 91);
  const Tensor weights = random_tensor(DType::f32, {91}, 3, 0, 2);
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
    for (const char* reduction : {"none", "sum", "mean"})
      for (const bool weighted : {false, true})
        expect(node_trial(op, {scores, labels, weighted ? weights : Tensor()},
                          {{"reduction", std::string(reduction)}, {"ignore_index", int64_t{5}}}),
               1e-5);
  expect(node_trial("SoftmaxCrossEntropyLoss", {scores.cast(DType::f16), labels}, {}, 2), 2e-3);
}

TEST_F(GpuRare, grid_samples_of_every_mode_and_padding) {
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const int64_t align : {0, 1}) {
        const std::map<std::string, Attribute> how{
            {"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", align}};
        expect(
            node_trial("GridSample",
                       {random_tensor(DType::f32, {2, 3, 9, 11}, 1), random_tensor(DType::f32, {2, 6, 5, 2}, 2, -1.6, 1.6)}, how),
            2e-6);
        expect(
            node_trial("GridSample",
                       {random_tensor(DType::f16, {1, 2, 4, 5, 6}, 1), random_tensor(DType::f32, {1, 3, 4, 2, 3}, 2, -1.6, 1.6)},
                       how),
            1e-3);
      }
}

/// Channels that a thread samples together: more than its number divides.
TEST_F(GpuRare, grid_samples_of_many_channels) {
  for (const int64_t channels : {4, 7, 32}) {
    expect(node_trial("GridSample", {random_tensor(DType::f32, {2, channels, 9, 11}, 1),
                                     random_tensor(DType::f32, {2, 6, 5, 2}, 2, -1.3, 1.3)}),
           2e-6);
    expect(node_trial("GridSample", {random_tensor(DType::f16, {1, channels, 4, 5, 6}, 1),
                                     random_tensor(DType::f32, {1, 3, 4, 2, 3}, 2, -1.3, 1.3)}),
           1e-3);
  }
}

/// With a seed the processor's numbers; without, others at each run, whose moments are those that were asked for.
TEST_F(GpuRare, random_numbers) {
  for (const char* op : {"RandomNormal", "RandomUniform"})
    for (const int64_t type : {1, 11}) expect(node_trial(op, {}, {{"shape", Ints{3, 70}}, {"seed", 5.f}, {"dtype", type}}));
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"}) {
    const bool normal = op[6] == 'N';
    for (const DType type : {DType::f32, DType::f64, DType::f16}) {
      SCOPED_TRACE(fmt::format("{} {}", op, name(type)));
      Trial t = node_trial(op, {Tensor::zeros(type, {200, 501})},
                           normal ? std::map<std::string, Attribute>{{"mean", 2.f}, {"scale", 3.f}}
                                  : std::map<std::string, Attribute>{{"low", -1.f}, {"high", 5.f}});
      t.bound.node = &t.node;
      const auto kernel = offer(t.bound, gpu_machine()).candidates.front().prepare();
      Guarded x(storage_bytes(t.bound.inputs[0]), 0), y(storage_bytes(t.bound.outputs[0]), 0);
      std::vector<std::vector<double>> runs;
      for (int run = 0; run < 3; ++run) {
        Tensor got = Tensor::zeros(type, {200, 501});
        y.upload(got.raw());
        const void* in[] = {reinterpret_cast<const void*>(x.address())};
        void* out[] = {reinterpret_cast<void*>(y.address())};
        kernel->run({in, out, nullptr});
        y.download(got.raw());
        runs.push_back(got.to_doubles());
      }
      EXPECT_NE(runs[0], runs[1]);
      EXPECT_NE(runs[1], runs[2]);
      for (const std::vector<double>& v : runs) {
        double sum = 0, squares = 0, cubes = 0;
        for (const double d : v) sum += d;
        const double n = static_cast<double>(v.size()), mean = sum / n;
        for (const double d : v) squares += (d - mean) * (d - mean), cubes += (d - mean) * (d - mean) * (d - mean);
        EXPECT_NEAR(mean, 2, 0.05);
        EXPECT_NEAR(std::sqrt(squares / n), normal ? 3 : 6 / std::sqrt(12.0), 0.05);
        EXPECT_NEAR(cubes / n, 0, normal ? 1.5 : 0.5);
        if (!normal) {
          EXPECT_GE(*std::ranges::min_element(v), -1);
          EXPECT_LE(*std::ranges::max_element(v), 5);
        }
      }
    }
  }
}

TEST_F(GpuRare, affine_grids) {
  for (const DType type : {DType::f32, DType::f16, DType::f64})
    for (const int64_t align : {0, 1}) {
      const double tolerance = type == DType::f16 ? 1e-3 : 1e-6;
      expect(node_trial("AffineGrid", {random_tensor(type, {3, 2, 3}, 1), Tensor::of<int64_t>({4}, {3, 5, 7, 9})},
                        {{"align_corners", align}}),
             tolerance);
      expect(node_trial("AffineGrid", {random_tensor(type, {2, 3, 4}, 1), Tensor::of<int64_t>({5}, {2, 1, 1, 6, 5})},
                        {{"align_corners", align}}),
             tolerance);
    }
}

TEST_F(GpuRare, blocks_are_added_into_images) {
  const auto fold = [&](DType type, const Shape& x, const Ints& image, const Ints& block, std::map<std::string, Attribute> how) {
    const auto count = static_cast<int64_t>(image.size());
    expect(
        node_trial("Col2Im",
                   {random_tensor(type, x, 1, 0, 20), Tensor::of<int64_t>({count}, image), Tensor::of<int64_t>({count}, block)},
                   std::move(how)),
        type == DType::f16   ? 1e-3
        : type == DType::f32 ? 1e-6
                             : 0);
  };
  for (const DType type : {DType::f32, DType::f16, DType::i32, DType::u8}) {
    fold(type, {2, 3 * 9, 35}, {5, 7}, {3, 3}, {{"pads", Ints{1, 1, 1, 1}}});
    fold(type, {1, 2 * 16, 12}, {8, 10}, {4, 4}, {{"strides", Ints{2, 2}}});
    fold(type, {1, 1 * 6, 5 * 3}, {9, 8}, {3, 2}, {{"dilations", Ints{2, 3}}, {"strides", Ints{1, 2}}});
    fold(type, {1, 40, 21}, {240}, {40}, {{"strides", Ints{10}}});  // overlapping frames of a signal
    fold(type, {1, 2 * 8, 27}, {4, 4, 4}, {2, 2, 2}, {});
  }
}

TEST_F(GpuRare, hardmax_and_norms_along_every_axis) {
  for (const int64_t axis : {0, 1, 2})
    for (const DType type : {DType::f32, DType::f16}) {
      expect(node_trial("Hardmax", {random_tensor(type, {5, 33, 20}, 1)}, {{"axis", axis}}));
      for (const int64_t p : {1, 2})
        expect(node_trial("LpNormalization", {random_tensor(type, {5, 33, 20}, 1)}, {{"axis", axis}, {"p", p}}), 1e-3);
    }
  expect(node_trial("LRN", {random_tensor(DType::f32, {2, 20, 5, 6}, 1)}, {{"size", int64_t{5}}, {"alpha", 0.3f}}), 1e-6);
}

TEST_F(GpuRare, batch_norm_of_both_layouts_and_statistics_of_rows) {
  for (const Layout layout : {Layout::plain, Layout::nhwc}) {
    Trial t = node_trial("BatchNormalization", {random_tensor(DType::f16, {2, 24, 5, 6}, 1), random_tensor(DType::f32, {24}, 2),
                                                random_tensor(DType::f32, {24}, 3), random_tensor(DType::f32, {24}, 4),
                                                random_tensor(DType::f32, {24}, 5, 0.1, 2)});
    t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
    expect(std::move(t), 1.0 / 1024);
  }
  for (const Shape& shape : {Shape{7, 4096}, Shape{40, 100}, Shape{3, 5}}) {
    const Tensor x = random_tensor(DType::f32, shape, 1, -3, 5), gamma = random_tensor(DType::f32, {shape[1]}, 2);
    expect(node_trial("LayerNormalization", {x, gamma}, {}, 3), 1e-5);
  }
}

TEST_F(GpuRare, recurrences_of_every_direction_and_layout) {
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, std::pair{"GRU", 3}, std::pair{"LSTM", 4}})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const int64_t layout : {0, 1}) {
        const int64_t d = direction[0] == 'b' ? 2 : 1, hidden = 70, input = 40, steps = 9, batch = 3;
        const Shape x = layout ? Shape{batch, steps, input} : Shape{steps, batch, input},
                    state = layout ? Shape{batch, d, hidden} : Shape{d, batch, hidden};
        expect(node_trial(op,
                          {random_tensor(DType::f32, x, 1), random_tensor(DType::f32, {d, gates * hidden, input}, 2, -0.2, 0.2),
                           random_tensor(DType::f32, {d, gates * hidden, hidden}, 3, -0.2, 0.2),
                           random_tensor(DType::f32, {d, 2 * gates * hidden}, 4),
                           layout ? Tensor() : Tensor::of<int32_t>({batch}, {9, 4, 6}), random_tensor(DType::f32, state, 5)},
                          {{"direction", std::string(direction)},
                           {"layout", layout},
                           {"hidden_size", hidden},
                           {"linear_before_reset", layout}},
                          gates == 4 ? 3 : 2),
               1e-5);
      }
}

// Weights in registers, in shared memory, and read anew each step; states that no number of lanes or blocks divides; more items than
// a cluster takes; a GRU's hidden gate before and after the reset.
TEST_F(GpuRare, recurrences_of_any_size) {
  struct Size {
    int64_t steps, batch, input, hidden;
    DType type = DType::f32;
  };
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, std::pair{"GRU", 3}, std::pair{"LSTM", 4}})
    for (const Size& s : {Size{3, 1, 20, 512},
                          {5, 2, 33, 128},
                          {4, 150, 7, 61},
                          {1, 1, 128, 1},
                          {2, 1, 5, 1030},
                          {3, 1, 48, 600},
                          {6, 3, 64, 96, DType::f16},
                          {4, 1, 40, 260, DType::bf16}})
      for (const int64_t before : {0, 1}) {
        if (gates != 3 && before) continue;
        const double scale = 1 / std::sqrt(static_cast<double>(s.hidden));
        expect(
            node_trial(op,
                       {random_tensor(s.type, {s.steps, s.batch, s.input}, 1),
                        random_tensor(s.type, {2, gates * s.hidden, s.input}, 2, -scale, scale),
                        random_tensor(s.type, {2, gates * s.hidden, s.hidden}, 3, -scale, scale),
                        random_tensor(s.type, {2, 2 * gates * s.hidden}, 4)},
                       {{"direction", std::string("bidirectional")}, {"hidden_size", s.hidden}, {"linear_before_reset", before}},
                       gates == 4 ? 3 : 2),
            s.type == DType::f32   ? 1e-5
            : s.type == DType::f16 ? 2e-3
                                   : 1e-2);
      }
}

TEST_F(GpuRare, recurrences_with_activations_of_each_direction) {
  using Names = std::vector<std::string>;
  const auto both_directions = [&](const char* op, int64_t gates, const Names& names) {
    const int64_t hidden = 40;
    return node_trial(
        op,
        {random_tensor(DType::f32, {7, 2, 24}, 1), random_tensor(DType::f32, {2, gates * hidden, 24}, 2, -0.2, 0.2),
         random_tensor(DType::f32, {2, gates * hidden, hidden}, 3, -0.2, 0.2),
         random_tensor(DType::f32, {2, 2 * gates * hidden}, 4)},
        {{"direction", std::string("bidirectional")}, {"hidden_size", hidden}, {"activations", names}, {"clip", 3.f}},
        gates == 4 ? 3 : 2);
  };
  const Names names = {"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
                       "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  for (size_t i = 0; i < names.size(); ++i) expect(both_directions("RNN", 1, {names[i], names[(i + 1) % names.size()]}), 1e-5);
  expect(both_directions("GRU", 3, {"Sigmoid", "Tanh", "HardSigmoid", "Softsign"}), 1e-5);
  expect(both_directions("LSTM", 4, {"Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Softsign", "ScaledTanh"}), 1e-5);
}

// The state is quantised anew in every step, so a value at the border of two levels may fall to either side.
TEST_F(GpuRare, quantised_recurrences) {
  struct Size {
    int64_t steps, batch, input, hidden;
  };
  for (const Size& s : {Size{7, 1, 40, 64}, {5, 3, 33, 70}, {3, 1, 96, 520}, {40, 2, 300, 16}})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const DType type : {DType::u8, DType::i8}) {
        const int64_t d = direction[0] == 'b' ? 2 : 1, columns = 4 * s.hidden;
        const double low = type == DType::u8 ? 0 : -128, scale = 0.006 / std::sqrt(static_cast<double>(s.hidden) / 64);
        const auto zero = [&](int64_t size, uint32_t seed) { return random_tensor(type, {d, size}, seed, low + 120, low + 136); };
        const bool per_column = s.batch > 1;
        const Shape of = per_column ? Shape{d, columns} : Shape{d};
        const auto scales = [&](uint32_t seed) { return random_tensor(DType::f32, of, seed, scale / 2, scale); };
        std::vector<int32_t> lengths;
        for (int64_t b = 0; b < s.batch; ++b) lengths.push_back(static_cast<int32_t>(s.steps - 1 - b % 2));
        Trial t = node_trial(
            "com.microsoft:DynamicQuantizeLSTM",
            {random_tensor(DType::f32, {s.steps, s.batch, s.input}, 1, -2, 3),
             random_tensor(type, {d, s.input, columns}, 2, low, low + 256),
             random_tensor(type, {d, s.hidden, columns}, 3, low, low + 256), random_tensor(DType::f32, {d, 2 * columns}, 4),
             per_column ? Tensor::of<int32_t>({s.batch}, lengths) : Tensor(),
             random_tensor(DType::f32, {d, s.batch, s.hidden}, 5), Tensor(), Tensor(), scales(6),
             per_column ? zero(columns, 7) : Tensor(), scales(8), per_column ? zero(columns, 9) : Tensor()},
            {{"direction", std::string(direction)}, {"hidden_size", s.hidden}}, 3);
        expect(std::move(t), 8e-3);
      }
}

TEST_F(GpuRare, einsums_of_batches_diagonals_and_scalars) {
  expect(node_trial("Einsum", {random_tensor(DType::f32, {3, 5, 40}, 1), random_tensor(DType::f32, {3, 40, 7}, 2)},
                    {{"equation", std::string("bij,bjk->bik")}}),
         1e-6);
  expect(node_trial("Einsum", {random_tensor(DType::f16, {4, 6, 6}, 1)}, {{"equation", std::string("...ii->...i")}}));
  expect(node_trial("Einsum",
                    {random_tensor(DType::f32, {5, 6}, 1), random_tensor(DType::f32, {6}, 2), random_tensor(DType::f32, {5}, 3)},
                    {{"equation", std::string("ab,b,a->")}}),
         1e-6);
}

TEST_F(GpuRare, deformable_convolutions_of_groups_strides_and_types) {
  struct {
    Shape x, w;
    int64_t group, offsets, stride, pad, dilation;
    bool mask;
  } const cases[] = {
      {{2, 64, 19, 23}, {70, 64, 3, 3}, 1, 1, 1, 1, 1, true}, {{1, 12, 17, 9}, {24, 4, 3, 3}, 3, 4, 2, 2, 2, true},
      {{1, 6, 8, 40}, {6, 1, 5, 2}, 6, 2, 1, 0, 1, false},    {{3, 8, 5, 7}, {200, 8, 1, 1}, 1, 8, 1, 0, 1, false},
      {{1, 3, 30, 30}, {16, 3, 7, 7}, 1, 3, 3, 3, 1, true},
  };
  for (const auto& c : cases)
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const auto out = [&](size_t a) { return (c.x[a] + 2 * c.pad - (c.w[a] - 1) * c.dilation - 1) / c.stride + 1; };
      const int64_t taps = c.w[2] * c.w[3], h = out(2), w = out(3);
      // Offsets of up to 3 pixels: many samples lie outside.
      const Tensor mask = c.mask ? random_tensor(type, {c.x[0], c.offsets * taps, h, w}, 5, 0, 1) : Tensor();
      expect(node_trial(
                 "DeformConv",
                 {random_tensor(type, c.x, 1), random_tensor(type, c.w, 2),
                  random_tensor(type, {c.x[0], 2 * c.offsets * taps, h, w}, 3, -3, 3), random_tensor(type, {c.w[0]}, 4), mask},
                 {{"group", c.group},
                  {"offset_group", c.offsets},
                  {"strides", Ints{c.stride, c.stride}},
                  {"pads", Ints{c.pad, c.pad, c.pad, c.pad}},
                  {"dilations", Ints{c.dilation, c.dilation}}}),
             type == DType::f32   ? 3e-6
             : type == DType::f16 ? 1e-3
                                  : 8e-3);
    }
}

TEST_F(GpuRare, pointwise_functions_with_attributes) {
  const Tensor x = random_tensor(DType::f32, {700}, 1, -4, 4);
  const float top = std::numeric_limits<float>::infinity();
  expect(node_trial("Shrink", {x}, {{"lambd", 1.5f}, {"bias", 0.5f}}), 1e-7);
  expect(node_trial("Mean", {x, random_tensor(DType::f32, {700}, 2), random_tensor(DType::f32, {700}, 3)}), 1e-6);
  expect(node_trial("Mod", {x, random_tensor(DType::f32, {700}, 2, -2, 2)}), 1e-6);
  for (const int64_t negative : {0, 1})
    expect(node_trial("IsInf", {Tensor::of<float>({4}, {top, -top, 1, 0})},
                      {{"detect_negative", negative}, {"detect_positive", 1 - negative}}));
  expect(node_trial("Dropout", {x}, {}, 2));
}

}  // namespace
}  // namespace smelt::ops
