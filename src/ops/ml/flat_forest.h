// A forest for walking many rows at once: every branch compares by <=, leaves lead to themselves, so that eight walks take their steps
// together without a jump.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "ops/ml/forest.h"

namespace smelt::ops {

template <class T> struct FlatNode {
  T split;
  int32_t feature;
  int32_t child[2];  // of values at most `split`, and of others
};

/// T: the type of the features.
template <class T> class FlatForest {
 public:
  static constexpr size_t together = 8;

  explicit FlatForest(const Forest& f) : first_leaf_(static_cast<int32_t>(f.branches.size())) {
    nodes_.resize(f.branches.size() + f.leaves());
    to_left_.resize(nodes_.size());
    for (size_t i = 0; i < f.leaves(); ++i) {
      const auto at = first_leaf_ + static_cast<int32_t>(i);
      nodes_[static_cast<size_t>(at)] = {T{}, 0, {at, at}};
    }
    for (size_t i = 0; i < f.branches.size(); ++i) add(f, f.branches[i], static_cast<int32_t>(i));
    longer_ = nodes_.size() > f.branches.size() + f.leaves() ? longest_chain_ : 1;
    for (size_t t = 0; t < f.roots.size(); ++t) {
      roots_.push_back(place(f.roots[t]));
      depths_.push_back(f.depths[t] * longer_);
    }
    for (const bool left : to_left_) has_left_ = has_left_ || left;
  }

  /// Branches, leaves, then what comparisons for equality are made of.
  const std::vector<FlatNode<T>>& nodes() const { return nodes_; }
  /// Whether a NaN takes the node's first child.
  bool to_left(size_t node) const { return to_left_[node] != 0; }
  size_t trees() const { return roots_.size(); }
  int32_t root(size_t tree) const { return roots_[tree]; }
  int64_t depth(size_t tree) const { return depths_[tree]; }

  /// Whether a walk over one of these features needs to know where a NaN goes: steps that look for one take a fifth longer.
  bool minds_nans(const T* features, int64_t count) const {
    if (!has_left_) return false;
    bool any = false;
    for (int64_t i = 0; i < count; ++i) any |= features[i] != features[i];
    return any;
  }
  /// Eight walks from `at`, each over a row of its own, down to leaves: `at` becomes their numbers. `nans`: minds_nans() of the rows.
  void walk(int32_t* at, const T* const* rows, int64_t depth, bool nans) const {
    nans ? steps<true>(at, rows, depth) : steps<false>(at, rows, depth);
  }

 private:
  int32_t place(TreeRef r) const { return r.leaf ? first_leaf_ + r.index : r.index; }

  /// The largest T that is at most v, or below it.
  static T at_most(double v, bool below) {
    T t = static_cast<T>(v);
    if (static_cast<double>(t) > v || (below && static_cast<double>(t) == v))
      t = std::isinf(t) && t < 0 ? std::numeric_limits<T>::quiet_NaN() : std::nextafter(t, -std::numeric_limits<T>::infinity());
    return t;
  }

  void set(int32_t at, T split, int32_t feature, int32_t le, int32_t gt, bool nan_to_le) {
    nodes_[static_cast<size_t>(at)] = {split, feature, {le, gt}};
    to_left_[static_cast<size_t>(at)] = nan_to_le;
  }
  int32_t another() {
    nodes_.emplace_back();
    to_left_.push_back(false);
    return static_cast<int32_t>(nodes_.size()) - 1;
  }

  void add(const Forest& f, const TreeBranch& b, int32_t at) {
    const int32_t yes = place(b.yes), no = place(b.no);
    const bool nan_yes = b.missing_true || b.mode == Branching::neq;
    if (b.mode == Branching::member) return add_members(f, b, at, yes, no);
    if (std::isnan(b.split)) {  // only != is true
      const T never = std::numeric_limits<T>::quiet_NaN();
      const bool all = b.mode == Branching::neq;
      return set(at, never, b.feature, nan_yes ? yes : no, all ? yes : no, nan_yes);
    }
    switch (b.mode) {
      case Branching::leq: return set(at, at_most(b.split, false), b.feature, yes, no, nan_yes);
      case Branching::lt: return set(at, at_most(b.split, true), b.feature, yes, no, nan_yes);
      case Branching::gt: return set(at, at_most(b.split, false), b.feature, no, yes, !nan_yes);
      case Branching::gte: return set(at, at_most(b.split, true), b.feature, no, yes, !nan_yes);
      case Branching::eq: return add_equal(b.split, b.feature, at, yes, no, nan_yes);
      default: return add_equal(b.split, b.feature, at, no, yes, !nan_yes);
    }
  }

  /// v == split: at most it, and not below it. A NaN goes where `nan_equal` says.
  void add_equal(double split, int32_t feature, int32_t at, int32_t equal, int32_t other, bool nan_equal) {
    const int32_t second = another();
    longest_chain_ = std::max<int64_t>(longest_chain_, 2);
    set(at, at_most(split, false), feature, second, other, nan_equal);
    set(second, at_most(split, true), feature, other, equal, false);
  }

  /// One after the other. A NaN that is missing_true is caught by the first.
  void add_members(const Forest& f, const TreeBranch& b, int32_t at, int32_t yes, int32_t no) {
    const int64_t count = b.last_member - b.first_member;
    if (count == 0) return set(at, std::numeric_limits<T>::quiet_NaN(), b.feature, b.missing_true ? yes : no, no, b.missing_true);
    longest_chain_ = std::max(longest_chain_, 2 * count);
    for (int32_t m = b.first_member; m < b.last_member; ++m) {
      const int32_t next = m + 1 < b.last_member ? another() : no;
      add_equal(f.members[static_cast<size_t>(m)], b.feature, at, yes, next, b.missing_true && m == b.first_member);
      at = next;
    }
  }

  /// Keeps a comparison's result in a register: a jump by it would be mispredicted at every other node.
  static void as_number(uint32_t& b) { asm("" : "+r"(b)); }

  template <bool left> void steps(int32_t* at, const T* const* rows, int64_t depth) const {
    constexpr int64_t before_looking = 2;
    int32_t a[together];
    std::copy_n(at, together, a);
    const FlatNode<T>* nodes = nodes_.data();
    const uint8_t* to_left = to_left_.data();
    for (int64_t d = 0; d < depth; d += before_looking) {
      for (int64_t s = 0; s < before_looking; ++s) {
#pragma GCC unroll 8
        for (size_t r = 0; r < together; ++r) {
          const FlatNode<T>& n = nodes[a[r]];
          const T v = rows[r][n.feature];
          uint32_t second = !(v <= n.split);
          as_number(second);
          if constexpr (left) {
            uint32_t missing = v != v;
            as_number(missing);
            second &= ~(missing & to_left[a[r]]);
          }
          a[r] = n.child[second];
        }
      }
      bool moves = false;
      for (size_t r = 0; r < together; ++r) moves |= nodes[a[r]].child[0] != a[r];
      if (!moves) break;
    }
    for (size_t r = 0; r < together; ++r) at[r] = a[r] - first_leaf_;
  }

  std::vector<FlatNode<T>> nodes_;  // branches, leaves, then what comparisons for equality are made of
  std::vector<uint8_t> to_left_;    // by node: whether a NaN takes the first child
  std::vector<int32_t> roots_;
  std::vector<int64_t> depths_;
  int32_t first_leaf_;
  int64_t longest_chain_ = 1, longer_ = 1;
  bool has_left_ = false;
};

}  // namespace smelt::ops
