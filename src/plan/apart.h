// What a plan runs as its parts instead of as one: FusedChoices, FirstLayers, JoinedProducts, GatedProducts, NormedProducts, CachedAttention and JoinedRotary keep it in one place.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace smelt::plan {

/// The entries of what runs apart, as a plan's file holds them (CarriedChoices::apart). Each of those who decide begins its entries
/// with a word of its own. Thread-safe.
class Apart {
 public:
  void add(std::string entry) {
    const std::lock_guard lock(mutex_);
    entries_.insert(std::move(entry));
  }
  std::set<std::string> entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  /// Takes the decisions of an earlier process: these run apart, all others as one.
  void carry(std::set<std::string> entries) {
    const std::lock_guard lock(mutex_);
    entries_ = std::move(entries);
    carried_ = true;
  }
  /// Whether an earlier process's decisions were taken over.
  bool carries() const {
    const std::lock_guard lock(mutex_);
    return carried_;
  }
  /// Whether it decided that `entry` runs apart; nullopt where no decisions were taken over.
  std::optional<bool> carried(const std::string& entry) const {
    const std::lock_guard lock(mutex_);
    return carried_ ? std::optional(entries_.contains(entry)) : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> entries_;
  bool carried_ = false;
};

}  // namespace smelt::plan
