// Non-maximum suppression among the boxes of one class.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace smelt::ops {

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

/// Four numbers as two opposite corners in any order, or as center, width and height.
template <class T> Box box_of(const T* corners, bool centered) {
  const double v[] = {corners[0], corners[1], corners[2], corners[3]};
  if (centered) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

/// Intersection over union is more than `threshold`.
inline bool overlaps(const Box& a, const Box& b, double threshold) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  const double intersection = h * w;
  return intersection / (a.area() + b.area() - intersection) > threshold;
}

/// The boxes that were taken. Their corners lie side by side in floats, rounded outwards, and their areas, rounded down: many are
/// compared at once, and those that may overlap once more in doubles.
class KeptBoxes {
 public:
  void clear(double threshold) {
    threshold_ = threshold;
    boxes_.clear();
    for (std::vector<float>& side : sides_) side.clear();
  }
  size_t size() const { return boxes_.size(); }
  void add(const Box& b) {
    if (boxes_.size() % block == 0) {
      // Places behind the last box meet none.
      for (size_t s = 0; s < numbers; ++s) sides_[s].resize(boxes_.size() + block, s < 2 ? largest : s < 4 ? -largest : 0);
    }
    const auto of_box = floats(b);
    for (size_t s = 0; s < numbers; ++s) sides_[s][boxes_.size()] = of_box[s];
    boxes_.push_back(b);
  }
  /// Whether one of them overlaps `b`.
  bool overlap(const Box& b) const {
    const auto of_box = floats(b);
    for (size_t first = 0; first < boxes_.size(); first += block) {
      if (!may_overlap(first, of_box)) continue;
      for (size_t i = first; i < std::min(boxes_.size(), first + block); ++i)
        if (overlaps(b, boxes_[i], threshold_)) return true;
    }
    return false;
  }

 private:
  static constexpr size_t block = 32, lanes = 4, numbers = 5;  // y1, x1, y2, x2, area
  static constexpr float largest = std::numeric_limits<float>::max();
  using Floats = float __attribute__((vector_size(16)));
  using Masks = int32_t __attribute__((vector_size(16)));

  static float below(double v) {
    const auto f = static_cast<float>(v);
    return f > v ? std::nextafter(f, -largest) : f;
  }
  static std::array<float, numbers> floats(const Box& b) {
    return {below(b.y1), below(b.x1), -below(-b.y2), -below(-b.x2), below(b.area())};
  }

  static Floats load(const std::vector<float>& side, size_t i) {
    Floats v;
    std::memcpy(&v, side.data() + i, sizeof v);
    return v;
  }
  static bool any(Masks m) {
    int64_t halves[2];
    std::memcpy(halves, &m, sizeof m);
    return (halves[0] | halves[1]) != 0;
  }

  /// False where no box of the block overlaps the one of these numbers, whatever is lost by computing in floats.
  bool may_overlap(size_t first, const std::array<float, numbers>& box) const {
    for (size_t i = first; i < first + block; i += lanes) {
      const Floats y1 = load(sides_[0], i), x1 = load(sides_[1], i), y2 = load(sides_[2], i), x2 = load(sides_[3], i);
      const Masks meet = (y2 > box[0]) & (box[2] > y1) & (x2 > box[1]) & (box[3] > x1);
      if (any(meet) && any(meet & may_exceed({y1, x1, y2, x2}, load(sides_[4], i), box))) return true;
    }
    return false;
  }
  Masks may_exceed(const std::array<Floats, 4>& sides, Floats area, const std::array<float, numbers>& box) const {
    constexpr float margin = 1 + 0x1p-18f;  // five operations lose 2^-24 each
    const auto least = static_cast<float>(threshold_);
    Floats both{};
    for (size_t lane = 0; lane < lanes; ++lane) {
      const float height = std::min(sides[2][lane], box[2]) - std::max(sides[0][lane], box[0]);
      const float width = std::min(sides[3][lane], box[3]) - std::max(sides[1][lane], box[1]);
      both[lane] = height * width * margin;
    }
    return both * margin >= least * (area + box[4] - both);
  }

  double threshold_ = 0;
  std::vector<Box> boxes_;
  std::array<std::vector<float>, numbers> sides_;
};

struct BoxRule {
  double limit = 0;  // boxes of a class, at most
  double threshold = 0, lowest = 0;
};

/// Takes boxes by falling scores, equal ones in their order, where no box that was taken overlaps them. Of many boxes few are looked at
/// before the limit is reached: the best are found and sorted some at a time. Keeps its memory.
class BoxPicker {
 public:
  /// Appends the numbers of the boxes that are taken. A score that is NaN, or below the lowest, takes no part. box_at(i): the i-th box.
  template <class BoxAt>
  void pick(BoxAt&& box_at, const float* scores, uint32_t count, const BoxRule& rule, std::vector<int64_t>& taken) {
    const auto lowest = static_cast<float>(rule.lowest);
    ranks_.resize(count);
    size_t n = 0;
    for (uint32_t i = 0; i < count; ++i) ranks_[n] = rank(scores[i], i), n += scores[i] >= lowest;
    kept_.clear(rule.threshold);
    const auto end = ranks_.begin() + static_cast<std::ptrdiff_t>(n);
    auto some = static_cast<std::ptrdiff_t>(std::clamp(2 * rule.limit, 64.0, 512.0));
    for (auto next = ranks_.begin(); next != end; some *= 4) {
      auto at = next;
      next += std::min(some, end - next);
      if (next != end) std::nth_element(at, next, end);
      std::sort(at, next);
      for (; at != next; ++at) {
        if (static_cast<double>(kept_.size()) >= rule.limit) return;
        const auto i = static_cast<uint32_t>(*at);
        const Box box = box_at(i);
        if (kept_.overlap(box)) continue;
        kept_.add(box);
        taken.push_back(i);
      }
    }
  }

 private:
  /// Smaller for larger scores, and for smaller numbers of equal ones.
  static uint64_t rank(float score, uint32_t i) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // one zero
    const uint32_t falling = bits ^ (bits >> 31 ? 0u : 0x7fffffffu);
    return uint64_t{falling} << 32 | i;
  }

  std::vector<uint64_t> ranks_;
  KeptBoxes kept_;
};

}  // namespace smelt::ops
