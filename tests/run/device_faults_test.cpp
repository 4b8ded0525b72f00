// What fails on a device that is made up; tests/faults has the driver's own errors.
#include <gmock/gmock.h>

#include "made_up_device.h"
#include "support/errors.h"

namespace smelt::run {
namespace {

using testing::HasSubstr;

TEST(DeviceFault, a_lost_device_is_asked_for_nothing) {
  Made m(copying_graph());
  Session session(m.plan), other(m.plan);
  const Tensor x = m.place(random_tensor({4, 6}, 1));
  const auto bound = m.plan->execution();
  bound->bind(std::vector{x});
  session.run({{"x", x}});
  m.device->lost = "a kernel's illegal address";
  const int launches = m.device->launches, allocations = m.device->allocations;
  const size_t copies = m.device->copied.size();
  int stream = 1;
  std::vector<StepTime> times;
  EXPECT_THAT(error_of([&] { session.run({{"x", x}}); }), HasSubstr("lost since a kernel's illegal address"));
  EXPECT_THAT(error_of([&] { session.enqueue({{"x", x}}, &stream); }), HasSubstr("lost since"));
  EXPECT_THAT(error_of([&] { other.run({{"x", random_tensor({4, 6}, 1)}}); }), HasSubstr("lost since"));
  EXPECT_THAT(error_of([&] { bound->run(); }), HasSubstr("lost since"));
  EXPECT_THAT(error_of([&] { bound->run_timed(2); }), HasSubstr("lost since"));
  EXPECT_THAT(error_of([&] { bound->run_profiled(times); }), HasSubstr("lost since"));
  EXPECT_THAT(error_of([&] { bound->enqueue(&stream); }), HasSubstr("lost since"));
  EXPECT_THAT(error_of([&] { bound->bind(std::vector{x}); }), HasSubstr("lost since"));
  EXPECT_EQ(m.device->launches, launches);
  EXPECT_EQ(m.device->allocations, allocations);
  EXPECT_EQ(m.device->copied.size(), copies);
}

TEST(DeviceFault, a_session_goes_on_after_an_allocation_that_failed) {
  const Graph g = copying_graph();
  for (int left = 0; left < 4; ++left) {
    Made m(clone(g));
    Session session(m.plan);
    const Tensor x = random_tensor({4, 6}, 1);
    m.device->allocations_left = left;
    const std::string said = error_of([&] { session.run({{"x", x}}); });
    EXPECT_NE(said.find("no memory left"), std::string::npos) << left << ": " << said;
    EXPECT_LT(m.device->allocations_left, 0);
    expect_same(session.run({{"x", x}}).at("y_out"), ops::evaluate(g, std::vector{x})[0]);
  }
}

}  // namespace
}  // namespace smelt::run
