// Included by ops/cpu/wide/tile.simd.cpp for each width of registers, so without a guard: SMELT_WIDE_TARGET, the attribute of its
// functions; SMELT_WIDE_BYTES, of a register; SMELT_WIDE_ROWS, of a tile.

template <class T> struct Registers {
  typedef T Vector __attribute__((vector_size(SMELT_WIDE_BYTES)));
  static constexpr int lanes = SMELT_WIDE_BYTES / static_cast<int>(sizeof(T));
};

template <class T> SMELT_WIDE_TARGET inline typename Registers<T>::Vector load(const T* from) {
  typename Registers<T>::Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class T> SMELT_WIDE_TARGET inline void store(T* to, typename Registers<T>::Vector v) {
  __builtin_memcpy(to, &v, sizeof v);
}

#if SMELT_WIDE_BYTES == 32
/// All bits of the first `count` elements.
template <class T> SMELT_WIDE_TARGET inline __m256i first_lanes(int count) {
  static constexpr int32_t bits[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits + 8 - count * static_cast<int>(sizeof(T)) / 4));
}
#endif

/// The first `count` elements of a register; the others are not touched.
template <class T> SMELT_WIDE_TARGET inline typename Registers<T>::Vector load_part(const T* from, int count) {
#if SMELT_WIDE_BYTES == 64
  if constexpr (sizeof(T) == 8)
    return reinterpret_cast<typename Registers<T>::Vector>(
        _mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << count) - 1), from));
  else
    return reinterpret_cast<typename Registers<T>::Vector>(
        _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << count) - 1), from));
#elif SMELT_WIDE_BYTES == 32
  using Vector = typename Registers<T>::Vector;
  if constexpr (sizeof(T) == 8)
    return reinterpret_cast<Vector>(_mm256_maskload_epi64(reinterpret_cast<const long long*>(from), first_lanes<T>(count)));
  else
    return reinterpret_cast<Vector>(_mm256_maskload_epi32(reinterpret_cast<const int*>(from), first_lanes<T>(count)));
#else
  typename Registers<T>::Vector v = {};
  for (int i = 0; i < count; ++i) v[i] = from[i];
  return v;
#endif
}
template <class T> SMELT_WIDE_TARGET inline void store_part(T* to, typename Registers<T>::Vector v, int count) {
#if SMELT_WIDE_BYTES == 64
  if constexpr (sizeof(T) == 8)
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>((1u << count) - 1), reinterpret_cast<__m512i>(v));
  else
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << count) - 1), reinterpret_cast<__m512i>(v));
#elif SMELT_WIDE_BYTES == 32
  const auto bits = reinterpret_cast<__m256i>(v);
  if constexpr (sizeof(T) == 8)
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(to), first_lanes<T>(count), bits);
  else
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), first_lanes<T>(count), bits);
#else
  for (int i = 0; i < Registers<T>::lanes; ++i)
    if (i < count) to[i] = v[i];
#endif
}

constexpr int tile_rows = SMELT_WIDE_ROWS, tile_vectors = 2;

/// Of rows from a and c on. t is read where it lies, member by member: a copy of what was written just now would wait for all results
/// that are on their way to memory.
template <class T, int rows, int vectors> SMELT_WIDE_TARGET void tile_of(const Tile& t, const T* a, T* to) {
  constexpr int lanes = Registers<T>::lanes;
  using Vector = typename Registers<T>::Vector;
  // Loops over sums are unrolled, all of them: sums that one loop reads by its index lie in memory for all.
  Vector sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[r][v] = Vector{};
  }
  const T* b = static_cast<const T*>(t.b);
  for (int64_t k = 0; k < t.k; ++k, a += t.a_column, b += t.b_row) {
    Vector column[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) column[v] = load(b + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const T factor = a[r * t.a_row];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[r][v] = factor * column[v] + sums[r][v];
    }
  }
  const int64_t row = t.c_row;
  const int columns = t.columns;
  const bool adds = t.adds;
  if (columns == vectors * lanes) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        T* c = to + r * row + v * lanes;
        store(c, adds ? sums[r][v] + load(c) : sums[r][v]);
      }
    }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      T* c = to + r * row + v * lanes;
      const int left = columns - v * lanes;
      if (left >= lanes)
        store(c, adds ? sums[r][v] + load(c) : sums[r][v]);
      else if (left > 0)
        store_part(c, adds ? sums[r][v] + load_part(c, left) : sums[r][v], left);
    }
  }
}

template <class T, int vectors, int rows = tile_rows>
SMELT_WIDE_TARGET void last_tile(const Tile& t, int left, const T* a, T* c) {
  if constexpr (rows > 1) {
    if (left < rows) return last_tile<T, vectors, rows - 1>(t, left, a, c);
  }
  tile_of<T, rows, vectors>(t, a, c);
}
template <class T, int vectors> SMELT_WIDE_TARGET void tile(const Tile& t) {
  const T* a = static_cast<const T*>(t.a);
  T* c = static_cast<T*>(t.c);
  for (int left = t.rows; left > 0; left -= tile_rows, a += tile_rows * t.a_row, c += tile_rows * t.c_row)
    last_tile<T, vectors>(t, left, a, c);
}

/// y[r] += Σ over `depth` rows of b: y goes through memory once for all of them. `first`: y[r] = that sum.
template <class T, int rows, int depth, bool first> SMELT_WIDE_TARGET void add_rows(const FewRows& f, const T* a, const T* b) {
  constexpr int lanes = Registers<T>::lanes;
  T factor[rows][depth];
  for (int r = 0; r < rows; ++r)
    for (int d = 0; d < depth; ++d) factor[r][d] = a[r * f.a_row + d * f.a_column];
  int64_t j = 0;
  for (; j + lanes <= f.columns; j += lanes) {
    typename Registers<T>::Vector from[depth];
    for (int d = 0; d < depth; ++d) from[d] = load(b + d * f.b_step + j);
    for (int r = 0; r < rows; ++r) {
      T* y = static_cast<T*>(f.y) + r * f.y_row + j;
      typename Registers<T>::Vector sum = {};
      if (!first) sum = load(y);
      for (int d = 0; d < depth; ++d) sum = factor[r][d] * from[d] + sum;
      store(y, sum);
    }
  }
  const int left = static_cast<int>(f.columns - j);
  if (left == 0) return;
  typename Registers<T>::Vector from[depth];
  for (int d = 0; d < depth; ++d) from[d] = load_part(b + d * f.b_step + j, left);
  for (int r = 0; r < rows; ++r) {
    T* y = static_cast<T*>(f.y) + r * f.y_row + j;
    typename Registers<T>::Vector sum = {};
    if (!first) sum = load_part(y, left);
    for (int d = 0; d < depth; ++d) sum = factor[r][d] * from[d] + sum;
    store_part(y, sum, left);
  }
}

template <class T, int rows = Table::few> SMELT_WIDE_TARGET void across(const FewRows& f) {
  if constexpr (rows > 1) {
    if (f.rows < rows) return across<T, rows - 1>(f);
  }
  const T *a = static_cast<const T*>(f.a), *b = static_cast<const T*>(f.b);
  constexpr int depth = 4;
  // What is left over by blocks of four comes first, with four more where there are: y need not be read again for those.
  int64_t k = f.k <= 2 * depth ? f.k : f.k % depth + depth;
  switch (k) {
    case 1: add_rows<T, rows, 1, true>(f, a, b); break;
    case 2: add_rows<T, rows, 2, true>(f, a, b); break;
    case 3: add_rows<T, rows, 3, true>(f, a, b); break;
    case 4: add_rows<T, rows, 4, true>(f, a, b); break;
    case 5: add_rows<T, rows, 5, true>(f, a, b); break;
    case 6: add_rows<T, rows, 6, true>(f, a, b); break;
    case 7: add_rows<T, rows, 7, true>(f, a, b); break;
    default: add_rows<T, rows, 8, true>(f, a, b);
  }
  for (; k < f.k; k += depth) add_rows<T, rows, depth, false>(f, a + k * f.a_column, b + k * f.b_step);
}

template <class T, int rows = Table::few> SMELT_WIDE_TARGET void along(const FewRows& f) {
  if constexpr (rows > 1) {
    if (f.rows < rows) return along<T, rows - 1>(f);
  }
  constexpr int lanes = Registers<T>::lanes, chains = 4;  // sums of one row, so that additions do not wait for each other
  const T* a = static_cast<const T*>(f.a);
  for (int64_t j = 0; j < f.columns; ++j) {
    const T* b = static_cast<const T*>(f.b) + j * f.b_step;
    typename Registers<T>::Vector sums[rows][chains] = {};
    int64_t k = 0;
    for (; k + chains * lanes <= f.k; k += chains * lanes)
      for (int c = 0; c < chains; ++c) {
        const auto v = load(b + k + c * lanes);
        for (int r = 0; r < rows; ++r) sums[r][c] = load(a + r * f.a_row + k + c * lanes) * v + sums[r][c];
      }
    for (int r = 0; r < rows; ++r) {
      const auto v = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
      T sum = 0;
      for (int i = 0; i < lanes; ++i) sum += v[i];
      for (int64_t i = k; i < f.k; ++i) sum += a[r * f.a_row + i] * b[i];
      static_cast<T*>(f.y)[r * f.y_row + j * f.y_column] = sum;
    }
  }
}

template <class T> inline constexpr Table table_of = {tile_rows,
                                                      {Registers<T>::lanes, tile<T, 1>},
                                                      {tile_vectors * Registers<T>::lanes, tile<T, tile_vectors>},
                                                      across<T>,
                                                      along<T>};

inline const Table& table(Type type) {
  return type == Type::f64 ? table_of<double> : type == Type::i32 ? table_of<int32_t> : table_of<int64_t>;
}
