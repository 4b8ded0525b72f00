// Pooling of plain images along one to three axes, of every type: MaxPool, AveragePool, LpPool and GlobalLpPool. A task is a band
// of one plane's places: the planes below it fold into one, whose windows are then folded. Means and norms of 16-bit floats are
// computed in f32; their maxima are those of integers in the same order.
#include <algorithm>
#include <cmath>

#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/direct.h"
#include "ops/pool/offer.h"
#include "ops/pool/simd/planes.h"

namespace smelt::ops::pool {
namespace {

/// For lines of so many bytes: those that fill no register of 512 bits would be taken one by one.
const PlaneSimd& plane_simd(int64_t line) {
  if (simd::widest() == simd::Isa::avx512 && line >= 64) return avx512::pool_planes();
  return simd::best() == simd::Isa::avx2 ? avx2::pool_planes() : base::pool_planes();
}

template <class T> PlaneFold<T> plane_fold(bool max, int64_t line) {
  const PlaneSimd& s = plane_simd(line * static_cast<int64_t>(sizeof(T)));
  if constexpr (std::is_same_v<T, double>)
    return max ? s.max_f64 : s.sum_f64;
  else if constexpr (std::is_same_v<T, int8_t>)
    return s.max_i8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return s.max_u8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return s.max_keys;
  else
    return max ? s.max_f32 : s.sum_f32;
}

/// Whether doubling windows of `kernel` takes fewer folds than their taps: it folds at every point, not only at the places.
bool doubles(int64_t kernel, int64_t stride, int64_t few) {
  int64_t folds = 0;
  for (int64_t n = 1; n < kernel; n *= 2) ++folds;
  return kernel > few && 3 * folds * stride < 2 * kernel;
}

/// The geometry of `places` rows of a plane: of `rows` rows `pitch` apart, the first of which is row `row` of the image.
PlaneWindows windows_of(const Form& f, int64_t place, int64_t places, int64_t row, int64_t rows, int64_t pitch) {
  PlaneWindows p{};
  p.rows = rows, p.width = f.in[2], p.pitch = pitch;
  p.places[0] = places, p.places[1] = f.out[2], p.to_pitch = f.to[3];
  for (size_t a = 0; a < 2; ++a)
    p.kernel[a] = f.kernel[a + 1], p.stride[a] = f.stride[a + 1], p.dilation[a] = f.dilation[a + 1], p.begin[a] = f.begin[a + 1];
  p.begin[0] += row - place * f.stride[1];
  const int64_t reach[] = {(p.kernel[0] - 1) * p.dilation[0], (p.kernel[1] - 1) * p.dilation[1]};
  p.line = std::max(p.begin[1] + p.width, p.places[1] * p.stride[1] + reach[1]);
  const bool max = f.kind == Direct::max;
  p.tall = max && doubles(p.kernel[0], p.stride[0], 8) ? (places - 1) * p.stride[0] + reach[0] + 1 : 0;
  p.wide = max && doubles(p.kernel[1], p.stride[1], 4);
  return p;
}

int64_t scratch_of(const PlaneWindows& p) { return 3 * p.line + 2 * p.stride[1] + 3 * p.tall * p.line; }

template <class T> T powered(T v, int64_t power) {
  const T a = std::abs(v);
  return power == 1 ? a : power == 2 ? a * a : std::pow(a, static_cast<T>(power));
}

class DirectKernel final : public Kernel {
 public:
  DirectKernel(const Form& f, int threads) : f_(f), kind_(float_kind(f.type)), element_(bits(f.type) / 8) {
    const int64_t planes = f.batch * f.channels * f.out[0];
    threads_ = useful_threads(threads, planes * (f.in[1] * f.in[2] * f.kernel[0] + f.out[1] * f.out[2] * 4) / 4);
    const int64_t wanted = threads_ == 1 ? 1 : 4 * threads_;
    band_ = planes >= wanted ? f.out[1] : std::max<int64_t>(1, f.out[1] * planes / wanted);
    bands_ = (f.out[1] + band_ - 1) / band_;
    const bool narrow = kind_ && *kind_ != FloatKind::f32;
    keys_ = narrow && f.kind == Direct::max;
    narrow_ = narrow && !keys_;
    copies_ = narrow || f.kind == Direct::norm || (f.kernel[0] > 1 && f.from[3] != f.in[2]);
    band_rows_ = std::min(f.in[1], (band_ - 1) * f.stride[1] + (f.kernel[1] - 1) * f.dilation[1] + 1);
    for (int64_t w = 0; w < f.out[2]; ++w) counts_.push_back(static_cast<double>(std::max<int64_t>(1, counted(f, 2, w))));
    const int64_t plane = aligned(band_rows_ * f.in[2] * element());
    copied_bytes_ = copies_ ? (f.kernel[0]) * plane : 0;
    folded_bytes_ = f.kernel[0] > 1 || f.begin[0] > 0 || f.end[0] > 0 ? plane : 0;
    result_bytes_ = narrow_ ? aligned(band_ * f.out[2] * element()) : 0;
    factor_bytes_ = f.mean() ? aligned(f.out[2] * element()) : 0;
    scratch_bytes_ = aligned((scratch_of(windows_of(f, 0, band_, 0, band_rows_, f.in[2])) + depth_scratch()) * element());
  }
  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    const int64_t tasks = f_.batch * f_.channels * f_.out[0] * bands_;
    parallel(threads_, tasks, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * thread_bytes();
      for (int64_t i = begin; i < end; ++i) switch (f_.type) {
          case DType::f64: task<double>(b, i, own); break;
          case DType::f16:
          case DType::bf16: keys_ ? task<int16_t>(b, i, own) : task<float>(b, i, own); break;
          case DType::i8: task<int8_t>(b, i, own); break;
          case DType::u8: task<uint8_t>(b, i, own); break;
          default: task<float>(b, i, own);
        }
    });
  }

 private:
  int64_t element() const { return narrow_ ? 4 : element_; }
  int64_t thread_bytes() const { return copied_bytes_ + folded_bytes_ + result_bytes_ + factor_bytes_ + scratch_bytes_; }
  int64_t depth_scratch() const { return f_.kernel[0] > 1 ? 3 * band_rows_ * f_.in[2] + 2 : 0; }

  template <class T> void task(const Buffers& b, int64_t i, char* own) const {
    const int64_t h = i % bands_ * band_, places = std::min(band_, f_.out[1] - h), d = i / bands_ % f_.out[0];
    const int64_t c = i / bands_ / f_.out[0] % f_.channels, n = i / bands_ / f_.out[0] / f_.channels;
    const char* x = static_cast<const char*>(b.inputs[0]) + (n * f_.from[0] + c * f_.from[1]) * element_;
    char* y = static_cast<char*>(b.outputs[0]) + (n * f_.to[0] + c * f_.to[1] + d * f_.to[2] + h * f_.to[3]) * element_;
    T* result = narrow_ ? reinterpret_cast<T*>(own + copied_bytes_ + folded_bytes_) : reinterpret_cast<T*>(y);

    const int64_t top = std::clamp<int64_t>(h * f_.stride[1] - f_.begin[1], 0, f_.in[1] - 1);
    const int64_t rows = std::min(band_rows_, f_.in[1] - top);
    PlaneWindows p = windows_of(f_, h, places, top, rows, f_.from[3]);
    if (narrow_) p.to_pitch = f_.out[2];
    const T* plane = plane_below<T>(x, d, top, rows, p.pitch, own);
    plane_fold<T>(f_.kind == Direct::max, f_.out[2])(p, plane, result,
                                                     reinterpret_cast<T*>(own + thread_bytes() - scratch_bytes_));
    finish(result, p.to_pitch, d, h, places, reinterpret_cast<T*>(own + copied_bytes_ + folded_bytes_ + result_bytes_));
    if constexpr (std::is_same_v<T, float>) {
      for (int64_t r = 0; narrow_ && r < places; ++r)
        row_simd().scale(*kind_, result + r * f_.out[2], nullptr, nullptr, y + r * f_.to[3] * element_, f_.out[2]);
    }
  }

  /// `rows` rows from `top` on of the planes below place d, folded into one; `pitch`: between its rows.
  template <class T> const T* plane_below(const char* x, int64_t d, int64_t top, int64_t rows, int64_t& pitch, char* own) const {
    const Taps taps = inside(f_, 0, d);
    const int64_t count = taps.last - taps.first, step = f_.dilation[0] * f_.from[2], width = f_.in[2];
    const int64_t first = (d * f_.stride[0] - f_.begin[0]) * f_.from[2] + taps.first * step;
    const char* from = x + (first + top * f_.from[3]) * element_;
    const T* planes = reinterpret_cast<const T*>(from);
    int64_t apart = step;
    if (copies_) {
      T* copied = reinterpret_cast<T*>(own);
      for (int64_t k = 0; k < count; ++k)
        for (int64_t r = 0; r < rows; ++r)
          copy_row(from + (k * step + r * f_.from[3]) * element_, copied + (k * rows + r) * width);
      planes = copied, apart = rows * width, pitch = width;
    }
    if (count == 1) return planes;
    T* folded = reinterpret_cast<T*>(own + copied_bytes_);
    PlaneWindows p{};
    p.rows = p.kernel[0] = std::max<int64_t>(count, 1), p.width = p.places[1] = rows * width, p.pitch = apart;
    p.places[0] = p.kernel[1] = p.stride[0] = p.stride[1] = p.dilation[0] = p.dilation[1] = 1;
    p.line = p.width;
    pitch = width;
    if (count == 0) {
      std::fill_n(folded, p.width, f_.kind == Direct::max ? lowest<T>() : T(0));
      return folded;
    }
    plane_fold<T>(f_.kind == Direct::max, p.width)(p, planes, folded,
                                                   reinterpret_cast<T*>(own + thread_bytes() - scratch_bytes_));
    return folded;
  }

  template <class T> static T lowest() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }

  template <class T> void copy_row(const char* from, T* to) const {
    if constexpr (std::is_same_v<T, float>) {
      row_simd().load(*kind_, from, nullptr, nullptr, to, f_.in[2]);
    } else if constexpr (std::is_same_v<T, int16_t>) {
      plane_simd(2 * f_.in[2]).keys(reinterpret_cast<const uint16_t*>(from), to, f_.in[2], infinity());
    } else {
      std::copy_n(reinterpret_cast<const T*>(from), f_.in[2], to);
    }
    if constexpr (std::is_floating_point_v<T>)
      if (f_.kind == Direct::norm)
        for (int64_t i = 0; i < f_.in[2]; ++i) to[i] = powered(to[i], f_.power);
  }

  /// Sums to means and norms, keys to values. `factors`: room for a row of them.
  template <class T> void finish(T* y, int64_t pitch, int64_t d, int64_t h, int64_t places, T* factors) const {
    const int64_t n = f_.out[2];
    if constexpr (std::is_same_v<T, int16_t>) {
      for (int64_t r = 0; r < places; ++r) plane_simd(2 * n).values(y + r * pitch, n, infinity());
    } else if constexpr (std::is_floating_point_v<T>) {
      int64_t outer = 0;  // what the factors were made for
      for (int64_t r = 0; r < places; ++r, y += pitch) {
        if (f_.mean()) {
          if (const int64_t count = std::max<int64_t>(1, counted(f_, 0, d) * counted(f_, 1, h + r)); count != outer) {
            outer = count;
            for (int64_t w = 0; w < n; ++w)
              factors[w] = static_cast<T>(1 / (static_cast<double>(outer) * counts_[static_cast<size_t>(w)]));
          }
          if constexpr (std::is_same_v<T, float>)
            plane_simd(4 * n).scale_f32(y, factors, n);
          else
            plane_simd(8 * n).scale_f64(y, factors, n);
        } else if (f_.kind == Direct::norm && f_.power == 2) {
          for (int64_t w = 0; w < n; ++w) y[w] = std::sqrt(y[w]);
        } else if (f_.kind == Direct::norm && f_.power > 2) {
          for (int64_t w = 0; w < n; ++w)
            y[w] = static_cast<T>(std::pow(static_cast<double>(y[w]), 1.0 / static_cast<double>(f_.power)));
        }
      }
    }
  }
  uint16_t infinity() const { return f_.type == DType::f16 ? 0x7c00 : 0x7f80; }

  Form f_;
  std::optional<FloatKind> kind_;  // none: doubles or bytes
  int64_t element_;
  std::vector<double> counts_;                           // of taps that a mean divides by, along a row
  int64_t band_ = 1, bands_ = 1, band_rows_ = 1;         // places of a band along rows, and the input's rows below them
  bool narrow_ = false, keys_ = false, copies_ = false;  // 16-bit floats as f32, or as integers in their order
  int64_t copied_bytes_ = 0, folded_bytes_ = 0, result_bytes_ = 0, factor_bytes_ = 0, scratch_bytes_ = 0;
  int threads_ = 1;
};

}  // namespace

void offer_direct(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Form> f = direct_form(b);
  if (!f) return offer.refuse("cpu", f.refusal().at("direct"));
  const double planes = static_cast<double>(f->batch * f->channels * f->out[0]);
  const double points = static_cast<double>(f->in[1] * f->in[2] * (f->kernel[0] + 1) + f->out[1] * f->out[2] * 4);
  const double slow = f->indices ? static_cast<double>(f->kernel[0] * f->kernel[1] * f->kernel[2]) : 1;
  const auto make = [f = *f, threads = machine.threads]() -> std::unique_ptr<Kernel> {
    if (f.indices) return indexed_max(f, threads);
    return std::make_unique<DirectKernel>(f, threads);
  };
  constexpr double line_us = 35e-3;  // to begin and end a line of results: what small planes took beyond their points
  const double lines = planes * static_cast<double>(f->out[1]) * line_us;
  offer.candidates.push_back({"cpu", "direct", 1 + (planes * points * slow / 8e3 + lines) / machine.threads, make});
  offer_small_planes(*f, machine, offer);
}

}  // namespace smelt::ops::pool
