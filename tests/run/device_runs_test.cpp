// Executions on a device that is made up: what is bound, recorded and run.
#include "made_up_device.h"

namespace smelt::run {
namespace {

TEST(Device, host_tensors_are_copied_there_and_back) {
  const Graph g = copying_graph();
  Made m(clone(g));
  Session session(m.plan);
  for (unsigned seed = 0; seed < 5; ++seed) {
    const Tensor x = random_tensor({4, 6}, seed);
    const auto found = session.run({{"x", x}});
    const auto expected = ops::evaluate(g, std::vector{x});
    expect_same(found.at("y_out"), expected[0]);
    EXPECT_FALSE(m.device->holds(found.at("y_out").raw(), 1));
  }
  EXPECT_EQ(m.device->recordings, 1) << "the same memory was bound each time";
  EXPECT_EQ(m.device->launches, 5);
}

TEST(Device, its_own_tensors_are_used_in_place_and_give_outputs_there) {
  const Graph g = copying_graph();
  Made m(clone(g));
  const Tensor x = m.place(random_tensor({4, 6}, 3));
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x});
  m.device->copied.clear();
  execution->run();
  for (const void* p : m.device->copied) EXPECT_TRUE(m.device->holds(p, 1)) << "a copy from or to the host";
  const auto expected = ops::evaluate(g, std::vector{x});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(m.device->holds(execution->outputs()[i].raw(), 1));
    expect_same(execution->outputs()[i], expected[i]);
  }
}

Options with_threads(int n) {
  Options o = quick();
  o.threads = n;
  return o;
}

/// Its input has as many bytes as are worth a way through pinned memory.
Graph large_graph() {
  Builder b;
  const ValueId x = b.input("x", to_sym({256, 256}));
  b.output(b.node("y", "Add", {x, x}, to_sym({256, 256})));
  return std::move(b.g);
}

TEST(Device, a_large_input_goes_through_pinned_memory_where_copies_from_its_own_are_slow) {
  Made m(large_graph(), with_threads(4));
  m.device->knows_pinned = true;
  const Tensor a = random_tensor({256, 256}, 1), b = random_tensor({256, 256}, 2);
  const auto execution = m.plan->execution();
  const auto run = [&](const Tensor& x) {
    m.device->copied.clear();
    execution->run();
    expect_same(execution->outputs()[0], ops::evaluate(large_graph(), std::vector{x})[0]);
    return m.device->copied.front();
  };
  execution->bind(std::vector{a});
  const void* const way = run(a);
  EXPECT_NE(way, a.raw());
  Tensor mine = a;
  std::memcpy(mine.raw(), b.raw(), static_cast<size_t>(a.nbytes()));
  EXPECT_EQ(run(b), way) << "what lies in the caller's memory when it runs";
  execution->bind(std::vector{b});
  const size_t before = m.device->pinned.size();
  EXPECT_EQ(run(b), way) << "the same memory";
  EXPECT_EQ(m.device->pinned.size(), before);
  m.device->pinned.push_back(b.raw());  // as a caller may have pinned it
  execution->bind(std::vector{b});
  EXPECT_EQ(run(b), b.raw());
}

TEST(Device, a_system_that_pins_no_more_memory_copies_from_where_an_input_lies) {
  Made m(large_graph(), with_threads(4));
  const Tensor x = random_tensor({256, 256}, 1);
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x});  // its output has its memory
  m.device->knows_pinned = m.device->pins_nothing = true;
  m.device->copied.clear();
  execution->run();
  EXPECT_EQ(m.device->copied.front(), x.raw());
  expect_same(execution->outputs()[0], ops::evaluate(large_graph(), std::vector{x})[0]);
}

TEST(Device, an_input_is_copied_from_where_it_lies_by_fewer_threads_than_the_driver_is_slower_than) {
  Made m(large_graph(), with_threads(3));
  m.device->knows_pinned = true;
  const Tensor x = random_tensor({256, 256}, 1);
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x});
  m.device->copied.clear();
  execution->run();
  EXPECT_EQ(m.device->copied.front(), x.raw());
}

TEST(Device, a_run_allocates_nothing_there) {
  Made m(copying_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{random_tensor({4, 6}, 3)});
  const int before = m.device->allocations;
  for (int i = 0; i < 3; ++i) execution->run();
  EXPECT_EQ(m.device->allocations, before);
}

TEST(Device, a_set_of_addresses_is_recorded_once) {
  Made m(copying_graph());
  const Tensor a = m.place(random_tensor({4, 6}, 1)), b = m.place(random_tensor({4, 6}, 2));
  const auto execution = m.plan->execution();
  for (int i = 0; i < 4; ++i) {
    for (const Tensor& x : {a, b}) {
      execution->bind(std::vector{x});
      execution->run();
      expect_same(execution->outputs()[0], ops::evaluate(copying_graph(), std::vector{x})[0]);
    }
  }
  EXPECT_EQ(m.device->recordings, 2);
}

TEST(Device, fresh_tensors_at_every_call_end_in_copies_not_in_recordings) {
  const Graph g = copying_graph();
  Made m(clone(g));
  const auto execution = m.plan->execution();
  std::vector<Tensor> kept;  // so that no address comes twice
  for (unsigned seed = 0; seed < 3 * max_recordings; ++seed) {
    kept.push_back(m.place(random_tensor({4, 6}, seed)));
    std::vector<Tensor> outputs{m.device->allocate(DType::f32, {4, 12}, ""), m.device->allocate(DType::f32, {4, 6}, "")};
    execution->bind(std::vector{kept.back()}, outputs);
    execution->run();
    const auto expected = ops::evaluate(g, std::vector{kept.back()});
    for (size_t i = 0; i < 2; ++i) expect_same(outputs[i], expected[i]);
    kept.insert(kept.end(), outputs.begin(), outputs.end());
  }
  EXPECT_EQ(m.device->recordings, static_cast<int>(max_recordings) + 1);
}

TEST(Device, memory_that_no_kernel_could_read_by_vectors_is_copied) {
  const Graph g = copying_graph();
  Made m(clone(g));
  const Tensor larger = m.device->allocate(DType::f32, {25}, "");
  const Tensor x = Tensor::borrow(DType::f32, {4, 6}, static_cast<float*>(const_cast<void*>(larger.raw())) + 1);
  const Tensor values = random_tensor({4, 6}, 5);
  std::memcpy(const_cast<void*>(x.raw()), values.raw(), static_cast<size_t>(values.nbytes()));
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x});
  execution->run();
  expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{values})[0]);
}

TEST(Device, an_output_over_an_input_is_written_after_the_input_is_read) {
  const Graph g = copying_graph();
  Made m(clone(g));
  const Tensor values = random_tensor({4, 6}, 5);
  const auto expected = ops::evaluate(g, std::vector{values});
  const Tensor x = m.place(values);
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x}, std::vector{Tensor(), x});
  execution->run();
  expect_same(execution->outputs()[0], expected[0]);
  expect_same(x, expected[1]);
}

TEST(Device, a_profiled_run_times_every_step) {
  Made m(copying_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{random_tensor({4, 6}, 3)});
  std::vector<StepTime> times;
  execution->run_profiled(times);
  ASSERT_EQ(times.size(), execution->steps().size());
  for (const StepTime& t : times) EXPECT_EQ(t.end_ns, t.begin_ns + 1);
}

TEST(Device, several_executions_share_the_constants) {
  Made m(copying_graph());
  const auto a = m.plan->execution(), b = m.plan->execution();
  for (const auto& e : {a.get(), b.get()}) e->bind(std::vector{random_tensor({4, 6}, 3)});
  EXPECT_EQ(m.device->constant_bytes(), 4 * 6 * 4);
}

TEST(Device, heads_are_read_and_written_through_strides) {
  const Graph g = attention_block(DType::f32);
  Made m(clone(g));
  const auto execution = m.plan->execution();
  const Tensor x = random_tensor({2, 24, 64}, 3);
  execution->bind(std::vector{x});
  EXPECT_EQ(execution->steps().size(), 3u) << "two products and the attention";
  execution->run();
  expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{x})[0], 1e-5);
}

TEST(Device, caches_grow_in_place_there) {
  const Graph g = decoding_block(2, DType::f32);
  Made m(clone(g));
  const auto execution = m.plan->execution();
  Tensor k = m.place(random_tensor({2, 2, 8, 8}, 1)), v = m.place(random_tensor({2, 2, 8, 8}, 2));
  for (int64_t length = 3; length < 8; ++length) {
    const Tensor x = random_tensor({2, 1, 16}, static_cast<unsigned>(length));
    const auto expected = ops::evaluate(g, std::vector{x, rows_of(k, length), rows_of(v, length)});
    const Cache caches[] = {{"past_k", "k_out", k, length}, {"past_v", "v_out", v, length}};
    execution->bind(std::vector{x, Tensor(), Tensor()}, {}, caches);
    m.device->copied.clear();
    execution->run();
    EXPECT_LE(m.device->copied.size(), 2u * 4) << "x there, y back, and the new parts to their places";
    expect_same(execution->outputs()[0], expected[0], 1e-5);
    expect_same(rows_of(k, length + 1), expected[1], 1e-6);
    expect_same(rows_of(v, length + 1), expected[2], 1e-6);
  }
  const Cache on_host[] = {{"past_k", "k_out", random_tensor({2, 2, 8, 8}, 1), 3}};
  EXPECT_THROW(execution->bind(std::vector{random_tensor({2, 1, 16}, 1), Tensor(), rows_of(v, 3)}, {}, on_host), Error);
}

TEST(Device, caches_keep_their_recordings_to_the_cap) {
  Made m(decoding_block(1, DType::f32));
  const auto execution = m.plan->execution();
  const Tensor x = m.place(random_tensor({1, 1, 16}, 1));
  std::vector<Tensor> kept;  // so that no address comes twice
  for (size_t i = 0; i < 3 * max_recordings; ++i) {
    for (unsigned seed : {1u, 2u}) kept.push_back(m.place(random_tensor({1, 2, 6, 8}, seed)));
    const Cache caches[] = {{"past_k", "k_out", kept[2 * i], 5}, {"past_v", "v_out", kept[2 * i + 1], 5}};
    execution->bind(std::vector{x, Tensor(), Tensor()}, {}, caches);
    execution->run();
    expect_same(kept[2 * i], kept[0]);
    const SegmentState& state = *static_cast<ExecutionImpl&>(*execution).segments()[0];
    EXPECT_LE(state.recordings.size(), max_recordings);
  }
}

class RandomDeviceGraph : public testing::TestWithParam<unsigned> {};

TEST_P(RandomDeviceGraph, gives_what_the_reference_gives) {
  const Graph g = random_graph(GetParam());
  Made m(clone(g));
  const Tensor x = random_tensor(to_shape(*g.value(g.inputs()[0]).shape), GetParam());
  Session session(m.plan);
  const auto expected = ops::evaluate(g, std::vector{x});
  for (const Tensor& input : {x, m.place(x), x}) {
    const auto found = session.run({{"x", input}});
    for (size_t i = 0; i < expected.size(); ++i) expect_same(found.at(m.plan->outputs()[i].name), expected[i], rounding);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDeviceGraph, testing::Range(0u, 120u));

/// The constant of 96 bytes is copied to the device, and stays on the host too.
TEST(DeviceRuns, memory_of_a_plan_is_told_apart_by_where_it_lies) {
  const Made m(copying_graph());
  const auto execution = m.plan->execution();
  execution->bind(std::vector{random_tensor({4, 6}, 3)});
  execution->run();
  const MemoryInfo there = execution->memory();
  EXPECT_EQ(there.weights, 96);
  EXPECT_EQ(there.on_host, 96);
  EXPECT_GE(there.arena, 96 + 192);
  const auto host = Plan::build(copying_graph(), quick())->execution();
  EXPECT_EQ(host->memory().weights, 96);
  EXPECT_EQ(host->memory().on_host, 0);
}

}  // namespace
}  // namespace smelt::run
