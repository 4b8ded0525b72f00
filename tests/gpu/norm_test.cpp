// Generated normalisation kernels against the processor's reference.
#include "device/cuda/graph.h"
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

struct Norm {
  std::string kind = "rms";
  DType type = DType::f32, parameters = DType::f32;
  Shape shape;
  bool residual = false, sum = false, gamma = true, beta = false;
  std::string program;
  std::vector<Tensor> operands;
  int64_t axis = -1;
};

Trial trial(const Norm& n, uint32_t seed) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Norm";
  t.node.attrs["kind"] = n.kind;
  t.node.attrs["axis"] = n.axis;
  t.node.attrs["epsilon"] = 1e-5f;
  const auto axis = static_cast<size_t>(n.axis < 0 ? n.axis + static_cast<int64_t>(n.shape.size()) : n.axis);
  const Shape row(n.shape.begin() + static_cast<std::ptrdiff_t>(axis), n.shape.end());
  t.add(random_tensor(n.type, n.shape, seed, -3, 5), false);
  t.add(n.residual ? random_tensor(n.type, n.shape, seed + 1, -2, 2) : Tensor(), false);
  t.add(n.gamma ? random_tensor(n.parameters, row, seed + 2, 0.5, 1.5) : Tensor(), false);
  t.add(n.beta ? random_tensor(n.parameters, row, seed + 3, -1, 1) : Tensor(), false);
  for (const Tensor& o : n.operands) t.add(o, false);
  t.result(t.compute(n.program, n.type), n.shape);
  if (n.sum) t.result(n.type, n.shape);
  return t;
}

// The reference adds a row up in float, one element after the other.
double tolerance(DType t) { return t == DType::f32 ? 3e-6 : t == DType::f16 ? 1.0 / 1024 : 1.0 / 128; }

void expect(const Norm& n, uint32_t seed = 1) {
  Trial t = trial(n, seed);
  EXPECT_FALSE(check_on_gpu(t, tolerance(n.type)).empty()) << n.kind << ' ' << to_string(n.shape);
}

TEST(GpuNorm, every_width_and_type) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const char* kind : {"rms", "layer"})
      for (const int64_t width : {1, 3, 7, 64, 100, 1000, 1024, 4096, 4099, 5120})
        for (const int64_t rows : {1, 2, 37})
          expect({.kind = kind, .type = type, .parameters = type, .shape = {rows, width}, .beta = *kind == 'l'});
}

/// What a QuantizeLinear behind makes of rows: a sum in another order may be on the other side of a half, so that bytes are off by one.
TEST(GpuNorm, rows_end_in_bytes) {
  for (const DType type : {DType::f32, DType::f16})
    for (const char* y : {"u8", "i8"})
      for (const int64_t width : {7, 64, 768, 4099}) {
        const bool is_signed = *y == 'i';
        Trial t = trial({.kind = "layer",
                         .type = type,
                         .parameters = type,
                         .shape = {37, width},
                         .sum = width == 768,
                         .beta = true,
                         .program = std::string("(in0:f32) { %1 = const(0.03):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; ") +
                                    (is_signed ? "%4 = const(-5):f32; %5 = add(%3, %4):f32; %6 = const(-128):f32; "
                                                 "%7 = const(127):f32; "
                                               : "%4 = const(117):f32; %5 = add(%3, %4):f32; %6 = const(0):f32; "
                                                 "%7 = const(255):f32; ") +
                                    "%8 = clip(%5, %6, %7):f32; %9 = cast(%8):" + y + "; return %9 }"},
                        5);
        EXPECT_FALSE(check_on_gpu(t, 1.0 / 100).empty()) << width;
      }
}

/// Normalisations in a row, each of the result before it: where they begin early they read their constants alone before that is written.
TEST(GpuNorm, that_begin_early_read_what_the_one_before_wrote) {
  constexpr int norms = 12;
  namespace cuda = device::cuda;
  const auto device = test_gpu()->device;
  const cuda::Device::Current current(*device);
  const auto finish = [] { cuda::check(cuda::driver().stream_synchronize(nullptr), "copying"); };
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{2, 4096}, {197, 768}, {3000, 512}}) {
    Trial t = trial({.type = DType::f16, .parameters = DType::f16, .shape = {rows, width}}, 3);
    t.bound.node = &t.node;
    t.bound.inputs[2].constant = t.inputs[2];
    const auto size = static_cast<size_t>(rows * width * 2);
    const auto gamma = device->allocate(width * 2, "a test"), even = device->allocate(rows * width * 2, "a test"),
               odd = device->allocate(rows * width * 2, "a test");
    cuda::check(cuda::driver().copy_to_device(gamma->address(), t.inputs[2].raw(), static_cast<size_t>(width * 2), nullptr),
                "copying");
    int count = 0;
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
      SCOPED_TRACE(c.config);
      const auto kernel = c.prepare();
      std::vector<std::vector<char>> results;
      for (const bool early : {false, true, true}) {
        const cuda::CapturedGraph graph(
            device,
            [&](cuda::abi::Stream stream) {
              for (int i = 0; i < norms; ++i) {
                const void* in[] = {reinterpret_cast<void*>((i % 2 ? odd : even)->address()), nullptr,
                                    reinterpret_cast<void*>(gamma->address())};
                void* out[] = {reinterpret_cast<void*>((i % 2 ? even : odd)->address())};
                kernel->run({in, out, nullptr, stream});
              }
            },
            early);
        EXPECT_EQ(graph.early_nodes(), early && test_gpu()->info.major >= 9 ? norms - 1 : 0u);
        cuda::check(cuda::driver().copy_to_device(even->address(), t.inputs[0].raw(), size, nullptr), "copying");
        finish();
        const cuda::Stream stream(device);
        graph.launch(stream.get());
        stream.synchronize();
        results.emplace_back(size);
        cuda::check(cuda::driver().copy_to_host(results.back().data(), even->address(), size, nullptr), "copying");
        finish();
      }
      EXPECT_TRUE(results[1] == results[0] && results[2] == results[0]);
      ++count;
    }
    EXPECT_GE(count, 2);
  }
}

TEST(GpuNorm, one_long_row) {
  expect({.type = DType::bf16, .parameters = DType::bf16, .shape = {1, 65536}});
  expect({.kind = "layer", .type = DType::f32, .shape = {2, 32768}, .beta = true});
}

TEST(GpuNorm, adds_a_residual_and_writes_the_sum) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const bool sum : {false, true})
      expect({.type = type, .parameters = type, .shape = {3, 5, 768}, .residual = true, .sum = sum});
}

TEST(GpuNorm, parameters_of_another_type_and_none) {
  expect({.type = DType::f16, .parameters = DType::f32, .shape = {9, 512}});
  expect({.kind = "layer", .type = DType::bf16, .parameters = DType::f32, .shape = {9, 512}, .beta = true});
  expect({.kind = "layer", .type = DType::f32, .shape = {9, 130}, .gamma = false});
}

TEST(GpuNorm, several_axes_are_a_row) {
  expect({.kind = "layer", .type = DType::f32, .shape = {4, 6, 10, 8}, .beta = true, .axis = 2});
}

TEST(GpuNorm, modulates_and_quantizes_what_it_normalised) {
  // DiT's modulation: (1 + scale) * n + shift, a scale and a shift for each image.
  expect({.kind = "layer",
          .type = DType::f16,
          .shape = {2, 16, 1152},
          .gamma = false,
          .program =
              "(in0:f32, in1:f16, in2:f16) { %3 = cast(in1):f32; %4 = const(1):f32; %5 = add(%3, %4):f32; %6 = mul(in0, %5):f32; "
              "%7 = cast(in2):f32; %8 = add(%6, %7):f32; %9 = cast(%8):f16; return %9 }",
          .operands = {random_tensor(DType::f16, {2, 1, 1152}, 5), random_tensor(DType::f16, {2, 1, 1152}, 6)}});
  Norm q{.type = DType::f32,
         .shape = {8, 320},
         .program = "(in0:f32) { %1 = const(20):f32; %2 = mul(in0, %1):f32; %3 = round(%2):f32; %4 = cast(%3):i8; return %4 }"};
  Trial t = trial(q, 3);
  EXPECT_FALSE(check_on_gpu(t, 1.0 / 127).empty());  // one quantum where a product lies at a half
}

TEST(GpuNorm, rows_that_begin_anywhere) {
  for (const int64_t alignment : {16, 4, 2}) {
    Trial t = trial({.type = DType::f16, .parameters = DType::f16, .shape = {5, 256}}, 1);
    for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[2], &t.bound.outputs[0]}) b->alignment = alignment;
    EXPECT_FALSE(check_on_gpu(t, tolerance(DType::f16)).empty());
  }
  Trial t = trial({.type = DType::f16, .parameters = DType::f16, .shape = {5, 256}}, 1);
  t.bound.inputs[0].strides = {259, 1};
  EXPECT_FALSE(check_on_gpu(t, tolerance(DType::f16)).empty());
}

TEST(GpuNorm, rows_beyond_the_cache_pass_through_it) {
  auto small = std::make_shared<Gpu>(*test_gpu());
  small->info.l2_bytes = 1 << 14;
  Machine machine;
  machine.gpu = small;
  const Norm norms[] = {
      {.type = DType::bf16, .parameters = DType::bf16, .shape = {37, 4096}},
      {.kind = "layer", .type = DType::f32, .shape = {37, 1000}, .beta = true},
      {.kind = "layer", .type = DType::f16, .parameters = DType::f16, .shape = {37, 520}, .residual = true, .sum = true},
      {.type = DType::f16, .parameters = DType::f32, .shape = {5, 1024}, .residual = true},
      {.type = DType::f16,
       .shape = {300, 1024},
       .sum = true,
       .gamma = false,
       .program = "(in0:f32) { %1 = relu(in0):f32; return %1 }"}};
  for (const Norm& n : norms) {
    Trial t = trial(n, 7);
    const std::vector<Tensor> want = evaluate(t.node, t.inputs);
    t.bound.node = &t.node;
    std::map<std::string, std::vector<Tensor>> found;
    for (const Candidate& c : offer(t.bound, machine).candidates) {
      SCOPED_TRACE(c.config);
      found[c.config] = run_on_gpu(t, c);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_LE(error(found[c.config][i], want[i]), tolerance(n.type)) << "output " << i;
    }
    size_t others = 0;
    for (const auto& [config, results] : found) {
      for (const char* suffix : {" streamed", " twice"}) {
        const auto other = found.find(config + suffix);
        if (other == found.end()) continue;
        ++others;
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_EQ(std::memcmp(other->second[i].raw(), results[i].raw(), static_cast<size_t>(results[i].nbytes())), 0)
              << other->first;
      }
    }
    EXPECT_GE(others, 4u) << to_string(n.shape);
  }
}

TEST(GpuNorm, few_long_rows_are_split_over_several_blocks_too) {
  for (const Shape& shape : {Shape{1, 65536}, Shape{3, 40000}}) {
    Trial t = trial({.type = DType::bf16, .parameters = DType::bf16, .shape = shape}, 1);
    const auto in_pieces = testing::AnyOf(testing::HasSubstr("cluster"), testing::HasSubstr("parts"));
    EXPECT_THAT(check_on_gpu(t, tolerance(DType::bf16)), testing::Contains(in_pieces));
  }
}

using GpuGroupNorm = GpuBatch;

/// GroupNormalization in `groups`, or (0) InstanceNormalization.
Trial group_trial(int64_t groups, DType type, const Shape& shape, Layout layout, uint32_t seed = 1) {
  Trial t = node_trial(groups ? "GroupNormalization" : "InstanceNormalization",
                       {random_tensor(type, shape, seed, -3, 5), random_tensor(type, {shape[1]}, seed + 1, 0.5, 1.5),
                        random_tensor(type, {shape[1]}, seed + 2, -1, 1)},
                       {{"num_groups", groups}});
  t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
  return t;
}

TEST_F(GpuGroupNorm, plain_and_channels_last_images) {
  for (const Layout layout : {Layout::plain, Layout::nhwc})
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      expect(group_trial(32, type, {2, 320, 16, 16}, layout), tolerance(type));
      expect(group_trial(4, type, {3, 12, 7, 5}, layout), tolerance(type));
      expect(group_trial(1, type, {1, 24, 9, 8}, layout), tolerance(type));
      expect(group_trial(0, type, {2, 48, 6, 6}, layout), tolerance(type));
      expect(group_trial(0, type, {1, 3, 5, 1}, layout), tolerance(type));
    }
  expect(group_trial(32, DType::f16, {2, 1920, 8, 8}, Layout::nhwc), tolerance(DType::f16));
  expect(group_trial(32, DType::f16, {1, 960, 64, 64}, Layout::nhwc), tolerance(DType::f16));
}

TEST_F(GpuGroupNorm, rows_longer_than_registers_hold) {
  expect(group_trial(2, DType::f32, {1, 4, 301, 300}, Layout::plain), 3e-5);  // the reference adds up in double, then rounds
  expect(group_trial(2, DType::f16, {1, 64, 129, 128}, Layout::nhwc), tolerance(DType::f16));
  expect(node_trial("LayerNormalization", {random_tensor(DType::f32, {3, 70001}, 1), random_tensor(DType::f32, {70001}, 2)}),
         1e-5);
}

TEST_F(GpuGroupNorm, rows_of_a_length_that_no_vector_divides) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    expect(group_trial(0, type, {1, 512, 3199}, Layout::plain), tolerance(type));
    expect(group_trial(0, type, {2, 5, 1031}, Layout::plain), tolerance(type));
    expect(group_trial(3, type, {1, 6, 15013}, Layout::plain), type == DType::f32 ? 3e-5 : tolerance(type));
  }
  expect(group_trial(0, DType::f16, {1, 3, 130003}, Layout::plain), tolerance(DType::f16));
  Trial t = group_trial(0, DType::f16, {1, 16, 4095}, Layout::plain);  // a slice that begins and ends anywhere
  t.bound.inputs[0].alignment = t.bound.outputs[0].alignment = 2;
  t.bound.inputs[0].strides = {16 * 4097, 4097, 1};
  expect(std::move(t), tolerance(DType::f16));
}

TEST_F(GpuGroupNorm, takes_what_follows_per_channel_and_per_element) {
  const std::string scaled_silu =
      "(in0:f32, in1:f16, in2:f16, in3:f16) { %4 = cast(in1):f32; %5 = mul(in0, %4):f32; %6 = cast(in2):f32; "
      "%7 = add(%5, %6):f32; %8 = silu(%7):f32; %9 = cast(in3):f32; %10 = add(%8, %9):f32; %11 = cast(%10):f16; return %11 }";
  for (const bool channels_last : {false, true})
    for (const Shape& shape : {Shape{2, 32, 10, 64}, Shape{2, 3, 5, 49}}) {
      const int64_t groups = shape[1], deep = shape[2];
      Trial t = trial({.kind = "layer",
                       .type = DType::f16,
                       .shape = shape,
                       .gamma = false,
                       .program = scaled_silu,
                       .operands = {random_tensor(DType::f16, {groups, deep, 1}, 5),
                                    random_tensor(DType::f16, {groups, deep, 1}, 6), random_tensor(DType::f16, shape, 7)},
                       .axis = -2},
                      4);
      t.add(Tensor(), false);
      t.inputs.pop_back(), t.bound.inputs.pop_back(), t.node.inputs.pop_back();
      t.inputs[3] = random_tensor(DType::f16, {groups, 1, 1}, 8);  // beta, one a group
      t.node.inputs[3] = t.node.inputs[0];
      t.bound.inputs[3] = {DType::f16, {groups, 1, 1}};
      if (channels_last)
        for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[6], &t.bound.outputs[0]})
          b->strides = {groups * deep * shape[3], deep, 1, groups * deep};
      expect(std::move(t), tolerance(DType::f16));
    }
}

TEST_F(GpuGroupNorm, images_that_begin_anywhere_and_are_slices) {
  Trial t = group_trial(8, DType::f16, {2, 64, 6, 6}, Layout::nhwc);
  t.bound.inputs[0].alignment = t.bound.outputs[0].alignment = 4;
  expect(std::move(t), tolerance(DType::f16));
  t = group_trial(8, DType::f16, {2, 64, 6, 6}, Layout::nhwc);
  t.bound.inputs[0].strides = {36 * 96, 1, 6 * 96, 96};
  expect(std::move(t), tolerance(DType::f16));
}

TEST(GpuNorm, onnx_operators) {
  for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
    Trial t;
    t.node.op = op;
    t.add(random_tensor(DType::f32, {6, 200}, 1), false);
    t.add(random_tensor(DType::f32, {200}, 2), false);
    t.result(DType::f32, {6, 200});
    EXPECT_FALSE(check_on_gpu(t, 1e-6).empty()) << op;
  }
}

}  // namespace
}  // namespace smelt::ops
