// Executions on a device that is made up: memory of its own that the host's kernels happen to reach, streams, and recordings.
// What is copied, recorded and repeated is the executor's doing, and seen here without a GPU.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "device/cuda/compiler.h"
#include "graphs.h"
#include "ops/machine.h"

namespace smelt::run {
namespace {

class FakeDevice;

class FakeRecording final : public Recording {
 public:
  FakeRecording(FakeDevice& device, std::function<void(void*)> enqueue);
  void issue(void* stream) override;

 private:
  FakeDevice& device_;
  std::function<void(void*)> enqueue_;
  std::vector<const void*> copied_;   // addresses, in the order of the copies
};

class FakeMarks final : public Marks {
 public:
  void mark(void*) override { ++count_; }
  std::vector<int64_t> times() override {
    std::vector<int64_t> times(static_cast<size_t>(count_));
    for (size_t i = 0; i < times.size(); ++i) times[i] = static_cast<int64_t>(i);
    return times;
  }

 private:
  int count_ = 0;
};

/// Leaves on and follows from streams, in words: "leave 1", by the streams' first bytes.
class FakeTurn final : public Turn {
 public:
  explicit FakeTurn(std::vector<std::string>& told) : told_(told) {}
  void leave(void* stream) override { told_.push_back(fmt::format("leave {}", *static_cast<int*>(stream))); }
  void follow(void* stream) override { told_.push_back(fmt::format("follow {}", *static_cast<int*>(stream))); }

 private:
  std::vector<std::string>& told_;
};

class FakeDevice final : public Backend {
 public:
  bool is_host() const override { return false; }
  int64_t block_alignment() const override { return 256; }
  int64_t caller_alignment() const override { return 16; }

  Tensor allocate(DType type, const Shape& shape, std::string_view) override {
    const int64_t bytes = smelt::bytes(type, elements(shape));
    auto* p = static_cast<char*>(std::aligned_alloc(256, static_cast<size_t>(std::max<int64_t>(bytes, 1) + 255) / 256 * 256));
    std::memset(p, 0xff, static_cast<size_t>(bytes));
    blocks_[p] = bytes;
    ++allocations;
    std::shared_ptr<void> keep(p, [this](void* block) {
      blocks_.erase(static_cast<char*>(block));
      std::free(block);
    });
    return Tensor::borrow(type, shape, p, std::move(keep));
  }
  Tensor allocate_host(DType type, const Shape& shape) override { return Tensor::empty(type, shape); }
  bool reaches(const void* address) const override { return !address || holds(address, 1); }
  const void* constant(const Tensor& t) override {
    Tensor& copy = constants_[t.raw()];
    if (!copy.valid()) {
      copy = allocate(t.type(), t.shape(), "a constant");
      std::memcpy(copy.raw(), t.raw(), static_cast<size_t>(t.nbytes()));
    }
    return copy.raw();
  }
  int64_t constant_bytes() const override {
    int64_t sum = 0;
    for (const auto& [key, t] : constants_) sum += t.nbytes();
    return sum;
  }

  std::shared_ptr<void> stream() override { return std::make_shared<int>(0); }
  void copy(void* to, const void* from, int64_t bytes, void* stream) override {
    copy_rows(to, bytes, from, bytes, bytes, 1, stream);
  }
  void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t width, int64_t rows,
                 void* stream) override {
    EXPECT_NE(stream, nullptr);
    copied.push_back(from);
    copied.push_back(to);
    if (recording) return;
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(static_cast<char*>(to) + r * to_step, static_cast<const char*>(from) + r * from_step,
                  static_cast<size_t>(width));
  }
  void wait(void*) override {}
  void wait_for_all() override { ++waits_for_all; }
  Tensor allocate_on(DType type, const Shape& shape, std::string_view what, void* stream) override {
    Tensor t = allocate(type, shape, what);
    first_used[t.raw()] = stream;
    return t;
  }
  void share(void* stream, const void* address) override { shared.emplace_back(stream, address); }
  std::unique_ptr<Turn> turn() override { return std::make_unique<FakeTurn>(turns); }
  bool is_capturing(void* stream) const override { return stream == capturing; }

  std::unique_ptr<Recording> record(const std::function<void(void*)>& enqueue) override {
    ++recordings;
    return std::make_unique<FakeRecording>(*this, enqueue);
  }
  size_t recorded_so_far(void*) const override { return copied.size() / 2; }
  std::unique_ptr<Trace> trace() override { return nullptr; }
  std::unique_ptr<Marks> marks() override { return std::make_unique<FakeMarks>(); }

  bool holds(const void* address, int64_t bytes) const {
    auto at = blocks_.upper_bound(static_cast<const char*>(address));
    if (at == blocks_.begin()) return false;
    --at;
    return static_cast<const char*>(address) + bytes <= at->first + at->second;
  }

  int recordings = 0, issues = 0, allocations = 0, waits_for_all = 0;
  bool recording = false;
  std::vector<const void*> copied;
  std::map<const void*, void*> first_used;
  std::vector<std::pair<void*, const void*>> shared;
  std::vector<std::string> turns;
  void* capturing = nullptr;

 private:
  std::map<const char*, int64_t> blocks_;
  std::map<const void*, Tensor> constants_;
};

// The kernels are the processor's, which run whenever they are called: a recording calls them again, and holds its copies against
// those that were recorded.
FakeRecording::FakeRecording(FakeDevice& device, std::function<void(void*)> enqueue)
    : device_(device), enqueue_(std::move(enqueue)) {
  const auto before = device_.copied.size();
  device_.recording = true;
  enqueue_(&device_);
  device_.recording = false;
  copied_.assign(device_.copied.begin() + static_cast<std::ptrdiff_t>(before), device_.copied.end());
}

void FakeRecording::issue(void* stream) {
  ++device_.issues;
  const auto before = device_.copied.size();
  enqueue_(stream);
  EXPECT_TRUE(std::equal(copied_.begin(), copied_.end(), device_.copied.begin() + static_cast<std::ptrdiff_t>(before)))
      << "a recording of other addresses was issued";
}

struct Made {
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::shared_ptr<PlanImpl> plan;

  explicit Made(Graph g, const Options& options = quick()) {
    const ops::Machine machine = ops::this_machine(options.threads);
    plan = std::make_shared<PlanImpl>(std::move(g), std::shared_ptr<PlanImpl::Shared>(new PlanImpl::Shared{
                                                        {machine, 0, {}, tune::Cache::in_memory()}, {}, options, device}));
    plan->prepare();
  }

  Tensor place(const Tensor& t) const { return plan->place(t); }
};

/// y = concat(x + c, x · c) in two places that are copied: neither input of the concatenation is contiguous in it.
Graph copying_graph() {
  Builder b;
  const ValueId x = b.input("x", to_sym({4, 6}));
  const ValueId c = b.constant("c", random_tensor({4, 6}, 9));
  const ValueId sum = b.node("sum", "Add", {x, c}, to_sym({4, 6}));
  const ValueId product = b.node("product", "Mul", {x, c}, to_sym({4, 6}));
  b.output(b.node("y", "Concat", {sum, product}, to_sym({4, 12}), DType::f32, {{"axis", int64_t{1}}}));
  b.output(sum);
  return std::move(b.g);
}

/// The elements of x above 0, doubled.
Graph selecting_graph() {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId positive = b.node("positive", "Greater", {x, b.scalar(0)}, {Dim("n")}, DType::boolean);
  const ValueId where = b.node("where", "NonZero", {positive}, {Dim(1), Dim("k")}, DType::i64);
  const ValueId index =
      b.node("index", "Transpose", {where}, {Dim("k"), Dim(1)}, DType::i64, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId picked = b.node("picked", "GatherND", {x, index}, {Dim("k")});
  b.output(b.node("doubled", "Add", {picked, picked}, {Dim("k")}));
  return std::move(b.g);
}

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
  EXPECT_EQ(m.device->issues, 5);
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
  std::vector<Tensor> kept;   // so that no address comes twice
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

/// Places of x above 0 and, of the rows of x whose first element is, those rows; the first alone is read on.
Graph finding_graph() {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim(3)});
  const ValueId positive = b.node("positive", "Greater", {x, b.scalar(0)}, {Dim("n"), Dim(3)}, DType::boolean);
  const ValueId where = b.node("where", "NonZero", {positive}, {Dim(2), Dim("k")}, DType::i64);
  const ValueId first =
      b.node("first", "Slice", {positive, b.ints({0}), b.ints({1}), b.ints({1})}, {Dim("n"), Dim(1)}, DType::boolean);
  const ValueId flat = b.node("flat", "Reshape", {first, b.ints({-1})}, {Dim("n")}, DType::boolean);
  const ValueId rows = b.node("rows", "Compress", {x, flat}, {Dim("m"), Dim(3)}, DType::f32, {{"axis", int64_t{0}}});
  const ValueId sums = b.node("sums", "Add", {rows, rows}, {Dim("m"), Dim(3)});
  const ValueId again = b.node("again", "NonZero", {sums}, {Dim(2), Dim("l")}, DType::i64);
  b.output(where);
  b.output(sums);
  b.output(b.node("turned", "Transpose", {again}, {Dim("l"), Dim(2)}, DType::i64, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

TEST(Device, what_kernels_find_is_counted_there_and_stays_there) {
  const Graph g = finding_graph();
  Made m(clone(g));
  Session session(m.plan);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Tensor x = random_tensor({static_cast<int64_t>(seed % 4) * 5, 3}, seed);
    const auto expected = ops::evaluate(g, std::vector{x});
    for (const Tensor& input : {m.place(x), x}) {
      m.device->copied.clear();
      const auto found = session.run({{"x", input}});
      for (size_t i = 0; i < expected.size(); ++i) expect_same(found.at(m.plan->outputs()[i].name), expected[i]);
      // The counts, and nothing else, came to the host.
      if (expected[1].nbytes() == 0 || input.raw() == x.raw()) continue;
      int to_host = 0;
      for (size_t i = 1; i < m.device->copied.size(); i += 2) to_host += !m.device->holds(m.device->copied[i], 1);
      EXPECT_LE(to_host, 2) << "one copy a segment";
      for (const auto& [name, t] : found) EXPECT_TRUE(t.nbytes() == 0 || m.device->holds(t.raw(), t.nbytes())) << name;
    }
  }
}

TEST(Device, a_kernel_that_finds_lies_in_the_recording) {
  const Graph g = finding_graph();
  Made m(clone(g));
  const auto execution = m.plan->execution();
  const Tensor x = m.place(random_tensor({10, 3}, 1));
  execution->bind(std::vector{x});
  for (int i = 0; i < 3; ++i) {
    execution->run();
    for (const StepInfo& s : execution->steps()) EXPECT_FALSE(s.on_host) << s.name;
  }
  EXPECT_EQ(m.device->recordings, 1);
  EXPECT_EQ(m.device->issues, 3);
  expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{x})[0]);
}

TEST(Device, memory_given_for_what_is_found_must_have_its_size) {
  const Graph g = finding_graph();
  Made m(clone(g));
  const Tensor x = m.place(random_tensor({10, 3}, 1));
  const auto expected = ops::evaluate(g, std::vector{x});
  const auto execution = m.plan->execution();
  const Tensor fits = m.device->allocate(DType::i64, expected[0].shape(), "");
  execution->bind(std::vector{x}, std::vector{fits, Tensor(), Tensor()});
  execution->run();
  expect_same(fits, expected[0]);
  const Tensor most = m.device->allocate(DType::i64, {2, 30}, "");
  execution->bind(std::vector{x}, std::vector{most, Tensor(), Tensor()});
  EXPECT_THROW(execution->run(), Error);
}

TEST(Device, sizes_that_no_kernel_finds_go_by_the_host) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim(1)});
  const ValueId signs = b.node("signs", "Sign", {x}, {Dim("n"), Dim(1)});
  const ValueId once = b.node("once", "Unique", {signs}, {Dim("k"), Dim(1)}, DType::f32, {{"axis", int64_t{0}}});
  b.output(b.node("doubled", "Add", {once, once}, {Dim("k"), Dim(1)}));
  const Graph g = std::move(b.g);
  Made m(clone(g));
  Session session(m.plan);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Tensor x = random_tensor({static_cast<int64_t>(seed % 5) * 3, 1}, seed);
    expect_same(session.run({{"x", x}}).at("doubled_out"), ops::evaluate(g, std::vector{x})[0]);
    const Tensor placed = m.place(x);
    const Tensor found = session.run({{"x", placed}}).at("doubled_out");
    EXPECT_TRUE(found.nbytes() == 0 || m.device->holds(found.raw(), found.nbytes()));
    expect_same(found, ops::evaluate(g, std::vector{x})[0]);
  }
}

TEST(Device, work_is_put_on_the_callers_stream_only_where_nothing_has_to_wait) {
  const Graph g = copying_graph();
  Made m(clone(g));
  const auto execution = m.plan->execution();
  int stream = 0;
  EXPECT_THROW(execution->enqueue(&stream), Error) << "nothing is bound";
  const Tensor values = random_tensor({4, 6}, 3);
  execution->bind(std::vector{values});
  EXPECT_THROW(execution->enqueue(&stream), Error) << "the input is the host's";
  const Tensor x = m.place(values);
  execution->bind(std::vector{x});
  execution->enqueue(&stream);
  expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{x})[0]);

  Made selecting(selecting_graph());
  const auto waits = selecting.plan->execution();
  waits->bind(std::vector{selecting.place(random_tensor({6}, 1))});
  EXPECT_THROW(waits->enqueue(&stream), Error) << "a size depends on data";
  EXPECT_THROW(Plan::build(copying_graph(), quick())->execution()->enqueue(&stream), Error) << "the processor has no streams";
}

TEST(Device, a_session_puts_runs_of_fresh_tensors_on_the_callers_stream) {
  const Graph g = copying_graph();
  Made m(clone(g));
  Session session(m.plan);
  int stream = 1;
  const Tensor x = m.place(random_tensor({4, 6}, 3));
  const auto found = session.enqueue({{"x", x}}, &stream);
  const auto expected = ops::evaluate(g, std::vector{x});
  expect_same(found.at("y_out"), expected[0]);
  for (const auto& [name, t] : found) {
    ASSERT_TRUE(m.device->first_used.contains(t.raw())) << name;
    EXPECT_EQ(m.device->first_used.at(t.raw()), &stream) << name;
  }
  EXPECT_EQ(m.device->shared, (std::vector<std::pair<void*, const void*>>{{&stream, x.raw()}}));
  EXPECT_EQ(session.enqueue({{"x", x}}, &stream, {"y_out"}).size(), 1u);
  EXPECT_THROW(session.enqueue({{"x", x}}, &stream, {"z"}), Error);
}

TEST(Device, an_input_of_the_hosts_is_copied_on_the_callers_stream) {
  const Graph g = copying_graph();
  Made m(clone(g));
  Session session(m.plan);
  int stream = 1;
  const Tensor x = random_tensor({4, 6}, 3);
  const Tensor found = session.enqueue({{"x", x}}, &stream).at("y_out");
  EXPECT_TRUE(m.device->holds(found.raw(), found.nbytes()));
  expect_same(found, ops::evaluate(g, std::vector{x})[0]);
}

TEST(Device, an_execution_that_changes_streams_waits_for_the_one_before) {
  Made m(copying_graph());
  Session session(m.plan);
  int first = 1, second = 2;
  const Tensor x = m.place(random_tensor({4, 6}, 3));
  for (int* stream : {&first, &first, &second}) session.enqueue({{"x", x}}, stream);
  EXPECT_EQ(m.device->turns, (std::vector<std::string>{"leave 1", "leave 1", "follow 2", "leave 2"}));
  m.device->turns.clear();
  session.run({{"x", x}});           // on a stream of its own, and waits
  session.enqueue({{"x", x}}, &first);
  EXPECT_EQ(m.device->turns, (std::vector<std::string>{"follow 0", "leave 1"}));
}

TEST(Device, a_session_waits_on_the_callers_stream_where_a_run_has_to) {
  const Graph g = selecting_graph();
  Made m(clone(g));
  Session session(m.plan);
  int stream = 1;
  const Tensor x = random_tensor({6}, 1);
  const Tensor found = session.enqueue({{"x", m.place(x)}}, &stream).at("doubled_out");
  expect_same(found, ops::evaluate(g, std::vector{x})[0]);
}

TEST(Device, nothing_is_allocated_while_a_stream_is_captured) {
  Made m(copying_graph());
  Session session(m.plan);
  int stream = 1;
  m.device->capturing = &stream;
  const Tensor x = m.place(random_tensor({4, 6}, 3));
  EXPECT_THROW(session.enqueue({{"x", x}}, &stream), Error);
  const auto execution = m.plan->execution();
  execution->bind(std::vector{x});
  execution->enqueue(&stream);
  EXPECT_TRUE(m.device->turns.empty()) << "what is captured runs when the caller says";
  Session on_host(Plan::build(copying_graph(), quick()));
  EXPECT_THROW(on_host.enqueue({{"x", random_tensor({4, 6}, 3)}}, &stream), Error) << "the processor has no streams";
}

TEST(Device, memory_that_enqueued_work_uses_goes_after_that_work) {
  Made m(copying_graph());
  auto execution = m.plan->execution();
  execution->bind(std::vector{m.place(random_tensor({4, 6}, 3))});
  int stream = 0;
  execution->enqueue(&stream);
  EXPECT_EQ(m.device->waits_for_all, 0);
  execution.reset();
  EXPECT_EQ(m.device->waits_for_all, 1);
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
  std::vector<Tensor> kept;   // so that no address comes twice
  for (size_t i = 0; i < 3 * max_recordings; ++i) {
    for (unsigned seed : {1u, 2u}) kept.push_back(m.place(random_tensor({1, 2, 6, 8}, seed)));
    const Cache caches[] = {{"past_k", "k_out", kept[2 * i], 5}, {"past_v", "v_out", kept[2 * i + 1], 5}};
    execution->bind(std::vector{x, Tensor(), Tensor()}, {}, caches);
    execution->run();
    expect_same(kept[2 * i], kept[0]);
    const auto& planned = *static_cast<ExecutionImpl&>(*execution).segments()[0];
    EXPECT_LE(planned.recorded.size(), max_recordings);
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

TEST(Device, a_plan_for_a_gpu_that_is_not_here_is_made_but_not_run) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  Builder b;
  const ValueId x = b.input("x", to_sym({4, 6}));
  b.output(b.node("y", "Sigmoid", {x}, to_sym({4, 6})));
  Options o = quick();
  o.arch = "sm_87";
  const auto plan = Plan::build(std::move(b.g), o);
  const auto execution = plan->execution();
  try {
    execution->bind(std::vector{random_tensor({4, 6}, 1)});
    FAIL() << "it was bound";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("sm_87"), std::string::npos) << e.what();
  }
  o.arch = "sm_12";
  EXPECT_THROW(Plan::build(copying_graph(), o), Error);
}

TEST(Device, names_of_devices_are_checked) {
  Options o = quick();
  for (const char* device : {"gpu0", "-1", "", "cuda:x", "1x"}) {
    o.device = device;
    EXPECT_THROW(Plan::build(copying_graph(), o), Error) << device;
  }
}

}  // namespace
}  // namespace smelt::run
