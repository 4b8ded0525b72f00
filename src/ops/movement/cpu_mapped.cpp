// Moves by mapped axes on the processor: Pad in every mode, CenterCropPad and nearest Resize, in any rank and of any whole number
// of bytes. The innermost axis is a list of runs, the same for every row: copied, repeated, reversed or filled; where runs are short,
// the axes around it join the row, and where runs are very short, a row is a list of places. A row of the same elements as the one
// before it is a copy of that.
#include <algorithm>
#include <cstring>

#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/mapped_axes.h"
#include "ops/movement/offer.h"

namespace smelt::ops {
namespace {

constexpr int64_t short_run = 4;             // elements; to copy a shorter one takes longer than to look up the place of each
constexpr int64_t most_joined_bytes = 4096;  // a longer row is left as it is
constexpr int64_t most_runs = 512;           // of a row that axes have joined
constexpr int64_t most_run_bytes = 1 << 16;  // a longer one is cut, so that threads can share a single row

/// Elements of y that lie side by side.
struct Run {
  int64_t to = 0, from = 0, count = 0, step = 1;
  bool outside = false;
  int64_t rows = 1, to_row = 0, from_row = 0;  // so many of them, so far apart
};

/// The runs of one row: `width` elements at each place of `axis`.
std::vector<Run> runs_of(const MappedAxis& axis, int64_t width, int64_t most) {
  std::vector<Run> runs;
  const auto append = [&](const Run& r) {
    if (!runs.empty() && runs.back().to + runs.back().count == r.to && runs.back().outside == r.outside) {
      Run& last = runs.back();
      if (r.outside || (last.step == 1 && last.from + last.count == r.from && (last.count > 1 || r.count > 1))) {
        last.count += r.count;
        return;
      }
      // Single elements: the second decides the step.
      if (width == 1 && (last.count == 1 || last.from + last.count * last.step == r.from)) {
        if (last.count == 1) last.step = r.from - last.from;
        ++last.count;
        return;
      }
    }
    runs.push_back(r);
  };
  for (int64_t i = 0; i < axis.extent; ++i) {
    const int64_t place = axis.places.empty() ? i : axis.places[static_cast<size_t>(i)];
    append({i * axis.to, std::max<int64_t>(0, place) * axis.from, width, 1, place < 0});
  }
  std::vector<Run> cut;
  for (const Run& r : runs)
    for (int64_t i = 0; i < r.count; i += most)
      cut.push_back({r.to + i, r.from + i * r.step, std::min(most, r.count - i), r.step, r.outside});
  return cut;
}

/// Rows of an axis one behind the other, as one row. What lies outside side by side is one run.
std::vector<Run> joined_by(const MappedAxis& axis, const std::vector<Run>& row) {
  std::vector<Run> runs;
  for (int64_t i = 0; i < axis.extent; ++i) {
    const int64_t place = axis.places.empty() ? i : axis.places[static_cast<size_t>(i)];
    for (Run r : row) {
      r.to += i * axis.to, r.from += std::max<int64_t>(0, place) * axis.from, r.outside = r.outside || place < 0;
      if (!runs.empty() && r.outside && runs.back().outside && runs.back().to + runs.back().count == r.to)
        runs.back().count += r.count;
      else
        runs.push_back(r);
    }
  }
  return runs;
}

/// Places of an axis that lie as far apart as the two before.
struct Stretch {
  int64_t first, count, place, step;
  bool outside;
};

std::vector<Stretch> stretches_of(const MappedAxis& axis) {
  std::vector<Stretch> found;
  for (int64_t i = 0; i < axis.extent; ++i) {
    const int64_t place = axis.places.empty() ? i : axis.places[static_cast<size_t>(i)];
    if (!found.empty() && found.back().outside == (place < 0)) {
      Stretch& last = found.back();
      if (place >= 0 && last.count == 1) last.step = place - last.place;
      if (place < 0 || last.place + last.count * last.step == place) {
        ++last.count;
        continue;
      }
    }
    found.push_back({i, 1, place, 0, place < 0});
  }
  return found;
}

/// Rows of an axis as runs of many rows each: how a run is copied is asked once for all of them.
std::vector<Run> stacked_by(const MappedAxis& axis, const std::vector<Stretch>& stretches, const std::vector<Run>& row) {
  std::vector<Run> runs;
  for (const Stretch& s : stretches)
    for (Run r : row) {
      r.to += s.first * axis.to, r.from += std::max<int64_t>(0, s.place) * axis.from, r.outside = r.outside || s.outside;
      r.rows = s.count, r.to_row = axis.to, r.from_row = s.step * axis.from;
      runs.push_back(r);
    }
  return runs;
}

/// Whether many rows along the axis are the one before them again: those are copied on.
bool repeats(const MappedAxis& axis) {
  int64_t again = 0;
  for (size_t i = 1; i < axis.places.size(); ++i) again += axis.places[i] >= 0 && axis.places[i] == axis.places[i - 1] ? 1 : 0;
  return axis.from == 0 || 4 * again > axis.extent;
}

int64_t elements_of(const std::vector<Run>& row) {
  int64_t sum = 0;
  for (const Run& r : row) sum += r.rows * r.count;
  return sum;
}

class MappedKernel final : public Kernel {
 public:
  MappedKernel(const BoundNode& b, const PaddedAxes& p, int threads)
      : size_(element_bytes(b.inputs[0].type)), fill_(static_cast<size_t>(size_)), computed_fill_(p.computed_fill) {
    if (p.fill) std::memcpy(fill_.data(), p.fill->raw(), fill_.size());
    MergedAxes merged = merged_axes(p.axes);
    const MappedAxis inner = merged.axes.back();
    merged.axes.pop_back();
    runs_ = runs_of(inner, merged.width, std::max<int64_t>(1, most_run_bytes / size_));
    const bool stacked = !merged.axes.empty() && !repeats(merged.axes.back()) && stacks(merged.axes.back());
    if (stacked) {
      runs_ = stacked_by(merged.axes.back(), stretches_of(merged.axes.back()), runs_);
      merged.axes.pop_back();
    }
    // A walk's step takes as long as some runs.
    while (!stacked && !merged.axes.empty() && joins(merged.axes.back())) {
      runs_ = joined_by(merged.axes.back(), runs_);
      merged.axes.pop_back();
    }
    const int64_t elements_of_row = elements_of(runs_);
    dense_ = runs_.front().to == 0 && std::ranges::all_of(runs_, [](const Run& r) { return r.rows == 1; });
    for (size_t r = 1; r < runs_.size(); ++r) dense_ = dense_ && runs_[r].to == runs_[r - 1].to + runs_[r - 1].count;
    if (dense_ && elements_of_row < short_run * static_cast<int64_t>(runs_.size()) && elements_of_row <= most_run_bytes / size_) {
      for (const Run& r : runs_)
        for (int64_t i = 0; i < r.count; ++i) places_.push_back(r.outside ? -1 : r.from + i * r.step);
      any_outside_ = std::ranges::any_of(runs_, &Run::outside);
    }
    axes_ = std::move(merged.axes);
    for (const MappedAxis& a : axes_) rows_ *= a.extent;
    threads_ = useful_threads(threads, 2 * elements(b.outputs[0].shape) * size_);
  }

  void run(const Buffers& b) override {
    const void* fill = computed_fill_ ? b.inputs[2] : fill_.data();
    switch (size_) {
      case 1: return move<uint8_t>(b, fill);
      case 2: return move<uint16_t>(b, fill);
      case 4: return move<uint32_t>(b, fill);
      default: return move<uint64_t>(b, fill);
    }
  }

 private:
  /// Short rows of few runs, and an axis whose places lie in few stretches.
  bool stacks(const MappedAxis& axis) const {
    constexpr int64_t few_runs = 6, least_rows = 4, most_row_bytes = 512, most_bytes = 1 << 16;
    const auto runs = static_cast<int64_t>(runs_.size());
    const int64_t row = elements_of(runs_);
    if (runs < 2 || runs > few_runs || row < short_run * runs || row * size_ > most_row_bytes ||
        row * size_ * axis.extent > most_bytes)
      return false;
    return static_cast<int64_t>(stretches_of(axis).size()) * least_rows <= axis.extent;
  }

  /// Short rows, of which no long ones would be copied on.
  bool joins(const MappedAxis& axis) const {
    constexpr int64_t short_row = 48, most_places = 4096;  // elements
    const int64_t row = elements_of(runs_);
    const auto runs = static_cast<int64_t>(runs_.size());
    if (row * size_ >= most_joined_bytes) return false;
    if (row < short_run * runs && row <= short_row && row * axis.extent <= most_places) return true;
    return !repeats(axis) && runs * axis.extent <= most_runs;
  }

  template <class T> void move(const Buffers& b, const void* fill) const {
    const T* x = static_cast<const T*>(b.inputs[0]);
    T* y = static_cast<T*>(b.outputs[0]);
    T outside;
    std::memcpy(&outside, fill, sizeof outside);
    const int64_t per_row = places_.empty() ? static_cast<int64_t>(runs_.size()) : 1;
    parallel(threads_, rows_ * per_row, 1, [&](int64_t begin, int64_t end, int) {
      const T *source = nullptr, *written = nullptr;  // of the row before
      int64_t row = begin / per_row, first = begin % per_row;
      for (Place p = place_of(row); begin < end; p = next(p, ++row), first = 0) {
        const int64_t last = std::min(per_row, first + end - begin);
        begin += last - first;
        if (!p.inside && dense_) {
          const Run &front = runs_[static_cast<size_t>(places_.empty() ? first : 0)],
                    &back = places_.empty() ? runs_[static_cast<size_t>(last) - 1] : runs_.back();
          fill_line(y + p.to + front.to, outside, back.to + back.count - front.to);
        } else if (places_.empty()) {
          for (int64_t r = first; r < last; ++r) copy(runs_[static_cast<size_t>(r)], y + p.to, x + p.from, p.inside, outside);
        } else if (source == x + p.from) {
          copy_line(y + p.to, written, static_cast<int64_t>(places_.size() * sizeof(T)));
        } else {
          gather(y + p.to, x + p.from, outside);
          source = x + p.from, written = y + p.to;
        }
      }
    });
  }

  /// Where a row begins.
  struct Place {
    int64_t to = 0, from = 0;
    bool inside = true;
    int64_t i = 0, to_line = 0, from_line = 0;  // the place on the innermost axis, and where its first one begins
    bool line_inside = true;
  };

  Place place_of(int64_t row) const {
    Place p;
    if (axes_.empty()) return p;
    p.i = row % axes_.back().extent;
    int64_t rest = row / axes_.back().extent;
    for (size_t a = axes_.size() - 1; a-- > 0; rest /= axes_[a].extent) {
      const MappedAxis& axis = axes_[a];
      const int64_t i = rest % axis.extent, place = place_on(axis, i);
      p.to_line += i * axis.to, p.from_line += place * axis.from, p.line_inside = p.line_inside && place >= 0;
    }
    return along(p);
  }
  /// The place of the row behind p's: divisions only where the innermost axis ends.
  Place next(Place p, int64_t row) const {
    if (axes_.empty() || ++p.i == axes_.back().extent) return row < rows_ ? place_of(row) : p;
    return along(p);
  }
  Place along(Place p) const {
    const MappedAxis& axis = axes_.back();
    const int64_t place = place_on(axis, p.i);
    p.to = p.to_line + p.i * axis.to, p.from = p.from_line + place * axis.from, p.inside = p.line_inside && place >= 0;
    return p;
  }
  static int64_t place_on(const MappedAxis& axis, int64_t i) {
    return axis.places.empty() ? i : axis.places[static_cast<size_t>(i)];
  }

  template <class T> void gather(T* y, const T* x, T outside) const {
    if (!any_outside_) {
      for (const int64_t place : places_) *y++ = x[place];
    } else {
      for (const int64_t place : places_) {
        const T found = x[std::max<int64_t>(0, place)];
        *y++ = place < 0 ? outside : found;
      }
    }
  }

  template <class T> static void copy(const Run& r, T* y, const T* x, bool inside, T outside) {
    constexpr auto bytes = static_cast<int64_t>(sizeof(T));
    y += r.to, x += r.from;
    if (inside && !r.outside && r.step == 1 && r.count > 1)
      return copy_lines(y, x, r.rows, r.count * bytes, r.to_row * bytes, r.from_row * bytes);
    if (inside && !r.outside && r.count == 1) {
      for (int64_t i = 0; i < r.rows; ++i) y[i * r.to_row] = x[i * r.from_row];
      return;
    }
    for (int64_t i = 0; i < r.rows; ++i, y += r.to_row, x += r.from_row) {
      if (!inside || r.outside) {
        fill_line(y, outside, r.count);
      } else if (r.step == 0) {
        fill_line(y, *x, r.count);
      } else {
        for (int64_t k = 0; k < r.count; ++k) y[k] = x[k * r.step];
      }
    }
  }

  int64_t size_, rows_ = 1;
  std::vector<std::byte> fill_;
  bool computed_fill_;
  std::vector<MappedAxis> axes_;  // the outer ones
  std::vector<Run> runs_;
  bool dense_ = false, any_outside_ = false;  // runs lie side by side; some are outside
  std::vector<int64_t> places_;               // of a row's elements in x, in place of runs; -1: outside
  int threads_ = 1;
};

}  // namespace

std::optional<Refusal> rejects_mapped(const BoundNode& b) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (!StridedCopy::can_move(element_bytes(x.type))) return refuse(Reason::wrong_type, "elements of {}", smelt::name(x.type));
  if (elements(y.shape) == 0) return refuse(Reason::wrong_shape, "nothing to write");
  const Shape steps = memory_strides(y);
  int64_t least = 0;
  for (size_t a = 0; a < steps.size(); ++a)
    if (y.shape[a] > 1 && (least == 0 || steps[a] < least)) least = steps[a];
  if (least < 0 || least > 1) return refuse(Reason::wrong_layout, "a result whose elements are {} apart", least);
  return std::nullopt;
}

std::unique_ptr<Kernel> mapped_kernel(const BoundNode& b, const PaddedAxes& p, int threads) {
  return std::make_unique<MappedKernel>(b, p, threads);
}

void offer_mapped_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_mapped(b)) return offer.refuse("cpu", *why);
  const Result<PaddedAxes> p = padded_axes(b);
  if (!p) return offer.refuse("cpu", p.refusal());
  offer.candidates.push_back(
      {"cpu", "", copy_estimate_us(b, machine), [b, p = *p, threads = machine.threads] { return mapped_kernel(b, p, threads); }});
}

}  // namespace smelt::ops
