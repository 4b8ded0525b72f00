#include "ops/conv/between_copies.h"

#include <algorithm>

namespace smelt::ops::conv {

BetweenCopies::BetweenCopies(std::vector<Copy> before, std::optional<Copy> behind, std::unique_ptr<Kernel> inner, int64_t images)
    : before_(std::move(before)), behind_(std::move(behind)), inner_(std::move(inner)), images_(images) {}

int64_t BetweenCopies::workspace() const {
  int64_t most = inner_->workspace();
  if (behind_) most = std::max(most, behind_->kernel->workspace());
  for (const Copy& c : before_) most = std::max(most, c.kernel->workspace());
  return images_ + most;
}

bool BetweenCopies::reads(size_t i) const {
  return inner_->reads(i) || std::ranges::find(before_, i, &Copy::input) != before_.end();
}

void BetweenCopies::run(const Buffers& b) {
  char* const memory = static_cast<char*>(b.workspace);
  const auto copied = [&](const Copy& c, const void* from, void* to) {
    c.kernel->run({std::span(&from, 1), std::span(&to, 1), memory + images_, b.stream});
  };
  given_.assign(b.inputs.begin(), b.inputs.end());
  for (const Copy& c : before_) {
    copied(c, b.inputs[c.input], memory + c.at);
    given_[c.input] = memory + c.at;
  }
  void* const made[] = {behind_ ? memory + behind_->at : b.outputs[0]};
  inner_->run({given_, made, memory + images_, b.stream});
  if (behind_) copied(*behind_, made[0], b.outputs[0]);
}

const Candidate* fastest(const Offer& o) {
  const auto at = std::ranges::min_element(o.candidates, {}, &Candidate::estimate_us);
  return at == o.candidates.end() ? nullptr : &*at;
}

}  // namespace smelt::ops::conv
