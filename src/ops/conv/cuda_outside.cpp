#include "ops/conv/cuda_outside.h"

#include <algorithm>
#include <vector>

#include "base/number.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/window.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t together = 16;  // elements that rows begin at a multiple of

/// Which taps of each place along an axis (0: rows) lie inside, and of each place which of these ranges it has.
struct Classes {
  std::vector<PointsInside> ranges;
  std::vector<size_t> of_place;

  Classes(const ImplicitProblem& p, int axis) {
    const int64_t out = axis == 0 ? p.out_height : p.out_width, in = axis == 0 ? p.in_height : p.in_width;
    for (int64_t o = 0; o < out; ++o) {
      const PointsInside r = points_inside(o * p.stride[axis] - p.pad[axis], p.dilation[axis], in, p.taps[axis]);
      const auto same = [&](const PointsInside& other) { return other.begin == r.begin && other.end == r.end; };
      const auto found = std::ranges::find_if(ranges, same);
      of_place.push_back(static_cast<size_t>(found - ranges.begin()));
      if (found == ranges.end()) ranges.push_back(r);
    }
  }
  bool is_whole(size_t c, int64_t taps) const { return ranges[c].begin == 0 && ranges[c].end == taps; }
};

/// places, classes: the elements that each has.
struct Extents {
  int64_t places, row, all;
  Extents(const ImplicitProblem& p, const Classes& rows, const Classes& columns)
      : places(divide_up(p.out_height * p.out_width, together) * together),
        row(divide_up(p.m, together) * together),
        all(places + std::ssize(rows.ranges) * std::ssize(columns.ranges) * row) {}
};

}  // namespace

int64_t outside_elements(const ImplicitProblem& p) { return Extents(p, Classes(p, 0), Classes(p, 1)).all; }

Tensor outside_table(const Request& q, const ImplicitProblem& p, int32_t zero) {
  const Classes rows(p, 0), columns(p, 1);
  const Extents extents(p, rows, columns);
  const int64_t taps_h = p.taps[0], taps_w = p.taps[1], wide = std::ssize(columns.ranges);
  Tensor table = Tensor::zeros(DType::i32, {extents.all});
  int32_t* const to = table.data<int32_t>();
  for (int64_t h = 0; h < p.out_height; ++h)
    for (int64_t w = 0; w < p.out_width; ++w) {
      const size_t r = rows.of_place[static_cast<size_t>(h)], c = columns.of_place[static_cast<size_t>(w)];
      const bool whole = rows.is_whole(r, taps_h) && columns.is_whole(c, taps_w);
      to[h * p.out_width + w] =
          whole ? -1
                : static_cast<int32_t>(extents.places + (static_cast<int64_t>(r) * wide + static_cast<int64_t>(c)) * extents.row);
    }
  std::vector<uint32_t> of_tap(static_cast<size_t>(taps_h * taps_w));  // Σ w over its channels; sums wrap as 32-bit integers do
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t t = 0; t < taps_h * taps_w; ++t) {
      uint32_t sum = 0;
      for (int64_t c = 0; c < q.problem.w[1]; ++c) sum += static_cast<uint32_t>(int8_weight(q, m, c, t));
      of_tap[static_cast<size_t>(t)] = sum;
    }
    for (size_t r = 0; r < rows.ranges.size(); ++r)
      for (size_t c = 0; c < columns.ranges.size(); ++c) {
        uint32_t sum = 0;
        const auto inside = [](const PointsInside& range, int64_t t) { return t >= range.begin && t < range.end; };
        for (int64_t kh = 0; kh < taps_h; ++kh)
          for (int64_t kw = 0; kw < taps_w; ++kw)
            if (!inside(rows.ranges[r], kh) || !inside(columns.ranges[c], kw))
              sum += of_tap[static_cast<size_t>(kh * taps_w + kw)];
        to[extents.places + (static_cast<int64_t>(r) * wide + static_cast<int64_t>(c)) * extents.row + m] =
            static_cast<int32_t>(static_cast<uint32_t>(zero) * sum);
      }
  }
  return table;
}

EpilogueOperand outside_operand(const GpuRequest& r, const ImplicitProblem& p) {
  EpilogueOperand o{{DType::i32, {p.out_height, p.out_width}, Layout::plain, {}, {}}, EpilogueOperand::no_input, nullptr};
  o.tensor.shape.insert(o.tensor.shape.begin(), 1);  // of all channels
  if (r.problem.spatial() == 1) o.tensor.shape.erase(o.tensor.shape.begin() + 1);
  o.by_index = true;
  o.most = most_of_sums(r.problem);
  if (!r.gpu->device) return o;
  const Shape geometry{p.out_height, p.out_width, p.in_height, p.in_width};
  Key key = int8_packing(r, "conv:outside").field(r.zero()).field(geometry);
  for (const auto* pair : {&p.stride, &p.pad, &p.dilation}) key.field(Shape{(*pair)[0], (*pair)[1]});
  o.memory =
      r.gpu->weights->packed(r.gpu->device, r.weight().constant, key.text(), [&] { return outside_table(r, p, r.zero()); });
  return o;
}

}  // namespace smelt::ops::conv
