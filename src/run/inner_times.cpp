#include "run/inner_times.h"

#include <utility>

namespace smelt::run {
namespace {

thread_local InnerTimes* active = nullptr;

}  // namespace

InnerTimes::InnerTimes() : before_(std::exchange(active, this)) {}
InnerTimes::~InnerTimes() { active = before_; }
InnerTimes* InnerTimes::current() { return active; }

InnerTimes::Inside::Inside(const std::string& node, const std::string& body) : times_(active) {
  if (times_) times_->path_.push_back(node + ": " + body);
}
InnerTimes::Inside::~Inside() {
  if (times_) times_->path_.pop_back();
}

void InnerTimes::add(size_t step, const std::string& name, int64_t ns, const std::function<StepInfo()>& describe) {
  const auto [at, fresh] = at_.emplace(std::tuple{path_, step, name}, steps_.size());
  if (fresh) steps_.push_back({path_, describe()});
  InnerStep& s = steps_[at->second];
  ++s.calls;
  s.ns += ns;
}

}  // namespace smelt::run
