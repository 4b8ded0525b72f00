// Work on the caller's streams of a device that is made up.
#include "made_up_device.h"

namespace smelt::run {
namespace {

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
  EXPECT_EQ(m.device->events, (std::vector<std::string>{"record 1", "record 1", "wait 2", "record 2"}));
  m.device->events.clear();
  session.run({{"x", x}});  // on a stream of its own, and waits
  session.enqueue({{"x", x}}, &first);
  EXPECT_EQ(m.device->events, (std::vector<std::string>{"wait 0", "record 1"}));
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
  EXPECT_TRUE(m.device->events.empty()) << "what is captured runs when the caller says";
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

}  // namespace
}  // namespace smelt::run
