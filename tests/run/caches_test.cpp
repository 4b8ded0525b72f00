// Caches of keys and values that grow in one buffer, and what is no such cache.
#include "base/error.h"
#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// Decodes `steps` tokens from a cache of `length`, in place, against the reference on dense tensors.
void decode(int64_t images, int64_t length, int64_t steps, const Options& options) {
  const Graph g = decoding_block(images, DType::f32);
  const auto plan = Plan::build(clone(g), options);
  const auto execution = plan->execution();
  const int64_t capacity = length + steps;
  Tensor k = random_tensor({images, 2, capacity, 8}, 1), v = random_tensor({images, 2, capacity, 8}, 2);
  for (int64_t i = 0; i < steps; ++i, ++length) {
    const Tensor x = random_tensor({images, 1, 16}, static_cast<unsigned>(10 + i)), all_k = k.clone(), all_v = v.clone();
    const auto expected = ops::evaluate(g, std::vector{x, rows_of(k, length), rows_of(v, length)});
    const Cache caches[] = {{"past_k", "k_out", k, length}, {"past_v", "v_out", v, length}};
    execution->bind(std::vector{x, Tensor(), Tensor()}, {}, caches);
    execution->run();
    ASSERT_EQ(execution->outputs().size(), 3u);
    expect_same(execution->outputs()[0], expected[0], 1e-5);
    EXPECT_EQ(execution->outputs()[1].raw(), k.raw());
    expect_same(rows_of(k, length + 1), expected[1], 1e-6);
    expect_same(rows_of(v, length + 1), expected[2], 1e-6);
    for (int64_t h = 0; h < 2 * images; ++h)  // what is behind is as it was
      for (int64_t e = (length + 1) * 8; e < capacity * 8; ++e) {
        ASSERT_EQ(k.data<float>()[h * capacity * 8 + e], all_k.data<float>()[h * capacity * 8 + e]);
        ASSERT_EQ(v.data<float>()[h * capacity * 8 + e], all_v.data<float>()[h * capacity * 8 + e]);
      }
  }
}

TEST(Caches, grow_in_place) {
  for (const int64_t images : {1, 3})
    for (const Options& o : {quick(), unfused()}) decode(images, 5, 4, o);
}

TEST(Caches, may_begin_empty) { decode(2, 0, 3, quick()); }

TEST(Caches, only_the_new_part_is_written_and_nothing_is_copied_to_be_read) {
  const auto execution = Plan::build(decoding_block(3, DType::f32), quick())->execution();
  const Tensor k = random_tensor({3, 2, 9, 8}, 1), v = random_tensor({3, 2, 9, 8}, 2);
  const Cache caches[] = {{"past_k", "k_out", k, 4}, {"past_v", "v_out", v, 4}};
  execution->bind(std::vector{random_tensor({3, 1, 16}, 3), Tensor(), Tensor()}, {}, caches);
  int concats = 0;
  for (const plan::Step& step : static_cast<ExecutionImpl&>(*execution).segments()[0]->segment.steps) {
    EXPECT_FALSE(step.node && step.node->op == "Reorder");
    if (step.kind != plan::StepKind::concat) continue;
    ++concats;
    ASSERT_EQ(step.concat->parts.size(), 1u);
    EXPECT_EQ(step.concat->parts[0].input, 1u);
  }
  EXPECT_LE(concats, 2);
}

TEST(Caches, a_new_length_keeps_the_kernels_that_it_does_not_change) {
  const auto execution = Plan::build(decoding_block(3, DType::f32), quick())->execution();
  const Tensor k = random_tensor({3, 2, 9, 8}, 1), v = random_tensor({3, 2, 9, 8}, 2);
  const auto kernels_at = [&](int64_t length) {
    const Cache caches[] = {{"past_k", "k_out", k, length}, {"past_v", "v_out", v, length}};
    execution->bind(std::vector{random_tensor({3, 1, 16}, 3), Tensor(), Tensor()}, {}, caches);
    std::map<std::string, std::shared_ptr<ops::Kernel>> kernels;
    for (const plan::Step& step : static_cast<ExecutionImpl&>(*execution).segments()[0]->segment.steps)
      if (step.kernel) kernels.emplace(step.node->name, step.kernel);
    return kernels;
  };
  const auto four = kernels_at(4), five = kernels_at(5);
  ASSERT_EQ(four.size(), five.size());
  for (const char* product : {"q_product", "k_product", "v_product"}) EXPECT_EQ(four.at(product), five.at(product)) << product;
  EXPECT_NE(four.at("attention"), five.at("attention"));
}

TEST(Caches, one_plan_serves_pasts_apart_and_in_place) {
  const Graph g = decoding_block(2, DType::f32);
  Session session(Plan::build(clone(g), quick()));
  const Tensor x = random_tensor({2, 1, 16}, 1), k = random_tensor({2, 2, 6, 8}, 2), v = random_tensor({2, 2, 6, 8}, 3);
  const auto expected = ops::evaluate(g, std::vector{x, rows_of(k, 4), rows_of(v, 4)});
  const auto apart = session.run({{"x", x}, {"past_k", rows_of(k, 4)}, {"past_v", rows_of(v, 4)}});
  expect_same(apart.at("k_out"), expected[1], 1e-6);
  const Cache keys{"past_k", "k_out", k, 4};
  const auto found = session.run({{"x", x}, {"past_v", rows_of(v, 4)}}, {}, std::span(&keys, 1));
  EXPECT_EQ(found.at("k_out").raw(), k.raw());
  EXPECT_EQ(found.at("k_out").shape(), (Shape{2, 2, 6, 8}));
  expect_same(rows_of(k, 5), expected[1], 1e-6);
  expect_same(found.at("v_out"), expected[2], 1e-6);
  expect_same(found.at("y_out"), expected[0], 1e-5);
}

TEST(Caches, what_cannot_grow_in_place_is_refused) {
  const auto plan = Plan::build(decoding_block(2, DType::f32), quick());
  const auto execution = plan->execution();
  const Tensor x = random_tensor({2, 1, 16}, 1), k = random_tensor({2, 2, 6, 8}, 2), v = random_tensor({2, 2, 4, 8}, 3);
  const auto refuses = [&](const std::vector<Cache>& caches, const std::string& why, std::vector<Tensor> outputs = {}) {
    try {
      execution->bind(std::vector{x, Tensor(), v}, outputs, caches);
      ADD_FAILURE() << "bound, expected: " << why;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  refuses({{"past_q", "k_out", k, 4}}, "input 'past_q'");
  refuses({{"past_k", "keys", k, 4}}, "output 'keys'");
  refuses({{"past_k", "k_out", k, 4}, {"past_k", "k_out", k, 4}}, "two caches");
  refuses({{"past_k", "v_out", k, 4}}, "is not made by a Concat that begins with input 'past_k'");
  refuses({{"past_k", "y_out", k, 4}}, "has shape");
  refuses({{"past_k", "k_out", random_tensor({2, 2, 6, 8}, 1).cast(DType::f16), 4}}, "type");
  refuses({{"past_k", "k_out", k, 7}}, "length 7");
  refuses({{"past_k", "k_out", k, -1}}, "length -1");
  refuses({{"past_k", "k_out", random_tensor({2, 2, 4, 8}, 1), 4}}, "too small for [2, 2, 5, 8]");
  const Tensor over = Tensor::borrow(DType::f32, {2, 2, 5, 8}, const_cast<void*>(k.raw()));
  refuses({{"past_k", "k_out", k, 4}}, "overlaps that of 'v_out'", {Tensor(), Tensor(), over});
  execution->bind(std::vector{x, Tensor(), v}, {}, std::vector<Cache>{{"past_k", "k_out", k, 4}});  // and this is one
  execution->run();
  Session session(plan);
  const std::vector<Cache> both{{"past_k", "k_out", k, 4}};
  EXPECT_THROW(session.run({{"x", x}, {"past_k", v}, {"past_v", v}}, {}, both), Error) << "a feed, and a cache";
}

}  // namespace
}  // namespace smelt::run
