// Plans on GPU 0, held against the processor's reference: the executor's tests on a made-up device
// (tests/run/device_*_test.cpp) tell what is copied and recorded; these, that the driver agrees.
#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "plans.h"
#include "support/image_network.h"

namespace smelt::run {
namespace {

namespace cuda = device::cuda;

TEST(GpuSession, group_normalisation_between_convolutions_leaves_images_channels_last) {
  Builder b;
  const SymShape image = to_sym({2, 64, 12, 10}), groups = to_sym({2, 8, 960});
  unsigned constants = 0;
  const auto weights = [&](const Shape& s) {
    ++constants;
    return b.constant("c" + std::to_string(constants), random_tensor(s, constants));
  };
  const auto conv = [&](const std::string& name, ValueId x) {
    return b.node(name, "Conv", {x, weights({64, 64, 3, 3}), weights({64})}, image, DType::f32,
                  {{"pads", std::vector<int64_t>(4, 1)}});
  };
  ValueId v = conv("first", b.input("x", image));
  v = b.node("grouped", "Reshape", {v, b.constant("to", Tensor::of<int64_t>({3}, {0, 8, -1}))}, groups);
  v = b.node("normal", "InstanceNormalization", {v, weights({8}), weights({8})}, groups);
  v = b.node("back", "Reshape", {v, b.constant("image", Tensor::of<int64_t>({4}, {2, 64, 12, 10}))}, image);
  v = b.node("scaled", "Mul", {v, weights({64, 1, 1})}, image);
  v = b.node("active", "Sigmoid", {v}, image);
  b.output(conv("second", v));
  const Graph g = std::move(b.g);
  Options options = on_gpu();
  options.allow_fallback = false;
  options.skip.clear();
  options.tactics = "-cudnn";
  const auto plan = Plan::build(clone(g), options);
  auto execution = plan->execution();
  const std::vector<Tensor> in{random_tensor({2, 64, 12, 10}, 5)};
  execution->bind(in);
  execution->run();
  expect_outputs(execution->outputs(), ops::evaluate(g, in), 1e-4);
  std::vector<std::string> ops;
  for (const StepInfo& s : execution->steps()) ops.push_back(s.op);
  EXPECT_EQ(std::ranges::count(ops, "ai.smelt.Reorder"), 2) << fmt::format("{}", fmt::join(ops, " "));  // at the ends
}

TEST(GpuSession, fresh_outputs_on_the_callers_streams_may_be_let_go_at_once) {
  const Graph g = block(33, 100, 1);
  const auto plan = Plan::build(clone(g), on_gpu());
  Session session(plan);
  const auto device = cuda::Device::open(0);
  const cuda::Stream streams[] = {cuda::Stream(device), cuda::Stream(device)};
  std::vector<Tensor> inputs, expected;
  for (unsigned seed = 0; seed < 2; ++seed) {
    const Tensor x = random_tensor({33, 100}, seed);
    inputs.push_back(plan->place(x));
    expected.push_back(ops::evaluate(g, std::vector{x})[0]);
  }
  // Copies of the outputs, which themselves go at once.
  const int64_t bytes = expected[0].nbytes();
  std::vector<std::shared_ptr<cuda::Memory>> kept;
  for (int i = 0; i < 60; ++i) {
    const auto& stream = streams[i % 2];
    const auto found = session.enqueue({{"x", inputs[static_cast<size_t>(i % 2)]}}, stream.get());
    kept.push_back(device->allocate(bytes, "a copy"));
    const cuda::Device::Current current(*device);
    cuda::check(cuda::driver().copy_on_device(kept.back()->address(), reinterpret_cast<uintptr_t>(found.at("both_out").raw()),
                                              static_cast<size_t>(bytes), stream.get()),
                "copying");
  }
  device->synchronize();
  for (size_t i = 0; i < kept.size(); ++i) {
    const Tensor copy = Tensor::borrow(DType::f32, expected[0].shape(), reinterpret_cast<void*>(kept[i]->address()), kept[i]);
    expect_same(to_host(copy), expected[i % 2], 1e-5);
  }
  const Tensor of_host = session.enqueue({{"x", to_host(inputs[0])}}, streams[0].get()).at("both_out");
  EXPECT_EQ(gpu_of(of_host), 0);
  expect_same(to_host(of_host), expected[0], 1e-5);
}

TEST(GpuSession, runs_on_the_hosts_tensors_and_on_its_own) {
  const Graph g = block(33, 100, 1);
  const auto plan = Plan::build(clone(g), on_gpu());
  const auto execution = plan->execution();
  const Tensor x = random_tensor({33, 100}, 2);
  const auto expected = ops::evaluate(g, std::vector{x});
  execution->bind(std::vector{x});
  execution->run();
  for (const Tensor& t : execution->outputs()) EXPECT_EQ(gpu_of(t), -1);
  expect_outputs(execution->outputs(), expected);
  const Tensor placed = plan->place(x);
  EXPECT_EQ(gpu_of(placed), 0);
  execution->bind(std::vector{placed});
  execution->run();
  for (const Tensor& t : execution->outputs()) EXPECT_EQ(gpu_of(t), 0);
  expect_outputs(execution->outputs(), expected);
}

TEST(GpuSession, puts_runs_on_the_callers_stream) {
  const Graph g = block(64, 256, 1);
  const auto plan = Plan::build(clone(g), on_gpu());
  const auto device = cuda::Device::open(0);
  const cuda::Stream stream(device);
  const auto execution = plan->execution();
  const Tensor a = random_tensor({64, 256}, 2), b = random_tensor({64, 256}, 3);
  const Tensor x = plan->place(a);
  execution->bind(std::vector{x});
  execution->enqueue(stream.get());
  stream.synchronize();
  expect_outputs(execution->outputs(), ops::evaluate(g, std::vector{a}));
  // The same memory, other values: put there on the same stream, between two runs.
  {
    const cuda::Device::Current current(*device);
    cuda::check(cuda::driver().copy_to_device(reinterpret_cast<cuda::abi::Address>(x.raw()), b.raw(),
                                              static_cast<size_t>(b.nbytes()), stream.get()),
                "copying an input");
  }
  execution->enqueue(stream.get());
  stream.synchronize();
  expect_outputs(execution->outputs(), ops::evaluate(g, std::vector{b}));
}

TEST(GpuSession, weights_that_only_their_packed_form_is_read_of_lie_there_once) {
  Builder b;
  const ValueId x = b.input("x", to_sym({1, 64, 20, 20}), DType::f16);
  const ValueId w = b.constant("w", random_tensor({128, 64, 3, 3}, 1).cast(DType::f16));
  b.output(b.node("y", "Conv", {x, w}, to_sym({1, 128, 20, 20}), DType::f16, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}));
  Options o = on_gpu();
  o.tactics = "-all,+cuda";
  const Graph g = clone(b.g);
  const auto execution = Plan::build(std::move(b.g), o)->execution();
  const Tensor input = random_tensor({1, 64, 20, 20}, 2).cast(DType::f16);
  execution->bind(std::vector{input});
  execution->run();
  expect_outputs(execution->outputs(), ops::evaluate(g, std::vector{input}), 2e-2);
  const int64_t raw = 128 * 64 * 9 * 2;
  EXPECT_GE(execution->memory().weights, raw);
  EXPECT_LT(execution->memory().weights, raw * 3 / 2);
}

TEST(GpuSession, what_depends_on_data_is_found_and_counted_on_the_device) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim(7)});
  const ValueId positive = b.node("positive", "Greater", {x, b.scalar(0.5)}, {Dim("n"), Dim(7)}, DType::boolean);
  const ValueId where = b.node("where", "NonZero", {positive}, {Dim(2), Dim("k")}, DType::i64);
  const ValueId places =
      b.node("places", "Transpose", {where}, {Dim("k"), Dim(2)}, DType::i64, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId picked = b.node("picked", "GatherND", {x, places}, {Dim("k")});
  const ValueId first =
      b.node("first", "Slice", {positive, b.ints({0}), b.ints({1}), b.ints({1})}, {Dim("n"), Dim(1)}, DType::boolean);
  const ValueId flags = b.node("flags", "Reshape", {first, b.ints({-1})}, {Dim("n")}, DType::boolean);
  const ValueId rows = b.node("rows", "Compress", {x, flags}, {Dim("m"), Dim(7)}, DType::f32, {{"axis", int64_t{0}}});
  b.output(where);
  b.output(b.node("doubled", "Add", {picked, picked}, {Dim("k")}));
  b.output(b.node("halved", "Mul", {rows, b.scalar(0.5)}, {Dim("m"), Dim(7)}));
  Options o = on_gpu();
  o.allow_fallback = false;
  const auto plan = Plan::build(clone(b.g), o);
  const auto execution = plan->execution();
  for (unsigned seed = 0; seed < 12; ++seed) {
    const Tensor values = random_tensor({static_cast<int64_t>(seed % 3 == 0 ? 5000 : 2 * seed), 7}, seed);
    const auto expected = ops::evaluate(b.g, std::vector{values});
    for (const Tensor& input : {values, plan->place(values)}) {
      execution->bind(std::vector{input});
      for (int again = 0; again < 2; ++again) {
        execution->run();
        expect_outputs(execution->outputs(), expected);
      }
    }
    for (const StepInfo& s : execution->steps()) EXPECT_FALSE(s.on_host) << s.name;
  }
}

TEST(GpuSession, heads_are_read_and_written_through_strides) {
  const Graph g = attention_block(DType::f16);
  const auto execution = Plan::build(clone(g), on_gpu())->execution();
  const Tensor x = random_tensor({2, 24, 64}, 2).cast(DType::f16);
  execution->bind(std::vector{x});
  EXPECT_EQ(execution->steps().size(), 3u);
  execution->run();
  expect_outputs(execution->outputs(), ops::evaluate(g, std::vector{x}), 5e-3);
}

TEST(GpuSession, caches_grow_in_place) {
  for (const int64_t images : {1, 3}) {
    const Graph g = decoding_block(images, DType::f16);
    const auto plan = Plan::build(clone(g), on_gpu());
    const auto execution = plan->execution();
    const Tensor poison = random_tensor({images, 2, 24, 8}, 7).cast(DType::f16);
    const Tensor k = plan->place(poison), v = plan->place(poison);
    for (int64_t length : {0, 1, 2, 20, 21, 23}) {
      const Tensor x = random_tensor({images, 1, 16}, static_cast<unsigned>(length)).cast(DType::f16);
      const Tensor before = to_host(k);
      const auto expected = ops::evaluate(g, std::vector{x, rows_of(before, length), rows_of(to_host(v), length)});
      const Cache caches[] = {{"past_k", "k_out", k, length}, {"past_v", "v_out", v, length}};
      execution->bind(std::vector{plan->place(x), Tensor(), Tensor()}, {}, caches);
      const int64_t new_row = bytes(DType::f16, images * 2 * 8);
      for (const StepInfo& s : execution->steps()) {
        if (s.op != "ai.smelt.Reorder") continue;
        EXPECT_EQ(s.bytes, 2 * new_row) << s.name << " copies more than the new row: " << s.problem;
      }
      execution->run();
      const Tensor after = to_host(k);
      expect_same(to_host(execution->outputs()[0]), expected[0], 5e-3);
      expect_same(rows_of(after, length + 1), expected[1], 5e-3);
      expect_same(rows_of(to_host(v), length + 1), expected[2], 5e-3);
      for (int64_t row = 0; row < images * 2 * 24; ++row) {
        if (row % 24 == length) continue;
        EXPECT_EQ(std::memcmp(after.data<Half>() + row * 8, before.data<Half>() + row * 8, 16), 0) << "row " << row;
      }
    }
  }
}

TEST(GpuSession, too_little_memory_says_what_was_asked_for) {
  Options o = on_gpu();
  o.memory_limit = 4 << 20;
  try {
    const auto execution = Plan::build(block(4096, 4096, 1), o)->execution();
    execution->bind(std::vector{random_tensor({4096, 4096}, 2)});
    FAIL() << "64 MiB fit into 4";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the limit is 4194304 bytes"), std::string::npos) << e.what();
  }
  cuda::Device::open(0)->set_limit(0);
}

TEST(GpuSession, a_gpu_that_there_is_not_is_a_usage_error) {
  Options o = on_gpu();
  o.device = "99";
  try {
    Plan::build(block(4, 4, 1), o);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

class GpuImages : public testing::TestWithParam<size_t> {};

TEST_P(GpuImages, of_any_number_of_axes_agree_with_the_reference) {
  for (const DType type : {DType::f32, DType::f16}) {
    for (const char* tactics : {"", "-cudnn", "-cudnn,-hopper", "-cudnn,-hopper,-walked"}) {
      SCOPED_TRACE(std::string(name(type)) + " " + tactics);
      const Graph g = image_network(GetParam(), type);
      Options options = on_gpu();
      options.allow_fallback = false;
      options.skip.clear();
      options.tactics = tactics;
      const auto plan = Plan::build(clone(g), options);
      auto execution = plan->execution();
      const std::vector<Tensor> in{random_tensor(image_shape(GetParam()), 7).cast(type)};
      execution->bind(in);
      execution->run();
      expect_outputs(execution->outputs(), ops::evaluate(g, in), type == DType::f32 ? 1e-5 : 4e-3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Axes, GpuImages, testing::Values(1, 2, 3));

class GpuRandomGraph : public testing::TestWithParam<unsigned> {};

TEST_P(GpuRandomGraph, gives_what_the_reference_gives) {
  const Graph g = random_graph(GetParam());
  const auto plan = Plan::build(clone(g), on_gpu());
  const Tensor x = random_tensor(to_shape(*g.value(g.inputs()[0]).shape), GetParam());
  Session session(plan);
  const auto expected = ops::evaluate(g, std::vector{x});
  for (const Tensor& input : {x, plan->place(x)}) {
    const auto found = session.run({{"x", input}});
    for (size_t i = 0; i < expected.size(); ++i) expect_same(to_host(found.at(plan->outputs()[i].name)), expected[i], 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuRandomGraph, testing::Range(0u, 6u));

}  // namespace
}  // namespace smelt::run
