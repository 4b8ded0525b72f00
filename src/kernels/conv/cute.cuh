// Convolution of concatenated channels-last images, written with CuTe: an implicit product on tensor cores of f16 or bf16,
//
//   y[p, m] = Epilogue(sum over segments, taps and channels of x[pixel(p, tap), channel] · w[m, segment, tap, channel])
//
// of which every step is a copy or a product of tensors with layouts:
//
//   global -> shared       TiledCopy of cp.async, 16 bytes each, zeros outside of the image; a ring of stages
//   shared -> registers    TiledCopy of ldmatrix
//   registers              TiledMMA of mma.m16n8k16
//   registers -> shared    TiledCopy; shared -> registers by rows, where the program is applied, -> global
//
// The left operand of the product is never written. It is a tensor with a nested layout, whose rows are (ow, oh, n) and whose
// columns are (channel, kw, kh): every mode has its stride in the image. Only its edges need more: predicates.
#pragma once

#include "conv/cute_tile.cuh"
#include "kernels/conv/implicit.h"
#include "kernels/pointwise/epilogue.h"

/// The left operand's copies: TileK channels of the TileM pixels under a tap.
template <class Tile, int Segments> class CutePixels {
  using T = typename Tile::Element;
  using Args = ImplicitArgs<T, float, Segments>;
  static constexpr int each = Tile::tile_m * Tile::vectors / Tile::threads;          // copies of a thread

  const Args& g;
  int segment = 0, channel = 0, tap_w = 0, tap_h = 0;                                // of the tile that comes next
  int mine;                                                                          // this thread's first channel of a tile
  int w[each], h[each], n[each];                                                     // where its windows begin
  // What is found out once a segment or tap, so that nothing waits for it when copies are issued.
  const T* x;
  int channels;
  int from[each];                                                                    // offset of the pixel where a window begins
  int over, over_w, over_h;                                                          // from there to the one under this tap

  /// The left operand over this segment: (ow, oh, n), (channel, kw, kh) -> an offset from the pixel under the first tap.
  __device__ __forceinline__ auto layout() const {
    const ImageSegment<T>& s = g.segments[segment];
    const int width = static_cast<int>(g.width.divisor), height = static_cast<int>(g.height.divisor);
    return cute::make_layout(
        cute::make_shape(cute::make_shape(width, height, static_cast<int>(g.m) / (width * height)),
                         cute::make_shape(s.channels, g.taps[1], g.taps[0])),
        cute::make_stride(cute::make_stride(g.stride[1] * s.pixel, g.stride[0] * s.row, s.image),
                          cute::make_stride(cute::Int<1>{}, g.dilation[1] * s.pixel, g.dilation[0] * s.row)));
  }
  __device__ __forceinline__ void begin_segment() {
    const ImageSegment<T>& s = g.segments[segment];
    x = s.x;
    channels = s.channels;
#pragma unroll
    for (int i = 0; i < each; ++i) from[i] = n[i] * s.image + h[i] * s.row + w[i] * s.pixel;
  }
  __device__ __forceinline__ void begin_tap() {
    over = layout()(0, cute::make_coord(mine, tap_w, tap_h));
    over_w = tap_w * g.dilation[1];
    over_h = tap_h * g.dilation[0];
  }
  static __device__ __forceinline__ auto copies() { return typename Tile::Copy{}.get_slice(threadIdx.x); }

 public:
  /// The windows from `row` on.
  __device__ __forceinline__ CutePixels(const Args& argument, int row) : g(argument) {
    const auto places =                                                              // (vector, each, 1) of (row, channel)
        copies().partition_S(cute::make_identity_tensor(cute::Shape<cute::Int<Tile::tile_m>, cute::Int<Tile::tile_k>>{}));
    static_assert(decltype(cute::size<1>(places))::value == each && decltype(cute::size<2>(places))::value == 1);
    mine = cute::get<1>(places(0, 0, 0));
#pragma unroll
    for (int i = 0; i < each; ++i) {
      // Rows behind the last have the last one's pixels: their sums are not stored.
      const int p = cute::min(row + cute::get<0>(places(0, i, 0)), static_cast<int>(g.m) - 1);
      const auto at = cute::idx2crd(p, cute::shape<0>(layout()));                    // (ow, oh, n)
      w[i] = cute::get<0>(at) * g.stride[1] - g.pad[1];
      h[i] = cute::get<1>(at) * g.stride[0] - g.pad[0];
      n[i] = cute::get<2>(at);
    }
    begin_segment();
    begin_tap();
  }

  /// Issues the copies of the next tile of K to `shared` of (TileM, TileK).
  template <class Shared> __device__ __forceinline__ void operator()(const Shared& shared) {
    const auto to = copies().partition_D(shared);                                    // (vector, each, 1)
    const bool some = channel + mine < channels;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const bool inside = some & (static_cast<u32>(h[i] + over_h) < static_cast<u32>(g.in_height)) &
                          (static_cast<u32>(w[i] + over_w) < static_cast<u32>(g.in_width));
      const auto pixel = cute::make_tensor(cute::make_gmem_ptr(x + (inside ? from[i] + over + channel : 0)),
                                           cute::Layout<cute::Shape<cute::Int<Tile::vector>>>{});
      cute::copy(typename Tile::CopyAtom{}.with(inside), pixel, to(cute::_, i, 0));
    }
    // K runs over the segments, in each over the taps, in each over its channels.
    channel += Tile::tile_k;
    if (channel < channels) return;
    channel = 0;
    if (++tap_w == g.taps[1]) {
      tap_w = 0;
      if (++tap_h == g.taps[0]) {
        tap_h = 0;
        if (segment + 1 < Segments) {
          ++segment;
          begin_segment();
        }
      }
    }
    begin_tap();
  }
};

/// The right operand's copies: TileK steps of K of TileN channels of y, which the host packed side by side.
template <class Tile, class Weights> class CuteWeights {
  static constexpr int each = Tile::tile_n * Tile::vectors / Tile::threads;

  Weights w;                                                                         // (TileN, TileK, tiles of K)
  int tile = 0;
  u32 inside = 0;                                                                    // a bit for each copy

 public:
  __device__ __forceinline__ CuteWeights(const Weights& weights, int channels) : w(weights) {
    const auto places = typename Tile::Copy{}.get_slice(threadIdx.x).partition_S(
        cute::make_identity_tensor(cute::Shape<cute::Int<Tile::tile_n>, cute::Int<Tile::tile_k>>{}));
#pragma unroll
    for (int i = 0; i < each; ++i) inside |= static_cast<u32>(cute::get<0>(places(0, i, 0)) < channels) << i;
  }

  template <class Shared> __device__ __forceinline__ void operator()(const Shared& shared) {
    const auto copies = typename Tile::Copy{}.get_slice(threadIdx.x);
    const auto from = copies.partition_S(w(cute::_, cute::_, tile++));               // (vector, each, 1)
    const auto to = copies.partition_D(shared);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const bool reads = (inside >> i & 1) != 0;
      cute::copy(typename Tile::CopyAtom{}.with(reads), from(cute::_, reads ? i : 0, 0), to(cute::_, i, 0));
    }
  }
};

/// Launch: a block of Tile::threads for every tile; Tile::shared_bytes of dynamic shared memory.
template <class Tile, int Segments, class Epilogue>
__device__ __forceinline__ void cute_conv(
    const WithEpilogue<ImplicitArgs<typename Tile::Element, float, Segments>, Epilogue>& a) {
  using cute::_;
  using T = typename Tile::Element;
  extern __shared__ __align__(128) char shared[];
  const auto& g = a.args;
  const int tile_m = static_cast<int>(blockIdx.x / g.tiles_n), tile_n = static_cast<int>(blockIdx.x - tile_m * g.tiles_n);
  const int row = tile_m * Tile::tile_m, column = tile_n * Tile::tile_n;

  T* const of_a = reinterpret_cast<T*>(shared);
  T* const of_b = reinterpret_cast<T*>(shared + Tile::bytes_a);
  const auto stages_a = cute::make_tensor(cute::make_smem_ptr(of_a), typename Tile::SharedA{});   // (TileM, TileK, stage)
  const auto stages_b = cute::make_tensor(cute::make_smem_ptr(of_b), typename Tile::SharedB{});   // (TileN, TileK, stage)
  const auto w = cute::make_tensor(cute::make_gmem_ptr(g.w),                         // (M of w, K)
                                   cute::make_shape(static_cast<int>(g.n), static_cast<int>(g.w_row)),
                                   cute::make_stride(static_cast<int>(g.w_row), cute::Int<1>{}));
  const auto tiles_w = cute::local_tile(w, cute::Shape<cute::Int<Tile::tile_n>, cute::Int<Tile::tile_k>>{},
                                        cute::make_coord(tile_n, _));                // (TileN, TileK, tiles of K)

  CutePixels<Tile, Segments> copy_a(g, row);
  CuteWeights<Tile, cute::remove_cvref_t<decltype(tiles_w)>> copy_b(tiles_w, static_cast<int>(g.n) - column);
  int issued = 0, slot = 0;
  // A group of copies a stage, empty behind the last: so that the number of groups says which stages have come.
  const auto issue = [&] {
    if (issued < g.k_tiles) {
      copy_a(stages_a(_, _, slot));
      copy_b(stages_b(_, _, slot));
    }
    ++issued;
    slot = slot + 1 == Tile::stages ? 0 : slot + 1;
    cute::cp_async_fence();
  };

  const typename Tile::Product product;
  const auto part = product.get_slice(threadIdx.x);
  auto a_part = part.partition_fragment_A(stages_a(_, _, 0));                        // (instruction, rows, steps of K)
  auto b_part = part.partition_fragment_B(stages_b(_, _, 0));
  auto sums = cute::partition_fragment_C(product, cute::Shape<cute::Int<Tile::tile_m>, cute::Int<Tile::tile_n>>{});
  cute::clear(sums);
  const auto load_a = typename Tile::LoadA{}.get_slice(threadIdx.x);
  const auto load_b = typename Tile::LoadB{}.get_slice(threadIdx.x);
  const auto from_a = load_a.partition_S(stages_a);                                  // (vector, rows, steps of K, stage)
  const auto from_b = load_b.partition_S(stages_b);
  auto to_a = load_a.retile_D(a_part);
  auto to_b = load_b.retile_D(b_part);
  constexpr int steps = decltype(cute::size<2>(a_part))::value;
  const auto load = [&](int step, int stage) {
    cute::copy(typename Tile::LoadA{}, from_a(_, _, step, stage), to_a(_, _, step));
    cute::copy(typename Tile::LoadB{}, from_b(_, _, step, stage), to_b(_, _, step));
  };

#pragma unroll
  for (int i = 0; i < Tile::stages - 1; ++i) issue();
  cute::cp_async_wait<Tile::stages - 2>();
  __syncthreads();
  load(0, 0);
  for (int tile = 0, stage = 0; tile < g.k_tiles; ++tile) {
    const int next = stage + 1 == Tile::stages ? 0 : stage + 1;
    cute::for_each(cute::make_int_sequence<steps>{}, [&](auto step) {
      // The last step's parts are in registers: the next stage's first are loaded while it is multiplied.
      if constexpr (step + 1 == steps) {
        cute::cp_async_wait<Tile::stages - 2>();
        __syncthreads();
      }
      load((step + 1) % steps, step + 1 == steps ? next : stage);
      if constexpr (step == 0) issue();                                              // to the stage that all have left last
      cute::gemm(product, a_part(_, _, step), b_part(_, _, step), sums);
    });
    stage = next;
  }
  cute::cp_async_wait<0>();
  __syncthreads();

  // The stages' memory has the sums now, of which each thread takes eight neighbouring columns at a time.
  const auto exchange = cute::make_tensor(cute::make_smem_ptr(reinterpret_cast<float*>(shared)), typename Tile::SharedSums{});
  const auto put = typename Tile::Put{}.get_slice(threadIdx.x);
  cute::copy(typename Tile::Put{}, put.retile_S(sums), put.partition_D(exchange));
  __syncthreads();
  const auto take = typename Tile::Take{}.get_slice(threadIdx.x);
  const auto mine = take.partition_S(exchange);                                      // ((vector, 2), rows, columns)
  const auto places = take.partition_S(cute::make_identity_tensor(
      cute::Shape<cute::Int<Tile::tile_m>, cute::Int<Tile::tile_n>>{}));
  const auto start = a.epilogue.start(0);
#pragma unroll
  for (int i = 0; i < cute::size<1>(mine); ++i)
#pragma unroll
    for (int j = 0; j < cute::size<2>(mine); ++j) {
      float v[8];
      cute::copy(typename Tile::Take{}, mine(_, i, j), cute::make_tensor(cute::make_rmem_ptr(&v[0]), cute::shape(mine(_, 0, 0))));
      const int r = row + cute::get<0>(places(0, i, j)), c = column + cute::get<1>(places(0, i, j));
      if (r < static_cast<int>(g.m) && c < static_cast<int>(g.n))
        a.epilogue.apply(start, static_cast<u32>(r), static_cast<u32>(c), g.n - static_cast<u32>(c), v);
    }
}
