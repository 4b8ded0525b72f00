// run allocates nothing: every allocation in this program goes through the functions below, which count while asked to.
//
// oneDNN's execute puts its arguments into a hash map of its own (oneDNN 3.2: 9 allocations of at most a few dozen bytes a
// primitive), which no caller can avoid. What the library itself asks for is told apart by the caller's address and held to be
// small: a scratchpad of its own would not be. AddressSanitizer has an allocator of its own in their place: nothing is counted then.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "import/import.h"
#include "run/execution.h"
#include "support/child.h"
#include "support/graphs.h"
#include "support/paths.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0, bytes_in_onednn = 0, largest_in_onednn = 0;

bool is_onednn(void* caller) {
  Dl_info info;
  return dladdr(caller, &info) && info.dli_fname && std::strstr(info.dli_fname, "libdnnl");
}

void count(void* caller, size_t bytes) {
  if (!counting.load(std::memory_order_relaxed)) return;
  if (!is_onednn(caller)) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  bytes_in_onednn += static_cast<int64_t>(bytes);
  if (static_cast<int64_t>(bytes) > largest_in_onednn) largest_in_onednn = static_cast<int64_t>(bytes);
}

}  // namespace

#ifndef SMELT_ADDRESS_SANITIZER

#define CALLER __builtin_return_address(0)

// glibc's own names for what these replace.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) { return count(CALLER, n), __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return count(CALLER, n * m), __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return count(CALLER, n), __libc_realloc(p, n); }
void* aligned_alloc(size_t a, size_t n) { return count(CALLER, n), __libc_memalign(a, n); }
void* memalign(size_t a, size_t n) { return count(CALLER, n), __libc_memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) {
  count(CALLER, n);
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;  // ENOMEM
}
}

// libstdc++'s would call malloc, and be taken for the caller.
void* operator new(size_t n) { return count(CALLER, n), __libc_malloc(n); }
void* operator new[](size_t n) { return count(CALLER, n), __libc_malloc(n); }
void* operator new(size_t n, std::align_val_t a) { return count(CALLER, n), __libc_memalign(static_cast<size_t>(a), n); }
void* operator new[](size_t n, std::align_val_t a) { return count(CALLER, n), __libc_memalign(static_cast<size_t>(a), n); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }

#endif

namespace smelt::run {

using namespace test;

namespace {

class Allocation : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef SMELT_ADDRESS_SANITIZER
    GTEST_SKIP() << "AddressSanitizer's allocator is not counted";
#endif
  }
};

/// Of the run that allocates least: a thread of the pool that got no core yet sets itself up in the run in which it takes its first
/// piece. What allocates in every run is found.
int64_t allocations_of(Execution& execution) {
  execution.run();  // starts the thread pool, and lets views of the arena be made
  for (int run = 0; run < 10; ++run) {
    allocations = bytes_in_onednn = largest_in_onednn = 0;
    counting = true;
    execution.run();
    counting = false;
    if (allocations == 0) break;
  }
  return allocations;
}

/// "3 by onednn (conv:f32…)", a line for each problem whose kernel allocates: for the message of a test that fails.
std::string which_steps(ExecutionImpl& execution) {
  std::map<std::string, int64_t> by_problem;
  for (const SegmentState* p : execution.segments()) {
    for (size_t i = 0; i < p->segment.steps.size(); ++i) {
      const plan::Step& step = p->segment.steps[i];
      const StepArguments& a = p->arguments[i];
      if (step.kind != plan::StepKind::kernel) continue;
      allocations = 0;
      counting = true;
      step.kernel->run({a.inputs, a.outputs, a.workspace});
      counting = false;
      if (allocations > 0) by_problem[step.tactic + " " + step.config + " (" + step.problem + ")"] += allocations;
    }
  }
  std::string text;
  for (const auto& [problem, n] : by_problem) text += std::to_string(n) + " by " + problem + "\n";
  return text;
}

TEST_F(Allocation, the_counter_counts) {
  allocations = 0;
  counting = true;
  auto* p = new std::vector<int>(1000);
  counting = false;
  delete p;
  EXPECT_EQ(allocations, 2);
}

TEST_F(Allocation, the_counter_counts_malloc_too) {
  allocations = 0;
  counting = true;
  void* volatile p = std::malloc(1000);
  counting = false;
  std::free(p);
  EXPECT_EQ(allocations, 1);
}

TEST_F(Allocation, a_run_of_views_copies_and_concatenations_allocates_nothing) {
  Builder b;
  const ValueId x = b.input("x", to_sym({2, 8, 16}));
  const ValueId c =
      b.node("c", "Concat", {x, b.weights("w", {2, 8, 16})}, to_sym({2, 16, 16}), DType::f32, {{"axis", int64_t{1}}});
  const ValueId r = b.node("r", "Reshape", {c, b.ints({32, 16})}, to_sym({32, 16}));
  b.output(r);
  b.output(b.node("i", "Identity", {c}, to_sym({2, 16, 16})));
  const auto execution = Plan::build(std::move(b.g), quick())->execution();
  execution->bind(std::vector{random_tensor({2, 8, 16}, 1)});
  EXPECT_EQ(execution->steps().size(), 2u);
  EXPECT_EQ(allocations_of(*execution), 0);
}

/// A convolution with its activation, pooling, and a product.
TEST_F(Allocation, a_run_of_convolutions_pooling_and_products_allocates_nothing) {
  for (const bool optimize : {false, true}) {
    Builder b;
    const ValueId x = b.input("x", to_sym({1, 8, 16, 16}));
    const ValueId conv =
        b.node("conv", "Conv", {x, b.weights("w", {8, 8, 3, 3}), b.weights("bias", {8})}, to_sym({1, 8, 16, 16}), DType::f32,
               {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"kernel_shape", std::vector<int64_t>{3, 3}}});
    const ValueId relu = b.node("relu", "Relu", {conv}, to_sym({1, 8, 16, 16}));
    const ValueId pool = b.node("pool", "MaxPool", {relu}, to_sym({1, 8, 8, 8}), DType::f32,
                                {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
    const ValueId flat = b.node("flat", "Flatten", {pool}, to_sym({1, 512}));
    b.output(b.node("y", "Gemm", {flat, b.weights("g", {512, 10}), b.weights("gb", {10})}, to_sym({1, 10})));
    Options options = quick();
    options.optimize = optimize;
    const auto execution = Plan::build(std::move(b.g), options)->execution();
    execution->bind(std::vector{random_tensor({1, 8, 16, 16}, 1)});
    EXPECT_EQ(allocations_of(*execution), 0) << (optimize ? "optimised" : "unfused");
  }
}

/// if (sum(x) > 0) -x else |x|, then doubled.
Graph if_graph() {
  const auto branch = [](const std::string& op) {
    Builder body;
    body.output(body.node(op + "_in", op, {body.input("bx", {4})}, {4}));
    return std::make_shared<Graph>(std::move(body.g));
  };
  Builder b;
  const ValueId x = b.input("x", {4});
  const ValueId sum = b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  const ValueId cond = b.node("cond", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
  const ValueId y = b.node("if", "If", {cond, x}, {4}, DType::f32,
                           {{"then_branch", branch("Neg")}, {"else_branch", branch("Abs")}, {"captured", int64_t{1}}});
  b.output(b.node("y", "Add", {y, y}, {4}));
  return std::move(b.g);
}

// A Loop itself does, and so does a body with large tensors, which is bound anew.
TEST_F(Allocation, turns_of_a_small_body_allocate_nothing) {
  Builder b;
  const ValueId trips = b.input("trips", SymShape{}, DType::i64), x = b.input("x", {4});
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean), state = body.input("state", {4});
  body.output(body.node("again", "Identity", {keep}, SymShape{}, DType::boolean));
  body.output(body.node("half", "Mul", {body.node("t", "Tanh", {state}, {4}), body.scalar(0.5)}, {4}));
  const ValueId go = b.g.add_constant("go", Tensor::scalar(true));
  b.output(b.node("loop", "Loop", {trips, go, x}, {4}, DType::f32,
                  {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}}));
  const auto execution = Plan::build(std::move(b.g), quick())->execution();
  const auto of_turns = [&](int64_t n) {
    execution->bind(std::vector{Tensor::scalar(n), random_tensor({4}, 1)});
    return allocations_of(*execution);
  };
  EXPECT_EQ(of_turns(8), of_turns(200));
}

TEST_F(Allocation, a_run_of_an_if_allocates_nothing_on_either_branch) {
  const auto execution = Plan::build(if_graph(), quick())->execution();
  Tensor x = Tensor::zeros(DType::f32, {4});
  execution->bind(std::vector{x});
  for (const float sign : {1.0f, -1.0f, 1.0f}) {
    *x.data<float>() = sign;
    EXPECT_EQ(allocations_of(*execution), 0);
    EXPECT_EQ(*execution->outputs()[0].data<float>(), sign > 0 ? -2 : 2);
  }
}

/// What one call that binds, runs and returns fresh outputs allocates, once the plan is there.
int64_t allocations_of_a_call(Graph g, const std::vector<Tensor>& inputs) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(Plan::build(std::move(g), quick())));
  for (int i = 0; i < 3; ++i) {
    allocations = 0;
    counting = true;
    const std::vector<Tensor> outputs = execution.run_fresh(inputs);
    counting = false;
  }
  return allocations;
}

Graph chain(int nodes) {
  Builder b;
  ValueId x = b.input("x", {4});
  for (int i = 0; i < nodes; ++i) x = b.node("n", i % 2 ? "Abs" : "Neg", {x}, {4});
  b.output(x);
  return std::move(b.g);
}

TEST_F(Allocation, a_call_allocates_as_much_for_a_hundred_steps_as_for_ten) {
  const std::vector<Tensor> x{random_tensor({4}, 1)};
  const int64_t few = allocations_of_a_call(chain(10), x);
  EXPECT_EQ(allocations_of_a_call(chain(100), x), few);
  EXPECT_LE(few, 8);  // the list of outputs, and of the one output its shape, its memory and who keeps it
}

/// A Loop of a constant number of iterations over a body of so many nodes.
Graph loop_graph(int64_t trips, int nodes) {
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean);
  ValueId x = body.input("carried", {4});
  for (int i = 0; i < nodes; ++i) x = body.node("n", i % 2 ? "Abs" : "Neg", {x}, {4});
  body.output(keep);
  body.output(x);
  Builder b;
  const ValueId count = b.constant("trips", Tensor::scalar(trips)), go = b.constant("go", Tensor::scalar(true));
  b.output(b.node("loop", "Loop", {count, go, b.input("x", {4})}, {4}, DType::f32,
                  {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}}));
  return std::move(b.g);
}

TEST_F(Allocation, an_iteration_allocates_as_much_for_a_hundred_steps_as_for_ten) {
  const std::vector<Tensor> x{random_tensor({4}, 1)};
  const int64_t few = allocations_of_a_call(loop_graph(20, 10), x) - allocations_of_a_call(loop_graph(10, 10), x);
  const int64_t many = allocations_of_a_call(loop_graph(20, 100), x) - allocations_of_a_call(loop_graph(10, 100), x);
  EXPECT_EQ(many, few);
  EXPECT_LE(few, 10 * 24);
}

/// Real graphs, their weights left out: memory that reads as zeros serves, since only allocations are looked at.
class RealGraph : public Allocation, public ::testing::WithParamInterface<std::tuple<const char*, Shape, bool>> {};

TEST_P(RealGraph, runs_without_allocating) {
  const auto& [name, shape, optimize] = GetParam();
  ImportOptions wanted;
  wanted.structure_only = true;
  wanted.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  Graph g = import_model(source_dir() / "examples/models" / (std::string(name) + ".onnx"), wanted);
  Options options = quick();
  options.optimize = optimize;
  const auto plan = Plan::build(std::move(g), options);
  std::vector<Tensor> inputs;
  for (const TensorInfo& i : plan->inputs()) inputs.push_back(Tensor::zeros(i.type, shape));
  const auto execution = plan->execution();
  execution->bind(inputs);
  EXPECT_EQ(allocations_of(*execution), 0) << which_steps(static_cast<ExecutionImpl&>(*execution));
  constexpr int64_t argument_map = 512;  // of 4 to 8 arguments; the smallest scratchpad of a convolution here is 20 KB
  EXPECT_LE(largest_in_onednn, argument_map);
}

INSTANTIATE_TEST_SUITE_P(Allocation, RealGraph,
                         ::testing::Values(std::tuple{"mobilenet_v3_large.fp32", Shape{1, 3, 224, 224}, true},
                                           std::tuple{"mobilenet_v3_large.fp32", Shape{1, 3, 224, 224}, false},
                                           std::tuple{"resnet50.fp32", Shape{1, 3, 224, 224}, true},
                                           std::tuple{"resnet50.fp16", Shape{1, 3, 224, 224}, true},
                                           std::tuple{"unet.fp32", Shape{1, 3, 256, 256}, true},
                                           std::tuple{"detector.fp16", Shape{1, 3, 640, 640}, true},
                                           std::tuple{"vit_b_16.fp32", Shape{1, 3, 224, 224}, true},
                                           std::tuple{"bert_base.dyn.fp16", Shape{1, 16}, true},
                                           std::tuple{"llama_gpt.dyn.bf16", Shape{1, 8}, true}));

}  // namespace
}  // namespace smelt::run
