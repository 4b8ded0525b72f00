// NonMaxSuppression, and the detection family's table.
#include "ops/detect/detect.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/core/data_dependent.h"
#include "ops/core/list_inputs.h"
#include "ops/detect/family.h"
#include "ops/detect/pick_boxes.h"

namespace smelt::ops {
namespace {

void infer_nms(InferContext& c) {
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes.size() != 3 || boxes[2] != 4) fail("boxes has shape {}, expected [batches, boxes, 4]", to_string(boxes));
  if (scores.size() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    fail("scores has shape {}, expected [{}, classes, {}]", to_string(scores), boxes[0], boxes[1]);
  }
  for (size_t i = 2; i < 5; ++i)
    if (c.has(i) && c.in(i).shape_known && elements(c.shape(i)) != 1)
      fail("input {} has shape {}, expected one element", i, to_string(c.shape(i)));
  c.set_type(0, DType::i64);
}

double scalar_or(const ComputeContext& c, size_t i, double otherwise) { return c.has(i) ? c.in(i).to_doubles()[0] : otherwise; }

void run_nms(ComputeContext& c) {
  const Shape& shape = c.in(1).shape();
  const int64_t batches = shape[0], classes = shape[1], count = shape[2];
  const BoxRule rule{scalar_or(c, 2, 0), scalar_or(c, 3, 0), scalar_or(c, 4, -std::numeric_limits<double>::infinity())};
  const bool centered = c.node.get_int("center_point_box", 0) != 0;
  const std::vector<double> numbers = c.in(0).to_doubles(), scores = c.in(1).to_doubles();
  std::vector<int64_t> selected, order;
  std::vector<Box> boxes, kept;
  for (int64_t b = 0; b < batches; ++b) {
    boxes.clear();
    for (int64_t i = 0; i < count; ++i) boxes.push_back(box_of(numbers.data() + (b * count + i) * 4, centered));
    for (int64_t k = 0; k < classes; ++k) {
      const double* of_class = scores.data() + (b * classes + k) * count;
      order.clear();
      kept.clear();
      for (int64_t i = 0; i < count; ++i)
        if (of_class[i] >= rule.lowest) order.push_back(i);
      std::ranges::stable_sort(order, [&](int64_t x, int64_t y) { return of_class[x] > of_class[y]; });
      for (const int64_t i : order) {
        const Box& box = boxes[static_cast<size_t>(i)];
        if (static_cast<double>(kept.size()) >= rule.limit) break;
        if (std::ranges::any_of(kept, [&](const Box& other) { return overlaps(box, other, rule.threshold); })) continue;
        kept.push_back(box);
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
       {.autocast = Autocast::fp32, .data_dependent = true, .at_most = boxes_at_most}},
      {{"RoiAlign", onnx_domain, infer_roi_align, run_roi_align}, {.autocast = Autocast::fp32}},
      {{"MaxRoiPool", onnx_domain, infer_max_roi_pool, run_max_roi_pool}, {.flops = {.of_output = 1}}},
  };
  return table;
}

}  // namespace smelt::ops
