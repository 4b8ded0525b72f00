#include "ops/cpu/wide/simd/tile.h"

#include <immintrin.h>

namespace smelt::SMELT_ISA {
namespace {

using ops::wide::FewRows;
using ops::wide::Table;
using ops::wide::Tile;
using ops::wide::Type;

namespace narrow {
#define SMELT_WIDE_TARGET
#ifdef __AVX2__
#define SMELT_WIDE_BYTES 32
#define SMELT_WIDE_ROWS 6
#else
#define SMELT_WIDE_BYTES 16
#define SMELT_WIDE_ROWS 4
#endif
#include "ops/cpu/wide/simd/tile_body.h"
#undef SMELT_WIDE_TARGET
#undef SMELT_WIDE_BYTES
#undef SMELT_WIDE_ROWS
}  // namespace narrow

#ifdef __AVX2__
namespace broad {
#define SMELT_WIDE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define SMELT_WIDE_BYTES 64
#define SMELT_WIDE_ROWS 8
#include "ops/cpu/wide/simd/tile_body.h"
}  // namespace broad
#endif

}  // namespace

const Table& wide_table(Type type) { return narrow::table(type); }

#ifdef __AVX2__
const Table* wide_table_512(Type type) {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has ? &broad::table(type) : nullptr;
}
#endif

}  // namespace smelt::SMELT_ISA
