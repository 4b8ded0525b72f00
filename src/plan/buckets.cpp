#include "plan/buckets.h"

#include <fmt/core.h>

#include <bit>

namespace smelt::plan {
namespace {

void add(std::string& text, int64_t extent) {
  const auto n = static_cast<uint64_t>(extent);
  if (extent <= 0)
    text += fmt::format(",{}", extent);
  else
    text += fmt::format(",{}/{}", std::bit_ceil(n), std::min<uint64_t>(16, n & (~n + 1)));
}

}  // namespace

std::string bucket_of(const Segment& s, const Step& step) {
  std::string text = fmt::format("{}.{}", static_cast<int32_t>(step.id), step.part);
  for (const auto* list : {&step.inputs, &step.outputs}) {
    text += ';';
    for (TensorIndex i : *list) {
      if (i == absent) continue;
      const BoundValue& t = s.tensor(i);
      text += fmt::format(" {}:{}:{}:{}", static_cast<int32_t>(t.value), static_cast<int>(t.type), static_cast<int>(t.layout),
                          t.alignment);
      for (int64_t n : t.shape) add(text, n);
      text += '|';
      for (int64_t n : t.strides) add(text, n);
    }
  }
  return text;
}

std::optional<tune::PinnedChoice> BucketChoices::find(const std::string& bucket) const {
  const std::lock_guard lock(mutex_);
  const auto at = chosen_.find(bucket);
  return at == chosen_.end() ? std::nullopt : std::optional(at->second);
}

void BucketChoices::keep(const std::string& bucket, tune::PinnedChoice choice) {
  const std::lock_guard lock(mutex_);
  chosen_.emplace(bucket, std::move(choice));
}

bool BucketChoices::is_new(const std::string& bucket, const ops::Candidate& candidate) {
  const std::lock_guard lock(mutex_);
  return prepared_.insert(fmt::format("{}\n{}\n{}", bucket, candidate.tactic, candidate.config)).second;
}

}  // namespace smelt::plan
