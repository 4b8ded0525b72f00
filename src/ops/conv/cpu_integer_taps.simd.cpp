#include "ops/conv/simd/integer_taps.h"

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {
namespace {

/// Sums of a block of elements: two taps' elements side by side are multiplied and added at once.
struct Pixels {
#if defined(__AVX512BW__)
  static constexpr int64_t block = 32;
  __m512i low, high;  // of each four of eight elements the first and the last

  SMELT_INLINE Pixels(const int16_t* a, const int16_t* b) {
    const __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b);
    low = _mm512_unpacklo_epi16(x, y), high = _mm512_unpackhi_epi16(x, y);
  }
#elif defined(__AVX2__)
  static constexpr int64_t block = 16;
  __m256i low, high;  // elements 0-3 and 8-11; 4-7 and 12-15

  SMELT_INLINE Pixels(const int16_t* a, const int16_t* b) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)),
                  y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
  }
#else
  static constexpr int64_t block = 8;
  __m128i low, high;

  SMELT_INLINE Pixels(const int16_t* a, const int16_t* b) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a)),
                  y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
    low = _mm_unpacklo_epi16(x, y), high = _mm_unpackhi_epi16(x, y);
  }
#endif
};

/// store_some: the first n, added to what lies there or not; nothing behind them is read or written.
struct Sums {
#if defined(__AVX512BW__)
  __m512i low = _mm512_setzero_si512(), high = _mm512_setzero_si512();

  SMELT_INLINE void add(const Pixels& p, int32_t pair) {
    const __m512i w = _mm512_set1_epi32(pair);
    low = _mm512_add_epi32(low, _mm512_madd_epi16(p.low, w));
    high = _mm512_add_epi32(high, _mm512_madd_epi16(p.high, w));
  }
  SMELT_INLINE __m512i first() const { return _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high); }
  SMELT_INLINE __m512i second() const {
    return _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
  }
  SMELT_INLINE void store(int32_t* to) const {
    _mm512_storeu_si512(to, first());
    _mm512_storeu_si512(to + 16, second());
  }
  SMELT_INLINE void store_some(int32_t* to, int64_t n, bool adds) const {
    put(to, first(), n, adds);
    if (n > 16) put(to + 16, second(), n - 16, adds);
  }
  static SMELT_INLINE void put(int32_t* to, __m512i v, int64_t n, bool adds) {
    const __mmask16 lanes = n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << n) - 1);
    if (adds) v = _mm512_add_epi32(v, _mm512_maskz_loadu_epi32(lanes, to));
    _mm512_mask_storeu_epi32(to, lanes, v);
  }
#elif defined(__AVX2__)
  __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();

  SMELT_INLINE void add(const Pixels& p, int32_t pair) {
    const __m256i w = _mm256_set1_epi32(pair);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(p.low, w));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(p.high, w));
  }
  SMELT_INLINE __m256i first() const { return _mm256_permute2x128_si256(low, high, 0x20); }
  SMELT_INLINE __m256i second() const { return _mm256_permute2x128_si256(low, high, 0x31); }
  SMELT_INLINE void store(int32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), first());
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), second());
  }
  SMELT_INLINE void store_some(int32_t* to, int64_t n, bool adds) const {
    put(to, first(), n, adds);
    if (n > 8) put(to + 8, second(), n - 8, adds);
  }
  static SMELT_INLINE void put(int32_t* to, __m256i v, int64_t n, bool adds) {
    const __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    if (adds) v = _mm256_add_epi32(v, _mm256_maskload_epi32(to, lanes));
    _mm256_maskstore_epi32(to, lanes, v);
  }
#else
  __m128i low = _mm_setzero_si128(), high = _mm_setzero_si128();

  SMELT_INLINE void add(const Pixels& p, int32_t pair) {
    const __m128i w = _mm_set1_epi32(pair);
    low = _mm_add_epi32(low, _mm_madd_epi16(p.low, w));
    high = _mm_add_epi32(high, _mm_madd_epi16(p.high, w));
  }
  SMELT_INLINE void store(int32_t* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4), high);
  }
  SMELT_INLINE void store_some(int32_t* to, int64_t n, bool adds) const {
    int32_t all[8];
    store(all);
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<int32_t>((adds ? static_cast<uint32_t>(to[i]) : 0) + static_cast<uint32_t>(all[i]));
  }
#endif
};

constexpr int64_t block = Pixels::block;
static_assert(ops::integer_taps_block % block == 0);

/// All places of `results` results from the m-th on: what the taps read is loaded once for these.
template <int results> void fold_results(const ops::TapSums& s, int64_t m) {
  const int32_t* pairs[results];
  int32_t* to[results];
  for (int r = 0; r < results; ++r) pairs[r] = s.pairs + (m + r) * s.pairs_step, to[r] = s.to + (m + r) * s.to_step;
  int64_t o = 0;
  for (; results == 1 && o + 2 * block <= s.places && !s.adds; o += 2 * block) {
    Sums first, second;
    for (int64_t k = 0; k < s.count; ++k) {
      const int16_t *a = s.from + s.offsets[2 * k] + o, *b = s.from + s.offsets[2 * k + 1] + o;
      first.add(Pixels(a, b), pairs[0][k]);
      second.add(Pixels(a + block, b + block), pairs[0][k]);
    }
    first.store(to[0] + o), second.store(to[0] + o + block);
  }
  for (; o < s.places; o += block) {
    Sums sums[results];
    for (int64_t k = 0; k < s.count; ++k) {
      const Pixels pixels(s.from + s.offsets[2 * k] + o, s.from + s.offsets[2 * k + 1] + o);
      for (int r = 0; r < results; ++r) sums[r].add(pixels, pairs[r][k]);
    }
    if (o + block <= s.places && !s.adds) {
      for (int r = 0; r < results; ++r) sums[r].store(to[r] + o);
      continue;
    }
    const int64_t some = s.places - o < block ? s.places - o : block;
    for (int r = 0; r < results; ++r) sums[r].store_some(to[r] + o, some, s.adds);
  }
}

void fold(const ops::TapSums& s) {
  int64_t m = 0;
  for (; m + 4 <= s.results; m += 4) fold_results<4>(s, m);
  if (s.results - m == 3) fold_results<3>(s, m);
  if (s.results - m == 2) fold_results<2>(s, m);
  if (s.results - m == 1) fold_results<1>(s, m);
}

/// From one row to the next, in x and in what is written.
class RowWalk {
 public:
  explicit RowWalk(const ops::WidenedRows& w) : w_(w), remainder_(w.first_row % w.stride_y), place_(w.first_row / w.stride_y) {}
  const uint8_t* x() const { return x_; }
  int16_t* to() const { return w_.to + remainder_ * w_.stride_x * w_.plane + place_ * w_.pitch; }
  void next() {
    x_ += w_.x_row;
    if (++remainder_ == w_.stride_y) remainder_ = 0, ++place_;
  }

 private:
  const ops::WidenedRows& w_;
  const uint8_t* x_ = w_.x;
  int64_t remainder_, place_;
};

/// Short rows, element by element.
template <class T> void widen_short(const ops::WidenedRows& w) {
  RowWalk row(w);
  const int64_t first_remainder = w.first_column % w.stride_x, first_place = w.first_column / w.stride_x;
  for (int64_t r = 0; r < w.rows; ++r, row.next()) {
    const T* x = reinterpret_cast<const T*>(row.x());
    int16_t* to = row.to() + first_place;
    for (int64_t i = 0, remainder = first_remainder; i < w.columns; ++i) {
      to[remainder * w.plane] = static_cast<int16_t>(x[i * w.x_column] - w.zero);
      if (++remainder == w.stride_x) remainder = 0, ++to;
    }
  }
}

/// Each remainder's elements lie `step` bytes apart; 0: as far as w says. Two or three apart they go through registers.
template <class T, int step> void widen_long(const ops::WidenedRows& w) {
  const int64_t every = step == 0 ? w.stride_x * w.x_column : step;
  const auto zero = static_cast<int16_t>(w.zero);
  for (int64_t p = 0; p < w.stride_x; ++p) {
    const int64_t first = ((p - w.first_column) % w.stride_x + w.stride_x) % w.stride_x;  // element of a row
    const int64_t n = (w.columns - first + w.stride_x - 1) / w.stride_x, place = (w.first_column + first) / w.stride_x;
    RowWalk row(w);
    for (int64_t r = 0; r < w.rows; ++r, row.next()) {
      const T* __restrict from = reinterpret_cast<const T*>(row.x()) + first * w.x_column;
      int16_t* __restrict to = row.to() + p * w.plane + place;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(from[i * every] - zero);
    }
  }
}

template <class T> void widen_of(const ops::WidenedRows& w) {
  constexpr int64_t short_row = 24;
  const int64_t every = w.stride_x * w.x_column;
  if (every != 1 && w.columns < short_row) return widen_short<T>(w);
  if (every == 1) return widen_long<T, 1>(w);
  if (every == 2) return widen_long<T, 2>(w);
  if (every == 3) return widen_long<T, 3>(w);
  return widen_long<T, 0>(w);
}

void widen(const ops::WidenedRows& w) { w.is_signed ? widen_of<int8_t>(w) : widen_of<uint8_t>(w); }

}  // namespace

const ops::IntegerTaps& integer_taps() {
  static constexpr ops::IntegerTaps table = {fold, widen};
  return table;
}

}  // namespace smelt::SMELT_ISA
