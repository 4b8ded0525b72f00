// How a tile of conv/cute.cuh lies in shared memory and who copies and multiplies what of it, in CuTe's words: layouts, tiled
// copies and a tiled product. For NVRTC, and for g++: tests count the banks that they meet. docs/cute.md explains them.
//
// CuTe is CUTLASS's, and its headers are not smelt's: they are found on the machine (device/cuda/cutlass.h).
#pragma once

#include <cute/tensor.hpp>

namespace smelt::kernels {

/// The instruction that multiplies 16 x 16 by 16 x 8 elements of T.
template <class T> struct CuteInstruction;
template <> struct CuteInstruction<cute::half_t> {
  using Type = cute::SM80_16x8x16_F32F16F16F32_TN;
};
template <> struct CuteInstruction<cute::bfloat16_t> {
  using Type = cute::SM80_16x8x16_F32BF16BF16F32_TN;
};

/// T: cute::half_t or cute::bfloat16_t. TileK: 32 or 64. Warps: two along the rows, two or four along the columns, so that none has
/// more than 64 x 32 or 32 x 64 sums.
template <class T, int TileM, int TileN, int TileK, int Stages> struct CuteTile {
  using Element = T;
  static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK, stages = Stages;
  static constexpr int warps_n = TileM * TileN > 128 * 64 ? 4 : 2, threads = 64 * warps_n;
  static constexpr int vector = 8;                 // elements of a copy, 16 bytes
  static_assert((TileK == 32 || TileK == 64) && TileM % 32 == 0 && TileN % 64 == 0 && Stages >= 3);

  template <int N> using Int = cute::Int<N>;
  template <class... X> using Shape = cute::Shape<X...>;
  template <class... X> using Stride = cute::Stride<X...>;

  // Shared memory of an operand: eight rows of TileK elements are an atom, in which the vectors of a row are permuted by a number
  // that goes up every 128 bytes. Atoms fill the tile, and tiles the stages.
  using Swizzle = cute::Swizzle<TileK == 64 ? 3 : 2, 3, 3>;
  using Atom = decltype(cute::composition(Swizzle{}, cute::Layout<Shape<Int<8>, Int<TileK>>, Stride<Int<TileK>, Int<1>>>{}));
  using SharedA = decltype(cute::tile_to_shape(Atom{}, Shape<Int<TileM>, Int<TileK>, Int<Stages>>{}));
  using SharedB = decltype(cute::tile_to_shape(Atom{}, Shape<Int<TileN>, Int<TileK>, Int<Stages>>{}));

  // Global to shared: neighbouring threads have neighbouring vectors of a row.
  static constexpr int vectors = TileK / vector;
  using CopyAtom = cute::Copy_Atom<cute::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<cute::uint128_t>, T>;
  using Copy = decltype(cute::make_tiled_copy(
      CopyAtom{}, cute::Layout<Shape<Int<threads / vectors>, Int<vectors>>, Stride<Int<vectors>, Int<1>>>{},
      cute::Layout<Shape<Int<1>, Int<vector>>>{}));

  // The product: a warp's instructions cover 16 x 16 elements in steps of 16 of K, so that ldmatrix loads four matrices of b too.
  using Product = cute::TiledMMA<cute::MMA_Atom<typename CuteInstruction<T>::Type>,
                                 cute::Layout<Shape<Int<2>, Int<warps_n>, Int<1>>>,
                                 cute::Tile<Int<32>, Int<16 * warps_n>, Int<16>>>;

  // Shared to registers, as the product wants them.
  using LoadAtom = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, T>;
  using LoadA = decltype(cute::make_tiled_copy_A(LoadAtom{}, Product{}));
  using LoadB = decltype(cute::make_tiled_copy_B(LoadAtom{}, Product{}));

  // The sums on their way out: pairs of floats of the product's lanes go in, eight neighbouring columns a thread come out. Of a
  // 16-byte vector's place in its line three bits are changed: by the row's lowest two, and by the half of the 64 columns.
  using SumsRows = cute::Layout<Shape<Int<8>, Int<64>>, Stride<Int<64>, Int<1>>>;
  using SumsAtom = decltype(cute::composition(cute::Swizzle<3, 2, 3>{}, SumsRows{}));
  using SharedSums = decltype(cute::tile_to_shape(SumsAtom{}, Shape<Int<TileM>, Int<TileN>>{}));
  using Put = decltype(cute::make_tiled_copy_C(cute::Copy_Atom<cute::UniversalCopy<cute::uint64_t>, float>{}, Product{}));
  using Take = decltype(cute::make_tiled_copy(
      cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, float>{},
      cute::Layout<Shape<Int<threads / 8>, Int<8>>, Stride<Int<8>, Int<1>>>{}, cute::Layout<Shape<Int<1>, Int<8>>>{}));

  static constexpr int bytes_a = sizeof(T) * cute::cosize_v<SharedA>, bytes_b = sizeof(T) * cute::cosize_v<SharedB>;
  static constexpr int bytes_sums = sizeof(float) * cute::cosize_v<SharedSums>;
  static constexpr int shared_bytes = bytes_a + bytes_b > bytes_sums ? bytes_a + bytes_b : bytes_sums;
};

}  // namespace smelt::kernels
