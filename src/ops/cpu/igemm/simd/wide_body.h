// Included by ops/cpu/igemm/wide.simd.cpp for each kind of elements, so without a guard. Given: SMELT_TILE_TARGET, the attribute of
// its functions; Vector, 16 sums, with zero(), load(), store(), broadcast(from), 16 times an element of A, and added(sum, a, b).

/// Row r of the two tiles: where sums come from or go to.
SMELT_TILE_INLINE float* sums_at(const Tile& t, const Tile& u, int r) {
  return r < tile_rows ? t.sums + r * t.sums_stride : u.sums + (r - tile_rows) * u.sums_stride;
}

/// Adds `depth` elements of K. Where 12 rows begin is more than registers can hold: those of the second tile are read each time, for
/// several elements at once, so that loads are not what it waits for. (A compiler left to itself keeps them in vector registers, and
/// moves them through a port of multiplications.)
template <int rows, int panels, int depth>
SMELT_TILE_INLINE void add_elements(Vector (&sums)[rows][panels], const float* const* first, const float* const volatile* second,
                                    int64_t k, const float* b, const float* last, int64_t last_step) {
  Vector column[depth][panels];
#pragma GCC unroll 4
  for (int d = 0; d < depth; ++d) {
    column[d][0] = load(panels == 1 ? last + d * last_step : b + d * tile_columns);
    if (panels == 2) column[d][panels - 1] = load(last + d * last_step);
    if (panels == 2) __builtin_prefetch(b + (d + prefetched_ahead) * tile_columns);
    __builtin_prefetch(last + (d + prefetched_ahead) * last_step);
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    const float* row = (r < tile_rows ? first[r] : second[r - tile_rows]) + k;
#pragma GCC unroll 4
    for (int d = 0; d < depth; ++d) {
      const Vector a = broadcast(row + d);
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) sums[r][j] = added(sums[r][j], a, column[d][j]);
    }
  }
}

/// Whether all rows of a part read zeros.
template <int rows>
SMELT_TILE_INLINE bool reads_zeros(const float* const* first, const float* const volatile* second, const float* zeros) {
  if (!zeros || first[0] != zeros) return false;
  for (int r = 1; r < rows; ++r)
    if ((r < tile_rows ? first[r] : second[r - tile_rows]) != zeros) return false;
  return true;
}

template <int rows, int panels> SMELT_TILE_INLINE void start(Vector (&sums)[rows][panels], const Tile& t, const Tile& u) {
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j)
      sums[r][j] = t.resume ? load(sums_at(t, u, r) + j * tile_columns) : t.bias ? load(t.bias + j * tile_columns) : zero();
}

template <int rows, int panels> SMELT_TILE_INLINE void leave(const Vector (&sums)[rows][panels], const Tile& t, const Tile& u) {
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) store(sums_at(t, u, r) + j * tile_columns, sums[r][j]);
}

template <int rows, int panels> SMELT_TILE_INLINE void add_parts(Vector (&sums)[rows][panels], const Tile& t, const Tile& u) {
  constexpr int in_first = rows < tile_rows ? rows : tile_rows;
  constexpr int depth = panels == 1 ? 4 : 2;
  const float *b = t.b, *last = panels == 1 ? t.b : t.beside;
  // The last panel may be 8 wide. What is then read behind its rows is what columns that nobody wants are multiplied with.
  const int64_t last_step = t.columns - (panels - 1) * tile_columns <= 8 ? 8 : tile_columns;
  for (int part = 0; part < t.parts; ++part) {
    const float* first[in_first];
#pragma GCC unroll 6
    for (int r = 0; r < in_first; ++r) first[r] = t.rows[part * tile_rows + r];
    const float* const volatile* second = rows > tile_rows ? u.rows + part * tile_rows : nullptr;
    const int64_t length = t.lengths[part];
    int64_t k = reads_zeros<rows>(first, second, t.zeros) ? length : 0;
    if (k > 0) {
      b += k * tile_columns;
      last += k * last_step;
    }
    for (; k + depth <= length; k += depth, b += depth * tile_columns, last += depth * last_step)
      add_elements<rows, panels, depth>(sums, first, second, k, b, last, last_step);
    for (; k < length; ++k, b += tile_columns, last += last_step)
      add_elements<rows, panels, 1>(sums, first, second, k, b, last, last_step);
  }
}
