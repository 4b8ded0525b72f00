// Plans on GPU 0, held against the processor's reference: the executor's tests on a made-up device (tests/run/device_*_test.cpp) tell
// what is copied and recorded; these, that the driver agrees.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/ranges.h>

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "run/graphs.h"

namespace smelt::run {
namespace {

namespace cuda = device::cuda;

Options on_gpu() {
  Options o = quick();
  o.device = "gpu";
  o.allow_fallback = true;   // random graphs hold operators at random
  return o;
}

/// Norm, products with a constant and a residual, and a concatenation of two results.
Graph block(int64_t rows, int64_t width, unsigned seed) {
  Builder b;
  const SymShape shape = to_sym({rows, width});
  const ValueId x = b.input("x", shape);
  const ValueId scale = b.constant("scale", random_tensor({width}, seed));
  const ValueId normal = b.node("normal", "RMSNormalization", {x, scale}, shape, DType::f32, {{"axis", int64_t{-1}}});
  const ValueId gate = b.node("gate", "Sigmoid", {normal}, shape);
  const ValueId gated = b.node("gated", "Mul", {normal, gate}, shape);
  const ValueId sum = b.node("sum", "Add", {gated, x}, shape);
  b.output(b.node("both", "Concat", {sum, normal}, to_sym({rows, 2 * width}), DType::f32, {{"axis", int64_t{1}}}));
  b.output(b.node("turned", "Transpose", {sum}, to_sym({width, rows}), DType::f32, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

void expect_outputs(std::span<const Tensor> found, const std::vector<Tensor>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_same(to_host(found[i]), expected[i], tolerance);
}

TEST(GpuSession, group_normalisation_between_convolutions_leaves_images_channels_last) {
  Builder b;
  const SymShape image = to_sym({2, 64, 12, 10}), groups = to_sym({2, 8, 960});
  unsigned constants = 0;
  const auto weights = [&](const Shape& s) {
    ++constants;
    return b.constant("c" + std::to_string(constants), random_tensor(s, constants));
  };
  const auto conv = [&](const std::string& name, ValueId x) {
    return b.node(name, "Conv", {x, weights({64, 64, 3, 3}), weights({64})}, image, DType::f32, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
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
  EXPECT_EQ(std::ranges::count(ops, "ai.smelt.Reorder"), 2) << fmt::format("{}", fmt::join(ops, " "));   // at the ends
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
    const Tensor copy =
        Tensor::borrow(DType::f32, expected[0].shape(), reinterpret_cast<void*>(kept[i]->address()), kept[i]);
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
    cuda::check(cuda::driver().copy_to_device(reinterpret_cast<cuda::abi::Address>(x.raw()), b.raw(), static_cast<size_t>(b.nbytes()),
                                              stream.get()),
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
      for (const StepInfo& s : execution->steps()) EXPECT_NE(s.op, "ai.smelt.Reorder") << "a cache is copied to be read";
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

/// Kernels of one block and of many in turn, each reading what the one before wrote last.
Graph chain(int64_t rows, int64_t width, int links) {
  Builder b;
  const SymShape wide = to_sym({rows, width}), turned = to_sym({width, rows}), one = to_sym({rows, 1});
  ValueId x = b.input("x", wide, DType::f16);
  const ValueId w = b.weights("w", {width, width}, DType::f16, 0.05);
  for (int i = 0; i < links; ++i) {
    const std::string n = std::to_string(i);
    const ValueId product = b.node("product" + n, "MatMul", {x, w}, wide, DType::f16);
    const ValueId most = b.node("most" + n, "ReduceMax", {product, b.ints({1})}, one, DType::f16);
    const ValueId less = b.node("less" + n, "Sub", {product, most}, wide, DType::f16);
    const ValueId perm = b.node("turned" + n, "Transpose", {less}, turned, DType::f16, {{"perm", std::vector<int64_t>{1, 0}}});
    const ValueId back = b.node("back" + n, "Transpose", {b.node("tanh" + n, "Tanh", {perm}, turned, DType::f16)}, wide, DType::f16,
                                {{"perm", std::vector<int64_t>{1, 0}}});
    x = b.node("sum" + n, "Add", {back, x}, wide, DType::f16);
  }
  b.output(x);
  return std::move(b.g);
}

TEST(GpuSession, kernels_that_begin_early_read_what_the_one_before_wrote) {
  for (const char* libraries : {"", ",-cublaslt,-cudnn"}) {
    for (const int64_t rows : {7, 3000}) {
      const Graph g = chain(rows, 256, 12);
      Options late = on_gpu(), early = on_gpu();
      late.tactics = std::string("-early_launch") + libraries;
      early.tactics = std::string("+early_launch") + libraries;
      const Tensor x = random_tensor({rows, 256}, 2).cast(DType::f16);
      Session one(Plan::build(clone(g), late)), other(Plan::build(clone(g), early));
      const Tensor expected = one.run({{"x", x}}).begin()->second;
      for (int i = 0; i < 200; ++i) {
        const Tensor found = other.run({{"x", x}}).begin()->second;
        ASSERT_EQ(std::memcmp(found.raw(), expected.raw(), static_cast<size_t>(expected.nbytes())), 0) << "run " << i;
      }
    }
  }
}

TEST(GpuSession, gives_the_same_bits_every_time) {
  const Graph g = block(129, 1000, 1);
  Session session(Plan::build(clone(g), on_gpu()));
  const Tensor x = random_tensor({129, 1000}, 2);
  const auto first = session.run({{"x", x}});
  for (int i = 0; i < 20; ++i) {
    const auto again = session.run({{"x", x}});
    for (const auto& [name, t] : first)
      EXPECT_EQ(std::memcmp(t.raw(), again.at(name).raw(), static_cast<size_t>(t.nbytes())), 0) << name;
  }
}

TEST(GpuSession, a_profile_sees_every_step_and_its_times_add_up) {
  const auto plan = Plan::build(block(4096, 2048, 1), on_gpu());
  const auto execution = plan->execution();
  execution->bind(std::vector{plan->place(random_tensor({4096, 2048}, 2))});
  execution->run();
  std::vector<StepTime> times;
  execution->run_profiled(times);
  ASSERT_EQ(times.size(), execution->steps().size());
  double sum = 0;
  int64_t end = 0;
  for (const StepTime& t : times) {
    EXPECT_GE(t.begin_ns, end);
    EXPECT_GE(t.end_ns, t.begin_ns);
    end = t.end_ns;
    sum += static_cast<double>(t.end_ns - t.begin_ns) * 1e-3;
  }
  const double whole = execution->run_timed(20);
  EXPECT_GT(sum, 0.5 * whole);
  EXPECT_LT(sum, 1.3 * whole);
}

std::vector<CopyTime> copies_of(const Plan& plan, const std::vector<Tensor>& inputs) {
  const auto execution = plan.execution();
  execution->bind(inputs);
  execution->run();
  std::vector<StepTime> times;
  std::vector<CopyTime> copies;
  execution->run_profiled(times, &copies);
  EXPECT_EQ(times.size(), execution->steps().size());
  return copies;
}

void expect_copy(const CopyTime& c, const std::string& name, CopyTime::Way way, int64_t bytes) {
  EXPECT_EQ(c.name, name);
  EXPECT_EQ(c.way, way) << name;
  EXPECT_EQ(c.bytes, bytes) << name;
  EXPECT_LT(c.begin_ns, c.end_ns) << name;
}

TEST(GpuSession, a_profile_sees_the_copies_of_tensors_on_the_host) {
  using Way = CopyTime::Way;
  constexpr int64_t rows = 1024, width = 2048, bytes = rows * width * 4;
  const auto plan = Plan::build(block(rows, width, 1), on_gpu());
  const Tensor x = random_tensor({rows, width}, 2);
  const std::vector<CopyTime> copies = copies_of(*plan, {x});
  ASSERT_EQ(copies.size(), 3u);
  expect_copy(copies[0], "x", Way::to_device, bytes);
  expect_copy(copies[1], "both_out", Way::to_host, 2 * bytes);
  expect_copy(copies[2], "turned_out", Way::to_host, bytes);
  for (const CopyTime& c : copies) {
    const double rate = static_cast<double>(c.bytes) / static_cast<double>(c.end_ns - c.begin_ns);   // GB/s
    EXPECT_GT(rate, 0.2) << c.name;
    EXPECT_LT(rate, 1000) << c.name;
  }
  EXPECT_TRUE(copies_of(*plan, {plan->place(x)}).empty());
  const Tensor larger = plan->place(random_tensor({rows * width + 1}, 3));
  float* const odd = static_cast<float*>(const_cast<void*>(larger.raw())) + 1;
  const std::vector<CopyTime> there = copies_of(*plan, {Tensor::borrow(DType::f32, {rows, width}, odd)});
  ASSERT_EQ(there.size(), 1u);
  expect_copy(there[0], "x", Way::on_device, bytes);
}

TEST(GpuSession, a_profile_sees_the_copies_of_counts_and_of_steps_on_the_host) {
  using Way = CopyTime::Way;
  Builder found;
  const ValueId x = found.input("x", to_sym({100, 3}));
  found.output(found.node("where", "NonZero", {x}, {Dim(2), Dim("k")}, DType::i64));
  auto plan = Plan::build(std::move(found.g), on_gpu());
  std::vector<CopyTime> copies = copies_of(*plan, {plan->place(random_tensor({100, 3}, 1))});
  ASSERT_EQ(copies.size(), 1u);
  expect_copy(copies[0], "counts of results", Way::to_host, 8);
  Builder rows;   // of slices along an axis there is no kernel
  const ValueId y = rows.input("y", to_sym({100, 3}));
  rows.output(rows.node("distinct", "Unique", {y}, {Dim("k"), Dim(3)}, DType::f32, {{"axis", int64_t{0}}}));
  plan = Plan::build(std::move(rows.g), on_gpu());
  copies = copies_of(*plan, {plan->place(random_tensor({100, 3}, 1))});
  ASSERT_FALSE(copies.empty());
  expect_copy(copies[0], "distinct", Way::to_host, 100 * 3 * 4);
}

/// `blocks` bottlenecks of 256 channels, 64 inside, as ResNet-50 begins with, in f16.
Graph bottlenecks(int64_t batch, int64_t side, int blocks) {
  Builder b;
  const SymShape wide = to_sym({batch, 256, side, side}), narrow = to_sym({batch, 64, side, side});
  unsigned seed = 0;
  const auto conv = [&](ValueId x, const SymShape& y, const Shape& w) {
    const double scale = 1 / std::sqrt(static_cast<double>(w[1] * w[2] * w[3]));
    Tensor weights = random_tensor(w, ++seed);
    for (float& value : weights.span<float>()) value *= static_cast<float>(scale);
    const std::string name = std::to_string(seed);
    const ValueId k = b.constant("w" + name, weights.cast(DType::f16));
    const ValueId bias = b.constant("b" + name, random_tensor({w[0]}, seed + 100).cast(DType::f16));
    return b.node("conv" + name, "Conv", {x, k, bias}, y, DType::f16, {{"pads", std::vector<int64_t>(4, w[2] / 2)}});
  };
  const auto relu = [&](ValueId x, const SymShape& y) {
    return b.node("relu" + std::to_string(++seed), "Relu", {x}, y, DType::f16);
  };
  ValueId x = b.input("x", wide, DType::f16);
  for (int i = 0; i < blocks; ++i) {
    ValueId y = relu(conv(x, narrow, {64, 256, 1, 1}), narrow);
    y = relu(conv(y, narrow, {64, 64, 3, 3}), narrow);
    y = conv(y, wide, {256, 64, 1, 1});
    x = relu(b.node("sum" + std::to_string(i), "Add", {y, x}, wide, DType::f16), wide);
  }
  b.output(x);
  return std::move(b.g);
}

TEST(GpuSession, convolutions_that_follow_each_other_give_the_same_bits_at_every_run) {
  const Graph g = bottlenecks(32, 56, 4);
  Options o = on_gpu();
  o.tuning_level = 0;
  Options own = o;
  own.tactics = "-cudnn";
  const Tensor x = random_tensor({32, 256, 56, 56}, 1).cast(DType::f16);
  const auto run = [&](const std::shared_ptr<Session>& s) { return to_host(s->run({{"x", x}}).begin()->second); };
  const auto session = std::make_shared<Session>(Plan::build(clone(g), o));
  const Tensor first = run(session);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(std::memcmp(run(session).raw(), first.raw(), static_cast<size_t>(first.nbytes())), 0) << i;
  expect_same(first.cast(DType::f32), run(std::make_shared<Session>(Plan::build(clone(g), own))).cast(DType::f32), 2e-2);
}

TEST(GpuSession, too_little_memory_says_what_was_asked_for) {
  Options o = on_gpu();
  o.memory_limit = 4 << 20;
  const auto plan = Plan::build(block(4096, 4096, 1), o);
  const auto execution = plan->execution();
  try {
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
