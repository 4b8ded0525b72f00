#include "ops/cuda/planned.h"

#include <utility>

namespace smelt::ops {
namespace {

thread_local PlannedLaunches* active = nullptr;

}  // namespace

PlannedLaunches::PlannedLaunches() : before_(std::exchange(active, this)) {}
PlannedLaunches::~PlannedLaunches() { active = before_; }
PlannedLaunches* PlannedLaunches::current() { return active; }

}  // namespace smelt::ops
