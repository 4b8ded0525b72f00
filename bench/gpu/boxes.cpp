// What the copy engine of a multiprocessor brings a microsecond by tensor maps of [batch, heads, rows, columns], as attention's keys lie:
// boxes of 64 rows, whose lines are a depth's columns, a part of them, or more than there are.
#include <cstring>

#include "bench.h"
#include "device/cuda/compiler.h"
#include "device/cuda/module.h"

namespace smelt::bench {
namespace {

constexpr const char* code = R"(
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "common/shared.cuh"
#include "kernels/common/tensor_map.h"

struct Boxes {
  TensorMap map;
  u32 tiles, rows, all_rows, boxes, columns, box_bytes, heads, batches;
};
constexpr u32 stages = 4;

/// One thread of a block: the boxes of one tile after the other into a ring.
extern "C" __global__ void bring(const __grid_constant__ Boxes a) {
  extern __shared__ __align__(128) char shared[];
  __shared__ u64 barriers[stages];
  if (threadIdx.x != 0) return;
  const u32 memory = (shared_address(shared) + 1023) / 1024 * 1024, first = shared_address(barriers);
  for (u32 s = 0; s < stages; ++s) ptx::mbarrier_init(first + 8 * s, 1);
  ptx::fence_mbarrier_init();
  const u32 head = blockIdx.x % a.heads, batch = blockIdx.x / a.heads % a.batches, bytes = a.boxes * a.box_bytes;
  for (u32 t = 0; t < a.tiles + stages; ++t) {
    const u32 stage = t % stages, barrier = first + 8 * stage;
    if (t >= stages)
      while (!ptx::mbarrier_try_wait_parity(barrier, t / stages - 1 & 1)) {
      }
    if (t >= a.tiles) continue;
    ptx::mbarrier_arrive_expect_tx(barrier, bytes);
    for (u32 b = 0; b < a.boxes; ++b)
      ptx::cp_async_bulk_tensor_4d(memory + stage * bytes + b * a.box_bytes, &a.map, b * a.columns, t * a.rows % a.all_rows, head,
                                   batch, barrier);
  }
}
)";

struct BoxesArgs {
  cuda::abi::TensorMap map;
  uint32_t tiles, rows, all_rows, boxes, columns, box_bytes, heads, batches;
  uint32_t padding[24] = {};
};
static_assert(sizeof(BoxesArgs) == 256);

struct BoxCase {
  uint32_t depth, columns, boxes;  // boxes of so many columns, which may be more than the depth together
};
constexpr BoxCase cases[] = {{32, 64, 1}, {32, 32, 1}, {40, 64, 1}, {40, 32, 2}, {40, 16, 3},
                             {40, 8, 5},  {64, 64, 1}, {64, 32, 2}, {72, 64, 2}, {72, 32, 3},
                             {80, 64, 2}, {80, 16, 5}, {96, 64, 2}, {96, 32, 3}, {128, 64, 2}};

}  // namespace

void boxes() {
  constexpr uint32_t rows = 64, all_rows = 1024, heads = 8, batches = 8, tiles = 256, stages = 4;
  const auto multiprocessors = static_cast<unsigned>(gpu()->info.multiprocessors);
  const cuda::Module module(gpu()->device, gpu()->cubins->get({"boxes", code, {}}, gpu()->info.arch), "boxes");
  fmt::print(
      "{}: boxes of 64 rows from L2, heads beside each other; of a multiprocessor\n{:>6} {:>12} {:>7} {:>8} {:>8} {:>8} {:>8}\n",
      gpu()->info.name, "depth", "boxes", "blocks", "lines/us", "rows/us", "used GB/s", "all GB/s");
  for (const BoxCase& c : cases)
    for (const bool beside : {true, false})
      for (const unsigned blocks : {1u, 3u}) {
        const int64_t elements = int64_t{batches} * heads * all_rows * c.depth;
        const Rotating memory = Rotating::of(DType::f16, elements, 1);
        BoxesArgs args{};
        const uint64_t extents[] = {c.depth, all_rows, heads, batches};
        const uint64_t row = beside ? heads * c.depth * 2 : c.depth * 2, head = beside ? c.depth * 2 : all_rows * c.depth * 2;
        const uint64_t steps[] = {row, head, uint64_t{heads} * all_rows * c.depth * 2};
        const uint32_t box[] = {c.columns, rows, 1, 1}, ones[] = {1, 1, 1, 1};
        const auto swizzle = static_cast<cuda::abi::TensorMapSwizzle>(c.columns == 64   ? 3
                                                                      : c.columns == 32 ? 2
                                                                      : c.columns == 16 ? 1
                                                                                        : 0);
        {
          const cuda::Device::Current current(*gpu()->device);
          cuda::check(cuda::driver().tensor_map_tiled(&args.map, cuda::abi::tensor_map_f16, 4, memory.at(0), extents, steps, box,
                                                      ones, cuda::abi::tensor_map_no_interleave, swizzle,
                                                      cuda::abi::tensor_map_promote_256, cuda::abi::tensor_map_fill_zeros),
                      "describing boxes");
        }
        args.tiles = tiles, args.rows = rows, args.all_rows = all_rows, args.boxes = c.boxes, args.columns = c.columns;
        args.box_bytes = rows * c.columns * 2, args.heads = heads, args.batches = batches;
        const int64_t shared = 1024 + stages * c.boxes * args.box_bytes;
        void* parameters[] = {&args};
        auto us = cuda::time_graph(gpu()->device,
                                   [&](int, cuda::abi::Stream stream) {
                                     module.function("bring").launch(
                                         {.grid = {multiprocessors * blocks, 1, 1}, .block = {32, 1, 1}, .shared_bytes = shared},
                                         parameters, stream);
                                   },
                                   {.calls = 5, .replays = 10, .budget_us = 5e4});
        std::ranges::sort(us);
        const double median = quantile(us, 0.5), tile_rows = double{tiles} * rows * blocks;
        fmt::print("{:>6} {:>12} {:>7} {:8.0f} {:8.0f} {:9.1f} {:8.1f}{}\n", c.depth, fmt::format("{} x {}", c.boxes, c.columns),
                   blocks, tile_rows * c.boxes / median, tile_rows / median, tile_rows * c.depth * 2 / median * 1e-3,
                   tile_rows * c.boxes * c.columns * 2 / median * 1e-3, beside ? "" : "  rows side by side");
        std::fflush(stdout);
      }
}

}  // namespace smelt::bench
