// Where RoiAlign reads the map.
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "ops/detect/roi.h"

namespace smelt::ops {
namespace {

constexpr int64_t told_apart = 8;  // samples of a bin that are entries of their own, however close they are

/// Sample i of a bin lies at start + bin_number · bin + (i + 1/2) · bin / grid.
struct Samples {
  double begin, bin;
  int64_t grid;
  double at(int64_t i) const { return begin + (static_cast<double>(i) + 0.5) * bin / static_cast<double>(grid); }

  /// The first i in [from, to) that lies at `place` or farther in the direction of the samples; `to`: none does.
  int64_t first_at(double place, int64_t from, int64_t to, bool past = false) const {
    while (from < to) {
      const int64_t middle = from + (to - from) / 2;
      const double v = at(middle);
      const bool reached = bin < 0 ? (past ? v < place : v <= place) : (past ? v > place : v >= place);
      if (reached)
        to = middle;
      else
        from = middle + 1;
    }
    return from;
  }
};

/// The pixel before a place on the map, and how far it lies from it.
struct Between {
  int64_t low;
  double rest;
};
Between between(double v, int64_t extent) {
  v = std::max(v, 0.0);
  const int64_t low = truncated(v);
  if (low >= extent - 1) return {extent - 1, 0};
  return {low, v - static_cast<double>(low)};
}

/// Samples begin..end - 1 of a bin, which lie on the map, as entries.
class Entries {
 public:
  Entries(std::vector<RoiEntry>& to, const Samples& samples, int64_t extent, bool maximum)
      : to_(to), samples_(samples), extent_(extent), maximum_(maximum) {}

  void add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    const Between first = between(samples_.at(begin), extent_), last = between(samples_.at(end - 1), extent_);
    const int64_t pixels = std::abs(last.low - first.low) + 2;
    if (end - begin <= std::max(told_apart, 2 * pixels))
      for (int64_t i = begin; i < end; ++i) sample(between(samples_.at(i), extent_));
    else
      by_pixels(begin, end);
  }

 private:
  void sample(const Between& b) {
    to_.push_back({b.low, 1 - b.rest});
    to_.push_back({std::min(b.low + 1, extent_ - 1), b.rest});
  }

  /// Those between two pixels follow each other: the sum of their distances from the pixel is that of an arithmetic progression.
  void by_pixels(int64_t begin, int64_t end) {
    while (begin < end) {
      const Between first = between(samples_.at(begin), extent_);
      const int64_t next = next_pixel(first.low, begin, end);
      const Between last = between(samples_.at(next - 1), extent_);
      if (maximum_) {  // a pixel's largest weight counts where its value is positive, its smallest where it is negative
        sample(first);
        sample(last);
      } else {
        const double count = static_cast<double>(next - begin), rests = count * (first.rest + last.rest) / 2;
        to_.push_back({first.low, count - rests});
        to_.push_back({std::min(first.low + 1, extent_ - 1), rests});
      }
      begin = next;
    }
  }

  /// The first sample behind `begin` with another pixel before it. At the map's edges all samples have the same pixel and no rest.
  int64_t next_pixel(int64_t low, int64_t begin, int64_t end) const {
    const bool before = samples_.at(begin) < 0, descends = samples_.bin < 0;
    if (descends ? before : !before && low >= extent_ - 1) return end;
    const double place = descends || before ? static_cast<double>(low) : static_cast<double>(low + 1);
    return std::max(begin + 1, samples_.first_at(place, begin, end, descends));
  }

  std::vector<RoiEntry>& to_;
  const Samples& samples_;
  int64_t extent_;
  bool maximum_;
};

int64_t grid_of(int64_t sampling, double length, int64_t bins) {
  if (sampling > 0) return sampling;
  const double n = std::ceil(length / static_cast<double>(bins));
  if (!(n <= static_cast<double>(most_roi_samples)))
    fail("a region of extent {} takes more than {} samples a bin; set sampling_ratio", length, most_roi_samples);
  return std::max<int64_t>(0, truncated(n));
}

RoiAxis axis_of(const RoiAlign& p, double low, double high, int64_t extent, int64_t bins) {
  const double shift = p.half_pixel ? 0.5 : 0, start = low * p.scale - shift;
  double length = high * p.scale - shift - start;
  if (!p.half_pixel) length = std::max(length, 1.0);  // the older form has no regions below one pixel
  RoiAxis axis;
  axis.grid = grid_of(p.sampling, length, bins);
  const double bin = length / static_cast<double>(bins);
  for (int64_t b = 0; b < bins; ++b) {
    const Samples samples{start + static_cast<double>(b) * bin, bin, axis.grid};
    const size_t begin = axis.entries.size();
    int64_t first = 0, end = 0;
    if (std::isfinite(samples.begin) && std::isfinite(bin)) {
      first = samples.first_at(bin < 0 ? static_cast<double>(extent) : -1.0, 0, axis.grid);
      end = samples.first_at(bin < 0 ? -1.0 : static_cast<double>(extent), first, axis.grid, true);
      Entries(axis.entries, samples, extent, p.maximum).add(first, end);
    }
    axis.bins.push_back({begin, axis.entries.size(), end - first < axis.grid});
  }
  return axis;
}

}  // namespace

RoiPlaces roi_places(const RoiAlign& p, const double region[4]) {
  return {axis_of(p, region[1], region[3], p.height, p.out_height), axis_of(p, region[0], region[2], p.width, p.out_width)};
}

}  // namespace smelt::ops
