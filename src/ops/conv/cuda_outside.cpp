#include "ops/conv/cuda_outside.h"

#include <algorithm>
#include <vector>

#include "base/number.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/window.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t together = 16;  // elements that rows begin at a multiple of

/// Which taps of each place along an axis lie inside, and of each place which of these ranges it has.
struct Classes {
  AlongAxis axis;
  std::vector<PointsInside> ranges;
  std::vector<size_t> of_place;

  explicit Classes(const AlongAxis& a) : axis(a) {
    for (int64_t o = 0; o < a.out; ++o) {
      const PointsInside r = points_inside(o * a.stride - a.pad, a.dilation, a.in, a.taps);
      const auto same = [&](const PointsInside& other) { return other.begin == r.begin && other.end == r.end; };
      const auto found = std::ranges::find_if(ranges, same);
      of_place.push_back(static_cast<size_t>(found - ranges.begin()));
      if (found == ranges.end()) ranges.push_back(r);
    }
  }
  bool is_whole(size_t c) const { return ranges[c].begin == 0 && ranges[c].end == axis.taps; }
  bool is_inside(size_t c, int64_t tap) const { return tap >= ranges[c].begin && tap < ranges[c].end; }
  int64_t count() const { return std::ssize(ranges); }
};

/// Those of the depth (one, of an image), the rows and the columns.
struct AllClasses {
  Classes depth, rows, columns;
  explicit AllClasses(const ImplicitProblem& p)
      : depth(p.depth.value_or(AlongAxis{})), rows(p.along(p.axes() - 2)), columns(p.along(p.axes() - 1)) {}

  /// Calls f(class of the depth, of the rows, of the columns) in order.
  template <class F> void each(F&& f) const {
    for (size_t d = 0; d < depth.ranges.size(); ++d)
      for (size_t r = 0; r < rows.ranges.size(); ++r)
        for (size_t c = 0; c < columns.ranges.size(); ++c) f(d, r, c);
  }
};

/// places, classes: the elements that each has.
struct Extents {
  int64_t places, row, all;
  Extents(const ImplicitProblem& p, const AllClasses& c)
      : places(divide_up(p.pixels() / p.n, together) * together),
        row(divide_up(p.m, together) * together),
        all(places + c.depth.count() * c.rows.count() * c.columns.count() * row) {}
};

}  // namespace

int64_t outside_elements(const ImplicitProblem& p) { return Extents(p, AllClasses(p)).all; }

Tensor outside_table(const Request& q, const ImplicitProblem& p, int32_t zero) {
  const AllClasses classes(p);
  const auto& [depth, rows, columns] = classes;
  const Extents extents(p, classes);
  const int64_t taps_d = depth.axis.taps, taps_h = rows.axis.taps, taps_w = columns.axis.taps;
  Tensor table = Tensor::zeros(DType::i32, {extents.all});
  int32_t* const to = table.data<int32_t>();
  int64_t place = 0;
  for (const size_t d : depth.of_place)
    for (const size_t r : rows.of_place)
      for (const size_t c : columns.of_place) {
        const bool whole = depth.is_whole(d) && rows.is_whole(r) && columns.is_whole(c);
        const int64_t of_class =
            (static_cast<int64_t>(d) * rows.count() + static_cast<int64_t>(r)) * columns.count() + static_cast<int64_t>(c);
        to[place++] = whole ? -1 : static_cast<int32_t>(extents.places + of_class * extents.row);
      }
  std::vector<uint32_t> of_tap(static_cast<size_t>(p.tap_count()));  // Σ w over its channels; sums wrap as 32-bit integers do
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t t = 0; t < p.tap_count(); ++t) {
      uint32_t sum = 0;
      for (int64_t c = 0; c < q.problem.w[1]; ++c) sum += static_cast<uint32_t>(int8_weight(q, m, c, t));
      of_tap[static_cast<size_t>(t)] = sum;
    }
    int32_t* of_class = to + extents.places + m;
    classes.each([&](size_t d, size_t r, size_t c) {
      uint32_t sum = 0;
      size_t tap = 0;
      for (int64_t kd = 0; kd < taps_d; ++kd)
        for (int64_t kh = 0; kh < taps_h; ++kh)
          for (int64_t kw = 0; kw < taps_w; ++kw, ++tap)
            if (!classes.depth.is_inside(d, kd) || !classes.rows.is_inside(r, kh) || !classes.columns.is_inside(c, kw))
              sum += of_tap[tap];
      *of_class = static_cast<int32_t>(static_cast<uint32_t>(zero) * sum);
      of_class += extents.row;
    });
  }
  return table;
}

EpilogueOperand outside_operand(const GpuRequest& r, const ImplicitProblem& p) {
  EpilogueOperand o{{DType::i32, spatial_of(r.problem.y), Layout::plain, {}, {}}, EpilogueOperand::no_input, nullptr};
  if (p.n != r.problem.y[0]) o.tensor.shape[0] = 1;  // a volume's planes are images
  o.tensor.shape.insert(o.tensor.shape.begin(), 1);  // of all channels
  o.by_index = true;
  o.most = most_of_sums(r.problem);
  if (!r.gpu->device) return o;
  Key key = int8_packing(r, "conv:outside").field(r.zero());
  for (int axis = 0; axis < p.axes(); ++axis) {
    const AlongAxis a = p.along(axis);
    key.field(Shape{a.out, a.in, a.stride, a.pad, a.dilation});
  }
  o.memory =
      r.gpu->weights->packed(r.gpu->device, r.weight().constant, key.text(), [&] { return outside_table(r, p, r.zero()); });
  return o;
}

}  // namespace smelt::ops::conv
