// NonMaxSuppression, and the detection family's table.
#include "ops/detect/detect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/core/data_dependent.h"
#include "ops/core/list_inputs.h"
#include "ops/detect/family.h"

namespace smelt::ops {
namespace {

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

/// Four numbers as two opposite corners in any order, or as center, width and height.
Box box_of(const double* v, bool centered) {
  if (centered) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

/// Intersection over union is more than `threshold`.
bool overlaps(const Box& a, const Box& b, double threshold) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  const double intersection = h * w;
  return intersection / (a.area() + b.area() - intersection) > threshold;
}

/// The boxes that were taken. Their corners lie side by side in floats, rounded outwards, and their areas, rounded down: many are
/// compared at once, and those that may overlap once more in doubles.
class KeptBoxes {
 public:
  explicit KeptBoxes(double threshold) : threshold_(threshold) {}
  void clear() {
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

  double threshold_;
  std::vector<Box> boxes_;
  std::array<std::vector<float>, numbers> sides_;
};

void infer_nms(InferContext& c) {
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes.size() != 3 || boxes[2] != 4) fail("boxes has shape {}, expected [batches, boxes, 4]", to_string(boxes));
  if (scores.size() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    fail("scores has shape {}, expected [{}, classes, {}]", to_string(scores), boxes[0], boxes[1]);
  }
  c.set_type(0, DType::i64);
}

double scalar_or(const ComputeContext& c, size_t i, double otherwise) {
  if (!c.has(i)) return otherwise;
  if (c.in(i).size() != 1) fail("input {} has shape {}, expected one element", i, to_string(c.in(i).shape()));
  return c.in(i).to_doubles()[0];
}

void run_nms(ComputeContext& c) {
  const Shape& shape = c.in(1).shape();
  const int64_t batches = shape[0], classes = shape[1], count = shape[2];
  const double limit = scalar_or(c, 2, 0), threshold = scalar_or(c, 3, 0);
  const double lowest = scalar_or(c, 4, -std::numeric_limits<double>::infinity());
  const bool centered = c.node.get_int("center_point_box", 0) != 0;
  const std::vector<double> numbers = c.in(0).to_doubles(), scores = c.in(1).to_doubles();
  std::vector<int64_t> selected, order;
  KeptBoxes kept(threshold);
  std::vector<Box> boxes;
  for (int64_t b = 0; b < batches; ++b) {
    boxes.clear();
    for (int64_t i = 0; i < count; ++i) boxes.push_back(box_of(numbers.data() + (b * count + i) * 4, centered));
    for (int64_t k = 0; k < classes; ++k) {
      const double* score = scores.data() + (b * classes + k) * count;
      order.clear();
      for (int64_t i = 0; i < count; ++i) {
        if (score[i] >= lowest) order.push_back(i);  // not a NaN
      }
      std::ranges::stable_sort(order, [score](int64_t x, int64_t y) { return score[x] > score[y]; });
      kept.clear();
      for (int64_t i : order) {
        if (static_cast<double>(kept.size()) >= limit) break;
        const Box& box = boxes[static_cast<size_t>(i)];
        if (kept.overlap(box)) continue;
        kept.add(box);
        selected.insert(selected.end(), {b, k, i});
      }
    }
  }
  c.outputs[0] = Tensor::of<int64_t>({static_cast<int64_t>(selected.size() / 3), 3}, selected);
}

std::vector<AtMost> boxes_at_most(const Node&, std::span<const TensorDesc> in) {
  const TensorDesc &boxes = in[0], &scores = in[1];
  if (boxes.type != DType::f32 || scores.type != DType::f32 || scores.shape.size() != 3) return {};
  const auto scalar = [&](size_t i, DType type) {
    return in.size() <= i || !in[i].present() || (in[i].type == type && elements(in[i].shape) == 1);
  };
  if (!scalar(2, DType::i64) || !scalar(3, DType::f32) || !scalar(4, DType::f32)) return {};
  int64_t each = scores.shape[2];
  if (each >= int64_t{1} << 24) return {};  // a queue's entry holds a box's number in 24 bits
  if (in.size() <= 2 || !in[2].present())
    each = 0;
  else if (in[2].value)
    each = std::clamp<int64_t>(in[2].value->to_ints()[0], 0, each);
  return {{DType::i64, {scores.shape[0] * scores.shape[1] * each, 3}, 0}};
}

}  // namespace

std::span<const OpRow> detect_ops() {
  static constexpr OpRow table[] = {
      {{"NonMaxSuppression", onnx_domain, infer_nms, run_nms},
       {.half = Half::wide, .data_dependent = true, .at_most = boxes_at_most}},
      {{"RoiAlign", onnx_domain, infer_roi_align, run_roi_align}, {.half = Half::wide}},
      {{"MaxRoiPool", onnx_domain, infer_max_roi_pool, run_max_roi_pool}, {.flops = {.of_output = 1}}},
  };
  return table;
}

}  // namespace smelt::ops
