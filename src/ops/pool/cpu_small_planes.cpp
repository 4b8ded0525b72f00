// Pooling of many small plain planes of f32, f16 and bf16: what beginning and ending a line takes (40 ns) is more than a short
// line's own work. So planes are turned, some at a time, until those of a group lie side by side, pooled as pixels of so many
// channels, and turned back: a place takes its taps for all planes of the group at once.
#include <algorithm>
#include <array>

#include "base/number.h"
#include "ops/core/align.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cpu/strided_copy.h"
#include "ops/pool/direct.h"
#include "ops/pool/offer.h"

namespace smelt::ops::pool {
namespace {

constexpr int64_t most_points = 2048;   // of a plane: a group stays in the L2 cache
constexpr int64_t most_taps = 1 << 15;  // of all places together: they are listed
constexpr int64_t most_fold = 64;       // taps of a window

int64_t points(const int64_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }

/// Planes of a group: whole registers, and at most 128 KB of floats.
int64_t group_of(const Form& f) {
  constexpr int64_t floats = 1 << 15, side = 16, most = 64;
  return std::clamp(floats / std::max<int64_t>(points(f.in), 1) / side * side, side, most);
}

/// `rows` lines of `columns` elements, one behind the other, to columns `apart` from each other; and back.
StridedCopy turn(int64_t rows, int64_t columns, int64_t apart) { return {{rows, columns}, {columns, 1}, {1, apart}, 4, 1}; }
StridedCopy turn_back(int64_t rows, int64_t columns, int64_t apart) { return {{rows, columns}, {1, apart}, {columns, 1}, 4, 1}; }

class SmallPlanes final : public Kernel {
 public:
  SmallPlanes(const Form& f, int threads)
      : f_(f),
        type_(required_float_kind(f.type)),
        planes_(f.batch * f.channels),
        group_(std::min(group_of(f), planes_)),
        from_(points(f.in)),
        to_(points(f.out)),
        apart_(divide_up(group_, 16) * 16),
        threads_(useful_threads(threads, planes_ * (from_ + to_ + points(f.out) * points(f.kernel)))),
        rows_(row_functions(group_)) {
    const int64_t last = planes_ - (planes_ - 1) / group_ * group_;
    for (const int64_t planes : {group_, last}) {
      turns_.push_back(turn(planes, from_, apart_));
      turns_back_.push_back(turn_back(planes, to_, apart_));
    }
    for (int64_t d = 0; d < f.out[0]; ++d)
      for (int64_t h = 0; h < f.out[1]; ++h)
        for (int64_t w = 0; w < f.out[2]; ++w) list_taps({d, h, w});
    first_tap_.push_back(taps_.size());
  }

  int64_t workspace() const override { return threads_ * thread_floats() * 4; }

  void run(const Buffers& b) override {
    parallel_dynamic(threads_, divide_up(planes_, group_), [&](int64_t group, int thread) {
      const int64_t first = group * group_, planes = std::min(group_, planes_ - first);
      const size_t which = planes == group_ ? 0 : 1;
      float* turned = static_cast<float*>(b.workspace) + thread * thread_floats();
      float* results = turned + aligned(from_ * apart_);
      float* lines = results + aligned(to_ * apart_);
      const char* x = static_cast<const char*>(b.inputs[0]) + first * from_ * element();
      char* y = static_cast<char*>(b.outputs[0]) + first * to_ * element();
      if (is_narrow()) copy_as_f32(lines, 1, x, 1, planes * from_, f_.type);
      turns_[which].run(turned, is_narrow() ? static_cast<const void*>(lines) : x);
      // Planes that fill the last register: nobody reads their results.
      const int64_t used = divide_up(planes, 8) * 8;
      for (int64_t point = 0; point < from_ && planes < used; ++point)
        std::fill(turned + point * apart_ + planes, turned + point * apart_ + used, 0.0f);
      for (int64_t place = 0; place < to_; ++place) fold(place, turned, results + place * apart_, used);
      turns_back_[which].run(is_narrow() ? static_cast<void*>(lines) : y, results);
      if (is_narrow()) row_simd().scale(type_, lines, nullptr, nullptr, y, planes * to_);
    });
  }

 private:
  bool is_narrow() const { return type_ != FloatKind::f32; }
  int64_t element() const { return is_narrow() ? 2 : 4; }
  int64_t thread_floats() const {
    return aligned(from_ * apart_) + aligned(to_ * apart_) + (is_narrow() ? aligned(std::max(from_, to_) * group_) : 0);
  }

  void list_taps(std::array<int64_t, 3> place) {
    first_tap_.push_back(taps_.size());
    Taps t[3];
    int64_t begin[3], count = 1;
    for (size_t a = 0; a < 3; ++a) {
      t[a] = inside(f_, a, place[a]);
      begin[a] = place[a] * f_.stride[a] - f_.begin[a];
      count *= counted(f_, a, place[a]);
    }
    for (int64_t z = t[0].first; z < t[0].last; ++z)
      for (int64_t y = t[1].first; y < t[1].last; ++y)
        for (int64_t x = t[2].first; x < t[2].last; ++x) {
          const int64_t depth = begin[0] + z * f_.dilation[0], row = begin[1] + y * f_.dilation[1];
          taps_.push_back((depth * f_.in[1] + row) * f_.in[2] + begin[2] + x * f_.dilation[2]);
        }
    factors_.push_back(static_cast<float>(1 / static_cast<double>(std::max<int64_t>(1, count))));
  }

  void fold(int64_t place, const float* turned, float* to, int64_t planes) const {
    const size_t p = static_cast<size_t>(place), first = first_tap_[p], count = first_tap_[p + 1] - first;
    if (count == 0) {
      std::fill_n(to, planes, f_.kind == Direct::max ? -std::numeric_limits<float>::infinity() : 0.0f);
      return;
    }
    const float* pixels[most_fold];
    for (size_t i = 0; i < count; ++i) pixels[i] = turned + taps_[first + i] * apart_;
    if (f_.kind == Direct::max)
      rows_.largest(to, pixels, static_cast<int64_t>(count), planes);
    else
      rows_.scaled_sum(to, pixels, static_cast<int64_t>(count), factors_[p], planes);
  }

  Form f_;
  FloatKind type_;
  int64_t planes_, group_, from_, to_;  // from_, to_: a plane's points
  int64_t apart_;                       // elements from one point of a group to the next
  int threads_;
  const RowFunctions& rows_;
  std::vector<StridedCopy> turns_, turns_back_;  // of a group, and of the last
  std::vector<int64_t> taps_;                    // points that the places' windows take
  std::vector<size_t> first_tap_;                // of each place
  std::vector<float> factors_;                   // of each place's sum
};

bool is_dense_planes(const int64_t (&steps)[5], const int64_t (&extents)[3], int64_t channels) {
  return (extents[1] == 1 || steps[3] == extents[2]) && (extents[0] == 1 || steps[2] == extents[1] * extents[2]) &&
         steps[1] == points(extents) && steps[0] == channels * points(extents);
}

std::optional<Refusal> rejects(const Form& f) {
  if (!float_kind(f.type)) return refuse(Reason::wrong_type, "elements of {}", smelt::name(f.type));
  if (f.indices || f.kind == Direct::norm) return refuse(Reason::unsupported, "norms and indices");
  if (points(f.in) > most_points || points(f.out) > most_points)
    return refuse(Reason::not_profitable, "planes of {} points; it pays up to {}", points(f.in), most_points);
  if (points(f.kernel) > most_fold || points(f.out) * points(f.kernel) > most_taps)
    return refuse(Reason::not_profitable, "windows of {} taps; it pays up to {}", points(f.kernel), most_fold);
  if (f.batch * f.channels < 8) return refuse(Reason::not_profitable, "{} planes; it pays from 8", f.batch * f.channels);
  if (!is_dense_planes(f.from, f.in, f.channels) || !is_dense_planes(f.to, f.out, f.channels))
    return refuse(Reason::wrong_layout, "planes that do not lie one behind the other");
  return std::nullopt;
}

}  // namespace

void offer_small_planes(const Form& f, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(f)) return offer.refuse("cpu", why->at("side by side"));
  const double planes = static_cast<double>(f.batch * f.channels), groups = planes / static_cast<double>(group_of(f));
  // A Xeon, measured: half a nanosecond to turn an element, 16 taps in one, and 15 to begin a place of a group.
  const double turned = planes * static_cast<double>(points(f.in) + points(f.out)) / 2e3;
  const double places = static_cast<double>(points(f.out)), taps = planes * places * static_cast<double>(points(f.kernel)) / 16e3;
  offer.candidates.push_back({"cpu", "side by side", 1 + (turned + taps + groups * places * 15e-3) / machine.threads,
                              [f, threads = machine.threads] { return std::make_unique<SmallPlanes>(f, threads); }});
}

}  // namespace smelt::ops::pool
