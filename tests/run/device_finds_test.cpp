// Sizes that depend on data, on a device that is made up.
#include "made_up_device.h"

namespace smelt::run {
namespace {

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
  EXPECT_EQ(m.device->launches, 3);
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

}  // namespace
}  // namespace smelt::run
